"""What is compared on scans of several coils, and how weights and widths are tuned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.grids import search_grid
from bcdm.benchmark.coilsets import Case
from bcdm.checkpoint import Model
from bcdm.diffusion import VP, DPMSolver, posterior_mean, sample
from bcdm.errors import InputError
from bcdm.evaluation import nrmse
from bcdm.evaluation.ranks import find_interval, resolves
from bcdm.measurement import Measurement
from bcdm.methods import (
    CONTROL,
    MMPS,
    LeastSquares,
    LinearGaussian,
    Method,
    RootSumOfSquares,
    SparseGradients,
    SparseWavelets,
)
from bcdm.methods.restoration import LEARNED_ITERATIONS
from bcdm.methods.view import Scales
from bcdm.operators import PixelMask
from bcdm.tensors import SeededNoise

__all__ = [
    "LEVEL",
    "ONE_CALL",
    "OURS",
    "Classical",
    "OneCall",
    "Sampled",
    "find_error",
    "list_classical",
    "list_sampled",
]

OURS, ONE_CALL = "ours", "ours by one call"
LEVEL = 0.8
WITHOUT_MODEL = Scales(0.15)  # of the control
GUIDED_CALLS = 40  # of MMPS, which needs more than ours


@dataclass(frozen=True)
class Classical:
    """A method that gives one image, with a weight.

    Attributes:
        name: Of the row.
        make: The method of a weight.
        weights: Those that are tried; none if it has no weight.
    """

    name: str
    make: Callable[[float], Method]
    weights: tuple[float, ...] = ()

    def tune(self, cases: Sequence[Case]) -> float:
        """The weight of the least error, on other slices than those it is used on.

        A grid goes on beyond its end while the best weight lies there.
        """
        if not self.weights:
            return 0.0

        def find_cost(weight: float) -> float:
            return float(np.mean([self.try_weight(weight, case) for case in cases]))

        costs = search_grid(self.weights, find_cost)
        return min(costs, key=costs.__getitem__)

    def estimate(self, case: Case, weight: float) -> tuple[Tensor, Tensor]:
        """Magnitudes (1, H, W), and the complex image they are of, (1, 1, H, W)."""
        measurement = case.measurement
        blank = torch.zeros_like(measurement.back_projection)
        level = VP().level(torch.zeros(1, dtype=torch.float64))
        found = self.make(weight).condition(measurement)(blank, level)
        return found[:, 0].abs(), found

    def try_weight(self, weight: float, case: Case) -> float:
        """The error that a weight gives."""
        found, _ = self.estimate(case, weight)
        return find_error(found[0], case)


@dataclass(frozen=True)
class Sampled:
    """A method that gives samples.

    Attributes:
        name: Of the row.
        bind: The method of a measurement.
        samples: Of each slice.
        calls: Network calls per sample.
        seed: Of the samples.
        fitted: Whether the width of its intervals is fitted.
    """

    name: str
    bind: Callable[[Measurement], Method]
    samples: int
    calls: int
    seed: int = 0
    fitted: bool = True

    def tune(self, cases: Sequence[Case]) -> float:
        """The factor of intervals that makes 80 % of them hold, on other slices; 1 of too few."""
        if not self.fitted or not resolves(self.samples, LEVEL):
            return 1.0
        ratios = []
        for case in cases:
            magnitudes, _ = self.estimate(case, 1.0)
            low, high = find_interval(magnitudes, LEVEL)
            away = (case.reference - (low + high) / 2).abs() / ((high - low) / 2).clamp_min(1e-12)
            ratios.append(away[case.inside])
        return float(torch.cat(ratios).quantile(LEVEL)) if ratios else 1.0

    def estimate(self, case: Case, weight: float) -> tuple[Tensor, Tensor]:
        """Magnitudes (samples, H, W), and the samples, (samples, 1, H, W)."""
        method = self.bind(case.measurement)
        if isinstance(method, LinearGaussian):
            noise = SeededNoise(self.seed, range(self.samples))
            drawn = method.draw(case.measurement.repeat(self.samples), noise)
            return drawn[:, 0].abs(), drawn
        drawn = sample(
            method.condition(case.measurement),
            DPMSolver(churn=1.0),
            steps=self.calls,
            seed=self.seed,
            indices=range(self.samples),
            progress=False,
        )
        return drawn[:, 0].abs(), drawn


@dataclass(frozen=True)
class OneCall(Sampled):
    """The mean of the posterior by a single network call: no samples, and no intervals."""

    samples: int = 1
    calls: int = 1
    fitted: bool = False

    def estimate(self, case: Case, weight: float) -> tuple[Tensor, Tensor]:
        """Magnitudes (1, H, W), and the complex image they are of, (1, 1, H, W)."""
        with torch.no_grad():
            denoiser = self.bind(case.measurement).condition(case.measurement)
            found = posterior_mean(denoiser, seed=self.seed)
        return found[:, 0].abs(), found


def find_error(magnitude: Tensor, case: Case) -> float:
    """NRMSE inside of the object."""
    chosen = case.inside
    return float(nrmse(magnitude[chosen][None], case.reference[chosen][None]))


def _measure_nothing(measurement: Measurement) -> Measurement:
    """Of images of the same size nothing is measured."""
    back = measurement.back_projection[:1]
    empty = PixelMask(torch.zeros(back.shape[-2:], dtype=torch.bool))
    return Measurement(torch.zeros_like(back), empty, 1.0)


def list_classical() -> list[Classical]:
    """From what takes no thought to what was the best before networks."""
    return [
        Classical("root sum of squares", lambda _: RootSumOfSquares()),
        Classical("CG-SENSE", LeastSquares, (0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0)),
        Classical("l1-wavelet", SparseWavelets, (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)),
        Classical("total variation", SparseGradients, (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)),
    ]


def list_sampled(model: Model | None, samples: int, calls: int, seed: int) -> list[Sampled]:
    """The control, and with a model the model and MMPS over its prior."""
    control = LinearGaussian(model.scales if model else WITHOUT_MODEL)
    rows = [Sampled(CONTROL, lambda _: control, samples, calls, seed)]
    if model is None:
        return rows
    method, value_range = model.method, model.preparation.value_range
    if model.config.operator.kind != "family" or not model.config.operator.nothing:
        raise InputError(f"{model.config.name} knows no prior: it was never trained on nothing")

    def guide(measurement: Measurement) -> Method:
        prior = method.condition(_measure_nothing(measurement))
        return MMPS(prior, LEARNED_ITERATIONS, (value_range[0], 1.2 * value_range[1]))

    # A sample of it costs as much as nine of ours: its intervals are shown as they are.
    rows.append(Sampled("MMPS", guide, samples, GUIDED_CALLS, seed, fitted=False))
    rows.append(OneCall(ONE_CALL, lambda _: method, seed=seed))
    return [*rows, Sampled(OURS, lambda _: method, samples, calls, seed)]
