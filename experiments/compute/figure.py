"""Quality over training compute, and over network passes: python -m experiments.compute.figure.

Reads experiments/compute/TASK/results.json and writes compute.png and results.json: CRPS by
minutes of training and by network passes.
A pass is one run of the network through one image; a product with its Jacobian counts as two, a
backward pass, and MMPS needs up to one more of them a call than it has iterations.
"""

import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from bcdm.assessment.records import Record, write_records

HERE = Path(__file__).parent
TITLES = {"mri": "MRI 4x, 32x32", "inpaint": "inpainting 12x12 of 32x32"}
ROWS = ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS")
MOST = 8


def read(task: str) -> dict[tuple[str, float, int], tuple[float, dict[str, Any]]]:
    """CRPS x 1000 and the case, by method, minutes of training and calls."""
    found = {}
    for record in json.loads((HERE / task / "results.json").read_text()):
        told = re.fullmatch(
            r"(.+?), ([\d.]+) min(?:, \d+ calls)?", record["case"].get("method", "")
        )
        if record["name"] == "CRPS, samples" and told:
            case = record["case"]
            found[told[1], float(told[2]), case["calls"]] = (1000 * record["value"], case)
    return found


def count_passes(case: dict[str, Any]) -> int:
    """Of the network a sample."""
    iterations = case.get("iterations a call")
    return case["calls"] * (1 if iterations is None else 1 + 2 * (iterations + 1))


def draw() -> None:
    """One row of panels a task."""
    tasks = [task for task in TITLES if (HERE / task / "results.json").exists()]
    figure, grid = plt.subplots(
        len(tasks), 2, figsize=(10, 3.8 * len(tasks)), layout="constrained", squeeze=False
    )
    for (left, right), task in zip(grid, tasks, strict=True):
        found = read(task)
        for number, name in enumerate(ROWS):
            style = {"marker": "o", "color": f"C{number}", "label": name}
            curve = sorted(
                (minutes, value)
                for (own, minutes, calls), (value, _) in found.items()
                if own == name and calls == 20
            )
            left.plot(*zip(*curve, strict=True), **style)
            passes = sorted(
                (count_passes(case), value)
                for (own, minutes, _), (value, case) in found.items()
                if own == name and minutes == MOST
            )
            right.plot(*zip(*passes, strict=True), **style)
        left.set(xlabel="minutes of training on one core", ylabel="CRPS x 1000", title=TITLES[task])
        right.set(xlabel=f"network passes a sample, {MOST} min", ylabel="CRPS x 1000")
        for axes, ticks in ((left, (0.5, 1, 2, 4, 8)), (right, (5, 10, 20, 50, 100, 200))):
            axes.set(xscale="log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
        left.legend()
    figure.savefig(HERE / "compute.png", dpi=110)
    plt.close(figure)


def tell() -> list[Record]:
    """What the figure shows."""
    command = "python -m experiments.compute.figure"
    return [
        Record(
            "CRPS x 1000",
            {"task": TITLES[task], "method": name, "minutes": minutes, "calls": calls}
            | {"passes a sample": count_passes(case), "images": case["images"], "split": "test"},
            value,
            seed=0,
            command=command,
        )
        for task in TITLES
        if (HERE / task / "results.json").exists()
        for (name, minutes, calls), (value, case) in read(task).items()
    ]


if __name__ == "__main__":
    draw()
    write_records(HERE / "results.json", tell())
