"""Noise of images, from their flattest parts."""

from dataclasses import dataclass
from math import ceil, cos, pi, sqrt

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.noise.clipping import estimate_from_clipped_ground, find_repeated, find_step
from bcdm.noise.estimate import NoiseEstimate, choose
from bcdm.noise.floor import Array, Floor, fit_floor

__all__ = ["estimate_from_image"]

_SIDES = (6, 4, 3, 2)  # of windows; larger ones tell texture from noise better
_ENOUGH, _FEWEST = 400, 150  # real numbers to rest on
_SLIDING = 1.5  # windows at all places tell this much more than side by side, as seen on noise
_MANY = 100_000  # windows
_TILE = 16  # pixels: noise and texture further apart are taken as independent
_COHERENT = 3.0  # a pattern with this much more power than others is texture everywhere
_RAYLEIGH = 2 - pi / 2  # variance of the magnitude of complex noise, over the noise's


def estimate_from_image(image: ArrayLike, known: ArrayLike | None = None) -> NoiseEstimate:
    r"""Estimates white noise of one level from images themselves.

    Each small window is expanded in cosines, and those that vary fast hold noise, plus signal
    where there is detail. Colours are rotated to the axes of detail, so that what channels share
    does not hide the noise that they do not share. The energies of all windows then have a floor,
    which `fit_floor` finds without picking windows by hand.

    Texture of the noise's size that covers all of an image is not told from noise: on photographs
    the result is an upper bound where the noise is below about a hundredth of the range.

    Windows with clipped values and windows without any variation are left out; of a ground that
    lies at the bound of the values, the half that is not cut off serves. Values on a grid (8 bits)
    have the rounding noise $\Delta / \sqrt{12}$ at least. In a magnitude image (no negative
    values) the air is Rayleigh distributed, of variance $(2 - \pi / 2) \sigma_0^2$; if the flattest
    part is of that law it is corrected for.

    Args:
        image: Real (slices, channels, rows, columns), of one noise level.
        known: True for pixels that were measured; any shape that broadcasts to the image's.

    >>> noisy = 0.1 * np.random.default_rng(0).normal(size=(1, 1, 64, 64))
    >>> round(estimate_from_image(noisy).std, 2)
    0.1
    """
    pixels, seen = _check(image, known)
    values = pixels[seen]
    step = find_step(values)
    repeated = find_repeated(values, step)
    bounds = [bound for bound in repeated if bound in (values.min(), values.max())]
    grounds = [estimate_from_clipped_ground(pixels, seen, bound, step) for bound in bounds]
    try:
        windows = _cut(pixels, seen & ~np.isin(pixels, repeated))
        flat = _estimate_from_flat_parts(windows, bounds, values.min() >= 0, step)
    except InputError:
        if not any(grounds):
            raise
        flat = None
    return choose([flat, *grounds], "no part of the image shows its noise")


def _estimate_from_flat_parts(
    windows: "_Windows", bounds: list[float], magnitude: bool, step: float
) -> NoiseEstimate:
    floor = windows.fit()
    if bounds:
        # Noise about a bound is cut off also where no pixel of a window has reached it.
        for bound in bounds:
            distance = np.abs(windows.means - bound).min(1)
            windows = windows.keep(np.asarray(distance > 3 * sqrt(floor.variance)))
        floor = windows.fit()
    std, error, samples = floor.estimate
    source = "flat parts of the image"
    if magnitude and _is_rayleigh(windows, floor):
        scale = sqrt(_RAYLEIGH)
        std, error, source = std / scale, error / scale, "air around the object, a magnitude image"
    if std < step / sqrt(12):
        std, source = step / sqrt(12), "rounding of the values"
    return NoiseEstimate(std, error, source, samples)


@dataclass(frozen=True)
class _Windows:
    """Windows of one size.

    Attributes:
        energies: Mean squares of the fast patterns, (n, channels).
        means: Mean values, (n, channels).
        groups: Tile of each window, (n,).
        dof: Patterns in each energy.
        overlap: How often a pixel is used.
    """

    energies: Array
    means: Array
    groups: NDArray[np.int64]
    dof: int
    overlap: float

    @property
    def numbers(self) -> float:
        """Independent real numbers in the energies."""
        return self.energies.size * self.dof / self.overlap

    def keep(self, chosen: NDArray[np.bool_]) -> "_Windows":
        """Some of them, chosen by (n,)."""
        parts = (self.energies[chosen], self.means[chosen], self.groups[chosen])
        return _Windows(*parts, self.dof, self.overlap)

    def fit(self) -> Floor:
        """The floor of the energies."""
        if self.numbers < _FEWEST:
            raise InputError(
                f"too few samples to estimate the noise ({round(self.numbers)}): "
                "give noise_std (--noise-std)"
            )
        groups = np.broadcast_to(self.groups[:, None], self.energies.shape)
        return fit_floor(self.energies.ravel(), self.dof, groups.ravel(), self.overlap)


def _cut(pixels: Array, usable: NDArray[np.bool_]) -> _Windows:
    """Cuts the largest windows of which there are enough."""
    candidates = []
    shortest = min(pixels.shape[-2:])
    for side in _SIDES:
        # Windows that are not small against the image are hardly ever flat.
        if side > min(max(3, shortest // 8), shortest):
            continue
        candidates.append(_expand(pixels, usable, side))
        if candidates[-1].numbers >= _ENOUGH:
            return candidates[-1]
    if not candidates:
        raise ShapeError(
            f"images of {pixels.shape[-2:]} are too small: give noise_std (--noise-std)"
        )
    return max(candidates, key=lambda windows: windows.numbers)


def _expand(pixels: Array, usable: NDArray[np.bool_], side: int) -> _Windows:
    """Energies of all windows of one side whose pixels are usable in every channel."""
    whole = sliding_window_view(usable.all(1), (side, side), (-2, -1)).all((-2, -1))
    # Windows overlap by far: of many, those on a coarser grid tell the same.
    stride = max(1, ceil(sqrt(whole.sum() / _MANY)))
    coarse = np.zeros_like(whole)
    coarse[:, ::stride, ::stride] = True
    places = np.nonzero(whole & coarse)
    cut = sliding_window_view(pixels, (side, side), (-2, -1))
    # (windows, channels, side * side)
    values = np.moveaxis(cut, 1, 3)[places].reshape(-1, pixels.shape[1], side**2)
    means = values.mean(-1)
    patterns = (values - means[..., None]) @ _fast_cosines(side).T
    if len(patterns):
        patterns = patterns[..., _incoherent(patterns)]
        colours = np.einsum("ncd,nkd->ck", patterns, patterns, optimize=True)
        patterns = np.einsum("ncd,ck->nkd", patterns, np.linalg.eigh(colours)[1], optimize=True)
    slices, row, column = places
    tiles = slices + (row // _TILE) * (pixels.shape[-1] // _TILE + 1) + column // _TILE
    repeats = len(values) * side**2 / max(int(usable.all(1).sum()), 1)
    overlap = max(1.0, repeats / _SLIDING)
    energies = (patterns**2).mean(-1)
    windows = _Windows(energies, means, tiles % 64, patterns.shape[-1], overlap)
    # A window without variation, up to rounding, was painted or padded, not measured.
    least = (1e-6 * np.abs(pixels[usable]).max(initial=0)) ** 2
    return windows.keep((energies > least).all(1))


def _fast_cosines(side: int) -> Array:
    """Orthonormal cosine patterns (d, side * side) without the slow ones."""
    lines = np.array(
        [[cos(pi * (x + 0.5) * k / side) for x in range(side)] for k in range(side)]
    ) * sqrt(2 / side)
    lines[0] /= sqrt(2)
    order = np.add.outer(np.arange(side), np.arange(side))
    fast = order >= max(side - 1, 2)
    return np.einsum("ki,lj->klij", lines, lines)[fast].reshape(-1, side * side)


def _incoherent(patterns: Array) -> NDArray[np.bool_]:
    """The patterns that are not strong everywhere, as a checkerboard's is."""
    power = np.median(patterns**2, axis=(0, 1))
    return np.asarray(power <= _COHERENT * np.median(np.sort(power)[: max(1, len(power) // 2)]))


def _is_rayleigh(windows: _Windows, floor: Floor) -> bool:
    """Whether the flattest part has the mean of Rayleigh's law."""
    flat = windows.means[windows.energies < floor.variance]
    if len(flat) == 0:
        return False
    ratio = float(np.median(flat)) ** 2 / floor.variance
    return abs(ratio * _RAYLEIGH / (pi / 2) - 1) < 0.25


def _check(image: ArrayLike, known: ArrayLike | None) -> tuple[Array, NDArray[np.bool_]]:
    pixels = np.asarray(image)
    if pixels.ndim != 4:
        raise ShapeError(f"give images (slices, channels, rows, columns), got {pixels.shape}")
    if np.iscomplexobj(pixels):
        raise DtypeError("the image is complex: stack its real and imaginary part as channels")
    pixels = pixels.astype(np.float64)
    seen = np.asarray(True if known is None else known, bool)
    try:
        seen = np.broadcast_to(seen, pixels.shape)
    except ValueError:
        raise ShapeError(f"known {seen.shape} does not fit the image {pixels.shape}") from None
    if not seen.any():
        raise InputError("too few samples to estimate the noise (0): give noise_std (--noise-std)")
    if not np.isfinite(pixels[seen]).all():
        raise InputError("the image holds non-finite values: mark them as not known")
    return np.where(seen, pixels, 0), seen
