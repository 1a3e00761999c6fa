"""Trainings of equal cost."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bcdm.checkpoint.settings import load_config
from bcdm.errors import InputError
from bcdm.files import write_text
from bcdm.training import run as training

__all__ = ["Budget", "read_budget", "train_for", "write_budget"]


@dataclass(frozen=True)
class Budget:
    """What a training may cost.

    Attributes:
        minutes: On one thread.
        seconds: That a step took where the number of steps was fixed.
        steps: As many as fit.
        settings: A hash of what was trained; None where nobody noted it.
    """

    minutes: float
    seconds: float
    steps: int
    settings: str | None = None

    def is_for(self, minutes: float, settings: str) -> bool:
        """Whether it was given to a training of these minutes and settings."""
        return self.minutes == minutes and self.settings in (None, settings)


def read_budget(path: Path, name: str) -> Budget | None:
    """What an earlier run gave a network, so that every machine trains it for as many steps."""
    if not path.exists():
        return None
    found = json.loads(path.read_text()).get(name)
    return None if found is None else Budget(**found)


def write_budget(path: Path, name: str, budget: Budget) -> None:
    """Notes what a network was given, beside those of other networks."""
    known = json.loads(path.read_text()) if path.exists() else {}
    write_text(path, json.dumps(known | {name: vars(budget)}, indent=1, sort_keys=True) + "\n")


def train_for(
    minutes: float,
    base: Path,
    changes: Sequence[str],
    data: Path | None,
    folder: Path,
    report: Callable[[str], None],
    given: Budget | None = None,
    device: str = "auto",
    branch: Path | None = None,
) -> Budget:
    """Trains what is not trained yet, for as many steps as fit in some minutes of one thread here.

    Args:
        minutes: How long.
        base: A file of settings.
        changes: To these settings.
        data: The data folder.
        folder: Where the training is kept, and goes on after an interruption.
        report: Takes lines of progress.
        given: What an earlier run or a network of the same cost was given; its number of steps is
            then kept, on any device.
        device: Where to train.
        branch: The folder of a shorter run to branch off.
    """
    timed = folder / "budget.json"
    budget = read_budget(timed, "budget")
    if budget is None:
        budget = given
        if budget is None:
            seconds = training.time_settings(load_config(base, changes), data, device=device)
            budget = Budget(minutes, seconds, max(1, round(60 * minutes / seconds)))
        write_budget(timed, "budget", budget)
    elif given is not None and given.steps != budget.steps:
        raise InputError(
            f"{folder} was trained for {budget.steps} steps, not {given.steps}: "
            "remove it, or take another --work"
        )
    report(f"{folder.name}: {budget.steps} steps of {budget.seconds:.2f} s")
    each = max(1, budget.steps // 8)
    changes = [*changes, f"training.steps={budget.steps}", f"training.validate_every={each}"]
    if not (folder / "model/config.json").exists():
        training.run(
            base,
            changes,
            data,
            folder,
            dry_run=False,
            report=report,
            device=device,
            branch=branch,
        )
    return budget
