"""Splits: no subject on both sides, and a label that nothing but the subject decides."""

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bcdm.data import Subset, assign_splits, select_split, split_by_subject
from bcdm.errors import InputError, ShapeError

FRACTIONS = {"train": 0.7, "val": 0.1, "test": 0.2}
SUBJECTS = st.lists(st.text(max_size=6), max_size=30)


class Numbers:
    """Item k is the constant image k."""

    value_range = (0.0, 255.0)

    def __init__(self, subjects: tuple[str, ...] | None, split_labels: tuple[str, ...] | None):
        self.subjects, self.split_labels = subjects, split_labels

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((1, 2, 2), float(index))


@settings(deadline=None)
@given(SUBJECTS, st.integers(-5, 5))
def test_a_subject_has_one_label(subjects: list[str], seed: int) -> None:
    labels = split_by_subject(subjects, FRACTIONS, seed)
    assert len(labels) == len(subjects)
    assert set(labels) <= set(FRACTIONS)
    assert len(set(zip(subjects, labels, strict=True))) == len(set(subjects))


@settings(deadline=None)
@given(SUBJECTS, SUBJECTS, st.integers(0, 5))
def test_new_items_change_no_label(old: list[str], new: list[str], seed: int) -> None:
    labels = dict(zip(old, split_by_subject(old, FRACTIONS, seed), strict=True))
    grown = new + old[::-1]
    later = dict(zip(grown, split_by_subject(grown, FRACTIONS, seed), strict=True))
    assert all(later[subject] == label for subject, label in labels.items())


def test_labels_are_the_same_on_every_machine() -> None:
    labels = split_by_subject(["IXI012", "IXI013", "zoë", ""], FRACTIONS, seed=3)
    assert labels == ("test", "train", "train", "train")


@pytest.mark.parametrize("seed", range(5))
def test_fractions_hold_in_expectation(seed: int) -> None:
    count = 20_000
    found = Counter(split_by_subject([f"s{k}" for k in range(count)], FRACTIONS, seed))
    for label, share in FRACTIONS.items():
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(found[label] - count * share) < 4 * deviation


def test_seeds_are_independent() -> None:
    names = [f"s{k}" for k in range(20_000)]
    halves = {"a": 0.5, "b": 0.5}
    pairs = zip(split_by_subject(names, halves, 0), split_by_subject(names, halves, 1), strict=True)
    agreeing = sum(a == b for a, b in pairs)
    assert abs(agreeing - 10_000) < 4 * 5_000**0.5


def test_a_share_of_nothing_gets_nothing() -> None:
    names = [f"s{k}" for k in range(500)]
    assert set(split_by_subject(names, {"train": 1.0, "test": 0.0}, 0)) == {"train"}
    assert set(split_by_subject(names, {"test": 0.0, "train": 1.0}, 0)) == {"train"}
    thirds = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3, "none": 0.0}
    assert set(split_by_subject(names, thirds, 0)) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "fractions", [{}, {"train": 0.5}, {"train": 1.5, "test": -0.5}, {"train": float("nan")}]
)
def test_fractions_that_are_no_shares_are_refused(fractions: dict[str, float]) -> None:
    with pytest.raises(InputError, match="sum to 1"):
        split_by_subject(["a"], fractions, 0)


def test_stored_labels_win() -> None:
    stored = ("test", "train", "val", "test")
    assert assign_splits(Numbers(("a", "b", "c", "a"), stored), FRACTIONS, 0) == stored
    assert assign_splits(Numbers(None, stored), FRACTIONS, 0) == stored
    assert assign_splits(Numbers(None, stored), FRACTIONS, 0, subjects=list("abcd")) == stored


def test_stored_labels_that_share_a_subject_are_refused() -> None:
    stored = ("test", "train", "val", "test")
    with pytest.raises(InputError, match="subject 'b' is labelled 'train' and 'val'"):
        assign_splits(Numbers(("a", "b", "b", "a"), stored))
    with pytest.raises(InputError, match="subject 'c' is labelled 'val' and 'test'"):
        assign_splits(Numbers(None, stored), subjects=list("abcc"))


def test_subjects_decide_without_stored_labels() -> None:
    names = ("a", "b", "a", "c")
    assert assign_splits(Numbers(names, None), FRACTIONS, 1) == split_by_subject(
        names, FRACTIONS, 1
    )
    assert assign_splits(Numbers(None, None), FRACTIONS, 1, names) == split_by_subject(
        names, FRACTIONS, 1
    )


def test_items_without_subject_are_not_split_by_guess() -> None:
    with pytest.raises(InputError, match="name no subjects and no split"):
        assign_splits(Numbers(None, None), FRACTIONS, 0)
    with pytest.raises(ShapeError, match="one per item"):
        assign_splits(Numbers(None, None), FRACTIONS, 0, ["a"])


def test_select_split_keeps_items_and_their_labels() -> None:
    source = Numbers(("a", "b", "c", "d"), ("train", "test", "train", "test"))
    part = select_split(source, assign_splits(source), "test")
    assert [int(image.mean()) for image in (part[0], part[1], part[-1])] == [1, 3, 3]
    assert part.subjects == ("b", "d")
    assert part.split_labels == ("test", "test")
    assert part.value_range == (0.0, 255.0)
    assert len(Subset(part, [1])) == 1
    assert int(Subset(part, [1])[0].mean()) == 3
    with pytest.raises(InputError, match=r"only \['test', 'train'\] \(subjects: 4"):
        select_split(source, assign_splits(source), "val")
    with pytest.raises(ShapeError, match="one per item"):
        select_split(source, ["train"], "train")
