"""The control of the models' records: the same images, sampler and seed, a network of zeros.

python -m experiments.zeros experiments/zeros.json

What is left without a network is the linear Gaussian posterior. Coverage and chi-square say little
about learning, because this control passes both; the CRPS tells the two apart.
"""

import sys
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from bcdm.assessment.evaluate import score
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.checkpoint import Model, load
from bcdm.networks import Projection

MASK = "{kind: fourier_mask, acceleration: 8, centre: 0.1, seed: 0}"
BOX = "{kind: centre_box, box: [24, 24]}"
# The problems of experiments/families that have a specialist, as its records were made.
MRI = Options(limit=32, calls=20, operator=MASK, noise_std=0.02)
FACES = Options(limit=32, calls=20, operator=BOX, noise_std=0.02)
CASES = {"ixi64-mri8x": MRI, "ixi64-mri": MRI, "faces64-inpaint": FACES, "faces64": FACES}
NUMBERS = (
    ("PSNR", "sample mean"),
    ("CRPS", "samples"),
    ("coverage 90%", "all pixels"),
    ("chi-square per degree of freedom", "single sample"),
)


class Zeros(nn.Module):
    """Gives zero, so that only the linear estimate is left."""

    def forward(
        self, x: Tensor, log_snr: Tensor, project: Projection, extra: Tensor | None = None
    ) -> Tensor:
        """As `UnrolledNetwork` with one iteration."""
        return project(0 * x)


def silence(model: Model) -> Model:
    """The model with nothing learned."""
    return replace(model, method=replace(model.method, network=Zeros()))


def run(name: str, options: Options, command: str) -> list[Record]:
    """Numbers of the control on the images of one record."""
    scores, _ = score(silence(load(name)), options)
    images = options.limit or 0
    case = {"model": name, "network": "zeros", "split": options.split, "images": images}
    sampling = {"samples": options.samples, "calls": options.calls, "churn": options.churn}
    return [
        Record(
            metric,
            case | sampling | {"estimate": estimate},
            float(scores.get(metric, estimate).mean()),
            seed=options.seed,
            command=command,
        )
        for metric, estimate in NUMBERS
    ]


if __name__ == "__main__":
    out = Path(sys.argv[1])
    words = f"python -m experiments.zeros {out}"
    write_records(out, [r for name, given in CASES.items() for r in run(name, given, words)])
