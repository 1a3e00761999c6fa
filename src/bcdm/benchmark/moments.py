"""Exact error of every sampler on Gaussian posteriors, without Monte Carlo.

With a Gaussian target each sampler step is affine in the image and in its noise. So the whole chain
is run once on unit responses: row 0 carries the mean, row j the response to the j-th noise draw.
Mean and variance after the chain follow exactly, through the same loop that draws real samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log2

import torch
from torch import Tensor

from bcdm.assessment.records import Record
from bcdm.diffusion import (
    DDIM,
    VP,
    Ancestral,
    DPMSolver,
    EulerMaruyama,
    Heun,
    NoiseLevel,
    PredictorCorrector,
    Sampler,
    Schedule,
    run_chain,
)
from bcdm.tensors import ImageSpec, fit

__all__ = ["SAMPLERS", "chain_moments", "run"]

VARIANCES = (1.0, 0.1, 0.01, 0.0025)
MEAN = 0.5
CALLS = (5, 10, 20, 30, 50, 100, 200, 500, 1000)

# Grids are named by what is uniform on them.
SAMPLERS: dict[str, tuple[Sampler, str]] = {
    "ancestral (Eq. 3)": (Ancestral(), "log-SNR"),
    "ancestral (Eq. 3), time": (Ancestral(), "time"),
    "Euler-Maruyama": (EulerMaruyama(), "log-SNR"),
    "predictor-corrector": (PredictorCorrector(), "log-SNR"),
    "DDIM eta=0": (DDIM(0.0), "log-SNR"),
    "DDIM eta=0, time": (DDIM(0.0), "time"),
    "DDIM eta=1": (DDIM(1.0), "log-SNR"),
    "DPM-Solver++ ODE": (DPMSolver(), "log-SNR"),
    "DPM-Solver++ SDE": (DPMSolver(churn=1.0), "log-SNR"),
    "DPM-Solver++ churn 3": (DPMSolver(churn=3.0), "log-SNR"),
    "DPM-Solver++ ODE, published": (DPMSolver(published=True), "log-SNR"),
    "DPM-Solver++ SDE, published": (DPMSolver(1.0, published=True), "log-SNR"),
    "DPM-Solver++ churn 3, published": (DPMSolver(3.0, published=True), "log-SNR"),
    "Heun": (Heun(), "log-SNR"),
}
SECOND_ORDER = ("DPM-Solver++ ODE", "DPM-Solver++ SDE", "Heun")
REQUIRED = {("DPM-Solver++ ODE", 30): "< 0.02", ("DPM-Solver++ SDE", 50): "< 0.02"}


@dataclass(frozen=True)
class _AffineDenoiser:
    """E[x_0 | x_t] of a Gaussian, applied to unit responses: only row 0 sees the mean."""

    schedule: Schedule
    mean: Tensor
    variance: Tensor

    @property
    def image(self) -> ImageSpec:
        return ImageSpec(tuple(self.variance.shape), torch.float64)

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        alpha, sigma = fit(x_t, *level)
        gain = alpha * self.variance / (alpha**2 * self.variance + sigma**2)
        offset = torch.zeros_like(x_t)
        offset[0] = self.mean
        return gain * x_t + (1 - gain * alpha) * offset


@dataclass(frozen=True)
class _UnitNoise:
    """Noise draw j as the unit response of row j."""

    rows: int
    draws: int

    def normal(self, image: ImageSpec, *, step: int, draw: int = 0) -> Tensor:
        out = torch.zeros(self.rows, *image.shape, dtype=image.dtype)
        out[1 + step * self.draws + draw] = 1
        return out


def chain_moments(
    sampler: Sampler,
    log_snr: Tensor,
    *,
    schedule: Schedule | None = None,
    mean: float = MEAN,
    variances: Sequence[float] = VARIANCES,
) -> tuple[Tensor, Tensor]:
    """Exact mean and variance (V,) that a sampler's chain ends with, per target variance."""
    target = torch.tensor(variances, dtype=torch.float64)
    denoiser = _AffineDenoiser(schedule or VP(), torch.full_like(target, mean), target)
    draws = 1 + getattr(sampler, "corrections", 0)
    noise = _UnitNoise(1 + draws * len(log_snr), draws)
    rows = run_chain(denoiser, sampler, log_snr, noise)
    return rows[0], rows[1:].square().sum(0)


def _grid(kind: str, schedule: Schedule, steps: int) -> Tensor:
    return schedule.grid(steps) if kind == "log-SNR" else schedule.time_grid(steps)


def _steps(sampler: Sampler, calls: int) -> int:
    """The most levels that `calls` network calls allow."""
    steps = 1
    while sampler.calls(steps + 1) <= calls:
        steps += 1
    return steps


def run(
    command: str, *, smoke: bool = False, report: Callable[[str], None] = print
) -> list[Record]:
    """All records; `smoke` takes a few of the sizes."""
    record = partial(Record, command=command)
    records = []
    schedule = VP()
    for name, (sampler, kind) in SAMPLERS.items():
        for calls in (5, 30, 50) if smoke else CALLS:
            moments = chain_moments(sampler, _grid(kind, schedule, _steps(sampler, calls)))
            for variance, mean, spread in zip(VARIANCES, *moments, strict=True):
                case: dict[str, object] = {"sampler": name, "calls": calls, "variance": variance}
                required = REQUIRED.get((name, calls))
                error = abs(float(spread) / variance - 1)
                records.append(record("variance error", case, error, required=required))
                away = abs(float(mean) - MEAN) / variance**0.5
                records.append(record("mean error", case, away, "posterior std", required=required))
        report(f"moments: {name}")
    for name in SECOND_ORDER:
        for variance in VARIANCES:
            order = _measure_order(*SAMPLERS[name], schedule, variance)
            case = {"sampler": name, "variance": variance}
            records.append(record("order of convergence", case, order, required=">= 1.8"))
    counts = (1, 2, 3, 7, 50) if smoke else range(1, 1001)
    for name, (sampler, kind) in SAMPLERS.items():
        if isinstance(sampler, DPMSolver) and sampler.published:
            continue  # there for comparison only
        bad = sum(not _is_finite(sampler, _grid(kind, schedule, steps)) for steps in counts)
        case = {"sampler": name, "step counts": len(counts)}
        records.append(record("step counts with NaN", case, bad, required="<= 0"))
        report(f"finite: {name}")
    return records


def _measure_order(sampler: Sampler, kind: str, schedule: Schedule, variance: float) -> float:
    """The order at which mean and standard deviation settle: log2 of successive changes."""
    ends = []
    for steps in (129, 257, 513):
        mean, spread = chain_moments(
            sampler, _grid(kind, schedule, steps), schedule=schedule, variances=(variance,)
        )
        ends.append(torch.stack([mean, spread.sqrt()]))
    coarse, fine = (ends[0] - ends[1]).norm(), (ends[1] - ends[2]).norm()
    return log2(float(coarse / fine))


@dataclass(frozen=True)
class _ConstantNoise:
    def normal(self, image: ImageSpec, *, step: int, draw: int = 0) -> Tensor:
        return torch.full((1, *image.shape), (-1.0) ** (step + draw), dtype=image.dtype)


def _is_finite(sampler: Sampler, log_snr: Tensor) -> bool:
    target = torch.tensor(VARIANCES, dtype=torch.float64)
    denoiser = _AffineDenoiser(VP(), torch.full_like(target, MEAN), target)
    return bool(run_chain(denoiser, sampler, log_snr, _ConstantNoise()).isfinite().all())
