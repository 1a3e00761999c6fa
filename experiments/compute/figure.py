"""Quality over training compute, and over network passes: python -m experiments.compute.figure.

Reads the results of the two studies beside it and writes compute.png, results.json and the tables
of README.md: CRPS by minutes of training, a dot for each seed and a line through their means, and
by network passes after the longest training that all have (dashed: after the longest of all).
A pass is one run of the network through one image; a product with its Jacobian counts as two, a
backward pass, and MMPS needs up to one more of them a call than it has iterations.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from experiments.pages import fill_page, make_table
from matplotlib import pyplot as plt

from bcdm.assessment.records import Record, write_records
from bcdm.files import write_text

HERE = Path(__file__).parent
TITLES = {"mri": "MRI 4x, 32x32", "inpaint": "inpainting 12x12 of 32x32"}
STUDIES = {"mri": "mri-branches", "inpaint": "inpaint-branches"}
# What methods of the studies are called in figure and tables.
NAMES = {
    "BCDM": "BCDM",
    "BCDM of a family": "BCDM of a family",
    "dual input with a residual": "dual input",
    "MMPS with our levels": "MMPS",
}
COLOURS = dict(zip(NAMES.values(), ("C0", "C1", "C2", "C3"), strict=True))
CALLS = 20
CRPS = (15, 20, 30, 40)  # ticks


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
    """What a study found, by method."""
    rows: list[Row] = []
    for record in json.loads((HERE / STUDIES[task] / "results.json").read_text()):
        case = record["case"]
        told = re.fullmatch(
            r"(.+?), ([\d.]+) min(?:, \d+ calls)?(?:, seed (\d+))?", case.get("method", "")
        )
        if record["name"] == "CRPS, samples" and told:
            rows.append(
                Row(
                    NAMES[told[1]],
                    float(told[2]),
                    case["calls"],
                    int(told[3] or 0),
                    1000 * record["value"],
                    count_passes(case),
                    case["images"],
                )
            )
    order = list(NAMES.values())
    return sorted(rows, key=lambda row: order.index(row.method))


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
            colour = COLOURS[name]
            style = {"marker": "o", "color": colour}
            own = [row for row in rows if row.method == name]
            curve = [(row.minutes, row.value) for row in own if row.calls == CALLS]
            left.scatter(*zip(*curve, strict=True), s=12, color=colour)
            budgets = sorted({minutes for minutes, _ in curve})
            means = [mean([v for m, v in curve if m == minutes]) for minutes in budgets]
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


def make_tables(task: str) -> str:
    """CRPS by minutes, by calls after the longest training of some and of all, and by seeds."""
    rows = read(task)
    names = list(dict.fromkeys(row.method for row in rows))
    found: dict[tuple[str, float, int], list[float]] = {}
    for row in rows:
        found.setdefault((row.method, row.minutes, row.calls), []).append(row.value)
    passes = {(row.method, row.minutes, row.calls): row.passes for row in rows}
    longest = {name: max(row.minutes for row in rows if row.method == name) for name in names}
    budgets = sorted({row.minutes for row in rows})
    seeds = max(map(len, found.values()))

    def list_cells(keys: Sequence[tuple[str, float, int]]) -> list[str]:
        return [f"{mean(found[key]):.1f}" if key in found else "" for key in keys]

    trained = make_table(
        ["minutes", *names],
        [[f"{m:g}", *list_cells([(name, m, CALLS) for name in names])] for m in budgets],
    )
    parts = [f"CRPS x 1000 of {CALLS} calls a sample, by minutes:", trained]
    for minutes in sorted(set(longest.values()), reverse=True):
        calls = sorted({row.calls for row in rows if row.minutes == minutes})
        own = [name for name in names if all((name, minutes, c) in found for c in calls)]
        solved = [name for name in own if any(passes[name, minutes, c] > c for c in calls)]
        body = [
            [str(c), *list_cells([(name, minutes, c) for name in own])]
            + [str(passes[name, minutes, c]) for name in solved]
            for c in calls
        ]
        parts += [
            f"By calls a sample, after {minutes:g} minutes:",
            make_table(["calls", *own, *(f"passes of {name}" for name in solved)], body),
        ]
    spread = [
        [name, f"{minutes:g}", f"{min(values):.1f}", f"{max(values):.1f}"]
        for (name, minutes, _), values in found.items()
        if len(values) == seeds
    ]
    parts += [
        f"The least and the largest of {seeds} seeds:",
        make_table(["method", "minutes", "least", "largest"], spread),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    draw()
    write_records(HERE / "results.json", tell())
    page = HERE / "README.md"
    write_text(page, fill_page(page, {task: make_tables(task) for task in STUDIES}))
