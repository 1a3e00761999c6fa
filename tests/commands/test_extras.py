"""A core installation says which extra a command needs, in one line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# As if the packages named first were not installed.
CODE = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
from bcdm.commands import main
main()
"""
EVERY = "PIL,h5py,highdicom,huggingface_hub,ismrmrd,matplotlib,nibabel,pydicom,scipy,skimage"


def run(without: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CODE, without, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    np.savez(tmp_path / "x.npz", kspace=np.ones((1, 1, 64, 64), np.complex64))
    (tmp_path / "log.jsonl").write_text('{"step": 1, "psnr": 20}')
    return tmp_path / "x.npz"


def check(done: subprocess.CompletedProcess[str], package: str, extra: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        f"error: this needs the package {package}, which is not installed: "
        f"pip install 'bcdm[{extra}]'"
    ]


def test_reconstruct_without_zarr(scan: Path, tmp_path: Path) -> None:
    done = run("zarr", "reconstruct", scan, "--model", "ixi64-mri", "-o", tmp_path / "out")
    check(done, "zarr", "formats")
    assert not (tmp_path / "out").exists()


def test_questions_to_results_without_zarr(scan: Path, tmp_path: Path) -> None:
    check(run("zarr", "feature", tmp_path, "--box", "1:2,3:4"), "zarr", "formats")
    check(run("zarr", "verify", scan), "zarr", "formats")
    check(run("zarr,PIL", "demo", "--out", tmp_path / "out"), "zarr", "formats")


def test_figures_without_matplotlib(scan: Path, tmp_path: Path) -> None:
    log, png = tmp_path / "log.jsonl", tmp_path / "c.png"
    check(run("matplotlib", "curves", log, "-o", png), "matplotlib", "figures")
    check(run("matplotlib", "evaluate", "ixi64-mri", "--figure", png), "matplotlib", "figures")
    check(run("matplotlib", "study", log, "--out", tmp_path), "matplotlib", "figures")


def test_a_core_installation_inspects(scan: Path) -> None:
    done = run(EVERY + ",tifffile,zarr", "inspect", scan)
    assert done.returncode == 0, done.stderr
    assert "1 slice, 1 coil, 64 x 64" in done.stdout
