"""What `bcdm inspect` says of a file."""

from pathlib import Path

import numpy as np
import pytest

from bcdm.commands.inputs import _describe
from bcdm.scans import Scan


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (np.zeros(32), None),
        (np.full(32, np.pi / 2), "90.0 degrees"),
        (np.linspace(-1, 2, 32), "varies over the image"),
    ],
)
def test_the_phase_of_an_image_is_named(phase: np.ndarray, words: str | None) -> None:
    image = np.outer(np.hanning(32), np.hanning(32)) * np.exp(1j * phase)
    noise = np.random.default_rng(0).normal(size=(2, 32, 32)) * 1e-3
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image), norm="ortho"))
    data = (kspace + noise[0] + 1j * noise[1]).astype(np.complex64)[None, None]
    mask = np.ones((32, 32), bool)
    scan = Scan(Path("a.npz"), "npz", "k-space", data, mask, None, (32, 32), {})
    said = dict(_describe(scan)).get("phase")
    assert (said is None) if words is None else (said is not None and words in said)
