"""Trainings of equal cost, and what they learnt over time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bcdm.errors import InputError
from bcdm.training import run as training

__all__ = ["Budget", "draw_curves", "read_budget", "train_for", "write_budget"]

_ERROR = "RMSE at log-SNR "


@dataclass(frozen=True)
class Budget:
    """What a training may cost.

    Attributes:
        minutes: On one thread.
        seconds: That a step took where the number of steps was fixed.
        steps: As many as fit.
    """

    minutes: float
    seconds: float
    steps: int


def read_budget(path: Path, name: str) -> Budget | None:
    """What an earlier run gave a network, so that every machine trains it for as many steps."""
    if not path.exists():
        return None
    found = json.loads(path.read_text()).get(name)
    return None if found is None else Budget(**found)


def write_budget(path: Path, name: str, budget: Budget) -> None:
    """Notes what a network was given, beside those of other networks."""
    known = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, json.dumps(known | {name: vars(budget)}, indent=1, sort_keys=True) + "\n")


def train_for(
    minutes: float,
    base: Path,
    changes: Sequence[str],
    data: Path | None,
    folder: Path,
    report: Callable[[str], None],
    given: Budget | None = None,
) -> Budget:
    """Trains what is not trained yet, for as many steps as fit in some minutes of one thread here.

    Args:
        minutes: How long.
        base: A file of settings.
        changes: To these settings.
        data: The data folder.
        folder: Where the training is kept, and goes on after an interruption.
        report: Takes lines of progress.
        given: What an earlier run gave; its number of steps is then kept.
    """
    if given is not None and given.minutes != minutes:
        given = None
    timed = folder / "budget.json"
    budget = read_budget(timed, "budget")
    if budget is None:
        budget = given
        if budget is None:
            seconds = training.time_step(base, changes, data)
            budget = Budget(minutes, seconds, max(1, round(60 * minutes / seconds)))
        write_budget(timed, "budget", budget)
    elif given is not None and given.steps != budget.steps:
        raise InputError(f"{folder} was trained for {budget.steps} steps, not {given.steps}: "
                         "remove it, or take another --work")  # fmt: skip
    report(f"{folder.name}: {budget.steps} steps of {budget.seconds:.2f} s")
    each = max(1, budget.steps // 8)
    changes = [*changes, f"training.steps={budget.steps}", f"training.validate_every={each}"]
    if not (folder / "model/config.json").exists():
        training.run(base, changes, data, folder, dry_run=False, report=report)
    return budget


def draw_curves(path: Path, logs: Mapping[str, Path], budgets: Mapping[str, Budget]) -> None:
    """One-call validation PSNR over training time, and the error per noise level at the end."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, log in logs.items():
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        rows = [row for row in rows if "psnr" in row]
        minutes = [row["step"] * budgets[name].seconds / 60 for row in rows]
        left.plot(minutes, [row["psnr"] for row in rows], marker=".", label=name)
        errors = {
            float(key.removeprefix(_ERROR)): value
            for key, value in rows[-1].items()
            if key.startswith(_ERROR)
        }
        right.plot(list(errors), list(errors.values()), marker=".", label=name)
    left.set(xlabel="minutes of training", ylabel="one-call PSNR, validation images (dB)")
    low = max(line.get_ydata()[-1] for line in left.lines) - 6
    left.set_ylim(bottom=low)
    right.set(xlabel="log-SNR", ylabel="RMSE, validation images", yscale="log")
    left.legend(fontsize=7)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _write(path: Path, content: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(content)
    partial.replace(path)
