r"""What the network sees and what its output means, put together from settings."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from pydantic import ConfigDict
from torch import Tensor

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods.outputs import Image, Output, Projection, Residual
from bcdm.methods.rivals import BridgePlace, BridgeStep, Denoised, Dual, Noise
from bcdm.methods.statistics import Joint, Normalised, Pivot, Statistic, Whitened, Wiener
from bcdm.methods.view import Scales, View, make_probes
from bcdm.networks.layers import complex_to_channels
from bcdm.tensors import fit

__all__ = ["Parameterisation", "Prepared"]

StatisticName = Literal["whitened", "pivot", "wiener", "normalised", "dual", "joint", "bridge"]
OutputName = Literal["image", "residual", "denoised", "noise", "bridge"]
_STATISTICS: dict[StatisticName, type[Statistic]] = {
    "whitened": Whitened,
    "pivot": Pivot,
    "wiener": Wiener,
    "normalised": Normalised,
    "dual": Dual,
    "joint": Joint,
    "bridge": BridgePlace,
}


class Prepared(NamedTuple):
    """What a network is given at one noise level.

    Attributes:
        seen: Its input (B, C, H, W).
        project: From its output to an image.
        unit: The image's unit: the mean of x_0 is `unit` times what `project` gives last.
        weight: What the squared error of each image counts in training, (B,).
        extra: More channels to see; None for none.
    """

    seen: Tensor
    project: Projection
    unit: float
    weight: Tensor
    extra: Tensor | None = None


@dataclass(frozen=True)
class Parameterisation:
    r"""What the network sees and what its output means.

    Args:
        statistic: The input, a class of `statistics` ("whitened", "pivot", "wiener", "normalised",
            "joint") or of `rivals` ("dual", "bridge").
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

    def __post_init__(self) -> None:
        for name, allowed in (("statistic", StatisticName), ("output", OutputName)):
            if getattr(self, name) not in get_args(allowed):
                listed = ", ".join(get_args(allowed))
                raise InputError(f"{name} is one of {listed}, not {getattr(self, name)!r}")
        if self.weight <= 0 or self.prior_std <= 0 or min(self.known_std, self.model_std) < 0:
            raise InputError("weight and prior_std must be > 0, known_std and model_std 0 or more")
        if (self.statistic == "bridge") != (self.output == "bridge"):
            raise InputError("statistic and output are both a bridge, or neither is")

    @property
    def scales(self) -> Scales:
        """The prior that linear estimates are made with."""
        return Scales(self.prior_std, self.known_std)

    @property
    def extra_images(self) -> int:
        """How many images beside `seen` the network sees."""
        return _STATISTICS[self.statistic].extra_images

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
        if self.uncertainty:
            extra.append(view.left.log() / 2)
            left = view.left.flatten(1).mean(1)
            weight = weight.to(left) / left
        project, unit = self._make_output().explain(view, seen, left)
        channels = [complex_to_channels(part) if part.is_complex() else part for part in extra]
        more = torch.cat(channels, 1) if channels else None
        return Prepared(seen, project, unit, weight, more)

    def estimate_linearly(self, measurement: Measurement) -> Tensor:
        """The Wiener estimate of x_0 from y alone, under the same prior."""
        return self.scales.estimate_linearly(measurement)

    def scale(self, level: NoiseLevel) -> Tensor:
        r"""$s \sigma (s^2 \alpha^2 + \sigma^2)^{-1/2}$: what $x_t$ alone leaves unknown."""
        return self.scales.unknown(level)

    def weigh(self, level: NoiseLevel) -> Tensor:
        """What squared errors at a level count in training."""
        return self._make_output().weigh(level, self.scales)

    def _make_output(self) -> Output:
        outputs: dict[OutputName, Output] = {
            "image": Image(self.weight),
            "residual": Residual(self.model_std),
            "denoised": Denoised(),
            "noise": Noise(),
            "bridge": BridgeStep(),
        }
        return outputs[self.output]


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
