"""What more training gives: python -m experiments.scans.learning RUN CPU OUT.

RUN is a training folder, CPU a file with rows {"pid", "cpu_seconds", "step"} that were noted during
it. Writes OUT.json and OUT.png: validation over minutes of one core.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bcdm.files import write_text

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def count_minutes(noted: Sequence[Row], steps: Sequence[int]) -> list[float]:
    """Minutes of one core until each step; processes that went on after others add up."""
    points, base, last = [(0, 0.0)], 0.0, None
    for row in noted:
        if last is not None and row["pid"] != last["pid"]:
            # What the last process did after its last checkpoint was done again: it counts.
            base += last["cpu_seconds"]
        points.append((row["step"], base + row["cpu_seconds"]))
        last = row
    known, seconds = zip(*dict(points).items(), strict=True)
    return [float(np.interp(step, known, seconds)) / 60 for step in steps]


def describe(log: Sequence[Row], noted: Sequence[Row]) -> list[Row]:
    """Validation rows with their cost, and the mean training loss since the row before."""
    checked = [row for row in log if "psnr" in row]
    losses = [row for row in log if "loss" in row]
    minutes = count_minutes(noted, [row["step"] for row in checked])
    rows, before = [], 0
    for row, cost in zip(checked, minutes, strict=True):
        own = [one["loss"] for one in losses if before < one["step"] <= row["step"]]
        rows.append({"minutes": round(cost, 1), "loss": float(np.mean(own)), **row})
        before = row["step"]
    return rows


def draw_curve(rows: Sequence[Row], path: Path) -> None:
    """PSNR of one call, and the error at the cleanest level, over minutes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    minutes = [row["minutes"] for row in rows]
    left.plot(minutes, [row["psnr"] for row in rows], "o-")
    left.set_ylabel("PSNR of one call, dB")
    levels = [name for name in rows[0] if name.startswith("RMSE")]
    for name in levels:
        right.plot(minutes, [row[name] / rows[0][name] for row in rows], label=name[8:])
    right.set_ylabel("RMSE, of the first")
    right.legend(fontsize=7)
    for axes in (left, right):
        axes.set_xlabel("minutes of one core")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    run, cpu, out = (Path(name) for name in sys.argv[1:4])
    found = describe(read_rows(run / "log.jsonl"), read_rows(cpu))
    write_text(out.with_suffix(".json"), json.dumps(found, indent=1) + "\n")
    draw_curve(found, out.with_suffix(".png"))
