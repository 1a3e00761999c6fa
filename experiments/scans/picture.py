"""A real scan beside its reference: python -m experiments.scans.picture MODEL DATA OUT.png.

The fully sampled 16-coil brain with an eighth of its samples left (Poisson disc), as in `bcdm
benchmark scans`: the weights of rivals are those that it found (results.json).
"""

import json
from pathlib import Path

import torch
from experiments.scans.undersampled import read_command
from torch import Tensor

from bcdm.benchmark.coilsets import draw_mask, open_set
from bcdm.benchmark.contestants import list_classical
from bcdm.checkpoint import load
from bcdm.files import replacing
from bcdm.reconstruction import reconstruct

PATTERN, ACCELERATION, SEED = "poisson", 8.0, 0
RIVALS = ("CG-SENSE", "l1-wavelet")
RECORD = Path(__file__).with_name("results.json")


def find_weight(name: str) -> float:
    """What tuning on other slices gave."""
    mask = f"{PATTERN} {ACCELERATION:g}x"
    asked = {"set": "brain16", "mask": mask, "method": name}
    cases = (row["case"] for row in json.loads(RECORD.read_text()))
    return float(next(c["tuned"] for c in cases if "tuned" in c and asked.items() <= c.items()))


def draw(path: Path, pictures: dict[str, Tensor], inside: Tensor) -> None:
    """Pictures beside each other, around the object; the last one is a standard deviation."""
    from matplotlib.figure import Figure

    rows, columns = (torch.nonzero(inside.any(axis)).flatten() for axis in (1, 0))
    part = tuple(slice(max(0, int(k[0]) - 3), int(k[-1]) + 4) for k in (rows, columns))
    white = float(next(iter(pictures.values()))[inside].quantile(0.998))
    cut = {name: image[part] for name, image in pictures.items()}
    first = next(iter(cut.values()))
    height = 2.3 * first.shape[0] / first.shape[1]
    figure = Figure(figsize=(2.3 * len(cut), height + 0.3), layout="constrained")
    for axis, (name, image) in zip(figure.subplots(1, len(cut)), cut.items(), strict=True):
        axis.imshow(image, cmap="magma" if "deviation" in name else "gray", vmin=0, vmax=white)
        axis.set_title(name, fontsize=9)
        axis.set_axis_off()
    with replacing(path) as partial:
        figure.savefig(partial, dpi=90, format="png")


def main() -> None:
    """Reads the command line, draws the picture."""
    given = read_command("picture", samples=16, calls=12)
    (scan,) = open_set("brain16", given.data, 1, tuning=False, seed=SEED)
    case = scan.undersample(draw_mask(PATTERN, ACCELERATION, scan, SEED))
    pictures = {"fully sampled: the reference": case.reference}
    for rival in list_classical():
        if rival.name in RIVALS:
            pictures[rival.name] = rival.estimate(case, find_weight(rival.name))[0][0]
    with torch.no_grad():
        ours = reconstruct(
            load(given.model),
            case.measurement,
            samples=given.samples,
            calls=given.calls,
            seed=SEED,
            force=True,
        )
    pictures["bcdm: mean"] = ours.image[0, 0]
    pictures["bcdm: standard deviation x 5"] = 5 * ours.std[0, 0]
    draw(given.out, pictures, case.inside)


if __name__ == "__main__":
    main()
