"""Scores of cards: kept in a file, judged again without a network."""

from pathlib import Path

import numpy as np

from bcdm.assessment.kept import Numbers
from bcdm.benchmark.cards import ScoreFile, judge
from bcdm.checkpoint.usual import CONDITIONS, Usual
from bcdm.trust.scores import NAMES

FOUND: Numbers = {"typicality": np.array([0.1234567, np.nan]), "light": np.array(["red", "green"])}


def refuse() -> Numbers:
    raise AssertionError("it is stored already")


def test_scores_are_found_once(tmp_path: Path) -> None:
    stored = ScoreFile(tmp_path / "deep/scores.json")
    first = stored.keep("a case", {"seed": 1}, lambda: FOUND)
    again = ScoreFile(stored.path).keep("a case", {"seed": 1}, refuse)
    for found in (first, again):
        np.testing.assert_array_equal(found["typicality"], [0.123457, np.nan])
        assert found["light"].tolist() == ["red", "green"]


def test_another_question_is_asked_anew_and_spares_the_rest(tmp_path: Path) -> None:
    stored = ScoreFile(tmp_path / "scores.json")
    stored.keep("a case", {"seed": 1}, lambda: FOUND)
    stored.keep("another", {"seed": 1}, lambda: FOUND)
    other = {"typicality": np.array([2.0])}
    assert stored.keep("a case", {"seed": 2}, lambda: other)["typicality"].tolist() == [2.0]
    assert stored.keep("a case", {"seed": 2}, refuse)["typicality"].tolist() == [2.0]
    stored.keep("another", {"seed": 1}, refuse)


def test_a_new_rule_judges_old_scores() -> None:
    """The light is the worst of what is compared and of what is not."""
    count = 4
    found: Numbers = {name: np.full(count, np.nan) for name in NAMES}
    found |= {name: np.ones(count) for name in (*CONDITIONS, "chi-square", "p")}
    found["typicality"] = np.array([1.0, 38.5, 90.0, 1.0])
    found["light"] = np.array(["green", "green", "amber", "red"])
    table = [float(k) for k in range(1, 40)]
    strict, mild = (
        Usual({"typicality": table}, threshold)
        for threshold in (3 / 40, 1 / 41)  # the latter below the smallest tail, 1 / 40
    )
    assert judge(found, strict)["light"].tolist() == ["green", "amber", "red", "red"]
    # Far beyond all that a table holds is bad, however short the table.
    assert judge(found, mild)["light"].tolist() == ["green", "green", "red", "red"]
    tails = judge(found, strict)
    assert tails["tail of typicality"].tolist() == [1.0, 0.05, 0.025, 1.0]
    assert np.isnan(tails["tail of grey levels"]).all()
