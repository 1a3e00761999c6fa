"""How a model is evaluated, and what its images are measured with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bcdm.assessment.metrics import Metric
from bcdm.checkpoint import Model
from bcdm.checkpoint.given import read_operator
from bcdm.machine import Precision
from bcdm.problems import OneProblem

__all__ = ["Options", "choose_problem"]


@dataclass(frozen=True)
class Options:
    """How to evaluate.

    Attributes:
        data: Data folder.
        split: Which part of the data; never the one trained on.
        limit: At most this many images, evenly spaced over the split.
        samples: Posterior samples per image; 20 resolve 90 %, 40 resolve 95 % coverage.
        mean_samples: How many of them are averaged into the sample mean.
        calls: Network calls per sample.
        churn: Of DPM-Solver++: 0 is the ODE, 1 the SDE; more forgets a network's errors sooner.
        batch: Images at once.
        seed: Of measurement noise and samples.
        precision: Of the network; "auto" is the fastest that the processor has.
        device: Where the network runs.
        operator: What to measure with: settings as YAML, a file, or an import path; default: the
            model's own.
        noise_std: Of the measurements; default: the model's own.
        lpips: Folder or file with LPIPS weights; left out: no LPIPS.
        metrics: Functions (estimate, truth) of images (B, C, H, W) to numbers (B,), by name.
        strict: Whether the requirements of the experiments apply.
        figure: PNG to draw.
        card: Whether to write the numbers into the model's card.
    """

    data: Path | None = None
    split: str = "test"
    limit: int | None = None
    samples: int = 20
    mean_samples: int = 16
    calls: int = 30
    churn: float = 1.0
    batch: int = 16
    seed: int = 0
    precision: Precision = "float32"
    device: str = "cpu"
    operator: str | None = None
    noise_std: float | None = None
    lpips: Path | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    strict: bool = False
    figure: Path | None = None
    card: bool = False


def choose_problem(model: Model, options: Options) -> OneProblem:
    """What the options measure with: the model's own problem where they say nothing."""
    noise_std = model.noise_std if options.noise_std is None else options.noise_std
    if options.operator is None:
        return OneProblem(model.operator, noise_std)
    size = (model.shape[-2], model.shape[-1])
    return OneProblem(read_operator(options.operator, size, code=True), noise_std)
