"""Quality over training compute, and over network passes: python -m experiments.compute.figure.

Reads the results of the studies beside it and writes compute.png and results.json: CRPS by minutes
of training, a dot for each seed and a line through their means, and by network passes after the
longest training that all have (dashed: after the longest of all).
A pass is one run of the network through one image; a product with its Jacobian counts as two, a
backward pass, and MMPS needs up to one more of them a call than it has iterations.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

from bcdm.assessment.records import Record, write_records

HERE = Path(__file__).parent
TITLES = {"mri": "MRI 4x, 32x32", "inpaint": "inpainting 12x12 of 32x32"}
# What is shown of which study.
SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "mri": {"mri-branches": ("BCDM", "dual input with a residual", "MMPS with our levels")},
    "inpaint": {
        "inpaint": ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS"),
        "inpaint-longer": ("BCDM", "MMPS"),
    },
}
COLOURS = {"BCDM": "C0", "BCDM of a family": "C1", "dual": "C2", "MMPS": "C3"}
CALLS = 20
CRPS = (20, 30, 50, 100)  # ticks


@dataclass(frozen=True)
class Row:
    """One number: the CRPS x 1000 of a method, and how it came about."""

    method: str
    minutes: float
    calls: int
    seed: int
    value: float
    passes: int
    images: int


def read(task: str) -> list[Row]:
    """What is shown of a task."""
    return [
        row
        for study, names in SOURCES[task].items()
        for row in read_study(HERE / study)
        if row.method in names
    ]


def read_study(folder: Path) -> list[Row]:
    """What a study found."""
    rows: list[Row] = []
    for record in json.loads((folder / "results.json").read_text()):
        case = record["case"]
        told = re.fullmatch(
            r"(.+?), ([\d.]+) min(?:, \d+ calls)?(?:, seed (\d+))?", case.get("method", "")
        )
        if record["name"] == "CRPS, samples" and told:
            rows.append(
                Row(
                    told[1],
                    float(told[2]),
                    case["calls"],
                    int(told[3] or 0),
                    1000 * record["value"],
                    count_passes(case),
                    case["images"],
                )
            )
    return rows


def count_passes(case: dict[str, Any]) -> int:
    """Of the network a sample."""
    iterations = case.get("iterations a call")
    return case["calls"] * (1 if iterations is None else 1 + 2 * (iterations + 1))


def draw() -> None:
    """One row of panels a task."""
    figure, grid = plt.subplots(
        len(TITLES), 2, figsize=(10, 3.8 * len(TITLES)), layout="constrained", squeeze=False
    )
    for (left, right), (task, title) in zip(grid, TITLES.items(), strict=True):
        rows = read(task)
        names = list(dict.fromkeys(row.method for row in rows))
        most = max(row.minutes for row in rows)
        common = min(max(row.minutes for row in rows if row.method == name) for name in names)
        for name in names:
            colour = COLOURS.get(name) or COLOURS[name.split()[0]]
            style = {"marker": "o", "color": colour}
            own = [row for row in rows if row.method == name]
            curve = [(row.minutes, row.value) for row in own if row.calls == CALLS]
            left.scatter(*zip(*curve, strict=True), s=12, color=colour)
            budgets = sorted({minutes for minutes, _ in curve})
            means = [np.mean([v for m, v in curve if m == minutes]) for minutes in budgets]
            left.plot(budgets, means, **style, label=name)
            for budget, line in {most: "--", common: "-"}.items():
                passes = sorted((row.passes, row.value) for row in own if row.minutes == budget)
                if passes:
                    right.plot(*zip(*passes, strict=True), linestyle=line, **style)
        told = f"{common:g} min" + (f" (dashed: {most:g} min)" if most > common else "")
        left.set(xlabel="minutes of training on one core", ylabel="CRPS x 1000", title=title)
        right.set(xlabel=f"network passes a sample, {told}", ylabel="CRPS x 1000")
        for axes, ticks in (
            (left, [0.5 * 2**power for power in range(7) if 0.5 * 2**power <= most]),
            (right, [5, 10, 20, 50, 100, 200]),
        ):
            axes.set(xscale="log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.grid(alpha=0.3)
        left.set_yscale("log")
        left.set_yticks(CRPS, [str(tick) for tick in CRPS])
        left.minorticks_off()
        right.minorticks_off()
        left.legend()
    figure.savefig(HERE / "compute.png", dpi=110)
    plt.close(figure)


def tell() -> list[Record]:
    """What the figure shows."""
    return [
        Record(
            "CRPS x 1000",
            {"task": title, "method": row.method, "minutes": row.minutes, "calls": row.calls}
            | {"passes a sample": row.passes, "images": row.images, "split": "test"},
            row.value,
            seed=row.seed,
            command="python -m experiments.compute.figure",
        )
        for task, title in TITLES.items()
        for row in read(task)
    ]


if __name__ == "__main__":
    draw()
    write_records(HERE / "results.json", tell())
