r"""The mixture benchmark of MCGDiff (Cardoso et al., 2024): distance to the exact posterior.

The prior has 25 equal modes at $(8i, 8j)$, $i, j \in \{-2..2\}$, repeated $d/2$ times, with unit
covariance. Instances ($A$ with singular values uniform on (0, 1), $y$, and a noise level uniform on
(0, 1) times the largest singular value) are shipped as a file. Everything is divided by the prior's
standard deviation, so that the schedule's end is pure noise; distances are in the original units.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import product

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.diffusion import VP, Denoiser, DPMSolver, Sampler, sample
from bcdm.evaluation.distance import sliced_wasserstein
from bcdm.measurement import Measurement
from bcdm.methods import DMPS, DPS, ExactDenoiser, ExactPosterior, GaussianMixture, Method, PiGDM
from bcdm.operators import Dense

__all__ = [
    "Instance",
    "draw_exact",
    "find_distance",
    "load_instances",
    "make_instances",
    "make_prior",
    "run",
]

SCALE = float(np.sqrt(128 + 1))  # standard deviation of each coordinate of the prior
CASES = ((8, 1), (8, 2), (8, 4), (80, 1), (80, 2), (80, 4))
FULL_CASES = (*CASES, (800, 1))
SEEDS = {8: 40, 80: 20, 800: 20}
TUNING = 4  # instances kept for tuning the baselines' weights, never scored
SAMPLES, EXACT, DIRECTIONS = 1000, 2000, 100
REPEATS = 4  # floor and what is required of are means over so many sample sets an instance
TUNING_SAMPLES = 300
CALLS = (20, 50, 100)
WEIGHTS = {
    "PiGDM": (0.5, 1.0, 2.0),
    "DPS": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "DMPS": (0.25, 0.5, 1.0, 1.75),
}
BASELINES: dict[str, Callable[[Denoiser, float], Method]] = {
    "PiGDM": PiGDM,
    "DPS": DPS,
    "DMPS": DMPS,
}
BASELINE_CALLS = 100
# The start must be pure noise beside the whole image: alpha |x_0| << 1. In 80 dimensions |x_0| is
# 9, and the paper's schedule ends at alpha = .0066; this one goes on to .0009.
LONG, PAPER = "long", "paper"
SCHEDULES = {LONG: VP(beta_max=28.0), PAPER: VP()}  # BCDM takes the first, baselines the better
SOLVERS: dict[str, Sampler] = {"ODE": DPMSolver(), "SDE": DPMSolver(churn=1.0)}
REQUIRED = {("BCDM ODE", 20): "<= 1.4", ("BCDM ODE", 50): "<= 1.2"}
RIVAL = ("BCDM ODE", 20)  # what every baseline must stay above


@dataclass(frozen=True)
class Instance:
    """One inverse problem: a matrix (dy, d), data (dy,) and a noise level, in original units."""

    matrix: Tensor
    y: Tensor
    noise_std: float

    @property
    def measurement(self) -> Measurement:
        """In standardised units."""
        return Measurement(self.y[None] / SCALE, Dense(self.matrix), self.noise_std / SCALE)


def make_prior(dimension: int) -> GaussianMixture:
    """The standardised prior over vectors of an even dimension."""
    steps = 8.0 * torch.arange(-2, 3, dtype=torch.float64)
    pairs = torch.cartesian_prod(steps, steps).repeat(1, dimension // 2)
    eye = torch.eye(dimension, dtype=torch.float64)[None]
    return GaussianMixture(torch.zeros(25).double(), pairs / SCALE, eye / SCALE**2)


def make_instances(seed: int = 0) -> dict[str, np.ndarray]:
    """Draws the instances of the shipped file."""
    arrays: dict[str, np.ndarray] = {}
    for dimension, measured in FULL_CASES:
        count = SEEDS[dimension] + TUNING
        matrices = np.empty((count, measured, dimension), np.float64)
        data, stds = np.empty((count, measured)), np.empty(count)
        for k in range(count):
            rng = np.random.default_rng([seed, dimension, measured, k])
            left, _, right = np.linalg.svd(
                rng.standard_normal((measured, dimension)), full_matrices=False
            )
            singular = rng.uniform(size=measured)
            matrices[k] = left * singular @ right
            stds[k] = rng.uniform() * singular.max()
            corner = np.tile(8.0 * rng.integers(-2, 3, 2), dimension // 2)
            x_0 = corner + rng.standard_normal(dimension)
            data[k] = matrices[k] @ x_0 + stds[k] * rng.standard_normal(measured)
        name = f"{dimension}/{measured}"
        arrays |= {f"{name}/matrix": matrices, f"{name}/y": data, f"{name}/noise_std": stds}
    return arrays


def load_instances(dimension: int, measured: int) -> list[Instance]:
    """The shipped instances of one case; the last `TUNING` are for tuning only."""
    with (files("bcdm.benchmark") / "mixture_instances.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        name = f"{dimension}/{measured}"
        rows = zip(
            *(stored[f"{name}/{part}"] for part in ("matrix", "y", "noise_std")), strict=True
        )
        return [
            Instance(torch.from_numpy(matrix), torch.from_numpy(y), float(std))
            for matrix, y, std in rows
        ]


def run(
    command: str,
    *,
    full: bool = False,
    smoke: bool = False,
    report: Callable[[str], None] = print,
) -> list[Record]:
    """Distances per case and method, and their ratio to the floor of exact samples."""
    cases = CASES[:1] if smoke else FULL_CASES if full else CASES
    return [
        row
        for dimension, measured in cases
        for row in _run_case(
            partial(Record, command=command, seed=0), dimension, measured, smoke, report
        )
    ]


def _run_case(
    record: Callable[..., Record],
    dimension: int,
    measured: int,
    smoke: bool,
    report: Callable[[str], None],
) -> list[Record]:
    bench = _Bench(make_prior(dimension))
    instances = load_instances(dimension, measured)
    scored, tuning = instances[:-TUNING], instances[-TUNING:]
    if smoke:
        scored, tuning = scored[:2], tuning[:1]
    targets, floor = draw_exact(bench.prior, scored)
    rows: list[Record] = []
    best = np.inf

    def add(method: str, calls: int, values: np.ndarray, note: dict[str, object]) -> None:
        case = {
            "d/dy": f"{dimension}/{measured}",
            "method": method,
            "calls": calls,
            "instances": len(values),
            "samples": SAMPLES,
        } | note
        ratio = values.mean() / floor.mean()
        required = REQUIRED.get((method, calls))
        if method in BASELINES:
            required = f"> {best:.4g}"
        rows.append(record("sliced W1", case, values.mean(), interval=bootstrap(values)))
        rows.append(
            record(
                "sliced W1 / floor",
                case,
                ratio,
                interval=bootstrap(values, floor),
                required=required,
            )
        )
        report(f"mixture {case['d/dy']} {method} {calls}: {values.mean():.3f}, {ratio:.2f} x floor")

    add("floor", 0, floor, {})
    method = ExactPosterior(bench.prior, SCHEDULES[LONG])
    for solver, sampler in SOLVERS.items():
        for calls in CALLS:
            name = f"BCDM {solver}"
            repeats = REPEATS if (name, calls) in REQUIRED else 1
            values = bench.score(method, sampler, calls, scored, targets, repeats=repeats)
            add(name, calls, values, {"sample sets": repeats})
            if (name, calls) == RIVAL:
                best = values.mean() / floor.mean()
    for name, build in BASELINES.items():
        weights = WEIGHTS[name][:: 3 if smoke else 1]
        schedule, solver, weight = bench.tune(build, weights, tuning)
        guided = build(bench.denoise(schedule), weight)
        values = bench.score(guided, SOLVERS[solver], BASELINE_CALLS, scored, targets)
        note = {
            "weight": weight,
            "grid": weights,
            "solver": solver,
            "schedule": schedule,
            "sample sets": 1,
        }
        add(name, BASELINE_CALLS, values, note)
    return rows


@dataclass(frozen=True)
class _Bench:
    """A prior, and how to score methods on it."""

    prior: GaussianMixture

    def denoise(self, schedule: str) -> ExactDenoiser:
        """The exact unconditional denoiser."""
        return ExactDenoiser(self.prior, SCHEDULES[schedule])

    def score(
        self,
        method: Method,
        sampler: Sampler,
        calls: int,
        instances: list[Instance],
        targets: list[Tensor],
        *,
        samples: int = SAMPLES,
        repeats: int = 1,
    ) -> np.ndarray:
        """Sliced W1 of each instance, a mean over independent sample sets."""
        bound = [method.condition(one.measurement) for one in instances]
        return np.array(
            [
                np.mean(
                    [
                        find_distance(
                            sample(
                                denoiser,
                                sampler,
                                steps=calls,
                                seed=100 * r + k,
                                indices=range(samples),
                                progress=False,
                            ),
                            target,
                        )
                        for r in range(repeats)
                    ]
                )
                for k, (denoiser, target) in enumerate(zip(bound, targets, strict=True))
            ]
        )

    def tune(
        self,
        build: Callable[[Denoiser, float], Method],
        weights: Sequence[float],
        instances: list[Instance],
    ) -> tuple[str, str, float]:
        """The schedule, solver and weight of least mean distance on instances kept for that."""
        targets = [
            self.prior.condition(one.measurement).sample(EXACT, seed=5000 + k)
            for k, one in enumerate(instances)
        ]

        def cost(choice: tuple[str, str, float]) -> float:
            schedule, solver, weight = choice
            method = build(self.denoise(schedule), weight)
            distances = self.score(
                method, SOLVERS[solver], BASELINE_CALLS, instances, targets, samples=TUNING_SAMPLES
            )
            return float(np.nan_to_num(distances.mean(), nan=np.inf))

        return min(product(SCHEDULES, SOLVERS, weights), key=cost)


def draw_exact(
    prior: GaussianMixture, instances: list[Instance]
) -> tuple[list[Tensor], np.ndarray]:
    """Exact samples of each instance, and the distance that other exact samples keep from them."""
    exact = [prior.condition(one.measurement) for one in instances]
    # Every instance has seeds of its own: with shared ones the floor's error would not average out.
    targets = [posterior.sample(EXACT, seed=1000 + k) for k, posterior in enumerate(exact)]
    floor = np.array(
        [
            np.mean(
                [
                    find_distance(posterior.sample(SAMPLES, seed=2000 + 100 * r + k), target)
                    for r in range(REPEATS)
                ]
            )
            for k, (posterior, target) in enumerate(zip(exact, targets, strict=True))
        ]
    )
    return targets, floor


def find_distance(drawn: Tensor, target: Tensor) -> float:
    """Sliced W1 in the original units."""
    # A guided chain may diverge; infinity keeps it out of every choice and comparison.
    if not bool(drawn.isfinite().all()):
        return float("inf")
    return SCALE * float(sliced_wasserstein(drawn, target, directions=DIRECTIONS, seed=0))
