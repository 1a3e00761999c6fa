"""The shipped models: loaded by name, better than their start, calibrated on real images."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import bcdm
from bcdm.checkpoint import list_models
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.settings import resolve_data_path
from bcdm.data import assign_splits, open_images, select_split
from bcdm.data.phase import draw_phase
from bcdm.evaluation import coverage, psnr
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.scanner import draw_poisson_disc
from bcdm.reconstruction.measuring import simulate
from bcdm.trust.scores import find_scores

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["ixi64-mri8x", "ixi64-mri8x-small", "faces64-inpaint"]
EVERY = pytest.mark.parametrize("name", NAMES)


@EVERY
def test_small_and_whole(name: str) -> None:
    size = sum(path.stat().st_size for path in (ROOT / "models" / name).iterdir())
    assert size <= 8e6
    card = (ROOT / "models" / name / "README.md").read_text()
    assert "PSNR, one-call mean" in card


@EVERY
def test_one_call_keeps_what_was_measured(name: str) -> None:
    """No data needed: on a disc, which no training set held, the mean still fits the data.

    In units of the noise the residual of a posterior mean is about 1; a network that ignored the
    data would be at .5 / .02 = 25.
    """
    model = bcdm.load(name)
    axis = torch.linspace(-1, 1, model.shape[-1])
    disc = torch.tanh(8 * (0.7 - torch.hypot(axis[:, None], axis))) * 0.5
    x = disc.expand(1, *model.shape).contiguous()
    measurement = bcdm.Measurement.simulate(x, model.operator, model.config.noise_std, seed=0)
    mean = bcdm.posterior_mean(model.condition(measurement))
    squared = measurement.residual(mean).abs().square().sum()
    assert float(squared / measurement.degrees_of_freedom) ** 0.5 < 3


@pytest.mark.parametrize(
    "name", ["brain-mri", "ixi64-mri", "ixi64-mri-scanner", "faces64", "faces64-prior"]
)
def test_clouds_are_of_the_code_that_reads_them(name: str) -> None:
    """Otherwise it is drawn anew in every process: `bcdm calibrate NAME --only-family`."""
    model = bcdm.load(name)
    assert model.cloud is not None
    assert model.familiarity is not None
    assert model.familiarity.cloud is model.cloud


def test_a_scan_of_several_coils() -> None:
    """No data needed: of a disc with a phase one call is nearer than the linear estimate."""
    folder = ROOT / "models/brain-mri"
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8e6
    model, size = bcdm.load("brain-mri"), (96, 112)
    rng = np.random.default_rng(0)
    rows, columns = (torch.linspace(-1, 1, side) for side in size)
    disc = 0.35 * (1 + torch.tanh(12 * (0.6 - torch.hypot(rows[:, None], columns))))
    x = torch.polar(disc, draw_phase(size, rng=rng))[None, None]
    mask = draw_poisson_disc(size, 6.0, centre=0.2, seed=0)
    operator = Sense(draw_birdcage(size, 8, rng=rng), mask)
    measurement = bcdm.Measurement.simulate(x, operator, 0.02, seed=0)
    mean = bcdm.posterior_mean(model.condition(measurement))
    linear = model.scales.estimate_linearly(measurement)
    error, control = (float((part - x).abs().square().mean().sqrt()) for part in (mean, linear))
    assert error < 0.7 * control
    squared = measurement.residual(mean).abs().square().sum()
    assert float(squared / measurement.degrees_of_freedom) < 2


def read_images(name: str, count: int) -> tuple[bcdm.Measurement, Tensor]:
    model = bcdm.load(name)
    data = model.config.data
    source = open_images(resolve_data_path(data.path, None), data.key, data.source_range)
    held_out = select_split(source, assign_splits(source), "test")
    stride = len(held_out) // count
    x = torch.stack([model.preparation(held_out[stride * k]) for k in range(count)])
    return bcdm.Measurement.simulate(x, model.operator, model.config.noise_std, seed=1), x


NEEDS_DATA = pytest.mark.skipif("BCDM_DATA" not in os.environ, reason="BCDM_DATA is not set")


@pytest.mark.data
@NEEDS_DATA
@pytest.mark.parametrize("name", list_models())
@torch.no_grad()
def test_calibrations_are_of_the_code_that_reads_them(name: str) -> None:
    """Scores of right measurements lie in the middle of the stored ones."""
    model = bcdm.load(name)
    calibration = Calibration.of(model)
    assert calibration is not None
    data = model.config.data
    path = resolve_data_path(data.path, None)
    if not path.exists():
        pytest.skip(f"BCDM_DATA has no {data.path}")
    source = open_images(path, data.key, data.source_range)
    images = select_split(source, assign_splits(source), "val")
    tails: dict[str, list[float]] = {}
    for k in range(72):
        x = model.preparation(images[len(images) // 72 * k])[None]
        measurement = simulate(model, x, [5000 + k], seed=7)
        mean = bcdm.posterior_mean(model.method.condition(measurement))
        (scores,) = find_scores(model, measurement, calibration.looks, mean)
        for score, tail in calibration.usual.find_tails(calibration.usual.place(scores)).items():
            tails.setdefault(score, []).append(tail)
    # The median of n uniform numbers is off by .5 / n^.5, and so is that of the table: 3.3 times
    # both together are left with a probability of .999.
    middle = {score: float(np.median(found)) for score, found in tails.items()}
    for score, value in middle.items():
        allowed = 1.65 * (1 / 72 + 1 / len(calibration.usual.tables[score])) ** 0.5
        assert abs(value - 0.5) < allowed, (score, value)


@pytest.mark.data
@NEEDS_DATA
@EVERY
def test_one_call_on_held_out_images(name: str) -> None:
    """Eight held-out images: 4 dB over the back projection."""
    measurement, x = read_images(name, 8)
    mean = bcdm.posterior_mean(bcdm.load(name).condition(measurement), count=8)
    gain = psnr(mean, x, data_range=2.0) - psnr(measurement.back_projection, x, data_range=2.0)
    assert float(gain.mean()) > 4


@pytest.mark.data
@NEEDS_DATA
@EVERY
def test_coverage_on_held_out_images(name: str) -> None:
    """80 % intervals of nine samples cover 70-90 %."""
    measurement, x = read_images(name, 8)
    posterior = bcdm.load(name).condition(measurement)
    # In single precision: processors without bfloat16 take three times as long for that.
    draws = [
        bcdm.sample(
            posterior,
            bcdm.DPMSolver(churn=3.0),
            steps=20,
            seed=0,
            progress=False,
            indices=range(8 * k, 8 * k + 8),
        )
        for k in range(9)
    ]
    covered = coverage(torch.stack(draws), x, (0.8,)).observed.mean()
    assert 0.7 < float(covered) < 0.9
