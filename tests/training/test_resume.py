"""Runs that are killed and go on: real processes, real signals, compared to the bit."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from safetensors.torch import load_file

from bcdm.checkpoint.settings import parse_config
from bcdm.commands.entry import cli
from bcdm.data import ArrayFile
from bcdm.errors import InputError
from bcdm.folders import claim
from bcdm.training.run import train
from bcdm.training.state import Checkpoints
from bcdm.training.train import Processes, Trainer

STEPS = 24
KILLED = Path(__file__).with_name("killed.py")


@pytest.fixture
def settings(tmp_path: Path) -> dict:
    images = np.random.default_rng(0).integers(0, 255, (48, 16, 16), np.uint8)
    labels = np.array(["train"] * 40 + ["val"] * 8)
    np.savez(tmp_path / "images.npz", images=images, split=labels)
    return {
        "name": "tiny",
        "data": {"path": str(tmp_path / "images.npz"), "channels": 1, "flip": True, "shift": 1},
        "operator": {"kind": "fourier_mask", "acceleration": 4},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {
            "steps": STEPS, "batch": 8, "accumulation": 2, "warmup": 5, "log_every": 1,
            "validate_every": 12, "validation_images": 4, "checkpoint_every": 3,
        },
    }  # fmt: skip


def command(settings: dict, folder: Path, processes: int, program: list[str]) -> list[str]:
    path = folder.parent / "run.yaml"
    path.write_text(yaml.safe_dump(settings))
    base = [sys.executable]
    if processes > 1:
        base += ["-m", "torch.distributed.run", "--standalone"]
        base += ["--nproc-per-node", str(processes)]
    return [*base, *program, "train", str(path), "--out", str(folder)]


def start(settings: dict, folder: Path, processes: int, program: list[str]) -> tuple[int, str]:
    """Exit code and what was said. No limit of time: a busy machine is slow, and not wrong."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command(settings, folder, processes, program),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def run(settings: dict, folder: Path, processes: int = 1) -> None:
    if processes > 1:
        code, said = start(settings, folder, processes, ["-m", "bcdm"])
        assert code == 0, said
        return
    done = CliRunner().invoke(cli, command(settings, folder, 1, [])[1:])
    assert done.exit_code == 0, done.output


def logged(folder: Path) -> list[dict]:
    path = folder / "log.jsonl"
    return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []


def losses(folder: Path) -> dict[int, float]:
    return {row["step"]: row["loss"] for row in logged(folder) if "loss" in row}


def run_and_kill(settings: dict, folder: Path, processes: int, step: int, place: str) -> None:
    """A run that is killed when it gets to `step`.

    Of two ranks the first is killed while a checkpoint is written, which it gives its name, and
    the last one otherwise.
    """
    rank = 0 if place == "checkpoint" else processes - 1
    code, said = start(settings, folder, processes, [str(KILLED), str(step), str(rank), place])
    assert code == (-signal.SIGKILL if processes == 1 else 1), said
    assert "Signal 9 (SIGKILL)" in said or processes == 1


def stored_state(folder: Path) -> dict[str, torch.Tensor]:
    return stored_tensors(yaml.safe_load((folder / "config.yaml").read_text()), folder)


def stored_tensors(settings: dict, folder: Path) -> dict[str, torch.Tensor]:
    trainer = make_trainer(settings, folder)
    trainer.checkpoints.restore_latest(trainer.state)
    return trainer.state.tensors()


def assert_same(one: Path, other: Path) -> None:
    a, b = load_file(one / "model/model.safetensors"), load_file(other / "model/model.safetensors")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert logged(one) == logged(other)
    # Raw weights, their average and the optimiser's moments.
    states = [stored_state(folder) for folder in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert len(states[0]) > 100
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_run_goes_on_to_the_same_bits(settings, tmp_path: Path, processes: int) -> None:
    """Killed while a checkpoint is written; between two of them is the slow test's."""
    settings["training"]["steps"] = 12
    run(settings, tmp_path / "whole", processes)
    killed = tmp_path / "killed"
    run_and_kill(settings, killed, processes, 9, "checkpoint")
    # The rank that writes the log may be stopped before it writes the other's last row.
    assert 9 - (processes - 1) <= max(losses(killed)) <= 9
    left = ["step-000000003", "step-000000006", "step-000000009.partial"]
    assert sorted(path.name for path in (killed / "checkpoints").iterdir()) == left
    assert not (killed / "model").exists()
    run(settings, killed, processes)
    assert_same(tmp_path / "whole", killed)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_twenty_random_kills(settings, tmp_path: Path, processes: int) -> None:
    settings["training"]["steps"] = 200
    run(settings, tmp_path / "whole", processes)
    draw = random.Random(7)
    for number, step in enumerate(sorted(draw.randint(1, 195) for _ in range(20))):
        place = "checkpoint" if number % 2 else "log"
        run_and_kill(settings, tmp_path / "killed", processes, step, place)
    run(settings, tmp_path / "killed", processes)
    assert_same(tmp_path / "whole", tmp_path / "killed")


def test_world_size_does_not_matter(settings, tmp_path: Path) -> None:
    """One process, and a run that moves from two to one: equal to rounding."""
    settings["training"]["steps"] = 20
    settings["training"]["decay"] = False
    run(settings, tmp_path / "one", 1)
    for processes, steps in ((2, 6), (1, 20)):
        settings["training"]["steps"] = steps
        settings["training"]["checkpoint_every"] = 6
        # A longer run is another run; its settings are let in by removing the stored ones.
        (tmp_path / "moved/config.yaml").unlink(missing_ok=True)
        run(settings, tmp_path / "moved", processes)
    base = load_file(tmp_path / "one/model/model.safetensors")
    weights = load_file(tmp_path / "moved/model/model.safetensors")
    worst = max(float((weights[n].double() - base[n].double()).abs().max()) for n in base)
    assert worst < 1e-5
    expected, got = losses(tmp_path / "one"), losses(tmp_path / "moved")
    assert expected.keys() == got.keys()
    assert max(abs(expected[step] - got[step]) for step in expected) < 1e-5


def make_trainer(settings: dict, folder: Path) -> Trainer:
    config = parse_config(settings)
    return Trainer(config, ArrayFile(config.data.path), None, folder, Processes())


def test_failed_write_keeps_the_last_checkpoint(settings, tmp_path: Path) -> None:
    """The operating system refuses to write more than 4 kB: what a full disk does."""
    settings["training"]["steps"] = 3
    trainer = make_trainer(settings, tmp_path / "run")
    trainer.run()
    before = {name: t.clone() for name, t in trainer.state.tensors().items()}
    trainer.state.step = 4
    with torch.no_grad():
        for parameter in trainer.state.network.parameters():
            parameter += 1
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.warns(UserWarning, match="checkpoint at step 4 failed"):
            assert not trainer.checkpoints.save(trainer.state)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    again = make_trainer(settings, tmp_path / "run")
    assert again.checkpoints.restore_latest(again.state) is not None
    assert again.state.step == 3
    assert all(torch.equal(t, before[name]) for name, t in again.state.tensors().items())


def test_partial_checkpoint_is_ignored_and_old_ones_go(settings, tmp_path: Path) -> None:
    settings["training"]["steps"] = 7
    trainer = make_trainer(settings, tmp_path / "run")
    assert trainer.run() is True
    assert make_trainer(settings, tmp_path / "run").run() is False
    names = [path.name for path in trainer.checkpoints.list()]
    assert names == ["step-000000006", "step-000000007"]
    (tmp_path / "run/checkpoints/step-000000099.partial").mkdir()
    assert [p.name for p in Checkpoints(tmp_path / "run/checkpoints", 2).list()] == names


def test_numbers_that_are_not_finite_stop_a_run(settings, tmp_path: Path) -> None:
    """Steps far too long: the loss overflows, and the last checkpoint is of before."""
    settings["training"] |= {"learning_rate": 1e30, "warmup": 0, "checkpoint_every": 1}
    trainer = make_trainer(settings, tmp_path / "run")
    with pytest.raises(InputError, match="not finite; the last checkpoint is kept"):
        trainer.run()
    stored = stored_tensors(settings, tmp_path / "run")
    assert 1 <= int(stored["step"]) < STEPS
    assert all(bool(tensor.isfinite().all()) for tensor in stored.values())


def test_a_folder_has_one_run_at_a_time(settings, tmp_path: Path) -> None:
    """A second one waits, writes nothing meanwhile, and goes on from what the first left."""
    settings["training"]["steps"] = 3
    path, folder = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(settings))
    folder.mkdir()
    said: Queue[str] = Queue()
    with ThreadPoolExecutor(1) as pool:
        with claim(folder, said.put):
            second = pool.submit(train, path, out=folder, report=said.put)
            assert f"being written by process {os.getpid()} on" in said.get()
            assert [entry.name for entry in folder.iterdir()] == [".lock"]
            first = make_trainer(settings, folder)
            first.run()
        assert second.result().config.training.steps == 3
    assert said.get().startswith("images: ")
    assert said.get() == f"wrote {folder / 'model'}"
    # Nothing was left to train: the weights are the first one's.
    assert [row["step"] for row in logged(folder) if "loss" in row] == [1, 2, 3]
    assert not (folder / ".lock").exists()


def test_other_settings_in_the_same_folder_are_refused(settings, tmp_path: Path) -> None:
    settings["training"]["steps"] = 3
    run(settings, tmp_path / "run")
    settings["noise_std"] = 0.2
    code, said = start(settings, tmp_path / "run", 1, ["-m", "bcdm"])
    assert code == 2
    assert "other settings (noise_std was 0.05)" in said
