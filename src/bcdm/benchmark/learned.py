r"""The mixture benchmark with a learned network: one for all operators and noise levels.

For 8 and for 80 dimensions a network is trained on mixtures, every sample with its own $A$ (1, 2
or 4 rows, singular values uniform on (0, 1)) and its own noise level. It is scored on the
benchmark's shipped instances, which training never draws.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.benchmark.instances import SCALE, Instance, load_instances, make_prior
from bcdm.benchmark.mixture import SAMPLES, draw_exact, find_distance
from bcdm.diffusion import VP, DPMSolver, sample
from bcdm.methods import Bayesian, Parameterisation
from bcdm.networks.unrolled import Projection
from bcdm.operators import Dense
from bcdm.problems import PROBLEM_STEP, Levels
from bcdm.tensors import ImageSpec, SeededNoise
from bcdm.training.objective import Objective
from bcdm.training.state import TrainingState

__all__ = ["FamilyNetwork", "RandomMatrices", "run", "train"]

ROWS = (1, 2, 4)
TRAININGS = {8: (3000, 512), 80: (3000, 128)}  # steps and batch, by dimension
RATE = 1e-3
POINTS, POINTS_RATE = 256, 1e-2
CALLS = {8: (10, 20, 50), 80: (20,)}
LIMIT = "<= 2"


@dataclass(frozen=True)
class RandomMatrices:
    """A matrix and a noise level for each sample, by the benchmark's law."""

    dimension: int
    seed: int = 0

    def draw(self, counters: Sequence[int]) -> tuple[Dense, Tensor]:
        """Matrices of four rows, some of them zero, and noise levels in standardised units."""
        sizes = [self.dimension * max(ROWS), max(ROWS) + 2]
        spec = ImageSpec((sum(sizes),), torch.float64)
        draws = SeededNoise(self.seed, counters).normal(spec, step=PROBLEM_STEP)
        directions, rest = draws.split(sizes, 1)
        uniform = torch.special.ndtr(rest)
        orthonormal = torch.linalg.qr(directions.reshape(-1, self.dimension, max(ROWS)))[0].mT
        count = torch.tensor(ROWS)[(uniform[:, -1] * len(ROWS)).long().clamp_max(len(ROWS) - 1)]
        singular = uniform[:, : max(ROWS)] * (torch.arange(max(ROWS)) < count[:, None])
        std = (uniform[:, -2] * singular.amax(1)).clamp_min(1e-3) / SCALE
        return Dense(singular[:, :, None] * orthonormal), std


class FamilyNetwork(nn.Module):
    r"""Attention over points of image space, which are learned like everything else.

    The statistic says $x_0 \sim N(w, C)$ but for the prior. Were the prior a set of points blurred
    by $\tau$, the posterior mean would be a softmax over them by their distance from $w$ in the
    metric $(C + \tau^2)^{-1}$; that is one layer of attention, with as many points as its size. A
    plain network over it makes up for what points do not tell. $C^{1/2}$ comes from probing:
    `project` maps an output f to $w + C^{1/2} f$.
    """

    def __init__(self, points: Tensor, width: int = 256, seed: int = 0) -> None:
        super().__init__()
        dimension = points.shape[1]
        inputs = 3 * dimension + dimension**2 + 16
        self.points = nn.Parameter(points.clone())
        self.weights = nn.Parameter(torch.zeros(len(points)))
        self.log_blur = nn.Parameter(torch.tensor(0.3).log())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            last = nn.Linear(width, dimension)
            nn.init.zeros_(last.weight)
            self.layers = nn.Sequential(
                nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), last
            )

    def forward(self, x: Tensor, log_snr: Tensor, project: Projection) -> Tensor:
        """The mean of x_0 in units of the prior."""
        eye = torch.eye(x.shape[1]).to(x)
        spread = torch.stack([project(unit.expand_as(x)) for unit in eye], 1) - x[:, None]
        metric = torch.linalg.inv(spread @ spread + (2 * self.log_blur).exp() * eye)
        near = torch.einsum("bi,bij,kj->bk", x, metric, self.points)
        near = near - 0.5 * torch.einsum("ki,bij,kj->bk", self.points, metric, self.points)
        found = (near + self.weights).softmax(1) @ self.points
        pull = torch.einsum("bij,bjk,bk->bi", spread, metric, found - x)
        angles = log_snr[:, None] * 0.15 * 1.6 ** torch.arange(8).to(x) / 2
        level = torch.cat([angles.sin(), angles.cos()], 1).expand(len(x), -1)
        seen = torch.cat([x, spread.flatten(1), level, found, pull], 1)
        return project(pull + self.layers(seen))


def train(
    dimension: int,
    steps: int,
    batch: int,
    *,
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> Bayesian:
    """Trains on the prior and random problems; returns the averaged network as a method."""
    schedule = VP(spread=1.0)
    prior = make_prior(dimension)
    # Data of noise near zero fix directions to one part in 1e8 of others: float64 keeps both.
    network = FamilyNetwork(prior.sample(POINTS, seed=seed), seed=seed).double()
    method = Bayesian(network, schedule, Parameterisation(prior_std=1.0))
    levels = Levels(mean=1.0, std=3.0, end=0.05)
    objective = Objective(method, RandomMatrices(dimension, seed), levels, seed)
    optimizer = torch.optim.Adam(
        [
            {"params": network.layers.parameters(), "base": RATE},
            {"params": [network.points, network.weights, network.log_blur], "base": POINTS_RATE},
        ]
    )
    state = TrainingState(network, optimizer)
    for step in range(steps):
        x = prior.sample(batch, seed=10_000_000 + step)
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * min(1.0, (step + 1) / 200) * (1 - step / steps)
        optimizer.zero_grad(set_to_none=True)
        loss = objective(x, torch.arange(step * batch, (step + 1) * batch)).mean()
        loss.backward()
        optimizer.step()
        state.step = step
        state.move_average(0.999)
        if (step + 1) % 500 == 0:
            report(
                f"learned mixture, d = {dimension}: step {step + 1}/{steps}, loss {loss.item():.4f}"
            )
    average = state.average.module.eval().requires_grad_(False)
    return Bayesian(average, schedule, method.parameterisation)


def run(
    command: str, *, smoke: bool = False, report: Callable[[str], None] = print
) -> list[Record]:
    """Distances of the learned posteriors over the floor of exact samples."""
    rows: list[Record] = []
    for dimension, (steps, batch) in TRAININGS.items():
        method = train(dimension, 3 if smoke else steps, batch, report=report)
        for count in ROWS:
            rows += _score(method, dimension, count, command, smoke, report)
    return rows


def _score(
    method: Bayesian,
    dimension: int,
    count: int,
    command: str,
    smoke: bool,
    report: Callable[[str], None],
) -> Iterator[Record]:
    """One record for each number of calls."""
    instances = load_instances(dimension, count)[: 1 if smoke else None]
    targets, floor = draw_exact(make_prior(dimension), instances)
    for calls in (3,) if smoke else CALLS[dimension]:
        values = np.array(
            [
                find_distance(_sample(method, one, calls, k), target)
                for k, (one, target) in enumerate(zip(instances, targets, strict=True))
            ]
        )
        case = {
            "d/dy": f"{dimension}/{count}",
            "method": "BCDM, learned for the family",
            "calls": calls,
            "instances": len(values),
            "samples": SAMPLES,
        }
        ratio = float(values.mean() / floor.mean())
        yield Record(
            "sliced W1 / floor",
            case,
            ratio,
            interval=bootstrap(values, floor),
            required=LIMIT if calls == 20 and not smoke else None,
            seed=0,
            command=command,
        )
        report(f"learned mixture {case['d/dy']}, {calls} calls: {ratio:.2f} x floor")


def _sample(method: Bayesian, instance: Instance, calls: int, seed: int) -> Tensor:
    posterior = method.condition(instance.measurement)
    return sample(
        posterior, DPMSolver(), steps=calls, seed=seed, indices=range(SAMPLES), progress=False
    )
