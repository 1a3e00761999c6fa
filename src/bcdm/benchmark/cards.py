"""Trust cards of an exam: scored once by the model, judged as often as the rule changes."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bcdm.assessment.kept import Numbers
from bcdm.benchmark.defects import Case
from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import CONDITIONS, Usual
from bcdm.files import write_text
from bcdm.reconstruction import reconstruct
from bcdm.trust.card import LIGHTS, Light, find_light
from bcdm.trust.comparing import compare
from bcdm.trust.scores import NAMES, chi_square_of, find_scores
from bcdm.trust.verdict import judge_plainly

__all__ = ["ScoreFile", "judge", "score"]


@dataclass(frozen=True)
class ScoreFile:
    """The scores of every card, in one JSON file: a row of each column for each measurement."""

    path: Path

    def keep(self, name: str, asked: Mapping[str, object], find: Callable[[], Numbers]) -> Numbers:
        """Those of a case that are stored under the same question, or are found and stored now."""
        key = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
        content = json.loads(self.path.read_text()) if self.path.exists() else {}
        stored = content.get(name)
        if stored is not None and stored["asked"] == key:
            return {column: _unpack(rows) for column, rows in stored["columns"].items()}
        found = find()
        columns = {column: _pack(rows) for column, rows in found.items()}
        content[name] = {"asked": key, "columns": columns}
        lines = (f" {json.dumps(case)}: {json.dumps(rows)}" for case, rows in content.items())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, "{\n" + ",\n".join(lines) + "\n}\n")
        # As they will be read, so that a second run gives the same to the last digit.
        return {column: _unpack(rows) for column, rows in columns.items()}


def _pack(rows: np.ndarray) -> list[str | float | None]:
    """Six digits; what could not be scored is null."""
    if rows.dtype.kind == "U":
        return [str(value) for value in rows]
    return [None if np.isnan(value) else float(f"{value:.6g}") for value in rows]


def _unpack(rows: list[str | float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in rows])


@torch.no_grad()
def score(model: Model, calibration: Calibration, case: Case, calls: int, seed: int) -> Numbers:
    """What the card of every measurement rests on, before it is compared with right ones.

    Returns:
        Scores and `CONDITIONS` by name, "chi-square" and "p" of a sample, and "light": of what is
        not compared.
    """
    columns: dict[str, list[float]] = {
        name: [] for name in (*NAMES, *CONDITIONS, "chi-square", "p")
    }
    lights: list[Light] = []
    order: list[int] = []
    for rows, part in case.make():
        order += rows
        posterior = reconstruct(
            model, part, samples=1, calls=calls, seed=seed + rows[0], progress=False, force=True
        )
        plain = judge_plainly(model, part, posterior.preview, posterior.samples)
        lights += [find_light(checks) for checks in plain]
        scores = find_scores(model, part, calibration.looks, posterior.preview, posterior.samples)
        for name in (*NAMES, *CONDITIONS):
            columns[name] += [row.get(name, np.nan) for row in scores]
        reduced, p_values = chi_square_of(part, posterior.samples[0])
        columns["chi-square"] += reduced.tolist()
        columns["p"] += p_values.tolist()
    found: Numbers = {name: np.array(column) for name, column in columns.items()}
    found["light"] = np.array(lights)
    # Images are measured in batches of one kind of operator each.
    return {name: column[np.argsort(order)] for name, column in found.items()}


def judge(found: Numbers, usual: Usual) -> Numbers:
    """The light of every card, and the tail of each of its scores; runs no network.

    Args:
        found: As `score` gives it.
        usual: What to compare with.
    """
    lights: list[Light] = []
    tails: dict[str, list[float]] = {name: [] for name in NAMES}
    for number in range(len(found["light"])):
        row = {name: float(found[name][number]) for name in (*NAMES, *CONDITIONS)}
        scores = {name: value for name, value in row.items() if not np.isnan(value)}
        squares = (float(found[name][number]) for name in ("chi-square", "p"))
        compared = LIGHTS.index(find_light(compare(usual, scores, *squares)))
        lights.append(LIGHTS[max(compared, LIGHTS.index(str(found["light"][number])))])
        own = usual.find_tails(usual.place(scores))
        for name, column in tails.items():
            column.append(own.get(name, np.nan))
    return {
        "light": np.array(lights),
        "chi-square": found["chi-square"],
        "p": found["p"],
    } | {f"tail of {name}": np.array(column) for name, column in tails.items()}
