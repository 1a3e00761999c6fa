"""Is this feature real? What samples say of a region beside what surrounds it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import max_pool2d

from bcdm.checkpoint.regions import RegionFactors
from bcdm.errors import InputError, ShapeError
from bcdm.evaluation import wilson
from bcdm.evaluation.ranks import find_interval, resolves
from bcdm.scans import read_mask
from bcdm.tensors import check_tensors

__all__ = [
    "Feature",
    "Support",
    "crop_middle",
    "find_support",
    "judge_stored",
    "measure_contrast",
    "parse_feature",
    "read_card",
    "weigh",
]

LEVEL = 0.8  # of the interval of a contrast; 9 samples resolve it
_BOX = re.compile(r"(?:(\d+),)?(\d+):(\d+),(\d+):(\d+)")
_FILE = re.compile(r"(?:(\d+),)?(.+)")

_Images = TypeVar("_Images", Tensor, NDArray[Any])


@dataclass(frozen=True)
class Support:
    """Whether samples agree that a region differs from what surrounds it.

    Attributes:
        contrast: Mean of the region minus mean of the ring around it, averaged over samples.
        low: The 5 % quantile of the contrast over samples.
        high: The 95 % quantile.
        fraction: Of the samples whose contrast has the sign of the average.
        samples: How many there are.
        interval: Where the true contrast should lie with a probability of 80 %: by the samples,
            widened as the model's calibration asks; None where they are too few.
        factor: By how much it was widened; None where no calibration says.
    """

    contrast: float
    low: float
    high: float
    fraction: float
    samples: int
    interval: tuple[float, float] | None = None
    factor: float | None = None

    @property
    def fraction_interval(self) -> tuple[float, float]:
        """Where the fraction of many more samples lies, with 95 % confidence.

        >>> low, high = Support(1.0, 0.5, 1.5, 1.0, 16).fraction_interval
        >>> round(low, 2), high
        (0.81, 1.0)
        """
        return wilson(self.fraction, self.samples)


@dataclass(frozen=True, eq=False)
class Feature:
    """A region of one slice.

    Attributes:
        name: As the user wrote it.
        number: The slice.
        region: Which pixels, bool (H, W).
    """

    name: str
    number: int
    region: Tensor


def measure_contrast(images: Tensor, region: Tensor, margin: int = 3) -> Tensor:
    """Mean of a region minus mean of the ring around it, of each image (S, C, H, W): (S,).

    Args:
        images: The images.
        region: Which pixels, bool (H, W).
        margin: Width of the ring, in pixels.
    """
    region = region.to(torch.bool)
    if region.shape != images.shape[-2:] or not bool(region.any()):
        raise ShapeError(
            f"the region has shape {tuple(region.shape)}: give a mask of "
            f"{tuple(images.shape[-2:])} pixels with some of them set"
        )
    grown = max_pool2d(region[None, None].float(), 2 * margin + 1, 1, margin)[0, 0] > 0
    ring = grown & ~region
    if not bool(ring.any()):
        raise InputError("nothing surrounds the region: choose a smaller one")
    return images[..., region].flatten(1).mean(1) - images[..., ring].flatten(1).mean(1)


def find_support(
    images: Tensor, region: Tensor, margin: int = 3, factors: RegionFactors | None = None
) -> Support:
    """Asks samples of one image whether a region differs from what surrounds it.

    Args:
        images: Samples (S, C, H, W).
        region: Which pixels, (H, W): those that are not zero.
        margin: Width of the ring around the region that it is compared with, in pixels.
        factors: By how much intervals of contrasts must be wider, if the model knows.
    """
    check_tensors(region=region)
    region = region.bool()
    contrast = measure_contrast(images, region, margin)
    average = float(contrast.mean())
    low, high = torch.quantile(contrast, contrast.new_tensor([0.05, 0.95])).tolist()
    same = float((contrast.sign() == torch.tensor(average).sign()).double().mean())
    factor = None if factors is None else factors.find(LEVEL, int(region.sum()))
    interval = None
    if resolves(len(contrast), LEVEL):
        ends = [float(end) for end in find_interval(contrast, LEVEL)]
        middle, half = sum(ends) / 2, (factor or 1.0) * (ends[1] - ends[0]) / 2
        interval = (middle - half, middle + half)
    return Support(average, low, high, same, len(contrast), interval, factor)


def parse_feature(text: str, slices: int, size: tuple[int, int]) -> Feature:
    """Reads "[SLICE,]ROW0:ROW1,COL0:COL1", or "[SLICE,]FILE" with a mask in the file.

    >>> parse_feature("2:4,1:3", 1, (8, 8)).region.sum()
    tensor(4)
    """
    region = torch.zeros(size, dtype=torch.bool)
    box = _BOX.fullmatch(text)
    if box is not None:
        top, bottom, left, right = (int(part) for part in box.groups()[1:])
        if not (top < bottom <= size[0] and left < right <= size[1]):
            raise InputError(f"the box {text} is empty or leaves the image of {size} pixels")
        region[top:bottom, left:right] = True
        number = int(box[1] or 0)
    else:
        file = _FILE.fullmatch(text)
        # A file may have a name with a comma.
        whole = Path(text).exists() or file is None
        place = Path(text) if file is None or whole else Path(file[2])
        if not place.exists():
            raise InputError(
                f"{text!r} is no region: give ROW0:ROW1,COL0:COL1 or a mask file, with the number "
                "of the slice and a comma before it if it is not the first"
            )
        region = torch.from_numpy(read_mask(place, size))
        number = 0 if file is None or whole else int(file[1] or 0)
    if number >= slices:
        raise InputError(f"{text!r} names slice {number}, but the last one is {slices - 1}")
    return Feature(text, number, region)


def weigh(
    features: Sequence[Feature],
    samples: Sequence[Tensor],
    gain: float = 1.0,
    factors: RegionFactors | None = None,
) -> list[dict[str, Any]]:
    """What the samples say of each feature, as plain numbers and in words.

    Args:
        features: Regions.
        samples: Of each slice, (S, C, H, W).
        gain: Of the model's units over those of the file; contrasts are in the file's.
        factors: By how much intervals of contrasts must be wider, if the model knows.
    """
    found = []
    for one in features:
        support = find_support(samples[one.number], one.region, factors=factors)
        low, high = support.fraction_interval
        numbers = {
            "feature": one.name,
            "slice": one.number,
            "pixels": int(one.region.sum()),
            "samples": support.samples,
            "fraction": support.fraction,
            "fraction low": low,
            "fraction high": high,
            "contrast": support.contrast / gain,
            "contrast low": support.low / gain,
            "contrast high": support.high / gain,
        }
        if support.interval is not None:
            numbers |= {
                "interval low": support.interval[0] / gain,
                "interval high": support.interval[1] / gain,
                "interval factor": support.factor,
            }
        found.append(numbers | {"in words": _describe(numbers)})
    return found


def _describe(numbers: Mapping[str, Any]) -> str:
    count = round(numbers["fraction"] * numbers["samples"])
    way = "brighter" if numbers["contrast"] > 0 else "darker"
    return (
        f"{way} than its surroundings in {count} of {numbers['samples']} samples "
        f"({numbers['fraction']:.0%}, 95 % interval {numbers['fraction low']:.0%} to "
        f"{numbers['fraction high']:.0%}); contrast {numbers['contrast']:.3g}, "
        f"{_describe_interval(numbers)}"
    )


def _describe_interval(numbers: Mapping[str, Any]) -> str:
    """Where the contrast lies, and how that is known."""
    if "interval low" not in numbers:
        return (
            f"in 90 % of the samples {numbers['contrast low']:.3g} to "
            f"{numbers['contrast high']:.3g}"
        )
    ends = f"{LEVEL:.0%} interval {numbers['interval low']:.3g} to {numbers['interval high']:.3g}"
    factor = numbers["interval factor"]
    if factor is None:
        return f"{ends} by the samples alone, which are often too sure of regions"
    return f"{ends}, {factor:.2g} times that of the samples, as healthy places ask for"


def crop_middle(images: _Images, size: Sequence[int]) -> _Images:
    """A view of the middle of images, where oversampling could not be taken out of k-space."""
    top, left = (w // 2 - n // 2 for w, n in zip(images.shape[-2:], size, strict=True))
    return images[..., top : top + size[0], left : left + size[1]]


def judge_stored(folder: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """What the samples in an output folder say of some regions."""
    import zarr
    from zarr.errors import BaseZarrError

    path = folder / "samples.zarr"
    try:
        store: Any = zarr.open_array(path, mode="r")
        done = dict(store.attrs["done"])
        gain = float(store.attrs["provenance"]["settings"]["gain"])
        rows, columns = store.attrs["size"]
        known = store.attrs["provenance"]["settings"].get("region_factors")
        factors = None if known is None else RegionFactors.from_plain(known)
    except (OSError, BaseZarrError, KeyError, TypeError, ValueError):
        raise InputError(f"{folder} holds no samples: give the -o of bcdm reconstruct") from None
    slices, count = store.shape[:2]
    features = [parse_feature(text, slices, (rows, columns)) for text in texts]
    unfinished = [one for one in features if done.get(str(one.number), 0) < count]
    if unfinished:
        raise InputError(f"slice {unfinished[0].number} is not finished: go on with reconstruct")
    shown = {}
    for number in {one.number for one in features}:
        drawn = torch.from_numpy(np.asarray(store[number]))
        weighed = (drawn.abs() if drawn.is_complex() else drawn) * _read_weights(folder, number)
        shown[number] = crop_middle(weighed, (rows, columns))
    return weigh(features, [shown.get(k, torch.empty(0)) for k in range(slices)], gain, factors)


def _read_weights(folder: Path, number: int) -> Tensor:
    """What images of a slice are multiplied by to be those of the file; see `Fitted`."""
    try:
        # Opened here: of a damaged file numpy leaves it open.
        path = folder / "measurement.npz"
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            own = kept["weights"][number] if "weights" in kept.files else np.float32(1.0)
    except (OSError, ValueError, IndexError, BadZipFile):
        raise InputError(f"{folder}/measurement.npz cannot be read: reconstruct it anew") from None
    return torch.from_numpy(np.array(own))


def read_card(folder: Path, number: int) -> str:
    """The verdict on a slice of a finished reconstruction: what its samples are worth."""
    try:
        card = json.loads((folder / "run.json").read_text())["slices"][number]
        return f"{card['light']}. {card['summary']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "none, the run is not finished"
