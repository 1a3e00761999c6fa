"""K-space of coils as a scanner wrote it, made white, with what each coil sees."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bcdm.coils import estimate_by_body, estimate_maps, extend_maps, find_centre
from bcdm.errors import InputError
from bcdm.files import replacing
from bcdm.noise import (
    NoiseEstimate,
    NoiseScan,
    estimate_from_coils,
    estimate_from_noise_scan,
    find_filter,
    undo_filter,
)
from bcdm.operators import Sense
from bcdm.problems.coils import normalise_maps
from bcdm.scans import Scan, find_sampled
from bcdm.spool import each, make_array, release, stack

__all__ = ["Received", "find_maps", "find_noise", "receive"]

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
    body: NDArray[np.complex64] | None = None,
    cache: Path | None = None,
    done: Callable[[int], None] | None = None,
) -> Received:
    """Makes the coils white and finds their maps, slice by slice.

    Args:
        scan: k-space without oversampling, with a mask. Coils without any signal are left out.
        noise_std: Of every coil alike and independent, in the units of the file; left out: by the
            noise scan of the file, else from the data.
        maps: (slices or 1, coils, rows, columns), if they are known; otherwise estimated from the
            middle of k-space, or from lines that the file keeps apart for that.
        body: The same slices by a body coil, k-space (slices or 1, channels, rows, columns), if
            maps are to be estimated by it.
        cache: A folder in which maps are kept, and found again.
        done: Hears how many more slices are done.
    """
    mask = scan.mask
    assert mask is not None
    alive = np.any([coils.any((1, 2)) for coils in each(scan.data)], 0)
    if not alive.any():
        raise InputError(f"{scan.path.name} holds k-space of zeros alone: export it anew")
    scan = replace(
        scan,
        data=scan.data
        if alive.all()
        else stack((coils[alive] for coils in each(scan.data)), len(scan.data)),
        noise=None if scan.noise is None else scan.noise[alive],
        calibration=None if scan.calibration is None else scan.calibration[:, alive],
    )
    calibrated = _find_calibrated(scan)
    scan, filtered = _undo_filter(scan)
    found = find_noise(scan, noise_std)
    noise = found.estimate
    if noise_std is not None:
        noise = NoiseEstimate(noise_std, 0.0, "stated", 0)
    if filtered:
        noise = replace(noise, source=f"{noise.source}; the receiver's filter was undone")
    whitening = noise.std * found.whitening
    coloured = np.asarray(np.linalg.inv(whitening), np.complex128)
    white, every = (make_array(scan.data.shape, np.complex64) for _ in range(2))
    weights = make_array((len(white), *mask.shape), np.float32)
    for number, coils in enumerate(each(scan.data)):
        white[number] = _mix(whitening, coils)
        if maps is not None:
            own = _mix(whitening, extend_maps(maps[number % len(maps)][alive]))
            every[number] = normalise_maps(torch.from_numpy(own)).numpy()
            weights[number] = 1 / np.sqrt((np.abs(own) ** 2).sum(0))
        else:
            seen = None if body is None else np.array(body[number % len(body)])
            if calibrated is None or seen is not None:
                source, sampled = np.array(white[number]), mask
            else:
                source, sampled = _mix(whitening, _take_calibration(scan, number)), calibrated
            every[number] = own = find_maps(source, sampled, seen, cache)
            weights[number] = np.sqrt((np.abs(_mix(coloured, own)) ** 2).sum(0))
        for held in (white, every, weights, *([] if maps is None else [maps])):
            release(held)
        if done is not None:
            done(1)
    operator = Sense(torch.from_numpy(every), torch.from_numpy(mask))
    return Received(replace(scan, data=white), operator, noise, weights)


def _find_calibrated(scan: Scan) -> NDArray[np.bool_] | None:
    """What lines for maps alone sample, where that is more without gaps than the measurement."""
    if scan.calibration is None or scan.mask is None:
        return None
    sampled = _extend(find_sampled(scan.calibration), scan.mask.shape[0])
    return sampled if min(find_centre(sampled)) > min(find_centre(scan.mask)) else None


def _take_calibration(scan: Scan, number: int) -> NDArray[np.complex64]:
    """Lines for maps alone of one slice, (coils, rows, columns) as the measurement has them."""
    assert scan.calibration is not None
    return _extend(scan.calibration[number], scan.data.shape[-2])


def _extend(lines: NDArray[Any], rows: int) -> NDArray[Any]:
    """With zeros above and below; the origin stays in the middle."""
    before = rows // 2 - lines.shape[-2] // 2
    after = rows - lines.shape[-2] - before
    return np.pad(lines, [(0, 0)] * (lines.ndim - 2) + [(before, after), (0, 0)])


def _undo_filter(scan: Scan) -> tuple[Scan, bool]:
    """The scan as a receiver without a filter would give it, and whether it had one.

    Noise that is weaker at the ends of the readout is not white, so it would be less than expected
    everywhere in k-space.
    """
    found = find_filter(_take_middle(scan), scan.mask)
    if found is None:
        return scan, False
    undone = (undo_filter(np.array(coils), *found) for coils in each(scan.data))
    return replace(scan, data=stack(undone, len(scan.data))), True


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
    return estimate_from_coils(_take_middle(scan), scan.mask)


def _take_middle(scan: Scan) -> NDArray[np.complex64]:
    """Slices about the middle of a volume."""
    first = max(0, len(scan.data) // 2 - _SLICES // 2)
    chosen: NDArray[np.complex64] = np.array(scan.data[first : first + _SLICES])
    release(scan.data)
    return chosen


def find_maps(
    coils: NDArray[np.complex64],
    mask: NDArray[np.bool_],
    body: NDArray[np.complex64] | None,
    cache: Path | None,
) -> NDArray[np.complex64]:
    """Maps of a slice, (coils, rows, columns), from the cache where they are kept there.

    Args:
        coils: Their k-space, white.
        mask: What was sampled.
        body: The same slice by a body coil, if maps are to be estimated by it.
        cache: A folder; None keeps nothing.
    """
    if body is not None:
        return estimate_by_body(coils, body, mask)
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
