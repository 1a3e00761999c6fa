"""Why do samples fail TARP where their intervals hold? Shown where the posterior is known.

python -m experiments.tarp experiments/tarp.json          # ten minutes of a core

1. A Gaussian prior with mean and covariance of training brains at 32x32, 8x accelerated: exact
   posterior samples, made wider or narrower around their mean by a stated factor.
2. Samples of trained models on test images: as they are, and with the factor that makes their
   spread that of their errors on validation images.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bcdm.assessment.checks import check_ranks
from bcdm.assessment.images import choose_training_images, open_tested
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.checkpoint import Model, load
from bcdm.evaluation import coverage
from bcdm.measurement import Measurement
from bcdm.methods import GaussianMixture
from bcdm.operators import FourierMask
from bcdm.problems import patterns
from bcdm.reconstruction import reconstruct

FACTORS = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
SIDE, TRUTHS, SAMPLES, CALLS, SEED, NOISE = 32, 128, 15, 15, 0, 0.02
MODELS = ("ixi64-mri8x", "faces64-inpaint")
TESTED, FITTED = 64, 32


def scale(samples: Tensor, factor: float) -> Tensor:
    """Samples (S, B, ...) so many times as far from their mean."""
    mean = samples.mean(0)
    return mean + factor * (samples - mean)


def judge(samples: Tensor, truth: Tensor, linear: Tensor) -> dict[str, float]:
    """TARP, and what pixels alone would say."""
    found = {check.name: check.value for check in check_ranks(samples, truth, linear, SEED)}
    held = float(coverage(samples, truth, [0.8]).observed.mean())
    names = ("TARP distance from diagonal", "TARP 95 % half width")
    return {name: found[name] for name in names} | {"80 % intervals hold": held}


def examine_gaussian(images: Tensor, command: str) -> Iterator[Record]:
    """The closed form, by the factor."""
    flat = torch.nn.functional.adaptive_avg_pool2d(images, SIDE).flatten(1).double()
    mean = flat.mean(0)
    away = flat - mean
    spread = away.T @ away / (len(flat) - 1) + 1e-4 * torch.eye(SIDE**2).double()
    shape = (1, SIDE, SIDE)
    prior = GaussianMixture(torch.zeros(1).double(), mean[None], spread[None], shape)
    mask = patterns.draw_variable_density((SIDE, SIDE), 8.0, centre=0.1, seed=SEED)
    operator = FourierMask(mask.double(), real=True)
    truth = prior.sample(TRUTHS, seed=SEED)
    samples, means = [], []
    for k in range(TRUTHS):
        one = Measurement.simulate(truth[k : k + 1], operator, NOISE, seed=SEED, indices=[k])
        posterior = prior.condition(one)
        samples.append(posterior.sample(SAMPLES, seed=1 + k))
        means.append(posterior.mean[None])
    drawn, exact = torch.stack(samples, 1), torch.cat(means)
    for factor in FACTORS:
        wide = exact + factor * (drawn - exact)
        case = {"prior": "Gaussian, exact", "factor": factor, "size": [SIDE, SIDE]}
        case |= {"truths": TRUTHS, "samples": SAMPLES}
        for name, value in judge(wide, truth, exact).items():
            yield Record(name, case, value, seed=SEED, command=command)


def draw(model: Model, split: str, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Samples (S, B, ...), truths and linear estimates."""
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
    return found.samples, tested.images, found.linear


def examine_model(name: str, command: str) -> Iterator[Record]:
    """A trained model, as it is and with its spread mended."""
    model = load(name)
    samples, truth, _ = draw(model, "val", FITTED)
    # A truth is as far from the mean of S samples as another sample: by 1 + 1 / S in square.
    errors = (truth - samples.mean(0)).square().sum()
    spread = samples.var(0).sum() * (1 + 1 / SAMPLES)
    factor = float((errors / spread).sqrt())
    samples, truth, linear = draw(model, "test", TESTED)
    for told, own in (("as they are", 1.0), ("spread fitted", factor)):
        case = {"model": name, "samples are": told, "factor": own, "images": TESTED}
        case |= {"samples": SAMPLES, "calls": CALLS}
        for metric, value in judge(scale(samples, own), truth, linear).items():
            yield Record(metric, case, value, seed=SEED, command=command)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    torch.set_num_threads(1)
    words = f"python -m experiments.tarp {out}"
    known = choose_training_images(load(MODELS[0]), None, 2000)
    rows = list(examine_gaussian(torch.stack(known), words))
    write_records(out, rows)
    for rest in map(partial(examine_model, command=words), MODELS):
        rows += rest
        write_records(out, rows)
