"""Families of operators: what one network may be trained for, drawn one by one from seeds."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from pydantic import ConfigDict
from torch import Tensor
from torch.nn import functional

from bcdm.errors import InputError
from bcdm.operators.base import LinearOperator
from bcdm.operators.fourier import CircularBlur, FourierMask
from bcdm.operators.pixel import BlockMean, PixelMask
from bcdm.operators.root import Root
from bcdm.problems import patterns, scanner

__all__ = [
    "SCANNER",
    "SYMMETRIC",
    "Blocks",
    "Blurs",
    "Family",
    "Holes",
    "KSpace",
    "Pattern",
    "draw_operators",
]

Range = tuple[float, float]


@dataclass(frozen=True)
class Family(ABC):
    """A set of operators with a law to draw from it; files of settings hold it, by its `kind`.

    Attributes:
        image_dtype: The numbers of the images that they act on.
    """

    image_dtype: ClassVar[torch.dtype] = torch.float32
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    def check(self, size: tuple[int, int]) -> None:
        """Refuses image sizes that some member of the family does not fit."""
        if min(size) < 4:
            raise InputError(f"images of {size} are too small for a family of operators")

    @abstractmethod
    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> LinearOperator:
        """One operator for images of `size`."""

    def draw_nothing(self, size: tuple[int, int]) -> LinearOperator | None:
        """The null operator as one of this family; None: that of images serves."""
        return None

    def locate(self, find: Callable[[str], Path]) -> Self:
        """With the places of files that it draws from, found by what settings call them."""
        return self

    def leave_files(self) -> Self:
        """As it is where such files are not: what operators sample stays the same."""
        return self

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """Joins operators of this family into few that hold one entry per sample."""
        return [(operator, [place]) for place, operator in enumerate(operators)]


_Symmetric = Literal["points", "lines", "radial"]
_Scanner = Literal[
    "free_points",
    "free_columns",
    "free_rows",
    "random_columns",
    "random_rows",
    "equispaced_columns",
    "equispaced_rows",
    "poisson",
]
Pattern = Literal[_Symmetric, _Scanner]
Shape = Literal["centre", "box", "strokes"]
SYMMETRIC: tuple[Pattern, ...] = get_args(_Symmetric)
SCANNER: tuple[Pattern, ...] = get_args(_Scanner)


@dataclass(frozen=True)
class KSpace(Family):
    """k-space masks of real images.

    Patterns that hold each frequency together with its mirror image: "points" of variable density,
    whole "lines" (columns) of variable density, "radial" spokes. Patterns as scanners take them,
    without that symmetry: "free_points", "free_columns" and "free_rows" of the same densities,
    "random_columns" and "random_rows" as fastMRI draws them, "equispaced_columns" and
    "equispaced_rows", all with a fully sampled middle; variable-density "poisson" discs.

    Args:
        acceleration: Drawn log-uniformly.
        patterns: Some of these, equally likely.
        centre: Fully sampled part of each side, for points and lines of variable density, at the
            lowest acceleration it fits.
        middle: For the other patterns of scanners the fully sampled part of all samples, drawn
            uniformly. fastMRI has .32; Poisson discs have a quarter of what is drawn.
    """

    kind: Literal["k_space"] = field(default="k_space", kw_only=True)
    acceleration: Range = (2.0, 12.0)
    patterns: tuple[Pattern, ...] = SYMMETRIC
    centre: float = 0.08
    middle: Range = (0.2, 0.5)

    def __post_init__(self) -> None:
        _check_range("acceleration", self.acceleration, 1.0)
        _check_range("middle", self.middle, 0.0, 1.0)
        if unknown := set(self.patterns) - {*SYMMETRIC, *SCANNER} or not self.patterns:
            raise InputError(
                f"patterns are {', '.join(SYMMETRIC)}, {', '.join(SCANNER)}, not {unknown}"
            )

    def check(self, size: tuple[int, int]) -> None:
        """A line or two must remain, and spokes cannot fill the corners."""
        for axis, names in enumerate((("rows",), ("lines", "columns"))):
            own = any(pattern.endswith(names) for pattern in self.patterns)
            if own and self.acceleration[1] > size[axis] / 2:
                raise InputError(
                    f"{size[axis]} lines cannot be accelerated {self.acceleration[1]} times"
                )
        if "radial" in self.patterns and self.acceleration[1] < 1.4:
            raise InputError("radial masks need an acceleration of 1.4 or more")

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> FourierMask:
        """A mask of a drawn pattern and acceleration."""
        pattern = self.patterns[rng.integers(len(self.patterns))]
        acceleration = _draw_log(self.acceleration, rng)
        return FourierMask(self.draw_pattern(pattern, size, acceleration, rng), real=True)

    def draw_pattern(
        self, pattern: str, size: tuple[int, int], acceleration: float, rng: np.random.Generator
    ) -> Tensor:
        """A mask (H, W) of one pattern."""
        if pattern == "radial":
            # Spokes end at the ellipse that fits in: they cannot take all frequencies.
            return patterns.draw_radial(size, max(acceleration, 1.4), seed=rng)
        if pattern in ("points", "lines", "free_points", "free_columns", "free_rows"):
            return self._draw_density(pattern, size, acceleration, rng)
        # The middle is a part of what is measured, whatever the acceleration.
        share = rng.uniform(*self.middle) / acceleration
        if pattern == "poisson":
            return scanner.draw_poisson_disc(
                size, acceleration, centre=math.sqrt(share / 4), seed=rng
            )
        rows = pattern.endswith("rows")
        # One line at least, and never more than there are: a few lines round coarsely.
        whole = size[0] if rows else size[1]
        share = min(share, round(whole / acceleration) / whole)
        draw = scanner.draw_random_lines
        if pattern.startswith("equispaced"):
            draw = scanner.draw_equispaced
        return draw(size, acceleration, centre=share, seed=rng, rows=rows)

    def _draw_density(
        self, pattern: str, size: tuple[int, int], acceleration: float, rng: np.random.Generator
    ) -> Tensor:
        """Points or lines that grow denser towards the middle."""
        lines, rows = not pattern.endswith("points"), pattern.endswith("rows")
        # A quarter of the samples may be the middle, whatever the acceleration.
        share = 0.25 / acceleration
        mask = patterns.draw_variable_density(
            (size[1], size[0]) if rows else size,
            acceleration,
            centre=min(self.centre, share if lines else math.sqrt(share)),
            seed=rng,
            lines=lines,
            symmetric=pattern in SYMMETRIC,
        )
        return mask.T.contiguous() if rows else mask

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """One operator with a mask per sample."""
        masks = torch.stack([o.mask for o in operators if isinstance(o, FourierMask)])
        return [(FourierMask(masks[:, None], real=True), list(range(len(operators))))]


@dataclass(frozen=True)
class Holes(Family):
    """Pixel masks.

    Args:
        hidden: The hidden fraction of the image, drawn uniformly.
        shapes: "centre" and "box" are rectangles, "strokes" are free-form.
    """

    kind: Literal["holes"] = field(default="holes", kw_only=True)
    hidden: Range = (0.05, 0.4)
    shapes: tuple[Shape, ...] = ("centre", "box", "strokes")

    def __post_init__(self) -> None:
        _check_range("hidden", self.hidden, 0.01, 0.95)
        if unknown := set(self.shapes) - {"centre", "box", "strokes"} or not self.shapes:
            raise InputError(f"shapes are centre, box and strokes, not {unknown}")

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> PixelMask:
        """A mask of a drawn shape and size."""
        shape = self.shapes[rng.integers(len(self.shapes))]
        hidden = rng.uniform(*self.hidden)
        if shape == "strokes":
            return PixelMask(patterns.draw_free_form(size, hidden, seed=rng))
        slim = 1.0 if shape == "centre" else math.exp(rng.uniform(-0.5, 0.5))
        share = math.sqrt(hidden)
        box = [
            min(max(1, round(share * side * s)), side)
            for s, side in zip((slim, 1 / slim), size, strict=True)
        ]
        if shape == "centre":
            return PixelMask(patterns.draw_centre_box(size, (box[0], box[1])))
        return PixelMask(patterns.draw_box(size, (box[0], box[1]), seed=rng))

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """One operator with a mask per sample."""
        masks = torch.stack([o.mask for o in operators if isinstance(o, PixelMask)])
        return [(PixelMask(masks[:, None]), list(range(len(operators))))]


@dataclass(frozen=True)
class Blurs(Family):
    """Kernels of periodic blurs.

    Args:
        std: Of Gaussian kernels in pixels, drawn log-uniformly.
        length: Of motion paths in pixels, drawn uniformly; None: no motion.
    """

    kind: Literal["blurs"] = field(default="blurs", kw_only=True)
    std: Range = (0.4, 2.0)
    length: Range | None = (2.0, 10.0)

    def __post_init__(self) -> None:
        _check_range("std", self.std, 0.05)
        if self.length is not None:
            _check_range("length", self.length, 0.5)

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> CircularBlur:
        """A Gaussian or a motion kernel."""
        if self.length is not None and rng.uniform() < 0.5:
            kernel = patterns.draw_motion_kernel(rng.uniform(*self.length), seed=rng)
        else:
            kernel = patterns.draw_gaussian_kernel(_draw_log(self.std, rng))
        return CircularBlur(kernel, size)

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """One operator with a kernel per sample, the smaller ones framed with zeros."""
        blurs = [o for o in operators if isinstance(o, CircularBlur)]
        side = max(max(o.kernel.shape) for o in blurs)
        kernels = torch.stack([_frame(o.kernel, side) for o in blurs])
        return [(CircularBlur(kernels[:, None], blurs[0].size), list(range(len(blurs))))]


@dataclass(frozen=True)
class Blocks(Family):
    """Box means: super-resolution by one of some factors."""

    kind: Literal["blocks"] = field(default="blocks", kw_only=True)
    factors: tuple[int, ...] = (2, 4, 8)

    def check(self, size: tuple[int, int]) -> None:
        """Each factor must divide both sides."""
        if not self.factors or any(f < 1 or size[0] % f or size[1] % f for f in self.factors):
            raise InputError(f"factors {self.factors} must divide the image's sides {size}")

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> BlockMean:
        """A factor for both axes."""
        factor = self.factors[rng.integers(len(self.factors))]
        return BlockMean((factor, factor))

    def stack(self, operators: Sequence[LinearOperator]) -> list[tuple[LinearOperator, list[int]]]:
        """One operator per factor."""
        rows: dict[tuple[int, int], list[int]] = {}
        for place, operator in enumerate(operators):
            assert isinstance(operator, BlockMean)
            rows.setdefault(operator.factor, []).append(place)
        return [(BlockMean(factor), places) for factor, places in rows.items()]


def draw_operators(
    families: Sequence[Family],
    size: tuple[int, int],
    rngs: Sequence[np.random.Generator],
    nothing: float = 0.0,
) -> LinearOperator:
    """One operator per generator, from a family that it draws first.

    With the probability `nothing` it is the null operator: nothing is measured. The operators are
    joined by what their measurements tell of an image (`Root`), or are one as they are.
    """
    # Where there is none nothing is drawn for it: the operators of older settings stay the same.
    blind = [nothing > 0 and rng.uniform() < nothing for rng in rngs]
    chosen = [
        -1 if none else int(rng.integers(len(families)))
        for none, rng in zip(blind, rngs, strict=True)
    ]
    parts: list[LinearOperator] = []
    rows: list[Tensor] = []
    null = families[0].draw_nothing(size)
    if null is not None:
        return _draw_alone(families, size, rngs, blind, null)
    if any(blind):
        parts.append(PixelMask(torch.zeros(size, dtype=torch.bool)))
        rows.append(torch.tensor([k for k, none in enumerate(blind) if none]))
    for number, family in enumerate(families):
        places = [k for k, choice in enumerate(chosen) if choice == number]
        if not places:
            continue
        for operator, own in family.stack([family.draw(size, rngs[k]) for k in places]):
            parts.append(operator)
            rows.append(torch.tensor([places[k] for k in own]))
    return Root(tuple(parts), tuple(rows))


def _draw_alone(
    families: Sequence[Family],
    size: tuple[int, int],
    rngs: Sequence[np.random.Generator],
    blind: Sequence[bool],
    null: LinearOperator,
) -> LinearOperator:
    """Operators of a family whose functions of A^T A have no closed form, so no root either."""
    if len(families) > 1:
        raise InputError(f"{type(families[0]).__name__} cannot be mixed with other families")
    drawn = [
        null if none else families[0].draw(size, rng) for none, rng in zip(blind, rngs, strict=True)
    ]
    ((operator, _),) = families[0].stack(drawn)
    return operator


def _frame(kernel: Tensor, side: int) -> Tensor:
    """Puts an odd kernel in the middle of a larger odd one."""
    rows, columns = ((side - k) // 2 for k in kernel.shape)
    return functional.pad(kernel, (columns, columns, rows, rows))


def _draw_log(bounds: Range, rng: np.random.Generator) -> float:
    return math.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1])))


def _check_range(name: str, bounds: Range, low: float, high: float = math.inf) -> None:
    if not low <= bounds[0] <= bounds[1] <= high:
        raise InputError(f"{name} is a range [low, high] within [{low}, {high}], got {bounds}")
