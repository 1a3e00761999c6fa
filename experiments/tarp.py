"""Why do samples fail TARP where their intervals hold? Shown where the posterior is known.

python -m experiments.tarp experiments/tarp.json          # half an hour of a core

1. A Gaussian prior with mean and covariance of training brains at 32x32, 8x accelerated: exact
   posterior samples, made wrong in two ways by stated factors: their spread around their mean, and
   the way of that mean from the linear estimate.
2. Samples of trained models on test images: as they are, and mended by the factors that fit
   validation images best. What is drawn is kept in runs/tarp, so the command goes on.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bcdm.assessment.checks import check_ranks
from bcdm.assessment.images import choose_training_images, open_tested
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.checkpoint import Model, load
from bcdm.evaluation import coverage
from bcdm.measurement import Measurement
from bcdm.methods import GaussianMixture
from bcdm.operators import FourierMask
from bcdm.problems import patterns
from bcdm.reconstruction import reconstruct

WIDTHS = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
WAYS = (0.9, 0.95, 0.98, 1.02, 1.05, 1.1)
SIDE, TRUTHS, SAMPLES, CALLS, SEED, NOISE = 32, 128, 15, 15, 0, 0.02
MODELS = ("ixi64-mri8x", "faces64-inpaint")
TESTED, FITTED = 64, 32
WORK = Path("runs/tarp")


class Drawn(NamedTuple):
    """Samples (S, B, ...) of truths (B, ...), and linear estimates."""

    samples: Tensor
    truth: Tensor
    linear: Tensor

    def change(self, mean: Tensor, way: float, width: float) -> "Drawn":
        """Samples whose mean goes so many times as far from the linear estimate, and they from it.

        Args:
            mean: Of the samples.
            way: 1 leaves the mean where it is.
            width: 1 leaves the spread as it is.
        """
        moved = self.linear + way * (mean - self.linear)
        return self._replace(samples=moved + width * (self.samples - mean))

    def judge(self, subjects: Sequence[str] | None = None) -> dict[str, float]:
        """TARP, and what pixels alone would say."""
        checks = check_ranks(self.samples, self.truth, self.linear, SEED, subjects)
        found = {check.name: check.value for check in checks}
        held = float(coverage(self.samples, self.truth, [0.8]).observed.mean())
        names = ("TARP distance from diagonal", "TARP 95 % band")
        return {name: found[name] for name in names} | {"80 % intervals hold": held}

    def fit(self) -> tuple[float, float]:
        """Way and width that fit the truths best, by least squares.

        The mean of S samples differs from that of all by noise of 1 / S of their variance, and a
        truth from it by 1 + 1 / S of it.
        """
        mean, variance = self.samples.mean(0), self.samples.var(0).sum()
        step = mean - self.linear
        along = ((self.truth - self.linear) * step).sum()
        way = float(along / (step.square().sum() - variance / SAMPLES))
        errors = (self.truth - self.linear - way * step).square().sum()
        return way, float((errors / (variance * (1 + way**2 / SAMPLES))).sqrt())


def examine_gaussian(model: Model, images: Tensor, command: str) -> Iterator[Record]:
    """The closed form, by each factor."""
    flat = torch.nn.functional.adaptive_avg_pool2d(images, SIDE).flatten(1).double()
    mean = flat.mean(0)
    away = flat - mean
    spread = away.T @ away / (len(flat) - 1) + 1e-4 * torch.eye(SIDE**2).double()
    shape = (1, SIDE, SIDE)
    prior = GaussianMixture(torch.zeros(1).double(), mean[None], spread[None], shape)
    mask = patterns.draw_variable_density((SIDE, SIDE), 8.0, centre=0.1, seed=SEED)
    operator = FourierMask(mask.double(), real=True)
    truth = prior.sample(TRUTHS, seed=SEED)
    samples, means, estimates = [], [], []
    for k in range(TRUTHS):
        one = Measurement.simulate(truth[k : k + 1], operator, NOISE, seed=SEED, indices=[k])
        posterior = prior.condition(one)
        samples.append(posterior.sample(SAMPLES, seed=1 + k))
        means.append(posterior.mean[None])
        estimates.append(model.scales.estimate_linearly(one))
    drawn, exact = Drawn(torch.stack(samples, 1), truth, torch.cat(estimates)), torch.cat(means)
    for way, width in [(1.0, width) for width in WIDTHS] + [(way, 1.0) for way in WAYS]:
        case = {"prior": "Gaussian, exact", "way of the mean": way, "width": width}
        case |= {"size": [SIDE, SIDE], "truths": TRUTHS, "samples": SAMPLES}
        for name, value in drawn.change(exact, way, width).judge().items():
            yield Record(name, case, value, seed=SEED, command=command)


def draw(model: Model, split: str, count: int) -> Drawn:
    """Of a trained model."""

    def find() -> Numbers:
        tested = open_tested(model, Options(split=split, limit=count))
        measurement = Measurement.simulate(
            tested.images,
            tested.problem.operator,
            tested.problem.noise_std,
            seed=SEED,
            indices=tested.rows,
        )
        found = reconstruct(
            model, measurement, samples=SAMPLES, calls=CALLS, seed=SEED, progress=False, batch=16
        )
        drawn = Drawn(found.samples, tested.images, found.linear)
        return {name: part.numpy() for name, part in drawn._asdict().items()}

    asked = {"hashes": model.facts["hashes"], "images": count, "samples": SAMPLES, "calls": CALLS}
    numbers = keep_numbers(WORK / f"{model.name}-{split}.npz", asked | {"seed": SEED}, find)
    return Drawn(*(torch.from_numpy(numbers[name]) for name in Drawn._fields))


def examine_model(name: str, command: str) -> Iterator[Record]:
    """A trained model, as it is and mended."""
    model = load(name)
    way, width = draw(model, "val", FITTED).fit()
    drawn = draw(model, "test", TESTED)
    subjects = open_tested(model, Options(split="test", limit=TESTED)).subjects
    mended = {
        "as they are": (1.0, 1.0),
        "width fitted": (1.0, width),
        "way of the mean fitted": (way, 1.0),
        "both fitted": (way, width),
    }
    for told, (along, around) in mended.items():
        case = {"model": name, "samples are": told, "way of the mean": along, "width": around}
        case |= {"images": TESTED, "samples": SAMPLES, "calls": CALLS}
        changed = drawn.change(drawn.samples.mean(0), along, around)
        for metric, value in changed.judge(subjects).items():
            yield Record(metric, case, value, seed=SEED, command=command)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    torch.set_num_threads(1)
    words = f"python -m experiments.tarp {out}"
    first = load(MODELS[0])
    known = torch.stack(choose_training_images(first, None, 2000))
    rows = list(examine_gaussian(first, known, words))
    write_records(out, rows)
    for rest in map(partial(examine_model, command=words), MODELS):
        rows += rest
        write_records(out, rows)
