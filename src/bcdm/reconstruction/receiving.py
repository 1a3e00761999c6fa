"""K-space of coils as a scanner wrote it, made white, with what each coil sees."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bcdm.coils import estimate_maps, extend_maps
from bcdm.errors import InputError
from bcdm.files import replacing
from bcdm.noise import NoiseEstimate, NoiseScan, estimate_from_coils, estimate_from_noise_scan
from bcdm.operators import Sense
from bcdm.problems.coils import normalise_maps
from bcdm.scans import Scan

__all__ = ["Received", "find_noise", "receive"]

_SLICES = 5  # that the noise is estimated from, about the middle of a volume
_RECIPE = b"espirit/1"  # changes where maps would: kept ones are then no longer taken


@dataclass(frozen=True, eq=False)
class Received:
    """A scan whose coils have independent noise of one level.

    Attributes:
        scan: Its data white, in the units of the file.
        operator: What it was measured with: maps of unit root sum of squares for every slice.
        noise: The level.
        weights: What images of the operator are multiplied by to be those of the file's coils,
            (slices, rows, columns): root sums of squares, or what the maps given make of it.
    """

    scan: Scan
    operator: Sense
    noise: NoiseEstimate
    weights: NDArray[np.float32]


def receive(
    scan: Scan,
    *,
    noise_std: float | None = None,
    maps: NDArray[np.complex64] | None = None,
    cache: Path | None = None,
) -> Received:
    """Makes the coils white and finds their maps.

    Args:
        scan: k-space without oversampling, with a mask. Coils without any signal are left out.
        noise_std: Of every coil alike and independent, in the units of the file; left out: by the
            noise scan of the file, else from the data.
        maps: (slices or 1, coils, rows, columns), if they are known; estimated otherwise.
        cache: A folder in which maps are kept, and found again.
    """
    mask = scan.mask
    assert mask is not None
    alive = np.array([bool(scan.data[:, coil].any()) for coil in range(scan.data.shape[1])])
    if not alive.any():
        raise InputError(f"{scan.path.name} holds k-space of zeros alone: export it anew")
    scan = replace(
        scan,
        data=scan.data if alive.all() else scan.data[:, alive],
        noise=None if scan.noise is None else scan.noise[alive],
    )
    found = find_noise(scan, noise_std)
    noise = found.estimate
    if noise_std is not None:
        noise = NoiseEstimate(noise_std, 0.0, "stated", 0)
    whitening = noise.std * found.whitening
    coloured = np.asarray(np.linalg.inv(whitening), np.complex128)
    white = np.stack([_mix(whitening, coils) for coils in scan.data])
    known = None if maps is None else maps[:, alive]
    every, weights = [], []
    for number, coils in enumerate(white):
        if known is not None:
            own = _mix(whitening, extend_maps(known[number % len(known)]))
            every.append(normalise_maps(torch.from_numpy(own)))
            weights.append(1 / np.sqrt((np.abs(own) ** 2).sum(0)))
        else:
            own = _find_maps(coils, mask, cache)
            every.append(torch.from_numpy(own))
            raw = _mix(coloured, own)
            weights.append(np.sqrt((np.abs(raw) ** 2).sum(0)))
    operator = Sense(torch.stack(every), torch.from_numpy(mask))
    stacked = np.stack(weights).astype(np.float32)
    return Received(replace(scan, data=white), operator, noise, stacked)


def find_noise(scan: Scan, noise_std: float | None = None) -> NoiseScan:
    """The noise of the coils: stated, by the noise scan of the file, or from slices in the middle.

    Args:
        scan: k-space.
        noise_std: Of every coil alike, if it is known.
    """
    coils = scan.data.shape[1]
    if noise_std is not None:
        return NoiseScan(noise_std**2 * np.eye(coils, dtype=np.complex128), 2)
    if scan.noise is not None:
        return estimate_from_noise_scan(scan.noise)
    middle = len(scan.data) // 2
    first = max(0, middle - _SLICES // 2)
    return estimate_from_coils(scan.data[first : first + _SLICES], scan.mask)


def _find_maps(
    coils: NDArray[np.complex64], mask: NDArray[np.bool_], cache: Path | None
) -> NDArray[np.complex64]:
    """Maps of a slice, from the cache where they are kept there."""
    if cache is None:
        return estimate_maps(coils, mask)
    digest = hashlib.sha256(_RECIPE + str(coils.shape).encode())
    digest.update(np.ascontiguousarray(coils).tobytes())
    digest.update(np.ascontiguousarray(mask).tobytes())
    path = cache / f"{digest.hexdigest()[:32]}.npy"
    try:
        kept = np.load(path, allow_pickle=False)
        if kept.shape == coils.shape and kept.dtype == np.complex64 and np.isfinite(kept).all():
            own: NDArray[np.complex64] = kept
            return own
    except (OSError, ValueError, EOFError):
        pass
    found = estimate_maps(coils, mask)
    cache.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as file:
        np.save(file, found, allow_pickle=False)
    return found


def _mix(matrix: NDArray[np.complex128], coils: NDArray[np.complex64]) -> NDArray[np.complex64]:
    mixed: NDArray[np.complex64] = np.tensordot(matrix.astype(np.complex64), coils, 1)
    return mixed
