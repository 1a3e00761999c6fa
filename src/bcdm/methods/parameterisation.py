r"""What the network sees and what its output means, put together from settings."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from pydantic import ConfigDict
from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel
from bcdm.errors import InputError
from bcdm.methods.outputs import Image, Output, Projection, Residual
from bcdm.methods.rivals import BridgePlace, BridgeStep, Denoised, Dual, DualWiener, Noise
from bcdm.methods.statistics import Joint, Normalised, Pivot, Statistic, Whitened, Wiener
from bcdm.methods.view import Scales, View, make_probes
from bcdm.networks.layers import complex_to_channels
from bcdm.tensors import fit

__all__ = ["Parameterisation", "Prepared", "find_phase"]

StatisticName = Literal[
    "whitened", "pivot", "wiener", "normalised", "dual", "dual_wiener", "joint", "bridge"
]
OutputName = Literal["image", "residual", "denoised", "noise", "bridge"]
_STATISTICS: dict[StatisticName, type[Statistic]] = {
    "whitened": Whitened,
    "pivot": Pivot,
    "wiener": Wiener,
    "normalised": Normalised,
    "dual": Dual,
    "dual_wiener": DualWiener,
    "joint": Joint,
    "bridge": BridgePlace,
}
# Pixels around that a phase is averaged over, a Gaussian's standard deviation: where all is known,
# and where nothing is.
_LEAST, _MOST = 1.0, 4.0
# The lowest log-SNR that a network is told where it is told what x_t and y leave together. Images
# are all but drowned below, training draws few such levels, and a network that is told a number
# it never met answers with anything.
_FAINTEST = -4.0
# By how much errors where next to nothing is known outweigh those where much is, in units of what
# is left: without it the tenth of draws that measure nothing makes half of the gradient.
_FAINT_ERROR = 10.0


class Prepared(NamedTuple):
    """What a network is given at one noise level.

    Attributes:
        seen: Its input (B, C, H, W).
        project: From its output to an image.
        unit: The image's unit, and its phase where the network does not see it: the mean of x_0 is
            `unit` times what `project` gives last.
        weight: What the squared error of each image counts in training, (B,).
        log_snr: Of the level that the network is told, (B,) or (1,): where it sees how much the
            data leave unknown, that of an x_t which alone would leave as much.
        extra: More channels to see; None for none.
        compare: From how far an image is from `seen` to channels that say what the data object;
            None where a network is not told.
        settle: What follows each pass, from image to image; None for nothing.
    """

    seen: Tensor
    project: Projection
    unit: float | Tensor
    weight: Tensor
    log_snr: Tensor
    extra: Tensor | None = None
    compare: Projection | None = None
    settle: Projection | None = None

    @property
    def more(self) -> tuple[Tensor | Projection | None, ...]:
        """What the network is given after the projection."""
        if self.settle is not None:
            return self.extra, self.compare, self.settle
        if self.compare is not None:
            return self.extra, self.compare
        return () if self.extra is None else (self.extra,)


@dataclass(frozen=True)
class Parameterisation:
    r"""What the network sees and what its output means.

    Args:
        statistic: The input, a class of `statistics` ("whitened", "pivot", "wiener", "normalised",
            "joint") or of `rivals` ("dual", "dual_wiener", "bridge").
        output: A class of `outputs` ("image" as in the paper, "residual") or of `rivals`
            ("denoised", "noise", "bridge").
        weight: $\lambda$ of data consistency ("image" only).
        prior_std: $s$, the standard deviation of a pixel in what $y$ leaves unknown.
        known_std: $S$, how much more there is in what $y$ fixes. A small $s$ alone pulls what is
            measured towards zero, by more than the noise of $y$ where an image has its power, and
            the network would have to undo that to a fraction of the noise.
        model_std: $\tau$, how far off the network itself may be ("residual" only).
        probes: The network also sees $C$ applied to two fixed images, a flat and a rough one: what
            the operator and its noise leave unknown, where one network serves many of them.
        uncertainty: The network also sees a map of how much of what $x_t$ leaves unknown $y$ leaves
            so, too, by one rough solve; its output and the training loss are in that unit. Probes
            and $C$ are of what stands in for an operator without closed form, of several coils the
            mask alone, and say nothing of what coils fix.
        demodulate: Complex images only. The network sees the statistic without its own smooth
            phase, so that an image is about real and positive whatever the scanner's phase was.
        compare: In each iteration the network also sees how far its image is from the statistic,
            and what data and prior object to that, by the operator itself: what it cannot know of
            coils, because C is of what stands in for them.
        settle: After each iteration the image keeps only what the data do not know better, by one
            rough solve with the operator itself: a network that meets what it was not trained for
            cannot overrule what was measured.
    """

    # Files of settings hold it as it is, strictly.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    statistic: StatisticName = "wiener"
    output: OutputName = "residual"
    weight: float = 0.01
    prior_std: float = 0.5
    known_std: float = 0.0
    model_std: float = 0.0
    probes: bool = False
    uncertainty: bool = False
    demodulate: bool = False
    compare: bool = False
    settle: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("statistic", StatisticName), ("output", OutputName)):
            if getattr(self, name) not in get_args(allowed):
                listed = ", ".join(get_args(allowed))
                raise InputError(f"{name} is one of {listed}, not {getattr(self, name)!r}")
        if self.weight <= 0 or self.prior_std <= 0 or min(self.known_std, self.model_std) < 0:
            raise InputError("weight and prior_std must be > 0, known_std and model_std 0 or more")
        linear = (self.statistic, self.output, self.known_std) == ("wiener", "residual", 0)
        if self.settle and not linear:
            raise InputError("settle is for the Wiener statistic, residuals and known_std 0")
        if (self.statistic == "bridge") != (self.output == "bridge"):
            raise InputError("statistic and output are both a bridge, or neither is")

    @property
    def scales(self) -> Scales:
        """The prior that linear estimates are made with."""
        return Scales(self.prior_std, self.known_std)

    @property
    def extra_images(self) -> int:
        """How many images beside `seen` the network sees."""
        return _STATISTICS[self.statistic].extra_images + 2 * self.compare

    @property
    def extra_channels(self) -> int:
        """How many channels beside those of images the network sees."""
        return 2 * self.probes + self.uncertainty

    def prepare(self, conditioning: Conditioning, x_t: Tensor) -> Prepared:
        """What the network is given."""
        view = View(conditioning, x_t, self.scales)
        statistic = _STATISTICS[self.statistic]()
        seen = statistic.compute(view)
        extra = statistic.list_extra(view) + (_probe(view) if self.probes else [])
        weight, left = self.weigh(view.level), None
        log_snr = view.level.log_snr
        if self.uncertainty:
            extra.append(view.left.log() / 2)
            left = view.left.flatten(1).mean(1)
            log_snr = self._tell(view.level, left)
            weight = weight.to(left) / left / (1 + _FAINT_ERROR * (-log_snr).sigmoid())
        project, unit = self._make_output().explain(view, seen, left)
        whole: float | Tensor = unit
        compare = _Comparison(view, left) if self.compare else None
        settle: Projection | None = partial(view.settle, left=left) if self.settle else None
        if self.demodulate:
            phase = find_phase(seen, self._reach(view.level, left).to(seen.real))
            compare = replace(compare, phase=phase) if compare else None
            seen, extra = phase.conj() * seen, [_turn_back(part, phase) for part in extra]
            project, whole = _turn_projection(project, phase), unit * phase
            settle = _turn_projection(settle, phase) if settle else None
        channels = [complex_to_channels(part) if part.is_complex() else part for part in extra]
        more = torch.cat(channels, 1) if channels else None
        return Prepared(seen, project, whole, weight, log_snr, more, compare, settle)

    def weigh(self, level: NoiseLevel) -> Tensor:
        """What squared errors at a level count in training."""
        return self._make_output().weigh(level, self.scales)

    def _tell(self, level: NoiseLevel, left: Tensor) -> Tensor:
        """The log-SNR of an x_t that alone would leave unknown what both leave, (B,)."""
        precision = 1 / (self.scales.unknown(level).to(left.device) ** 2 * left)
        ratio = (precision - self.prior_std**-2).clamp_min(torch.finfo(precision.dtype).tiny)
        # Rounding aside, data never make it less.
        return torch.maximum(ratio.log(), level.log_snr.to(ratio)).clamp_min(_FAINTEST)

    def _reach(self, level: NoiseLevel, left: Tensor | None) -> Tensor:
        """Pixels that a phase is averaged over: the less is known, the more, (B,) or (1,)."""
        unknown = self.scales.unknown(level) / self.prior_std
        if left is not None:
            unknown = unknown.to(left.device) * left.sqrt()
        return _LEAST + (_MOST - _LEAST) * unknown

    def _make_output(self) -> Output:
        outputs: dict[OutputName, Output] = {
            "image": Image(self.weight),
            "residual": Residual(self.model_std),
            "denoised": Denoised(),
            "noise": Noise(),
            "bridge": BridgeStep(),
        }
        return outputs[self.output]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """What the network sees of its own image, in units of what is left unknown.

    Attributes:
        view: The diffused image and its measurement.
        left: The share of the variance that is left, (B,); None for all of it.
        phase: What the network does not see; None if it sees all.
    """

    view: View
    left: Tensor | None
    phase: Tensor | None = None

    def __call__(self, moved: Tensor) -> Tensor:
        """From how far the image is from the statistic to channels, (B, 2 C, H, W)."""
        away = self.view.disagree(moved if self.phase is None else self.phase * moved, self.left)
        if self.phase is not None:
            away = self.phase.conj() * away
        both = [complex_to_channels(x) if x.is_complex() else x for x in (away, moved)]
        found = torch.cat(both, 1)
        return found if self.left is None else found / fit(found, self.left.sqrt())[0]


def find_phase(x: Tensor, reach: Tensor) -> Tensor:
    """The phase of complex images (B, C, H, W) averaged around each pixel, as unit numbers.

    Args:
        x: The images.
        reach: Standard deviation of a Gaussian in pixels, (B,) or (1,).
    """
    if not x.is_complex():
        raise InputError("only complex images have a phase: demodulate is for these alone")
    rows, columns = (_make_blur(side, reach.to(x.real)) for side in x.shape[-2:])
    real, imaginary = (rows @ part @ columns for part in (x.real, x.imag))
    return torch.polar(torch.ones_like(real), torch.atan2(imaginary, real))


def _make_blur(side: int, reach: Tensor) -> Tensor:
    """A Gaussian along an axis without its factor, (B or 1, 1, side, side)."""
    place = torch.arange(side, dtype=reach.dtype, device=reach.device)
    away = (place[:, None] - place) / reach[:, None, None, None]
    return torch.exp(-(away**2) / 2)


def _turn_back(part: Tensor, phase: Tensor) -> Tensor:
    """Without a phase; what has none stays as it is."""
    return phase.conj() * part if part.is_complex() else part


def _turn_projection(project: Projection, phase: Tensor) -> Projection:
    """The same for a network that sees no phase."""
    return lambda f: phase.conj() * project(phase * f)


def _probe(view: View) -> list[Tensor]:
    """What the operator and its noise leave of two fixed images, a channel each."""
    x_t, scales, conditioning = view.x_t, view.scales, view.conditioning
    operator = conditioning.measurement.operator.stand_in
    whole = fit(x_t, scales.prior_std / scales.unknown(view.level))[0]
    shown = []
    for probe in make_probes((x_t.shape[-2], x_t.shape[-1])).to(x_t):
        known = whole * scales.spread(conditioning, operator, probe.expand_as(x_t))
        # One channel for all: an operator that treats them differently shows its mean.
        shown.append((known.real if known.is_complex() else known).mean(1, keepdim=True))
    return shown
