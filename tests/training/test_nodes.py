"""Two nodes by torchrun, on two addresses of loopback, and more images than memory may hold.

Memory is imitated by a limit of what a process may allocate (RLIMIT_DATA): a file of 1.5 GiB,
most of it a hole on the disk, and 1 GiB for each process, torch included. So images have to be
read one by one.
"""

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.training.test_resume import KILLED, command, logged, losses

ADDRESSES = ("127.0.0.2", "127.0.0.3")
MEMORY, COUNT, SIDE, KEPT = 2**30, 1536, 1024, 16
STEPS = 8


@pytest.fixture
def settings(tmp_path: Path) -> dict:
    path, generator = tmp_path / "images.h5", np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["split"] = np.array([b"train"] * (COUNT - 2) + [b"val"] * 2)
        images = file.create_dataset("images", (COUNT, SIDE, SIDE), np.uint8)
        for number in range(COUNT):
            # The rest stays a hole.
            images[number, :KEPT, :KEPT] = generator.integers(0, 255, (KEPT, KEPT), np.uint8)
    assert path.stat().st_size > MEMORY
    return {
        "name": "tiny",
        "data": {"path": str(path), "channels": 1, "crop": [0, 0, KEPT, KEPT], "cache": False},
        "operator": {"kind": "fourier_mask", "acceleration": 4},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {
            "steps": STEPS,
            "batch": 4,
            "log_every": 1,
            "validate_every": 100,
            "validation_images": 2,
            "checkpoint_every": 3,
        },
    }


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run_nodes(settings: dict, folder: Path, program: list[str]) -> list[int]:
    """One torchrun for each node; their exit codes."""
    with socket.socket() as free:
        free.bind((ADDRESSES[0], 0))
        port = free.getsockname()[1]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    nodes = []
    for rank, address in enumerate(ADDRESSES):
        where = ["--nnodes", "2", "--node-rank", str(rank), "--local-addr", address]
        where += ["--master-addr", ADDRESSES[0], "--master-port", str(port)]
        words = command(settings, folder, 1, program)
        launch = [sys.executable, "-m", "torch.distributed.run", *where, *words[1:]]
        nodes.append(
            subprocess.Popen(
                launch,
                env=environment,
                preexec_fn=limit_memory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    return [node.wait() for node in nodes]


@pytest.mark.slow  # a dozen processes that each import torch
def test_a_node_that_is_killed_changes_no_bit(settings, tmp_path: Path) -> None:
    assert run_nodes(settings, tmp_path / "whole", ["-m", "bcdm"]) == [0, 0]
    killed = tmp_path / "killed"
    first, second = run_nodes(settings, killed, [str(KILLED), "5", "1", "node"])
    # The other node cannot go on alone.
    assert (first, second) == (1, -9)
    assert max(losses(killed)) < STEPS
    assert not (killed / "model").exists()
    assert run_nodes(settings, killed, ["-m", "bcdm"]) == [0, 0]
    assert logged(tmp_path / "whole") == logged(killed)
    one, other = (
        load_file(folder / "model/model.safetensors") for folder in (tmp_path / "whole", killed)
    )
    assert all(torch.equal(one[name], other[name]) for name in one.keys() | other.keys())
