r"""The mixture benchmark with a learned network: one for all operators and noise levels.

A network is trained on mixtures in 8 dimensions, every sample with its own $A$ (1, 2 or 4 rows,
singular values uniform on (0, 1)) and its own noise level. It is scored on the benchmark's shipped
instances, which training never draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from bcdm.benchmark.mixture import (
    SAMPLES,
    SCALE,
    TUNING,
    Instance,
    draw_exact,
    load_instances,
    make_prior,
    measure,
)
from bcdm.benchmark.records import Record
from bcdm.benchmark.statistics import bootstrap
from bcdm.diffusion import VP, DPMSolver, sample
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, Parameterisation
from bcdm.networks.unrolled import Projection
from bcdm.operators import Dense
from bcdm.problems import PROBLEM_STEP
from bcdm.tensors import ImageSpec, SeededNoise
from bcdm.training.objective import LevelSampling, Objective
from bcdm.training.state import TrainingState

__all__ = ["FamilyNetwork", "RandomMatrices", "run", "train"]

DIMENSION, ROWS = 8, (1, 2, 4)
STEPS, BATCH, RATE = 8000, 512, 1e-3
CALLS = (10, 20, 50)
LIMIT = "<= 2"


@dataclass(frozen=True)
class RandomMatrices:
    """A matrix and a noise level for each sample, by the benchmark's law."""

    seed: int = 0

    def draw(self, counters: Sequence[int]) -> tuple[Dense, Tensor]:
        """Matrices of four rows, some of them zero, and noise levels in standardised units."""
        draws = SeededNoise(self.seed, counters).normal(
            ImageSpec((DIMENSION * max(ROWS) + max(ROWS) + 2,), torch.float64), step=PROBLEM_STEP
        )
        directions, rest = draws.split([DIMENSION * max(ROWS), max(ROWS) + 2], 1)
        uniform = torch.special.ndtr(rest)
        orthonormal = torch.linalg.qr(directions.reshape(-1, DIMENSION, max(ROWS)))[0].mT
        count = torch.tensor(ROWS)[(uniform[:, -1] * len(ROWS)).long().clamp_max(len(ROWS) - 1)]
        singular = uniform[:, : max(ROWS)] * (torch.arange(max(ROWS)) < count[:, None])
        std = (uniform[:, -2] * singular.amax(1)).clamp_min(1e-3) / SCALE
        return Dense((singular[:, :, None] * orthonormal).float()), std


class FamilyNetwork(nn.Module):
    """A small network over vectors. It learns what the operator leaves unknown by probing it.

    `project` maps an output f to w + C f, so its response to unit vectors is the matrix C.
    """

    def __init__(self, width: int = 512, depth: int = 4, seed: int = 0) -> None:
        super().__init__()
        inputs = DIMENSION + DIMENSION**2 + 16
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers: list[nn.Module] = [nn.Linear(inputs, width), nn.SiLU()]
            for _ in range(depth - 1):
                layers += [nn.Linear(width, width), nn.SiLU()]
            self.layers = nn.Sequential(*layers, nn.Linear(width, DIMENSION))

    def forward(self, x: Tensor, log_snr: Tensor, project: Projection) -> Tensor:
        """The mean of x_0 in units of the prior."""
        base = project(torch.zeros_like(x))
        units = torch.eye(DIMENSION).to(x)
        spread = torch.cat([project(unit.expand_as(x)) - base for unit in units], 1)
        angles = log_snr[:, None] * 0.15 * 1.6 ** torch.arange(8).to(log_snr) / 2
        features = torch.cat([angles.sin(), angles.cos()], 1).expand(len(x), -1)
        return project(self.layers(torch.cat([x, spread, features], 1)))


def train(steps: int, *, seed: int = 0, report: Callable[[str], None] = print) -> Bayesian:
    """Trains on the prior and random problems; returns the averaged network as a method."""
    schedule = VP(spread=1.0)
    method = Bayesian(FamilyNetwork(seed=seed), schedule, Parameterisation(prior_std=1.0))
    levels = LevelSampling(schedule, mean=1.0, std=3.0, end=0.05)
    objective = Objective(method, RandomMatrices(seed), levels, seed)
    optimizer = torch.optim.Adam(method.network.parameters(), lr=RATE)
    state = TrainingState(method.network, optimizer)
    prior = make_prior(DIMENSION)
    for step in range(steps):
        x = prior.sample(BATCH, seed=10_000_000 + step).float()
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 200) * (1 - step / steps)
        optimizer.zero_grad(set_to_none=True)
        loss = objective(x, torch.arange(step * BATCH, (step + 1) * BATCH)).mean()
        loss.backward()
        optimizer.step()
        state.step = step
        state.move_average(0.999)
        if (step + 1) % 500 == 0:
            report(f"learned mixture: step {step + 1}/{steps}, loss {loss.item():.4f}")
    network = state.average.module.eval().requires_grad_(False)
    return Bayesian(network, schedule, method.parameterisation)


def run(
    command: str, *, smoke: bool = False, report: Callable[[str], None] = print
) -> list[Record]:
    """Distances of the learned posterior over the floor of exact samples."""
    method = train(20 if smoke else STEPS, report=report)
    record = partial(Record, command=command, seed=0)
    rows: list[Record] = []
    for count in ROWS:
        instances = load_instances(DIMENSION, count)[:-TUNING][: 2 if smoke else None]
        targets, floor = draw_exact(make_prior(DIMENSION), instances)
        for calls in CALLS:
            values = np.array([
                measure(_sample(method, one, calls, k), target)
                for k, (one, target) in enumerate(zip(instances, targets, strict=True))
            ])  # fmt: skip
            case = {"d/dy": f"{DIMENSION}/{count}", "method": "BCDM, learned for the family",
                    "calls": calls, "instances": len(values), "samples": SAMPLES}  # fmt: skip
            required = LIMIT if calls == 20 and not smoke else None
            ratio = float(values.mean() / floor.mean())
            rows.append(record("sliced W1 / floor", case, ratio,
                               interval=bootstrap(values, floor), required=required))  # fmt: skip
            report(f"learned mixture {case['d/dy']}, {calls} calls: {ratio:.2f} x floor")
    return rows


def _sample(method: Bayesian, instance: Instance, calls: int, seed: int) -> Tensor:
    exact = instance.measurement
    operator, y = Dense(instance.matrix.float()), exact.y.float()
    posterior = method.condition(Measurement(y, operator, exact.std))
    drawn = sample(posterior, DPMSolver(), steps=calls, seed=seed, indices=range(SAMPLES),
                   progress=False)  # fmt: skip
    return drawn.double()
