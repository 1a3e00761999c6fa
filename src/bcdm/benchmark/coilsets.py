"""Slices that several coils have seen, fully sampled: one real scan, and simulated ones."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bcdm.assessment.images import choose_evenly
from bcdm.checkpoint.settings import resolve_data_path
from bcdm.coils import estimate_maps
from bcdm.data.phase import draw_phase
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Sense, whiten_coils
from bcdm.problems.coils import draw_birdcage, draw_smooth
from bcdm.problems.scanner import draw_equispaced, draw_poisson_disc
from bcdm.reconstruction.receiving import find_maps

__all__ = [
    "HELD_OUT",
    "MIDDLE",
    "PATTERNS",
    "SETS",
    "Case",
    "Slice",
    "draw_mask",
    "find_object",
    "open_set",
    "read_images",
    "simulate_slices",
]

SETS = ("brain16", "ixi", "openms", "hku")
MIDDLE = {"equispaced": 0.32, "poisson": 0.2}  # of the samples are the middle, without a gap
PATTERNS = tuple(MIDDLE)
HELD_OUT = {"openms": ("patient19", "patient20"), "hku": ("S6A", "S6B")}
_BRIGHT = 0.8  # the 99 % quantile of slices of IXI, about: real scans are brought there
_NOISE = 0.02  # of simulated slices, in parts of the largest value
_COILS = 8


class Case(NamedTuple):
    """What is to be reconstructed, and what with: images of about unit size."""

    measurement: Measurement
    reference: Tensor
    """Magnitudes, (H, W)."""
    inside: Tensor
    """Where the object is, (H, W)."""
    floor: float
    """Standard deviation of the reference's own noise."""


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice in k-space, fully sampled, with white noise.

    Attributes:
        name: Who and which.
        kspace: Complex64 (coils, H, W).
        noise_std: Of its real and its imaginary part each.
        reference: Magnitudes, (H, W).
        floor: Standard deviation of the reference's own noise; 0 where it is the truth.
        lines: Along which axis lines are left out: -2 for rows, -1 for columns.
        scaled: Whether its units are those of the models.
    """

    name: str
    kspace: NDArray[np.complex64]
    noise_std: float
    reference: Tensor
    floor: float = 0.0
    lines: int = -1
    scaled: bool = True

    def undersample(self, mask: Tensor, cache: Path | None = None) -> Case:
        """What a scan with this mask would give; maps come from the middle of its own data.

        Args:
            mask: What is sampled.
            cache: A folder where maps are kept, and found again.
        """
        data = self.kspace * mask.numpy()
        maps = torch.from_numpy(find_maps(data, mask.numpy(), None, cache))
        operator, y = Sense(maps, mask), torch.from_numpy(data)[None]
        gain = 1.0
        if not self.scaled:
            # The linear estimate is as bright as the image itself; A^H y is darker the more is left
            # out.
            power = float((y.abs().square().sum() / mask.numel()).sqrt())
            linear = Measurement(y, operator, self.noise_std).estimate_linearly(power)
            gain = _BRIGHT / float(linear.abs().quantile(0.99))
        inside = find_object(self.reference)
        measurement = Measurement(gain * y, operator, gain * self.noise_std)
        return Case(measurement, gain * self.reference, inside, gain * self.floor)


def draw_mask(pattern: str, acceleration: float, one: Slice, seed: int) -> Tensor:
    """Equispaced lines with a middle as fastMRI has it (8 % at 4x, 4 % at 8x), or Poisson discs."""
    if pattern not in PATTERNS:
        raise InputError(f"a pattern is one of {', '.join(PATTERNS)}, not {pattern!r}")
    size, part = (one.kspace.shape[-2], one.kspace.shape[-1]), MIDDLE[pattern] / acceleration
    if pattern == "poisson":
        return draw_poisson_disc(size, acceleration, centre=part**0.5, seed=seed)
    return draw_equispaced(size, acceleration, centre=part, seed=seed, rows=one.lines == -2)


def find_object(magnitude: Tensor) -> Tensor:
    """Where the head is, (H, W) boolean: the largest bright region, its holes filled."""
    from scipy import ndimage

    values = magnitude.double().numpy()
    smooth = ndimage.gaussian_filter(values, 1.5)
    labels, count = ndimage.label(smooth > 0.12 * np.quantile(smooth, 0.99))
    if not count:
        raise InputError("a reference without any object has nothing to be judged by")
    sizes = np.bincount(labels.ravel())[1:]
    return torch.from_numpy(ndimage.binary_fill_holes(labels == 1 + int(sizes.argmax())))


def open_set(name: str, data: Path | None, limit: int, *, tuning: bool, seed: int) -> list[Slice]:
    """Slices of a set, evenly spaced; those that weights are tuned on share no subject with them.

    Args:
        name: One of `SETS`.
        data: The data folder; BCDM_DATA when left out.
        limit: At most so many.
        tuning: Those for tuning. For the one real scan they are simulated, with as many coils and
            as much noise.
        seed: Of coils, phases and noise.
    """
    if name not in SETS:
        raise InputError(f"a set is one of {', '.join(SETS)}, not {name!r}")
    if name == "brain16":
        scan = _open_brain(data)
        if not tuning:
            return [scan]
        quiet = _BRIGHT * scan.noise_std / float(scan.reference.quantile(0.99))
        images = read_images("ixi", data, "val")
        slices = simulate_slices(images, limit, seed, coils=len(scan.kspace), noise_std=quiet)
        return [replace(one, lines=scan.lines) for one in slices]
    images = read_images(name, data, "val" if tuning else "test")
    return simulate_slices(images, limit, seed + int(tuning))


def _open_brain(data: Path | None) -> Slice:
    """The brain of 16 coils; the reference is what all data give with maps of their own."""
    path = resolve_data_path("pulseq_brain_16coil_full/brain_invivo_16coil.npz", data)
    with np.load(path, allow_pickle=False) as file:
        kspace = torch.from_numpy(file["kspace"])[None]
    axes = (-2, -1)
    images = torch.fft.fftshift(
        torch.fft.ifft2(torch.fft.ifftshift(kspace, axes), norm="ortho"), axes
    )
    # Air below the head, without the columns at the sides that the receiver's filter damps.
    air = images[0, :, 112:, 24:104].flatten(1).to(torch.complex128)
    covariance = air @ air.mH / (2 * air.shape[1])
    white, _ = whiten_coils(kspace, torch.zeros_like(kspace[0]), covariance)
    everywhere = torch.ones(kspace.shape[-2:], dtype=torch.bool)
    maps = torch.from_numpy(estimate_maps(white[0].numpy(), everywhere.numpy()))
    reference = Sense(maps, everywhere).adjoint(white)[0, 0].abs()
    return Slice("brain16", white[0].numpy(), 1.0, reference, 1.0, lines=-2, scaled=False)


def read_images(name: str, data: Path | None, split: str) -> list[tuple[str, NDArray[Any]]]:
    """Magnitudes from 0 to 1, by name: the subject's first.

    Args:
        name: A set of simulated scans.
        data: The data folder; BCDM_DATA when left out.
        split: "test", or "val" for others: those of openms and hku were trained on.
    """
    places = {
        "ixi": "brain_ixi_t1/ixi_t1_axial128.npz",
        "openms": "brain_openms_raw/openms_raw_axial256.npz",
        "hku": "hku_3T_brain/brain_3T_6patients.npz",
    }
    with np.load(resolve_data_path(places[name], data), allow_pickle=False) as file:
        if name == "hku":
            return [
                (f"{key} {number}", one / 4095)
                for key in sorted(file.files)
                if (key.split("_")[0] in HELD_OUT[name]) == (split == "test")
                for number, one in enumerate(file[key])
            ]
        subjects = file["subject"].astype(str)
        wanted = (
            file["split"] == split
            if name == "ixi"
            else np.isin(subjects, HELD_OUT[name]) == (split == "test")
        )
        rows = np.flatnonzero(wanted)
        images = file["images"]
        return [(f"{subjects[k]} {k}", images[k] / 255) for k in rows]


def simulate_slices(
    images: list[tuple[str, NDArray[Any]]],
    limit: int,
    seed: int,
    *,
    coils: int = _COILS,
    noise_std: float = _NOISE,
) -> list[Slice]:
    """Slices as drawn coils see them, with a drawn phase.

    Args:
        images: Magnitudes from 0 to 1, by name.
        limit: At most so many, evenly spaced.
        seed: Of coils, phases and noise.
        coils: How many see each.
        noise_std: Of the real and of the imaginary part each.
    """
    slices = []
    for number in choose_evenly(len(images), limit):
        name, image = images[number]
        rng = np.random.default_rng([seed, number])
        size = (image.shape[0], image.shape[1])
        draw_maps = draw_birdcage if number % 2 else draw_smooth
        maps = draw_maps(size, coils, rng=rng)
        truth = torch.from_numpy(image).float()
        x = torch.polar(truth, draw_phase(size, rng=rng))[None, None]
        clean = Sense(maps, torch.ones(size, dtype=torch.bool)).forward(x)[0].numpy()
        noise = rng.standard_normal((2, *clean.shape)).astype(np.float32)
        kspace = clean + np.float32(noise_std) * (noise[0] + 1j * noise[1])
        slices.append(Slice(name, kspace.astype(np.complex64), noise_std, truth))
    return slices
