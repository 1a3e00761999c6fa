"""Measurements that are right, and measurements with one thing wrong each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.images import choose_images
from bcdm.benchmark.strangers import load_strangers
from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.problems.patterns import draw_variable_density
from bcdm.reconstruction.measuring import measure
from bcdm.reconstruction.units import take_scale

__all__ = ["Batches", "Case", "list_cases"]

STRIPES = 0.05
SPOT_RADIUS = 2
# Far from the numbers that calibration draws by.
_FIRST = 1 << 20

Batches = list[tuple[list[int], Measurement]]
"""Which of a case's images, and their measurement."""
Change = Callable[[Measurement, Tensor], Measurement]
"""Of measurements and the images (B, C, H, W) behind them."""


@dataclass(frozen=True, eq=False)
class Case:
    """Some measurements.

    Attributes:
        name: What is wrong with them.
        kind: "right" must not be flagged, "wrong" must be, "told" is only reported.
        make: Makes them; what the model is told of them is in them.
        subjects: Whose images they are.
        group: Of cases that are also counted together; "": none.
        scale_taken: Whether their scale is taken from the data; their cards compare with such.
    """

    name: str
    kind: str
    make: Callable[[], Batches]
    subjects: Sequence[str]
    group: str = ""
    scale_taken: bool = False


def list_cases(model: Model, data: Path | None, limit: int, seed: int) -> Iterator[Case]:
    """All cases of a model; images are of the test split, or of other kinds.

    Args:
        model: For one operator or a family of them.
        data: Data folder.
        limit: Images of each defect; thrice as many are right.
        seed: Of noise and of what is drawn.
    """
    # Another seed draws other operators, too.
    first = _FIRST + 65536 * ((seed - 100) % 65536)
    make = partial(_make, model, data=data, first=first, seed=seed + 1)
    many, subjects = _load_test(model, data, 3 * limit)
    yield Case("nothing", "right", partial(make, many, seed=seed), subjects)
    # Images of other things, and k-space, come in units that nobody stated.
    unscaled = partial(_forget_scale, model) if _is_k_space(model) else None
    if unscaled is not None:
        name, taken = "nothing, scale taken from the data", partial(make, many, unscaled)
        yield Case(name, "right", taken, subjects, scale_taken=True)
    few, whose = _load_test(model, data, limit)
    low = model.config.data.value_range[0]
    for gain in (0.7, 1.4):
        scaled = low + gain * (few - low)
        yield Case(f"nothing, {gain:g} times as bright", "told", partial(make, scaled), whose)
    for factor, words in ((2.0, "twice"), (0.5, "half")):
        change = partial(_misstate, factor)
        name = f"noise is {words} what is stated"
        yield Case(name, "wrong", partial(make, few, change), whose)
    if unscaled is not None:
        yield from _list_k_space(partial(make, few), model, whose, seed + 1)
    for grown, kind in ((1.0, "wrong"), (2.0, "wrong"), (0.5, "told")):
        name = f"a spot of {SPOT_RADIUS} pixels radius, brighter by {grown:g} of the range"
        spotted = _add_spot(model, few, seed + 1, grown)
        yield Case(name, kind, partial(make, spotted), whose)
    yield Case("grey levels are inverted", "wrong", partial(make, _invert(model, few)), whose)
    strangers = load_strangers(model, data, limit)
    for place, (stranger, images, names) in enumerate(strangers, 1):
        kind = "wrong" if stranger.judged else "told"
        group = "another contrast, all sets together" if stranger.is_contrast else ""
        # Operators of their own: what is counted together must not rest on a few.
        shown = partial(make, images, unscaled, first=first + 4096 * place)
        yield Case(stranger.name, kind, shown, names, group, scale_taken=unscaled is not None)


def _list_k_space(
    make: Callable[[Change], Batches], model: Model, subjects: Sequence[str], seed: int
) -> Iterator[Case]:
    """What only k-space has: a mask, spikes."""
    for axis, words in ((-2, "row"), (-1, "column")):
        yield Case(
            f"mask is off by a {words}", "wrong", partial(make, partial(_move, axis)), subjects
        )
    name = "mask is off by a row, zeros where nothing was measured"
    yield Case(name, "wrong", partial(make, _forget_row), subjects)
    name = "mask is of another seed, zeros where nothing was measured"
    yield Case(name, "wrong", partial(make, partial(_forget_mask, seed)), subjects)
    low, high = model.config.data.value_range
    for part, kind in ((STRIPES, "wrong"), (STRIPES / 2, "told")):
        name = f"a spike in k-space: stripes of {part:.1%} of the range"
        change = partial(_add_spike, seed, part * (high - low))
        yield Case(name, kind, partial(make, change), subjects)


def _is_k_space(model: Model) -> bool:
    """Whether all that it measures is k-space of real images by masks."""
    if model.config.operator.kind == "family":
        return all(member.kind == "k_space" for member in model.config.operator.members)
    operator = model.trained_operator
    return isinstance(operator, FourierMask) and operator.real


def _load_test(model: Model, data: Path | None, limit: int) -> tuple[Tensor, list[str]]:
    source, rows = choose_images(model, data, "test", limit)
    images = torch.stack([model.preparation(source[i]) for i in rows])
    known = source.subjects
    return images, [str(k) if known is None else str(known[k]) for k in rows]


def _make(
    model: Model,
    images: Tensor,
    change: Change | None = None,
    *,
    data: Path | None,
    seed: int,
    first: int,
) -> Batches:
    """Measures images as the model was trained for, and changes something."""
    batches = list(measure(model, images, first, seed, data))
    if change is None:
        return batches
    return [(rows, change(measured, images[rows])) for rows, measured in batches]


def _misstate(factor: float, measured: Measurement, images: Tensor) -> Measurement:
    """So many times the noise that is stated."""
    clean = measured.operator.forward(images)
    return replace(measured, y=clean + factor * (measured.y - clean))


def _move(axis: int, measured: Measurement, images: Tensor) -> Measurement:
    """Taken by a mask that is off by one, and moved back to where the stated one is."""
    operator = measured.operator
    assert isinstance(operator, FourierMask)
    other = replace(operator, mask=operator.mask.roll(1, axis))
    noise = measured.y - operator.forward(images)
    return replace(measured, y=other.forward(images).roll(-1, axis) + noise)


def _forget_row(measured: Measurement, images: Tensor) -> Measurement:
    operator = measured.operator
    assert isinstance(operator, FourierMask)
    return replace(measured, y=measured.y * operator.mask.roll(1, -2))


def _forget_mask(seed: int, measured: Measurement, images: Tensor) -> Measurement:
    """What another mask of the same acceleration does not take is zero."""
    operator = measured.operator
    assert isinstance(operator, FourierMask)
    size = (operator.mask.shape[-2], operator.mask.shape[-1])
    share = float(operator.mask.float().mean())
    other = draw_variable_density(size, 1 / share, centre=0.1, seed=seed)
    return replace(measured, y=measured.y * other)


def _add_spike(seed: int, stripes: float, measured: Measurement, images: Tensor) -> Measurement:
    """One measured entry of k-space is off, at a drawn place and phase."""
    operator, rng = measured.operator, np.random.default_rng(seed)
    assert isinstance(operator, FourierMask)
    y = measured.y.clone()
    masks = operator.mask.expand(len(y), 1, *y.shape[-2:])
    for one, mask in zip(y, masks[:, 0], strict=True):
        places = mask.nonzero()
        row, column = places[int(rng.integers(len(places)))].tolist()
        size = stripes * mask.numel() ** 0.5
        one[0, row, column] += size * np.exp(2j * np.pi * rng.random())
    return replace(measured, y=y)


def _add_spot(model: Model, images: Tensor, seed: int, grown: float) -> Tensor:
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
    return spotted


def _invert(model: Model, images: Tensor) -> Tensor:
    """Bright is dark and dark is bright, but for what is black."""
    low = model.config.data.value_range[0]
    bright = (images - low).flatten(1).quantile(0.99, 1)[:, None, None, None]
    inside = images - low > 0.1 * bright
    return torch.where(inside, low + (1.1 * bright - (images - low)).clamp_min(0), images)


def _forget_scale(model: Model, measured: Measurement, images: Tensor) -> Measurement:
    """As `bcdm reconstruct` takes k-space from a file: the data themselves tell their scale."""
    calibration = Calibration.of(model)
    assert calibration is not None
    return take_scale(model, measured, calibration.brightness)
