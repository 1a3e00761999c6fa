"""The scale of k-space that nobody stated: by its noise where the image is then as usual."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint import load
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.reconstruction.calibration import Calibration
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import Scan

GAIN = 0.004  # of a scanner


@pytest.fixture
def measured(scanner: Path, images: torch.Tensor) -> Measurement:
    model = load(scanner)
    return Measurement.simulate(images[:1], model.operator, model.noise_std, seed=0)


def make_scan(measured: Measurement, scale: float) -> Scan:
    """As stored: black is zero, in units of its own."""
    black = torch.full((1, 1, 16, 16), -1.0)
    raw = scale * (measured.y - measured.operator.forward(black))
    assert isinstance(measured.operator, FourierMask)
    mask = measured.operator.mask.numpy() != 0
    data = raw.numpy()
    return Scan(Path("scan.npz"), "npz", "k-space", data, mask, None, (16, 16), {})


@pytest.mark.parametrize("scale", [GAIN, 1.0, 1e3])
def test_noise_tells_the_scale(scanner: Path, measured: Measurement, scale: float) -> None:
    fitted = fit_scan(make_scan(measured, scale), load(scanner), noise_std=0.05 * scale)
    assert fitted.units.gain == pytest.approx(1 / scale)
    torch.testing.assert_close(fitted.measure(0).y, measured.y, rtol=1e-4, atol=1e-4)


def test_an_image_that_would_be_too_dark_is_made_as_bright_as_usual(
    scanner: Path, measured: Measurement
) -> None:
    """Its noise is then another, and said to be."""
    model = load(scanner)
    fitted = fit_scan(make_scan(measured, GAIN), model, noise_std=20 * 0.05 * GAIN)
    back = fitted.operator.adjoint(torch.from_numpy(fitted.scan.data))
    calibration = Calibration.of(model)
    assert calibration is not None
    bright = fitted.units.gain * np.quantile(back.numpy(), 0.99) / 2
    assert bright == pytest.approx(calibration.brightness[1], rel=1e-3)
    assert float(fitted.measure(0).std) > 2 * model.noise_std
