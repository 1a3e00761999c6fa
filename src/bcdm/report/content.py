"""What a reconstruction report says, as plain values and arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.trust.card import Check, Judgement, Light, Trust

__all__ = [
    "Array",
    "Aside",
    "Check",
    "Curve",
    "Gap",
    "Interval",
    "Judgement",
    "Light",
    "Quality",
    "Report",
    "Slice",
    "Trust",
]

Array = NDArray[Any]


class Interval(NamedTuple):
    """The ends of an interval of each pixel, and the share of pixels whose truth it should hold."""

    low: Array
    high: Array
    level: float


class Aside(NamedTuple):
    """A picture that is shown on demand.

    Attributes:
        name: What it shows.
        note: What it means, in a sentence.
        picture: (h, w).
        kind: "grey" from its least to its largest value, "phase" in radian from -pi to pi.
    """

    name: str
    note: str
    picture: Array
    kind: Literal["grey", "phase"] = "grey"


class Quality(NamedTuple):
    """How near images are to the reference, and by which convention.

    Attributes:
        rows: Name of an image, its PSNR in dB, and its SSIM where it is large enough for one.
        convention: Of both numbers: one pair of images scores very differently by others.
    """

    rows: tuple[tuple[str, float, float | None], ...]
    convention: str


@dataclass(frozen=True)
class Gap:
    """A slice without images: its numbers are not finite, or the page has no room for it.

    Attributes:
        name: Its place in the volume, or its file.
        reason: Why there are none.
        trust: Its own card.
        left_out: Whether it is missing in the files of images.
    """

    name: str
    reason: str
    trust: Trust | None = None
    left_out: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice:
    """One image and all that is known of it; arrays are (H, W) or (H, W, 3) in one unit.

    Attributes:
        name: Its place in the volume, or its file.
        linear: The linear estimate: what the data show without a network.
        mean: The average of the samples.
        std: The standard deviation of the samples.
        samples: Posterior samples, (S, H, W) or (S, H, W, 3).
        interval: Of each pixel.
        operator: A picture of the operator, (h, w): k-space mask, pixel mask or kernel.
        operator_label: What that picture is.
        reference: The image that was measured; exists only in a simulation.
        quality: Beside the reference.
        trust: Its own card.
        left_out: Whether it is missing in the files of images.
        linear_std: The standard deviation of the linear estimate: noise as coils and mask amplify
            it.
        asides: Pictures that are shown on demand.
    """

    name: str
    linear: Array
    mean: Array
    std: Array
    samples: Array
    interval: Interval | None = None
    operator: Array | None = None
    operator_label: str = "Operator"
    reference: Array | None = None
    quality: Quality | None = None
    trust: Trust | None = None
    left_out: bool = False
    linear_std: Array | None = None
    asides: tuple[Aside, ...] = ()

    def __post_init__(self) -> None:
        shape = np.shape(self.mean)
        if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or 0 in shape:
            raise ShapeError(f"{self.name}: mean must be (H, W) or (H, W, 3), got {shape}")
        for name in ("linear", "mean", "std", "reference", "linear_std"):
            self._check(name, getattr(self, name), shape)
        count = 0 if np.ndim(self.samples) == 0 else len(self.samples)
        if count == 0:
            raise ShapeError(f"{self.name}: samples must hold at least one image")
        self._check("samples", self.samples, (count, *shape))
        if self.interval is not None:
            self._check("lower end", self.interval.low, shape)
            self._check("upper end", self.interval.high, shape)
        if self.operator is not None:
            if np.ndim(self.operator) != 2 or np.size(self.operator) == 0:
                raise ShapeError(f"{self.name}: operator must be a picture (h, w)")
            self._check("operator", self.operator, np.shape(self.operator))
        for aside in self.asides:
            self._check(aside.name, aside.picture, np.shape(aside.picture))
        if np.min(self.std) < 0:
            raise InputError(f"{self.name}: std must not be negative")

    def _check(self, name: str, array: Array | None, shape: tuple[int, ...]) -> None:
        if array is None:
            return
        if np.asarray(array).dtype.kind not in "buif":
            raise DtypeError(f"{self.name}: {name} must be real: take its magnitude first")
        if np.shape(array) != shape:
            raise ShapeError(f"{self.name}: {name} must be {shape}, got {np.shape(array)}")
        if not np.isfinite(array).all():
            raise InputError(f"{self.name}: {name} holds nan or infinity: drop the failed slice")


@dataclass(frozen=True, eq=False)
class Curve:
    """A diagram of lines.

    Attributes:
        name: What it shows.
        x_label: The horizontal axis.
        y_label: The vertical axis.
        series: Label to (x, y), each (n,). With n + 1 values x are the edges of a histogram.
            Where y is nan (a level too few samples resolve), the line has a gap.
        diagonal: Whether y = x is the ideal, and is drawn.
    """

    name: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[Array, Array]]
    diagonal: bool = False

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError(f"{self.name}: a curve needs at least one series: leave it out")
        for label, (x, y) in self.series.items():
            if np.ndim(x) != 1 or np.ndim(y) != 1 or len(x) - len(y) not in (0, 1) or len(y) == 0:
                raise ShapeError(
                    f"{self.name}, {label}: need x (n,) or (n + 1,) and y (n,), "
                    f"got {np.shape(x)} and {np.shape(y)}"
                )
            if not np.isfinite(x).all() or np.isinf(y).any() or np.isnan(y).all():
                raise InputError(f"{self.name}, {label}: x or y is not finite: drop those points")


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """All that one report shows.

    Attributes:
        title: What was reconstructed.
        subtitle: From what, and by what.
        simulated: Whether the measurement was computed from a known image.
        window: The values shown as black and white in every image.
        unit: Of all images; may be empty.
        slices: The images, and gaps where there are none.
        trust: The trust card of the whole.
        curves: Diagrams of calibration and residuals.
        facts: Sections of (name, value).
        provenance: Hashes, versions, settings; values that JSON lacks are shown as text.
    """

    title: str
    subtitle: str
    simulated: bool
    window: tuple[float, float]
    unit: str
    slices: tuple[Slice | Gap, ...]
    trust: Trust
    curves: tuple[Curve, ...] = ()
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        low, high = self.window
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InputError(f"window must be two rising numbers, got {self.window}")
        if not self.slices:
            raise InputError("a report needs at least one slice")
        if not self.simulated and any(one.reference is not None for one in self.images):
            raise InputError("a reference exists only if simulated: set simulated, or leave it out")

    @property
    def images(self) -> tuple[Slice, ...]:
        """The slices that have images."""
        return tuple(one for one in self.slices if isinstance(one, Slice))
