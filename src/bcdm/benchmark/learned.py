r"""The mixture benchmark with a learned network: one for all operators and noise levels.

For 8 and for 80 dimensions a network is trained on mixtures, every sample with its own $A$ (1, 2
or 4 rows, singular values uniform on (0, 1)) and its own noise level. It is scored on the
benchmark's shipped instances, which training never draws, beside itself before training: its points
are placed by k-means, which is much of the way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
POINTS, POINTS_RATE = 256, 2e-3
SEEN, ROUNDS = 25_600, 15  # training samples that points are first placed by, and how often
LEARNED, UNTRAINED = "BCDM, learned for the family", "its network before training"
CALLS = {8: (10, 20, 50), 80: (20,)}
JUDGED, LIMIT = 20, "<= 2"  # calls, and how far they may be


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

    The statistic is the mean $w$ and covariance $C$ of $N(0, 1)$ given the data, so the posterior
    is $N(x; w, C)\, p(x) / N(x; 0, 1)$. Were $p$ a set of blurred points, that ratio would be
    $\sum_k c_k e^{|p_k|^2 / 2 (1 + \tau^2)} N(x; p_k, \tau^2)$, and the mean a softmax over points
    by their distance from $w$ in the metric $(C + \tau^2)^{-1}$: one layer of attention, with as
    many points as its size. A plain network over it makes up for what points do not tell.
    $C^{1/2}$ comes from probing: `project` maps an output f to $w + C^{1/2} f$.
    """

    def __init__(self, points: Tensor, width: int = 256, seed: int = 0) -> None:
        super().__init__()
        dimension = points.shape[1]
        inputs = 3 * dimension + dimension**2 + 16
        self.points = nn.Parameter(points.clone())
        self.weights = nn.Parameter(torch.zeros(len(points)))
        self.log_blur = nn.Parameter(torch.tensor(0.1).log())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            last = nn.Linear(width, dimension)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            self.layers = nn.Sequential(
                nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), last
            )

    def forward(self, x: Tensor, log_snr: Tensor, project: Projection) -> Tensor:
        """The mean of x_0 in units of the prior."""
        eye = torch.eye(x.shape[1]).to(x)
        spread = torch.stack([project(unit.expand_as(x)) for unit in eye], 1) - x[:, None]
        metric = torch.linalg.inv(spread @ spread + (2 * self.log_blur).exp() * eye)
        near = (x[:, None] @ metric @ self.points.mT)[:, 0]
        near = near - 0.5 * ((self.points @ metric) * self.points).sum(2)
        # The network would need weights of e^80 to learn this by itself in 80 dimensions.
        far = 0.5 * self.points.square().sum(1) / (1 + (2 * self.log_blur).exp())
        found = (near + far + self.weights).softmax(1) @ self.points
        pull = torch.einsum("bij,bjk,bk->bi", spread, metric, found - x)
        angles = log_snr[:, None] * 0.15 * 1.6 ** torch.arange(8).to(x) / 2
        level = torch.cat([angles.sin(), angles.cos()], 1).expand(len(x), -1)
        seen = torch.cat([x, spread.flatten(1), level, found, pull], 1)
        return project(pull + self.layers(seen))


def place_points(seen: Tensor, count: int) -> Tensor:
    """Centres (count, d) of what was seen (N, d), by k-means from the first ones."""
    points = seen[:count].clone()
    for _ in range(ROUNDS):
        nearest = torch.cdist(seen, points).argmin(1)
        sums = torch.zeros_like(points).index_add_(0, nearest, seen)
        counts = torch.bincount(nearest, minlength=count)[:, None]
        points = torch.where(counts > 0, sums / counts.clamp_min(1), points)
    return points


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
    points = place_points(prior.sample(SEEN, seed=seed), POINTS)
    network = FamilyNetwork(points, seed=seed).double()
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
        methods = {
            LEARNED: train(dimension, 3 if smoke else steps, batch, report=report),
            UNTRAINED: train(dimension, 0, batch),
        }
        for count in ROWS:
            rows += _score(methods, dimension, count, command, smoke, report)
    return rows


def _score(
    methods: Mapping[str, Bayesian],
    dimension: int,
    count: int,
    command: str,
    smoke: bool,
    report: Callable[[str], None],
) -> Iterator[Record]:
    """One record for each number of calls, and one before training."""
    instances = load_instances(dimension, count)[: 1 if smoke else None]
    targets, floor = draw_exact(make_prior(dimension), instances)
    rows = [(LEARNED, calls) for calls in CALLS[dimension]] + [(UNTRAINED, JUDGED)]
    for name, calls in rows if not smoke else [(LEARNED, 3)]:
        values = np.array(
            [
                find_distance(_sample(methods[name], one, calls, k), target)
                for k, (one, target) in enumerate(zip(instances, targets, strict=True))
            ]
        )
        case = {"d/dy": f"{dimension}/{count}", "method": name, "calls": calls}
        ratio = float(values.mean() / floor.mean())
        yield Record(
            "sliced W1 / floor",
            case | {"instances": len(values), "samples": SAMPLES},
            ratio,
            interval=bootstrap(values, floor),
            required=LIMIT if (name, calls) == (LEARNED, JUDGED) else None,
            seed=0,
            command=command,
        )
        report(f"{name}, {case['d/dy']}, {calls} calls: {ratio:.2f} x floor")


def _sample(method: Bayesian, instance: Instance, calls: int, seed: int) -> Tensor:
    posterior = method.condition(instance.measurement)
    return sample(
        posterior, DPMSolver(), steps=calls, seed=seed, indices=range(SAMPLES), progress=False
    )
