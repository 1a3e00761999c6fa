"""Methods of a comparison, from settings: what to build, how to sample it, what to tune."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.diffusion import DDIM, Ancestral, Denoiser, DPMSolver, Sampler, posterior_mean, sample
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import (
    DDRM,
    DMPS,
    DPS,
    MMPS,
    Denoising,
    DiffPIR,
    LeastSquares,
    Method,
    PiGDM,
    Renewal,
    TotalVariation,
)
from bcdm.methods.base import BoundDenoiser

__all__ = ["Contender", "ContenderConfig", "Drawn", "expand_grid"]

_GUIDED = {"dps": DPS, "dmps": DMPS, "pigdm": PiGDM, "diffpir": DiffPIR}


class ContenderConfig(BaseModel):
    """One row of a comparison.

    Attributes:
        kind: What it is. "network" is a trained one, by its own conditioning; "mean" its single
            call; "bridge" one on a bridge, by the bridge's own posterior; guided methods take an
            unconditional network.
        network: The name of the trained network it needs.
        weight: Of guidance or regularisation; several are tuned on the validation split.
        churn: Of DPM-Solver++; several are tuned alike. None: the paper's ancestral steps.
        calls: Network calls per sample; 0 for estimates without samples.
        iterations: Of MMPS in each call, a product with the network's Jacobian each.
        clip: Whether the network's means are clipped to the range of images, as is usual for
            networks that predict noise.
        few: Whether it is scored on the task's smaller number of images.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal[
        "least_squares",
        "total_variation",
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
    ]
    network: str | None = None
    weight: tuple[float, ...] = (1.0,)
    churn: tuple[float | None, ...] = (1.0,)
    calls: int = Field(default=0, ge=0)
    iterations: int = Field(default=5, ge=1)
    clip: bool = False
    few: bool = False


@dataclass(frozen=True)
class Drawn:
    """What a contender made of a batch: samples (S, B, ...), S = 1 without sampling; seconds."""

    samples: Tensor
    seconds: float


@dataclass(frozen=True)
class Contender:
    """A method with one setting of what can be tuned.

    Args:
        config: The settings it comes from.
        weight: One of them.
        churn: One of them.
        model: The trained network, if it has one.
    """

    config: ContenderConfig
    weight: float
    churn: float | None
    model: Model | None

    @property
    def draws_samples(self) -> bool:
        """Whether it draws samples, and is no single estimate."""
        return self.config.kind not in ("least_squares", "total_variation", "mean")

    def describe(self) -> dict[str, object]:
        """What distinguishes it from others of its kind, for records."""
        case: dict[str, object] = {"calls": self.config.calls if self.draws_samples else 0}
        if self.config.kind == "mean":
            case["calls"] = 1
        if self.config.kind == "mmps":
            case["iterations a call"] = self.config.iterations
        if self.config.kind in (*_GUIDED, "total_variation"):
            case["weight"] = self.weight
        if self.config.kind == "bridge":
            case["sampler"] = "posterior of the bridge"
        elif self.draws_samples and self.config.kind not in ("diffpir", "ddrm"):
            case["sampler"] = "Eq. 3" if self.churn is None else f"DPM++ churn {self.churn:g}"
        if self.config.clip:
            case["means"] = "clipped to the range of images"
        return case

    @torch.no_grad()
    def draw(self, measurement: Measurement, rows: Sequence[int], count: int, seed: int) -> Drawn:
        """Draws `count` samples of each measurement, whose images are `rows` of the data."""
        start = time.perf_counter()
        denoiser, names = self._bind(measurement), [str(row) for row in rows]
        if not self.draws_samples:
            out = posterior_mean(denoiser, seed=seed, items=names)[None]
        else:
            sampler = self._choose_sampler(measurement)
            steps = self.config.calls
            timed = self.churn is None or self.config.kind == "bridge"
            grid = denoiser.schedule.time_grid(steps) if timed else None
            out = torch.stack(
                [
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
            )
        return Drawn(out.float(), time.perf_counter() - start)

    @torch.no_grad()
    def estimate(self, measurement: Measurement, rows: Sequence[int], seed: int) -> Tensor | None:
        """The posterior mean by one call, where a network was trained for measurements."""
        if self.config.kind not in ("network", "bridge"):
            return None
        names = [str(row) for row in rows]
        return posterior_mean(self._bind(measurement), seed=seed, items=names).float()

    def _choose_sampler(self, measurement: Measurement) -> Sampler:
        if self.config.kind == "ddrm":
            return DDRM(measurement)
        if self.config.kind == "diffpir":
            return Renewal()
        if self.config.kind == "bridge":
            return DDIM(1.0)
        return Ancestral() if self.churn is None else DPMSolver(self.churn)

    def _bind(self, measurement: Measurement) -> Denoiser:
        return self._method().condition(measurement)

    def _method(self) -> Method:
        kind = self.config.kind
        if kind == "least_squares":
            return LeastSquares()
        if kind == "total_variation":
            return TotalVariation(self.weight)
        if self.model is None:
            raise InputError(f"a method of kind {kind} needs the name of a network")
        if kind in ("network", "mean", "bridge"):
            method, limits = self.model.method, self.model.config.data.value_range
            return _Clipped(method, *limits) if self.config.clip else method
        prior = self.model.prior
        if kind == "ddrm":
            return _Unconditional(prior)
        if kind == "mmps":
            return MMPS(prior, self.config.iterations)
        if kind == "denoising":
            return Denoising(prior)
        return _GUIDED[kind](prior, weight=self.weight)


@dataclass(frozen=True)
class _Clipped:
    """A method whose means stay in the range of images."""

    method: Method
    low: float
    high: float

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds measurements."""
        bound = self.method.condition(measurement)
        return BoundDenoiser(bound, lambda x_t, level: bound(x_t, level).clamp(self.low, self.high))


@dataclass(frozen=True)
class _Unconditional:
    """A prior's denoiser for a sampler that holds the measurement itself."""

    prior: Denoiser

    def condition(self, measurement: Measurement) -> Denoiser:
        """The prior, whatever was measured."""
        return self.prior


def expand_grid(config: ContenderConfig, models: Mapping[str, Model]) -> Iterator[Contender]:
    """Every combination of what can be tuned."""
    if config.network is not None and config.network not in models:
        raise InputError(f"no network {config.network!r}: there are {sorted(models)}")
    model = models[config.network] if config.network is not None else None
    for weight, churn in itertools.product(config.weight, config.churn):
        yield Contender(config, weight, churn, model)
