"""The tooth's command on a disc, and the cost of a step on small images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.tomography import steps, tooth

from bcdm.assessment.records import read_records
from bcdm.operators import Radon


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scan of a disc, off the middle, whose axis is not in the middle either."""
    for name, value in {"CENTRE": 35.5, "BIN": 2, "SIDE": 32, "ITERATIONS": 10}.items():
        monkeypatch.setattr(tooth, name, value)
    monkeypatch.setattr(tooth, "SHOWN", slice(4, 28))
    at = torch.arange(32) - 15.5
    disc = 0.05 * ((at - 3) ** 2 + (at[:, None] + 2) ** 2 < 60).float()[None, None]
    angles = torch.arange(48) * 3.75
    scanner = Radon(angles, (32, 32), detectors=40, centre=17.5, scaling="length")
    clean = scanner.forward(disc)[0, 0].repeat_interleave(2, -1).numpy()
    rng = np.random.default_rng(0)
    counts = 100 + 3e4 * np.exp(-clean - 0.02 * rng.standard_normal(clean.shape))
    folder = tmp_path / "ct_sinograms"
    folder.mkdir()
    flat = np.ones((10, 2, 80), np.float32)
    np.savez(
        folder / "ct_tooth.npz", data=np.stack([counts, 0 * counts], 1).astype(np.float32),
        white=30100 * flat, dark=100 * flat, theta_deg=angles.numpy().astype(np.float64),
    )  # fmt: skip
    return tmp_path


def test_the_reference_is_the_disc_and_total_variation_is_nearest(data: Path) -> None:
    out = data / "out"
    records = tooth.run(data, out, "command")
    assert read_records(out / "tooth.json") == records
    filtered, linear, smooth, noise = (one.value for one in records)
    assert smooth < linear < filtered
    assert 0.1 < noise < 1  # .02 / sqrt(2) over .05, and what damping leaves
    assert (out / "tooth.png").stat().st_size > 1000
    at = torch.arange(32) - 15.5
    disc = ((at - 3) ** 2 + (at[:, None] + 2) ** 2 < 60).float()[None, None]
    assert tooth.compare(tooth.Scan(data).truth, disc) < 0.35


def test_steps_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"width": 4, "multipliers": [1], "blocks": 1, "attention": []}
    monkeypatch.setattr(steps, "NETWORK", small)
    threads = torch.get_num_threads()
    ratio, first = steps.measure("command", side=16, rounds=2)
    torch.set_num_threads(threads)
    assert ratio.required == "<= 3"
    assert ratio.value is not None
    assert 0.1 < ratio.value < 100
    assert first.value is not None
    assert first.value > 0
