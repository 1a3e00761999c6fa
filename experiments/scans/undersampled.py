"""A real scan without a reference: python -m experiments.scans.undersampled MODEL DATA OUT.png.

The 8-coil brain of 230x180 (Poisson disc, an eighth of k-space) as a user's file is read: maps,
noise and scale from its own data. Beside it what sigpy gives, weights tuned on two simulated slices
of as many coils, noise and acceleration. Below each picture the part in the frame, three times as
large; last the standard deviation.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor

from bcdm.benchmark.coilsets import Case, draw_mask, find_object, open_set, simulate_slices
from bcdm.benchmark.contestants import list_classical
from bcdm.checkpoint import load
from bcdm.evaluation import nrmse
from bcdm.files import replacing, write_text
from bcdm.reconstruction import reconstruct
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import read_scan

SCAN = "kspace_raw/sigpy_brain_8coil_undersampled.npz"
RIVALS = ("CG-SENSE", "l1-wavelet", "total variation")
SEED, SLICES = 0, 2
FRAME = (95, 60, 60)  # first row, first column and side of the part that is magnified


def tune_on_others(data: Path, coils: int, noise_std: float, acceleration: float) -> list[Case]:
    """Simulated slices of validation like the scan."""
    others = [
        (one.name, one.reference.numpy())
        for one in open_set("ixi", data, SLICES, tuning=True, seed=SEED)
    ]
    slices = simulate_slices(others, SLICES, SEED, coils=coils, noise_std=noise_std)
    return [one.undersample(draw_mask("poisson", acceleration, one, SEED)) for one in slices]


def draw(path: Path, pictures: dict[str, Tensor], spread: Tensor) -> None:
    """Pictures beside each other, below them a part; last the standard deviation."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    row, column, side = FRAME
    white = float(next(iter(pictures.values())).quantile(0.998))
    columns = {**pictures, "bcdm: standard deviation x 5": 5 * spread}
    figure = Figure(figsize=(1.9 * len(columns), 4.9), layout="constrained")
    grid = figure.subplots(
        2, len(columns), gridspec_kw={"height_ratios": [spread.shape[0] / spread.shape[1], 1]}
    )
    for axis in grid.ravel():
        axis.set_axis_off()
    for (above, below), (name, image) in zip(grid.T, columns.items(), strict=True):
        colours = {"cmap": "magma" if "deviation" in name else "gray", "vmin": 0, "vmax": white}
        above.imshow(image, **colours)
        above.set_title(name, fontsize=8)
        above.add_patch(Rectangle((column, row), side, side, fill=False, color="c", lw=0.7))
        below.imshow(image[row : row + side, column : column + side], **colours)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110, format="png")


def read_command(name: str, **numbers: int) -> argparse.Namespace:
    """Model, data, where to write, and numbers; `said` is the command for records.

    Args:
        name: Of the module.
        numbers: Options and their defaults.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.scans.{name}")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    for key, default in numbers.items():
        parser.add_argument(f"--{key}", type=int, default=default)
    given = parser.parse_args()
    asked = " ".join(f"--{key} {getattr(given, key)}" for key in numbers)
    model, out = Path(given.model).name, f"OUT{given.out.suffix}"
    given.said = f"python -m experiments.scans.{name} {model} DATA {out} {asked}"
    return given


def main() -> None:
    """Reads the command line, writes the picture and what the card says beside it."""
    given = read_command("undersampled", samples=16, calls=12)
    model = load(given.model)
    scan = read_scan(given.data / SCAN)
    fitted = fit_scan(scan, model)
    measurement = fitted.measure(0)
    assert scan.mask is not None
    acceleration = float(scan.mask.size / scan.mask.sum())
    coils = int(measurement.y.shape[1])
    others = tune_on_others(given.data, coils, fitted.noise_std, acceleration)
    with torch.no_grad():
        ours = reconstruct(
            model,
            measurement,
            samples=given.samples,
            calls=given.calls,
            seed=SEED,
            scale_taken=fitted.units.taken,
            force=True,
        )
    mean = ours.image[0, 0]
    blank = Case(measurement, mean, find_object(mean), 0.0)
    pictures, weights = {}, {}
    for rival in list_classical():
        if rival.name in RIVALS:
            weights[rival.name] = rival.tune(others)
            pictures[rival.name] = rival.estimate(blank, weights[rival.name])[0][0]
    pictures["bcdm: mean"] = mean
    pictures["bcdm: a sample"] = ours.values[0, 0, 0]
    draw(given.out, pictures, ours.std[0, 0])
    (card,) = ours.trust
    inside = blank.inside
    said = {
        "command": given.said,
        "seed": SEED,
        "acceleration": round(acceleration, 2),
        "noise_std": round(fitted.noise_std, 4),
        "weights": weights,
        "light": card.light,
        "summary": card.summary,
        "standard deviation of the mean brightness": round(
            float((ours.std[0, 0][inside] / mean[inside].mean()).mean()), 4
        ),
        "difference of means to ours, NRMSE in the head": {
            name: round(float(nrmse(one[inside][None], mean[inside][None])), 4)
            for name, one in pictures.items()
        },
    }
    write_text(given.out.with_suffix(".json"), json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
