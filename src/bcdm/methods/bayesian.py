r"""Learned Bayesian conditioning: a network fed with a sufficient statistic of $x_t$ and $y$."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel, Schedule
from bcdm.errors import DtypeError, InputError
from bcdm.measurement import Measurement
from bcdm.networks.layers import complex_to_channels
from bcdm.tensors import ImageSpec, fit, real_dtype

__all__ = ["Bayesian", "BayesianDenoiser", "Parameterisation"]


class Prepared(NamedTuple):
    """What a network is given at one noise level.

    Attributes:
        seen: Its input (B, C, H, W).
        project: From its output to an image.
        unit: The image's unit: the mean of x_0 is `unit` times what `project` gives last.
        extra: More channels to see; None for none.
    """

    seen: Tensor
    project: Callable[[Tensor], Tensor]
    unit: float = 1.0
    extra: Tensor | None = None


@dataclass(frozen=True)
class Parameterisation:
    r"""What the network sees and what its output means.

    Args:
        statistic: The input. "whitened" is the paper's $\hat x_t$; "pivot" is $M_t^{-1} r_t$,
            scaled to unit size where nothing is measured; "wiener" is the linear estimate $w$;
            "normalised" is $\hat x_t$ scaled to unit size in every direction under a white prior;
            "dual" is no statistic but both parts side by side, $x_t$ and $A^\top y$; "joint" is
            $w$ and both parts. "bridge" is none either: $x_t + (1 - \alpha) x_1$, on the way from
            $x_0$ to the linear estimate $x_1$ of $y$, under the schedule `Bridge`.
        output: "image" is the paper's: the network gives $x_d$ and data consistency follows, each
            iteration. "residual" is $w + C f$ with $C = \sigma (\sigma^2 / s^2 + M_t)^{-1/2}$, the
            standard deviation that the prior leaves after $x_t$ and $y$: what is known well is
            moved little, by construction. "denoised" is the same with $y$ left out of $w$ and $C$,
            the usual preconditioning of a diffusion model: $y$ enters through the input alone.
            "noise" is the older one: the network gives the noise of $x_t$. "bridge" is that of
            I2SB: the network gives what the bridge has moved so far over its standard deviation.
        weight: $\lambda$ of data consistency ("image" only).
        prior_std: $s$, the standard deviation of a pixel in what $y$ leaves unknown.
        known_std: $S$, how much more there is in what $y$ fixes ("residual" only). A small $s$
            alone pulls what is measured towards zero, by more than the noise of $y$ where an image
            has its power, and the network would have to undo that to a fraction of the noise.
        model_std: $\tau$, how far off the network itself may be ("residual" only):
            $w + K C f$ with $K = (1 + \tau^2 A^\top A / \sigma_0^2)^{-1}$. That is the paper's data
            consistency, the network's image being an observation of standard deviation $\tau$.
            Where $y$ is more precise than the network, $y$ is kept; 0 believes the network.
        probes: The network also sees $C$ applied to two fixed images, a flat and a rough one: what
            the operator and its noise leave unknown, where one network serves many of them.
    """

    statistic: Literal["whitened", "pivot", "wiener", "normalised", "dual", "joint", "bridge"] = (
        "wiener"
    )
    output: Literal["image", "residual", "denoised", "noise", "bridge"] = "residual"
    weight: float = 0.01
    prior_std: float = 0.5
    known_std: float = 0.0
    model_std: float = 0.0
    probes: bool = False

    def __post_init__(self) -> None:
        for name in ("statistic", "output"):
            allowed = get_args(type(self).__annotations__[name])
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}"
                )
        if self.weight <= 0 or self.prior_std <= 0 or min(self.known_std, self.model_std) < 0:
            raise InputError("weight and prior_std must be > 0, known_std and model_std 0 or more")
        if (self.statistic == "bridge") != (self.output == "bridge"):
            raise InputError("statistic and output are both a bridge, or neither is")

    @property
    def extra_images(self) -> int:
        """How many images beside `seen` the network sees."""
        return {"dual": 1, "joint": 2}.get(self.statistic, 0)

    @property
    def extra_channels(self) -> int:
        """How many channels beside those of images the network sees."""
        return 2 if self.probes else 0

    def prepare(self, conditioning: Conditioning, x_t: Tensor) -> Prepared:
        """What the network is given."""
        wiener = None
        if self.statistic in ("wiener", "joint") or self.output == "residual":
            wiener = (
                conditioning.wiener_statistic(x_t, self.prior_std, self.known_std) / self.prior_std
            )
        seen = self._choose_input(conditioning, x_t, wiener)
        extra = self._gather(conditioning, x_t)
        if self.output == "image":
            natural = conditioning.natural_statistic(x_t)
            consist = partial(conditioning.data_consistency, natural=natural, weight=self.weight)
            return Prepared(seen, consist, extra=extra)
        # In units of the prior's spread, so that further iterations see what the first one saw.
        if self.output == "residual":
            assert wiener is not None
            start = wiener
            return Prepared(
                seen,
                lambda f: start + self._spread(conditioning, f, self.model_std),
                self.prior_std,
                extra,
            )
        alpha, sigma = conditioning.level
        if self.output == "bridge":
            (moved,) = fit(x_t, sigma / alpha.sqrt())
            return Prepared(seen, lambda f: seen - moved * f, extra=extra)
        if self.output == "noise":
            grown, noise = fit(x_t, 1 / alpha, sigma / alpha)
            return Prepared(seen, lambda f: grown * x_t - noise * f, extra=extra)
        size = self._size(conditioning.level)
        skip, scale = fit(x_t, self.prior_std * alpha / size**2, sigma / size)
        return Prepared(seen, lambda f: skip * x_t + scale * f, self.prior_std, extra)

    def estimate_linearly(self, measurement: Measurement) -> Tensor:
        """The Wiener estimate of x_0 from y alone, under the same prior."""
        return measurement.estimate_linearly(self.prior_std, self.known_std)

    def scale(self, level: NoiseLevel) -> Tensor:
        r"""$s \sigma (s^2 \alpha^2 + \sigma^2)^{-1/2}$: what $x_t$ alone leaves unknown."""
        return self.prior_std * level.sigma / self._size(level)

    def weigh(self, level: NoiseLevel) -> Tensor:
        """What squared errors at a level count in training.

        The paper's plain loss for "image", that of the network's own output for "noise" and
        "bridge"; otherwise errors are relative to what is unknown.
        """
        if self.output == "image":
            return torch.ones_like(level.sigma)
        if self.output == "noise":
            return (level.alpha / level.sigma) ** 2
        if self.output == "bridge":
            return level.alpha / level.sigma**2
        return self.scale(level) ** -2

    def _size(self, level: NoiseLevel) -> Tensor:
        """The standard deviation of a pixel of x_t."""
        return (self.prior_std**2 * level.alpha**2 + level.sigma**2).sqrt()

    def _choose_input(
        self, conditioning: Conditioning, x_t: Tensor, wiener: Tensor | None
    ) -> Tensor:
        size = self._size(conditioning.level)
        if self.statistic == "whitened":
            return conditioning.whitened_statistic(x_t)
        if self.statistic == "pivot":
            return fit(x_t, conditioning.level.alpha / size)[0] * conditioning.pivot(x_t)
        if self.statistic == "normalised":
            natural = conditioning.natural_statistic(x_t)
            return self._normalise(conditioning, natural)
        if self.statistic == "dual":
            return x_t / fit(x_t, size)[0]
        if self.statistic == "bridge":
            (share,) = fit(x_t, 1 - conditioning.level.alpha)
            return x_t + share * self.estimate_linearly(conditioning.measurement)
        assert wiener is not None
        return wiener

    def _gather(self, conditioning: Conditioning, x_t: Tensor) -> Tensor | None:
        """The extra channels, those of images first."""
        parts = []
        if self.statistic == "joint":
            parts.append(x_t / fit(x_t, self._size(conditioning.level))[0])
        if self.statistic in ("dual", "joint"):
            parts.append(conditioning.measurement.back_projection.expand_as(x_t) / self.prior_std)
        if self.probes:
            probes = _make_probes((x_t.shape[-2], x_t.shape[-1])).to(x_t)
            whole = fit(x_t, self.prior_std / self.scale(conditioning.level))[0]
            for probe in probes:
                known = whole * self._spread(conditioning, probe.expand_as(x_t))
                # One channel for all: an operator that treats them differently shows its mean.
                parts.append((known.real if known.is_complex() else known).mean(1, keepdim=True))
        parts = [complex_to_channels(p) if p.is_complex() else p for p in parts]
        return torch.cat(parts, 1) if parts else None

    def _normalise(self, conditioning: Conditioning, natural: Tensor) -> Tensor:
        r"""$(s^2 M_t + \sigma^2)^{-1/2} M_t^{-1/2} r_t$."""
        alpha, sigma = conditioning.level
        flat, steep, power, noise = fit(
            natural, alpha**2, conditioning.gain**2, self.prior_std**2, sigma**2
        )

        def f(eigenvalue: Tensor) -> Tensor:
            precision = flat + steep * eigenvalue
            return ((power * precision + noise) * precision).rsqrt()

        return conditioning.measurement.operator.gram_function(f, natural)

    def _spread(self, conditioning: Conditioning, f: Tensor, model_std: float = 0.0) -> Tensor:
        """C f, or K C f, in units of the prior's spread."""
        noise = conditioning.measurement.std
        size, doubt = fit(f, conditioning.level.sigma / self.prior_std, (model_std / noise) ** 2)
        precision = conditioning.wiener_precision(f, self.prior_std, self.known_std)
        operator = conditioning.measurement.operator
        return size * operator.gram_function(lambda a: precision(a).rsqrt() / (1 + doubt * a), f)


@lru_cache(maxsize=8)
def _make_probes(size: tuple[int, int]) -> Tensor:
    """A flat image and one of random signs, (2, 1, 1, *size)."""
    signs = np.random.default_rng(0).integers(0, 2, size) * 2.0 - 1.0
    return torch.from_numpy(np.stack([np.ones(size), signs]))[:, None, None].float()


@dataclass(frozen=True, eq=False)
class Bayesian:
    r"""A network that gives $E[x_0 \mid \text{statistic}]$ for every noise level.

    Args:
        network: Called as network(statistic, log_snr, project) with images (B, C, H, W), and with
            extra channels as a fourth argument where the parameterisation has some.
        schedule: The noise levels it was trained on.
        parameterisation: What the network sees and gives.
    """

    network: nn.Module
    schedule: Schedule
    parameterisation: Parameterisation

    def condition(self, measurement: Measurement) -> "BayesianDenoiser":
        """Binds measurements; one network call then gives their posterior means."""
        self._check_precision(measurement)
        return BayesianDenoiser(self, measurement)

    def estimate(self, conditioning: Conditioning, x_t: Tensor) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$, differentiable: the same code trains and samples."""
        self._check_precision(conditioning.measurement)
        # The statistic is exact arithmetic, whatever precision the network runs in.
        with torch.autocast(x_t.device.type, enabled=False):
            given = self.parameterisation.prepare(conditioning, x_t)
        log_snr = conditioning.level.log_snr.to(x_t.device, torch.float32)
        more = () if given.extra is None else (given.extra,)
        out: Tensor = self.network(given.seen, log_snr, given.project, *more)
        return given.unit * out

    def _check_precision(self, measurement: Measurement) -> None:
        """Refuses data of another precision than the network's."""
        weight = next(self.network.parameters(), None)
        precision = real_dtype(measurement.back_projection.dtype)
        if weight is not None and weight.dtype != precision:
            raise DtypeError(
                f"y is {measurement.y.dtype} but the network {weight.dtype}: convert y (and the "
                "operator) to the network's precision"
            )


@dataclass(frozen=True, eq=False)
class BayesianDenoiser:
    """A learned posterior with its measurements bound."""

    method: Bayesian
    measurement: Measurement

    @property
    def schedule(self) -> Schedule:
        """That of the method."""
        return self.method.schedule

    @property
    def image(self) -> ImageSpec:
        """What the measurement gives."""
        return self.measurement.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$ by one pass of the network."""
        return self.method.estimate(Conditioning(self.measurement, level), x_t)
