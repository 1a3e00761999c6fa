"""Measurements that are right, and measurements with one thing wrong each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from bcdm.assessment.images import choose_images
from bcdm.checkpoint import Model
from bcdm.checkpoint.settings import resolve_data_path
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.problems.patterns import draw_variable_density
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import Scan

__all__ = ["Case", "list_cases"]

# Name, file, the label that tells its images apart and its value, whether it must be noticed.
OTHERS = (
    (
        "T2-weighted brains (openMS)",
        "brain_openms_raw/openms_raw_axial256.npz",
        "contrast",
        "T2W",
        True,
    ),
    (
        "FLAIR brains (openMS)",
        "brain_openms_raw/openms_raw_axial256.npz",
        "contrast",
        "FLAIR",
        True,
    ),
    (
        "T2-weighted brains (IXI)",
        "brain_ixi_native_samples/ixi_native_t1_t2.npz",
        "contrast",
        "T2",
        True,
    ),
    ("faces", "faces_public_domain/faces64.npz", "split", "test", True),
    (
        "T1-weighted brains of another scanner (openMS)",
        "brain_openms_raw/openms_raw_axial256.npz",
        "contrast",
        "T1W",
        False,
    ),
)
STRIPES = 0.05
SPOT_RADIUS = 2


@dataclass(frozen=True, eq=False)
class Case:
    """Some measurements.

    Attributes:
        name: What is wrong with them.
        kind: "right" must not be flagged, "wrong" must be, "told" is only reported.
        make: Makes them; what the model is told of them is in them.
        subjects: Whose images they are.
    """

    name: str
    kind: str
    make: Callable[[], Measurement]
    subjects: Sequence[str]


def list_cases(model: Model, data: Path | None, limit: int, seed: int) -> Iterator[Case]:
    """All cases of a model for k-space of real images; images are of the test split.

    Args:
        model: For one mask.
        data: Data folder.
        limit: Images of each defect; thrice as many are right.
        seed: Of noise and of what is drawn.
    """
    operator = model.operator
    if not isinstance(operator, FourierMask) or not operator.real or operator.mask.ndim != 2:
        raise InputError(f"{model.config.name} is not for k-space of real images by one mask")
    many, subjects = _load_test(model, data, 3 * limit)
    yield Case("nothing", "right", partial(_measure, model, many, seed), subjects)
    few, whose = _load_test(model, data, limit)
    measure = partial(_measure, model, few, seed + 1)
    yield Case(
        "nothing, scale taken from the data",
        "right",
        lambda: _forget_scale(model, measure()),
        whose,
    )
    for factor, words in ((2.0, "twice"), (0.5, "half")):
        make = partial(_misstate, model, few, seed + 1, factor)
        yield Case(f"noise is {words} what is stated", "wrong", make, whose)
    for axis, words in ((-2, "row"), (-1, "column")):
        other = operator.mask.roll(1, axis)
        make = partial(_move, model, few, seed + 1, other, (axis,))
        yield Case(f"mask is off by a {words}", "wrong", make, whose)
    share = float(operator.mask.float().mean())
    size = (operator.mask.shape[-2], operator.mask.shape[-1])
    drawn = draw_variable_density(size, 1 / share, centre=0.1, seed=seed + 1)
    for name, other in (("off by a row", operator.mask.roll(1, -2)), ("of another seed", drawn)):
        make = partial(_move, model, few, seed + 1, other, ())
        yield Case(f"mask is {name}, zeros where nothing was measured", "wrong", make, whose)
    yield from _list_spikes(model, few, whose, seed + 1)
    yield from _list_others(model, data, limit, seed + 1)


def _load_test(model: Model, data: Path | None, limit: int) -> tuple[Tensor, list[str]]:
    source, rows = choose_images(model, data, "test", limit)
    images = torch.stack([model.preparation(source[i]) for i in rows])
    known = source.subjects
    return images, [str(k) if known is None else str(known[k]) for k in rows]


def _measure(model: Model, images: Tensor, seed: int) -> Measurement:
    return Measurement.simulate(images, model.operator, model.noise_std, seed=seed)


def _misstate(model: Model, images: Tensor, seed: int, factor: float) -> Measurement:
    std = model.noise_std
    measured = Measurement.simulate(images, model.operator, factor * std, seed=seed)
    return replace(measured, noise_std=std)


def _move(
    model: Model, images: Tensor, seed: int, other: Tensor, axes: tuple[int, ...]
) -> Measurement:
    """Taken with another mask; moved back to where the stated one is if axes are given."""
    operator = model.operator
    assert isinstance(operator, FourierMask)
    taken = Measurement.simulate(images, replace(operator, mask=other), model.noise_std, seed=seed)
    y = taken.y.roll([-1] * len(axes), axes) if axes else taken.y
    return Measurement(y, operator, model.noise_std)


def _list_spikes(
    model: Model, images: Tensor, subjects: Sequence[str], seed: int
) -> Iterator[Case]:
    for part, kind in ((STRIPES, "wrong"), (STRIPES / 2, "told")):
        name = f"a spike in k-space: stripes of {part:.1%} of the range"
        yield Case(name, kind, partial(_add_spike, model, images, seed, part), subjects)
    for grown, kind in ((1.0, "wrong"), (2.0, "wrong"), (0.5, "told")):
        name = f"a spot of {SPOT_RADIUS} pixels radius, brighter by {grown:g} of the range"
        yield Case(name, kind, partial(_add_spot, model, images, seed, grown), subjects)


def _add_spike(model: Model, images: Tensor, seed: int, part: float) -> Measurement:
    """One measured entry of k-space is off, at a drawn place and phase."""
    operator, rng = model.operator, np.random.default_rng(seed)
    assert isinstance(operator, FourierMask)
    low, high = model.config.data.value_range
    measured = _measure(model, images, seed)
    places = operator.mask.nonzero()
    y = measured.y.clone()
    for one in y:
        row, column = places[int(rng.integers(len(places)))].tolist()
        size = part * (high - low) * operator.mask.numel() ** 0.5
        one[0, row, column] += size * np.exp(2j * np.pi * rng.random())
    return replace(measured, y=y)


def _add_spot(model: Model, images: Tensor, seed: int, grown: float) -> Measurement:
    """A disc somewhere on the object is brighter."""
    rng = np.random.default_rng(seed)
    low, high = model.config.data.value_range
    rows, columns = np.indices(images.shape[-2:])
    spotted = images.clone()
    for image in spotted:
        inside = np.argwhere(image.mean(0).numpy() > low + 0.2 * (high - low))
        row, column = inside[rng.integers(len(inside))]
        disc = (rows - row) ** 2 + (columns - column) ** 2 <= SPOT_RADIUS**2
        image[:, torch.from_numpy(disc)] += grown * (high - low)
    return _measure(model, spotted, seed)


def _list_others(model: Model, data: Path | None, limit: int, seed: int) -> Iterator[Case]:
    """Images of other things, in units that nobody stated."""
    for name, file, label, value, judged in OTHERS:
        path = resolve_data_path(file, data)
        if not path.is_file():
            continue
        with np.load(path, allow_pickle=False) as stored:
            chosen = np.flatnonzero(stored[label] == value)
            count = min(limit, len(chosen))
            chosen = chosen[np.linspace(0, len(chosen) - 1, count).round().astype(int)]
            arrays = stored["images"][chosen]
            key = next((k for k in ("subject", "person") if k in stored.files), None)
            subjects = [str(k) for k in (chosen if key is None else stored[key][chosen])]
        images = torch.stack([_prepare(model, array) for array in arrays])
        make = partial(_measure_unscaled, model, images, seed)
        yield Case(name, "wrong" if judged else "told", make, subjects)


def _prepare(model: Model, array: np.ndarray) -> Tensor:
    """An image as the model takes it, padded to a square."""
    black, white = model.preparation.source_range
    unit = 255.0 if array.dtype == np.uint8 else 1.0
    image = torch.from_numpy(np.clip(array.astype(np.float32) / unit, 0, None))
    image = image[None] if image.ndim == 2 else image.movedim(-1, 0)
    gap = [max(image.shape[-2:]) - side for side in image.shape[-2:]]
    edges = (gap[1] // 2, gap[1] - gap[1] // 2, gap[0] // 2, gap[0] - gap[0] // 2)
    return replace(model.preparation, crop=None)(black + (white - black) * pad(image, edges))


def _measure_unscaled(model: Model, images: Tensor, seed: int) -> Measurement:
    return _forget_scale(model, _measure(model, images, seed))


def _forget_scale(model: Model, measured: Measurement) -> Measurement:
    """As `bcdm reconstruct` takes k-space from a file: the data themselves tell their scale."""
    operator = measured.operator
    low, high = model.config.data.value_range
    blank = torch.full((1, *model.shape), low)
    raw = (measured.y - operator.forward(blank)) / (high - low)
    std = float(measured.std[0]) / (high - low)
    assert isinstance(operator, FourierMask)
    mask = operator.mask.numpy() != 0
    size = (model.shape[-2], model.shape[-1])
    parts = [
        fit_scan(
            Scan(Path("scan.npz"), "npz", "k-space", one[None].numpy(), mask, None, size, {}),
            model,
            noise_std=std,
        ).measure(0)
        for one in raw
    ]
    stds = torch.cat([one.std for one in parts])
    return Measurement(torch.cat([one.y for one in parts]), operator, stds)
