"""What a file holds, and what is to be written beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError, ShapeError
from bcdm.scans.complaints import show
from bcdm.spool import release

__all__ = ["Kind", "Results", "Scan"]

Kind = Literal["k-space", "image"]


@dataclass(frozen=True, eq=False)
class Scan:
    """What a file holds, in the file's own units.

    Attributes:
        path: The file or folder.
        format: "fastMRI HDF5", "ISMRMRD", "NIfTI", "DICOM", "PNG", "TIFF", "npz", "npy" or "zarr".
        kind: What the numbers are.
        data: (slices, coils or channels, rows, columns). K-space is complex64 and centred:
            image = fftshift(ifft2(ifftshift(data), norm="ortho")) over the last two axes. Images
            are float32.
        mask: Boolean (rows, columns), the sampled entries of k-space or the known pixels of an
            image; None if all pixels are known. Where a file of k-space states none, it is
            what is not zero in some coil and slice, give or take zeros by chance.
        noise: Samples of noise alone (coils, n) as they would lie in `data`, if the file has a
            noise scan.
        size: Rows and columns of the image to make: those of the data, without the oversampling
            that the header tells of.
        facts: Plain things worth printing, ready for JSON.
        header: What `write_results` needs to write the same format; opaque to all others.
        calibration: Lines that were measured for the coils' maps alone, if the file keeps some
            apart: k-space like the data, zero where none lies, of fewer rows about the origin.
    """

    path: Path
    format: str
    kind: Kind
    data: NDArray[Any]
    mask: NDArray[np.bool_] | None
    noise: NDArray[np.complex64] | None
    size: tuple[int, int]
    facts: Mapping[str, Any]
    header: bytes = field(default=b"", repr=False)
    calibration: NDArray[np.complex64] | None = None

    def __repr__(self) -> str:
        held = f"{self.kind} {self.data.shape}"
        return f"Scan({show(self.path)}, {self.format}, {held}, size {self.size})"


@dataclass(frozen=True, eq=False)
class Results:
    """What was found out about each pixel, in the units of the file.

    Attributes:
        mean: Posterior mean (slices, channels, rows, columns), float32.
        std: Posterior standard deviation.
        low: Lower end of the interval.
        high: Upper end of the interval.
        level: The probability that the interval is meant to hold, such as 0.9.
        left_out: Numbers of slices that are not to be written, and that hold nan. In files they
            are nan where numbers are floats. DICOM has no file or frame for them; where a file of
            several images cannot do without, they have the least value that its pixels can have.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    level: float
    left_out: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        kept = self.list_kept()
        if not kept:
            raise InputError("every slice is left out: nothing is there to be written")
        for name, values in self.items():
            if values.ndim != 4 or values.shape != self.mean.shape or 0 in values.shape:
                raise ShapeError(
                    f"{name} has shape {values.shape}: give (slices, channels, rows, columns), "
                    "the same for all"
                )
            if values.dtype != np.float32 or not all(_is_finite(values, one) for one in kept):
                raise InputError(f"{name} must be finite and float32, got {values.dtype}")
        if not 0 < self.level < 1:
            raise InputError(f"level must be between 0 and 1, got {self.level}")

    def list_kept(self) -> list[int]:
        """Numbers of the slices that are written."""
        return [number for number in range(len(self.mean)) if number not in self.left_out]

    def items(self) -> tuple[tuple[str, NDArray[np.float32]], ...]:
        """The maps by name."""
        return (("mean", self.mean), ("std", self.std), ("low", self.low), ("high", self.high))


def _is_finite(values: NDArray[np.float32], number: int) -> bool:
    """Whether a slice holds numbers alone."""
    finite = bool(np.isfinite(values[number]).all())
    release(values)
    return finite
