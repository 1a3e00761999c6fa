"""Methods of a comparison, from settings: what to build, how to sample it, what to tune."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
    field_validator,
    model_validator,
)
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.diffusion import (
    DDIM,
    Ancestral,
    Denoiser,
    DPMSolver,
    Sampler,
    choose_sampler,
    posterior_mean,
    sample,
)
from bcdm.errors import InputError
from bcdm.imports import is_import_path, name_object, resolve
from bcdm.measurement import Measurement
from bcdm.methods import (
    DDRM,
    DMPS,
    DPS,
    MMPS,
    Denoising,
    DiffPIR,
    LeastSquares,
    LinearGaussian,
    Method,
    PiGDM,
    Renewal,
    TotalVariation,
)
from bcdm.methods.base import BoundDenoiser

__all__ = ["Contender", "ContenderConfig", "Drawn", "Plug", "describe_plug", "expand_grid"]

Plug = str | Callable[..., Any]
"""An object of another package: its import path in files of settings, or the object itself."""
KINDS = (
    "least_squares",
    "total_variation",
    "linear_gaussian",
    "mean",
    "network",
    "bridge",
    "denoising",
    "dps",
    "dmps",
    "pigdm",
    "diffpir",
    "ddrm",
    "mmps",
)
_WITHOUT_CALLS = ("least_squares", "total_variation", "linear_gaussian")
_GUIDED = {"dps": DPS, "dmps": DMPS, "pigdm": PiGDM, "diffpir": DiffPIR}


class ContenderConfig(BaseModel):
    """One row of a comparison.

    Attributes:
        kind: What it is. "network" is a trained one, by its own conditioning; "mean" its single
            call; "bridge" one on a bridge, by the bridge's own posterior; guided methods take an
            unconditional network; "linear_gaussian" is the control, of a network's linear prior.
            "package.module:name" is a method from elsewhere: called with
            the prior, if the row names one by `network` or `prior`, and with the weight, if the row
            states some, it gives a method.
        network: The name of the trained network it needs.
        prior: "package.module:name" of an unconditional denoiser, called without arguments; instead
            of a network.
        sampler: "package.module:name" of a sampler, called without arguments.
        weight: Of guidance or regularisation; several are tuned on the validation split.
        churn: Of DPM-Solver++; several are tuned alike. None: the paper's ancestral steps.
        calls: Network calls per sample, which a kind that draws samples needs; 0 for estimates
            without samples, and for a method from elsewhere that gives one.
        iterations: Of MMPS in each call, a product with the network's Jacobian each; several are
            tuned alike. Of a learned Jacobian two often do better than five.
        clip: Whether means are clipped to the range of images, as is usual for networks that
            predict noise; [false, true] is tuned alike.
        few: Whether it is scored on the task's smaller number of images.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Plug
    network: str | None = None
    prior: Plug | None = None
    sampler: Plug | None = None
    weight: tuple[float, ...] = (1.0,)
    churn: tuple[float | None, ...] = (1.0,)
    calls: int = Field(default=0, ge=0)
    iterations: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(5,), min_length=1)
    clip: tuple[bool, ...] = (False,)
    few: bool = False

    @field_validator("kind", "prior", "sampler")
    @classmethod
    def _check(cls, given: Plug | None) -> Plug | None:
        if isinstance(given, str) and given not in KINDS and not is_import_path(given):
            kinds = ", ".join(KINDS)
            raise ValueError(f'{given!r} is neither of {kinds} nor a "package.module:name"')
        return given

    @field_validator("clip", "iterations", mode="before")
    @classmethod
    def _list(cls, given: object) -> object:
        return (given,) if isinstance(given, bool | int) else given

    @model_validator(mode="after")
    def _check_calls(self) -> Self:
        if self.kind not in (*_WITHOUT_CALLS, "mean") and not self.outside and not self.calls:
            raise ValueError(f"{self.kind} draws samples: say by how many `calls` of the network")
        return self

    @model_validator(mode="after")
    def _check_clip(self) -> Self:
        if not self.clip:
            raise ValueError("clip is true, false or [false, true]")
        fixed = self.kind in _WITHOUT_CALLS or self.outside
        if any(self.clip) and (fixed or self.network is None):
            raise ValueError("clip is for what a network of this study gives, by a method of bcdm")
        return self

    @field_serializer("clip", "iterations")
    def _unlist(self, given: tuple[int, ...]) -> int | tuple[int, ...]:
        return given[0] if len(given) == 1 else given

    @field_serializer("kind", "prior", "sampler")
    def _name(self, given: Plug | None) -> str | None:
        return None if given is None else describe_plug(given)

    @property
    def outside(self) -> bool:
        """Whether its method comes from another package."""
        return self.kind not in KINDS


def describe_plug(given: Plug) -> str:
    """Its import path."""
    return given if isinstance(given, str) else name_object(given)


@dataclass(frozen=True)
class Drawn:
    """What a contender made of a batch: samples (S, B, ...), S = 1 without sampling; seconds."""

    samples: Tensor
    seconds: float


@dataclass(frozen=True, eq=False)
class Contender:
    """A method with one setting of what can be tuned.

    Args:
        config: The settings it comes from.
        weight: One of them.
        churn: One of them.
        model: The trained network, if it has one.
        clip: One of them.
        iterations: One of them.
    """

    config: ContenderConfig
    weight: float
    churn: float | None
    model: Model | None
    clip: bool = False
    iterations: int = 5

    @property
    def draws_samples(self) -> bool:
        """Whether it draws samples, and is no single estimate."""
        if self.config.outside:
            return self.config.calls > 0
        return self.config.kind not in ("least_squares", "total_variation", "mean")

    def describe(self) -> dict[str, object]:
        """What distinguishes it from others of its kind, for records."""
        case: dict[str, object] = {"calls": self.config.calls if self.draws_samples else 0}
        if self.config.kind == "mean":
            case["calls"] = 1
        if self.config.kind == "mmps":
            case["iterations a call"] = self.iterations
        if self.config.outside:
            case["made by"] = describe_plug(self.config.kind)
        if self.config.kind in (*_GUIDED, "total_variation") or self._weighs:
            case["weight"] = self.weight
        if self.config.sampler is not None:
            case["sampler"] = describe_plug(self.config.sampler)
        elif self.config.kind == "bridge":
            case["sampler"] = "posterior of the bridge"
        elif self.config.kind == "linear_gaussian":
            case["sampler"] = "exact, one solve a sample"
        elif self.draws_samples and self.config.kind not in ("diffpir", "ddrm"):
            case["sampler"] = "Eq. 3" if self.churn is None else f"DPM++ churn {self.churn:g}"
        if self.clip:
            case["means"] = "clipped to the range of images"
        return case

    @torch.no_grad()
    def draw(self, measurement: Measurement, rows: Sequence[int], count: int, seed: int) -> Drawn:
        """Draws `count` samples of each measurement, whose images are `rows` of the data."""
        start = time.perf_counter()
        method, names = self._method(), [str(row) for row in rows]
        if isinstance(method, LinearGaussian):
            out = method.draw_many(measurement, names, count, seed)
        elif self.draws_samples:
            out = self._sample(method.condition(measurement), names, count, seed)
        else:
            out = posterior_mean(method.condition(measurement), seed=seed, items=names)[None]
        return Drawn(out.float(), time.perf_counter() - start)

    def _sample(self, denoiser: Denoiser, names: Sequence[str], count: int, seed: int) -> Tensor:
        sampler = choose_sampler(denoiser, self._find_sampler(), DPMSolver(self.churn or 0.0))
        steps = sampler.count_steps(self.config.calls)
        timed = self.churn is None or self.config.kind == "bridge"
        grid = denoiser.schedule.time_grid(steps) if timed else None
        drawn = [
            sample(
                denoiser,
                sampler,
                steps=steps,
                grid=grid,
                seed=seed,
                indices=[k] * len(names),
                items=names,
                progress=False,
            )
            for k in range(count)
        ]
        return torch.stack(drawn)

    @torch.no_grad()
    def estimate(self, measurement: Measurement, rows: Sequence[int], seed: int) -> Tensor | None:
        """The posterior mean by one call, where a network was trained for measurements."""
        if self.config.kind not in ("network", "bridge", "linear_gaussian"):
            return None
        names = [str(row) for row in rows]
        denoiser = self._method().condition(measurement)
        return posterior_mean(denoiser, seed=seed, items=names).float()

    @property
    def _weighs(self) -> bool:
        """Whether a method from elsewhere takes a weight."""
        return self.config.outside and "weight" in self.config.model_fields_set

    def _find_sampler(self) -> Sampler | None:
        """The one that settings or the kind ask for; None: the usual one."""
        if self.config.sampler is not None:
            chosen: Sampler = resolve(self.config.sampler)()
            return chosen
        if self.config.kind == "diffpir":
            return Renewal()
        if self.config.kind == "bridge":
            return DDIM(1.0)
        # That of DDRM comes with it.
        return Ancestral() if self.churn is None and self.config.kind != "ddrm" else None

    def _method(self) -> Method:
        kind = self.config.kind
        if kind == "least_squares":
            return LeastSquares()
        if kind == "total_variation":
            return TotalVariation(self.weight)
        if self.config.outside:
            return self._make_outside()
        if self.model is None and self.config.prior is not None:
            return self._guide(resolve(self.config.prior)())
        if self.model is None:
            raise InputError(f"a method of kind {kind} needs the name of a network")
        if kind == "linear_gaussian":
            return LinearGaussian(self.model.scales)
        if kind in ("network", "mean", "bridge"):
            return self._clip(self.model.method)
        return self._guide(self.model.prior)

    @property
    def _limits(self) -> tuple[float, float]:
        if self.model is None:
            raise InputError("clip needs a network, whose settings say the range of images")
        return self.model.config.data.value_range

    def _clip(self, method: Method) -> Method:
        return _Clipped(method, *self._limits) if self.clip else method

    def _make_outside(self) -> Method:
        given: list[object] = []
        if self.config.prior is not None:
            given.append(resolve(self.config.prior)())
        elif self.model is not None:
            given.append(self.model.prior)
        if self._weighs:
            given.append(self.weight)
        made: Method = resolve(self.config.kind)(*given)
        return made

    def _guide(self, prior: Denoiser) -> Method:
        """A method over an unconditional denoiser."""
        kind = self.config.kind
        if kind == "ddrm":
            # Its sampler comes with what it binds, and only takes the prior's means.
            return DDRM(_clip(prior, *self._limits) if self.clip else prior)
        if kind == "mmps":
            return self._clip(MMPS(prior, self.iterations))
        if kind == "denoising":
            return self._clip(Denoising(prior))
        if kind not in _GUIDED:
            raise InputError(f"a method of kind {kind} takes a trained network, not a prior")
        return self._clip(_GUIDED[str(kind)](prior, weight=self.weight))


@dataclass(frozen=True)
class _Clipped:
    """A method whose means stay in the range of images."""

    method: Method
    low: float
    high: float

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds measurements."""
        return _clip(self.method.condition(measurement), self.low, self.high)


def _clip(denoiser: Denoiser, low: float, high: float) -> Denoiser:
    return BoundDenoiser(denoiser, lambda x_t, level: denoiser(x_t, level).clamp(low, high))


def expand_grid(
    config: ContenderConfig, models: Mapping[str, Model], weights: Sequence[float] | None = None
) -> Iterator[Contender]:
    """Every combination of what can be tuned; with other weights than those of the settings."""
    if config.network is not None and config.network not in models:
        raise InputError(f"no network {config.network!r}: there are {sorted(models)}")
    model = models[config.network] if config.network is not None else None
    grid = itertools.product(
        config.weight if weights is None else weights, config.churn, config.clip, config.iterations
    )
    for weight, churn, clip, iterations in grid:
        yield Contender(config, weight, churn, model, clip, iterations)
