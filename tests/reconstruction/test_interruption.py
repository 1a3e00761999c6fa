"""`bcdm reconstruct` as a process: Ctrl-C, kill -9, little memory, progress."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr
from numpy.typing import ArrayLike
from PIL import Image

from bcdm.checkpoint import Model, load_operator
from bcdm.folders import claim
from bcdm.reconstruction import files
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import read_scan

SAMPLES, BATCH = 30, 2


@pytest.fixture
def command(tmp_path: Path, images, masked: Path) -> list[str]:
    """A run of some seconds; -o is to follow."""
    picture = np.clip((images[0, 0].numpy() + 1) * 127.5, 0, 255).astype(np.uint8)
    known = np.full((16, 16), 255, np.uint8)
    known[6:10, 6:10] = 0
    Image.fromarray(picture).save(tmp_path / "scan.png")
    Image.fromarray(known).save(tmp_path / "mask.png")
    return [
        sys.executable, "-m", "bcdm", "reconstruct", str(tmp_path / "scan.png"),
        "--mask", str(tmp_path / "mask.png"), "--model", str(masked), "--samples", str(SAMPLES),
        "--calls", "20", "--batch", str(BATCH), "--noise-std", "6.4", "--force", "-o",
    ]  # fmt: skip


def count_done(out: Path) -> int:
    try:
        stored = json.loads((out / "samples.zarr" / "zarr.json").read_text())
    except FileNotFoundError:
        return 0
    return int(stored["attributes"]["done"].get("0", 0))


def _heed_interrupts() -> None:
    """Shells start what runs in the background deaf to Ctrl-C; so were all its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop_midway(command: list[str], out: Path, number: int) -> tuple[int, str]:
    """Starts it, sends a signal once some samples are there; exit code and what it said."""
    with subprocess.Popen(
        [*command, out], stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    ) as process:
        # By slices of time, so that it cannot run to its end while nobody looks.
        while count_done(out) < 2 * BATCH and process.poll() is None:
            process.send_signal(signal.SIGCONT)
            time.sleep(0.03)
            process.send_signal(signal.SIGSTOP)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate()
    assert 2 * BATCH <= count_done(out) < SAMPLES
    return process.returncode, said


def read_arrays(folder: Path) -> dict[str, ArrayLike]:
    """Every number in every file that a run leaves."""
    samples = zarr.open_array(folder / "samples.zarr", mode="r")
    arrays: dict[str, ArrayLike] = {"samples": np.asarray(samples)}
    for path in folder.iterdir():
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays |= {f"{path.name}/{name}": file[name] for name in file.files}
        elif path.suffix in (".png", ".tif", ".tiff"):
            arrays[path.name] = np.asarray(Image.open(path))
        elif path.suffix == ".safetensors":
            # Its header has no order.
            arrays |= load_operator(path).tensors()
        elif path.is_file():
            arrays[path.name] = np.frombuffer(path.read_bytes(), np.uint8)
    return arrays


@pytest.fixture
def whole(command: list[str], tmp_path: Path) -> dict[str, ArrayLike]:
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    return read_arrays(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_same_command_goes_on_to_the_same_bits(command, whole, tmp_path, number) -> None:
    out = tmp_path / "out"
    code, said = stop_midway(command, out, number)
    if number == signal.SIGINT:
        assert code == 130
        assert said.splitlines()[-1] == "interrupted: the same command goes on from here"
        assert "Traceback" not in said
    left = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    # Nothing is there as if it were whole, but for samples that are, and what they are drawn from.
    assert left == {"samples.zarr", "measurement.npz", "operator.safetensors"}
    kept = np.asarray(zarr.open_array(out / "samples.zarr", mode="r"))[0, : count_done(out)]
    np.testing.assert_array_equal(kept, whole["samples"][0, : len(kept)])
    (out / f".partial-1-{number}.png").write_bytes(b"of a run that was killed")
    subprocess.run([*command, out], check=True, capture_output=True)
    found = read_arrays(out)
    assert found.keys() == whole.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def make_short(command: list[str]) -> list[str]:
    """The same with few samples of few calls."""
    short = command.copy()
    short[short.index("--samples") + 1], short[short.index("--calls") + 1] = "9", "1"
    return short


def test_two_at_once_write_what_one_writes(command, tmp_path) -> None:
    command, out = make_short(command), tmp_path / "out"
    subprocess.run([*command, tmp_path / "one"], check=True, capture_output=True)
    out.mkdir()
    with contextlib.ExitStack() as stack:
        with claim(out, print):
            both = [
                stack.enter_context(
                    subprocess.Popen([*command, out], stderr=subprocess.PIPE, text=True)
                )
                for _ in range(2)
            ]
            # Both are at the door, whatever else the machine does.
            for process in both:
                assert process.stderr is not None
                assert any("waiting for it" in line for line in process.stderr)
        said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    first, second = read_arrays(tmp_path / "one"), read_arrays(out)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array, err_msg=name)
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from bcdm.commands import main; main()"


def test_what_is_finished_is_not_even_read_again(command, tmp_path) -> None:
    command = make_short(command)
    again = [sys.executable, "-c", WITHOUT_TORCH, *command[3:], tmp_path / "out"]
    once = subprocess.run([*command, tmp_path / "out"], capture_output=True, text=True, check=True)
    repeated = subprocess.run(again, capture_output=True, text=True, check=True)
    assert repeated.stdout.splitlines()[0] == once.stdout.splitlines()[0]
    assert f"there already: {tmp_path / 'out/report.html'}" in repeated.stdout
    for change in ("--seed=1", "--feature=2:5,3:7", "--noise-std=6"):
        other = subprocess.run([*again, change], capture_output=True, text=True, check=False)
        assert other.returncode != 0, change
        assert "torch" in other.stderr, change
    (tmp_path / "out/report.html").unlink()
    other = subprocess.run(again, capture_output=True, text=True, check=False)
    assert "torch" in other.stderr
    subprocess.run([*command, tmp_path / "out"], check=True, capture_output=True)
    assert (tmp_path / "out/report.html").exists()
    with (tmp_path / "scan.png").open("ab") as file:
        file.write(b"more")
    other = subprocess.run(again, capture_output=True, text=True, check=False)
    assert "torch" in other.stderr


def test_nothing_is_finished_before_the_report(
    command, masked_model: Model, tmp_path, monkeypatch
) -> None:
    scan = read_scan(tmp_path / "scan.png", tmp_path / "mask.png")
    fitted = fit_scan(scan, masked_model, noise_std=6.4)
    plan = files.Plan(samples=9, calls=1, force=True)
    run = partial(files.reconstruct_scan, masked_model, fitted, tmp_path / "out", plan, say=print)
    run()
    assert (tmp_path / "out/run.json").exists()

    def fail(_: files.Finished) -> list[Path]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(show=fail)
    assert not (tmp_path / "out/run.json").exists()


def test_progress_has_an_eta(command, tmp_path) -> None:
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 100))
    process = subprocess.Popen([*command, tmp_path / "out"], stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    parts = []
    try:
        while part := os.read(reader, 1 << 16):
            parts.append(part)
    except OSError:
        # How a terminal ends.
        pass
    finally:
        os.close(reader)
    out, _ = process.communicate()
    shown = b"".join(parts).decode()
    assert f"{SAMPLES}/{SAMPLES}" in shown
    # Elapsed < remaining, at least once before the end.
    assert "%" in shown
    assert "<00:0" in shown
    assert b"samples:" not in out


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"),
     RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
     RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")],
)  # fmt: skip
def test_little_memory_gives_the_same_samples(
    command, masked_model: Model, tmp_path, monkeypatch, caplog, error
) -> None:
    scan = read_scan(tmp_path / "scan.png", tmp_path / "mask.png")
    fitted = fit_scan(scan, masked_model, noise_std=6.4)
    plan = files.Plan(samples=11, calls=3, batch=8, force=True)
    said: list[str] = []
    once = files.reconstruct_scan(masked_model, fitted, tmp_path / "a", plan, say=said.append)
    assert said == []
    network = masked_model.method.network
    forward, sizes = network.forward, []

    def cramped(x, *more):
        sizes.append(len(x))
        if len(x) > 3:
            raise error
        return forward(x, *more)

    monkeypatch.setattr(network, "forward", cramped)
    again = files.reconstruct_scan(masked_model, fitted, tmp_path / "b", plan, say=said.append)
    # The second batch starts where memory lasted.
    assert [record.getMessage() for record in caplog.records] == [
        f"out of memory: going on with batches of {size}" for size in (4, 2)
    ]
    assert max(sizes) == 8
    torch.testing.assert_close(
        again.posteriors[0].samples, once.posteriors[0].samples, rtol=0, atol=1e-5
    )
