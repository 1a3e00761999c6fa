"""Tables: images of one subject are no independent evidence."""

import numpy as np
import pytest
import torch
from scipy.stats import wilcoxon

from bcdm.comparison.engine import Outcome
from bcdm.comparison.tables import (
    SHARED,
    compare_pairs,
    compute_frechet,
    make_markdown,
    make_records,
)
from bcdm.evaluation import frechet_distance
from bcdm.methods import CONTROL

METRIC = "PSNR, average"


def outcome(values: np.ndarray, **features: np.ndarray) -> Outcome:
    blank = np.zeros((1, 1, 2, 2))
    case = {"calls": 1, "images": len(values)}
    return Outcome(case, {METRIC: values}, (blank, blank), features, 1.0)


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


def test_frechet_distances_are_of_the_same_images() -> None:
    """The same images give the same distance, whether or not others were scored as well."""
    rng = np.random.default_rng(0)
    truth, features = rng.normal(size=(12, 3)), rng.normal(size=(12, 3))
    chosen = np.linspace(0, 11, 6).round().astype(int)
    all_of_them = outcome(np.zeros(12), FID=features)
    few_of_them = outcome(np.zeros(6), FID=features[chosen])
    found = compute_frechet(
        {"all": all_of_them, "few": few_of_them}, {"FID": torch.from_numpy(truth)}
    )
    expected = frechet_distance(torch.from_numpy(features[chosen]), torch.from_numpy(truth))
    assert found == {"FID": {name: pytest.approx(float(expected)) for name in ("all", "few")}}


def test_records_hold_the_mean_over_shared_images() -> None:
    few, many = np.arange(4.0), np.arange(10.0)
    outcomes = {
        name: Outcome({"calls": 1}, {METRIC: values, "CRPS, samples": values,
                                     "coverage 80%, all pixels": values}, (few, few), {}, 1.0)
        for name, values in (("few", few), ("ours", many))
    }  # fmt: skip
    records = make_records("task", outcomes, {}, "ours", subjects=[str(k) for k in range(10)],
                           beaten=(), guided=(), seed=0, command="")  # fmt: skip
    cases = {r.case["method"]: r.case for r in records if r.name == METRIC}
    assert SHARED not in cases["few"]
    assert cases["ours"][SHARED] == pytest.approx(np.mean([0, 3, 6, 9]))


def test_coverage_is_not_compared_where_nothing_else_has_samples() -> None:
    values = np.arange(8.0)
    scores = {METRIC: values, "CRPS, samples": values}
    both = {"LS": scores, "ours": scores | {"coverage 80%, all pixels": values}}
    outcomes = {
        name: Outcome({"calls": 1}, found, (values, values), {}, 1.0)
        for name, found in both.items()
    }
    records = make_records("task", outcomes, {}, "ours", subjects=[str(k) for k in range(8)],
                           beaten=(), guided=(), seed=0, command="")  # fmt: skip
    required = [record.name for record in records if record.required]
    assert required == ["CRPS behind the best other", "averaged PSNR behind the best other (dB)"]


def test_nothing_is_required_of_the_control_alone() -> None:
    """It would be compared with itself, which cannot fail."""
    values = np.arange(8.0)
    scores = {METRIC: values, "CRPS, samples": values}
    outcomes = {CONTROL: Outcome({"calls": 0}, scores, (values, values), {}, 1.0)}
    records = make_records("task", outcomes, {}, CONTROL, subjects=[str(k) for k in range(8)],
                           beaten=(), guided=(), seed=0, command="")  # fmt: skip
    assert records
    assert not [record for record in records if record.required]
