"""Tables: images of one subject are no independent evidence."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from bcdm.benchmark.comparison import Outcome
from bcdm.benchmark.tables import compare_pairs, make_markdown

METRIC = "PSNR, average"


def outcome(values: np.ndarray) -> Outcome:
    blank = np.zeros((1, 1, 2, 2))
    return Outcome({"calls": 1, "images": len(values)}, {METRIC: values}, (blank, blank), None, 1.0)


def test_copies_of_a_subject_add_no_significance() -> None:
    rng = np.random.default_rng(0)
    mine = rng.normal(30, 1, 12)
    theirs = mine - 0.2 + 0.5 * rng.normal(size=12)
    alone = compare_pairs(outcome(theirs), outcome(mine), METRIC, [str(k) for k in range(12)])
    assert alone == pytest.approx(wilcoxon(theirs, mine).pvalue)
    several = [outcome(values.repeat(10)) for values in (theirs, mine)]
    subjects = [str(k // 10) for k in range(120)]
    assert compare_pairs(*several, METRIC, subjects) == pytest.approx(alone)
    assert compare_pairs(*several, METRIC, [str(k // 30) for k in range(120)]) is None
    # As 120 subjects, they would get a star.
    rows = {"theirs": several[0], "ours": several[1]}
    assert "*" not in make_markdown(rows, {}, "ours", subjects)
    assert "*" in make_markdown(rows, {}, "ours", [str(k) for k in range(120)])


def test_few_images_meet_the_same_images() -> None:
    """A method scored on few images is compared on those, with their own subjects."""
    mine = np.arange(24.0) ** 2
    chosen = np.linspace(0, 23, 12).round().astype(int)
    theirs = mine[chosen] + np.where(np.arange(12) % 3, 1.0, -0.5)
    subjects = [str(k // 2) for k in range(24)]
    names = np.array(subjects)[chosen]
    means = [[v[names == name].mean() for name in np.unique(names)] for v in (theirs, mine[chosen])]
    found = compare_pairs(outcome(theirs), outcome(mine), METRIC, subjects)
    assert found == pytest.approx(wilcoxon(*means).pvalue)
