"""Are real lesions kept? python -m experiments.scans.lesions MODEL DATA OUT.

Slices of a held-out HKU patient (S6B) at their own size of 490x417 and 521x444 pixels, as 8 drawn
coils see them, with a drawn phase and noise_std .02; maps from the data. The lesion beside the
basal ganglia is about 12 pixels long, bright in FLAIR and T2, dark in T1; its places were read off
the references by eye. Writes OUT.json, the contrast of each to the ring around it, and OUT.png.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bcdm.benchmark.coilsets import draw_mask, open_set, simulate_slices
from bcdm.benchmark.contestants import ONE_CALL, list_classical, list_sampled
from bcdm.checkpoint import load
from bcdm.files import replacing, write_text
from bcdm.reconstruction.features import measure_contrast
from bcdm.reconstruction.regions import draw_disc

SEED, SIDE, MARGIN = 0, 64, 6
MASKS = (("equispaced", 4.0), ("poisson", 8.0))
# What tuning on simulated slices of IXI gave (results.json).
WEIGHTS = {"CG-SENSE": 0.12, "l1-wavelet": 10.0, "total variation": 10.0}


class Lesion(NamedTuple):
    """Where it is: a slice, and a disc in it."""

    image: str
    row: int
    column: int
    radius: float


LESIONS = (
    Lesion("S6B_FLAIR 1", 265, 292, 6.0),
    Lesion("S6B_T2w 1", 245, 267, 6.0),
    Lesion("S6B_T1w 1", 245, 269, 6.0),
    Lesion("S6B_T1w 2", 244, 272, 5.0),
)


def find_contrast(image: Tensor, lesion: Lesion) -> float:
    """The mean of the lesion minus that around it, over the white of the slice, 1."""
    size = (image.shape[-2], image.shape[-1])
    disc = draw_disc(size, (lesion.row, lesion.column), lesion.radius)
    return float(measure_contrast(image[None, None], disc, MARGIN))


def draw(path: Path, rows: dict[str, dict[str, Tensor]]) -> None:
    """The part around each lesion, by every method."""
    from matplotlib.figure import Figure

    columns = len(next(iter(rows.values())))
    figure = Figure(figsize=(1.6 * columns, 1.75 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes, (caption, pictures) in zip(grid, rows.items(), strict=True):
        reference = next(iter(pictures.values()))
        low, high = (float(reference.quantile(q)) for q in (0.01, 0.99))
        for axis, (name, image) in zip(axes, pictures.items(), strict=True):
            axis.imshow(image, cmap="gray", vmin=low, vmax=high)
            axis.set_title(name if axis is not axes[0] else caption, fontsize=6, pad=2)
            axis.set_xticks([])
            axis.set_yticks([])
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110, format="png")


def main() -> None:
    """Reads the command line, writes record and picture."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scans.lesions")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    ours = [one for one in list_sampled(load(given.model), 9, 12, SEED) if one.name == ONE_CALL]
    methods = [one for one in list_classical() if one.name in WEIGHTS] + ours
    truths = {
        one.name: one.reference for one in open_set("hku", given.data, 24, tuning=False, seed=SEED)
    }
    rows: dict[str, dict[str, Tensor]] = {}
    found = []
    for lesion in LESIONS:
        truth = truths[lesion.image]
        (one,) = simulate_slices([(lesion.image, truth.numpy())], 1, SEED)
        half = SIDE // 2
        part = (
            slice(lesion.row - half, lesion.row + half),
            slice(lesion.column - half, lesion.column + half),
        )
        for pattern, factor in MASKS:
            case = one.undersample(draw_mask(pattern, factor, one, SEED))
            mask = f"{pattern} {factor:g}x"
            row = {"reference": truth[part]}
            contrasts = {"reference": find_contrast(truth, lesion)}
            for method in methods:
                with torch.no_grad():
                    image = method.estimate(case, WEIGHTS.get(method.name, 1.0))[0][0]
                row[method.name] = image[part]
                contrasts[method.name] = find_contrast(image, lesion)
            rows[f"{lesion.image}\n{mask}"] = row
            rounded = {name: round(value, 4) for name, value in contrasts.items()}
            found.append({**lesion._asdict(), "mask": mask, "contrast": rounded})
    said = f"python -m experiments.scans.lesions {Path(given.model).name} DATA OUT"
    record = {"command": said, "seed": SEED, "weights": WEIGHTS, "lesions": found}
    write_text(given.out.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    draw(given.out.with_suffix(".png"), rows)


if __name__ == "__main__":
    main()
