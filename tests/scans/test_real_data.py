"""Real k-space from scanners, where the data folder has it."""

import os
from pathlib import Path

import numpy as np
import pytest

from bcdm.scans import read_scan

FOLDER = Path(os.environ.get("BCDM_DATA", "")) / "kspace_raw"

pytestmark = pytest.mark.skipif(
    not os.environ.get("BCDM_DATA") or not FOLDER.is_dir(),
    reason="BCDM_DATA names no folder with kspace_raw in it",
)


def test_single_coil_spin_echo_is_fully_sampled() -> None:
    scan = read_scan(FOLDER / "larsonlab_t1_sagittal_1coil_full.npz")
    assert (scan.format, scan.kind, scan.data.shape) == ("npz", "k-space", (1, 1, 256, 256))
    assert (scan.data.dtype, scan.size) == (np.complex64, (256, 256))
    assert scan.mask is not None
    assert scan.mask.all()
    assert (scan.facts["coils"], scan.facts["acceleration"]) == (1, 1.0)
    # A head fills the middle of a centred image, and air its corners.
    image = np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(scan.data[0, 0]), norm="ortho")))
    assert image[64:192, 64:192].mean() > 5 * image[:16, :16].mean()


def test_eight_coils_are_undersampled() -> None:
    path = FOLDER / "sigpy_brain_8coil_undersampled.npz"
    scan = read_scan(path)
    assert (scan.kind, scan.data.shape, scan.size) == ("k-space", (1, 8, 230, 180), (230, 180))
    assert scan.mask is not None
    with np.load(path) as held:
        assert np.array_equal(scan.mask, held["mask"])
    assert not scan.data[..., ~scan.mask].any()
    assert (scan.facts["coils"], scan.facts["sampled"]) == (8, 0.1243)
    assert scan.facts["acceleration"] == 8.04
