"""Training, validation and test sets that share no subject."""

import hashlib
import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from bcdm.data.images import ImageSource
from bcdm.errors import InputError, ShapeError

__all__ = ["DEFAULT_FRACTIONS", "Subset", "assign_splits", "select_split", "split_by_subject"]

DEFAULT_FRACTIONS: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}
"""Of subjects, for training, validation and test."""


def split_by_subject(
    subjects: Sequence[str], fractions: Mapping[str, float], seed: int
) -> tuple[str, ...]:
    r"""Labels each item by a hash of its subject.

    With $u = h(\text{seed}, \text{subject}) \in [0, 1)$ and $F_k$ the cumulative fractions, the
    label is the first $k$ with $u < F_k$. It depends on nothing else, so it stays the same
    when items are added, removed or reordered, and all items of a subject share it. The
    fractions hold in expectation over the subjects, not exactly.

    Args:
        subjects: Who is in each item.
        fractions: The share of each label; they sum to 1.
        seed: Another seed gives another split.

    Returns:
        One label per item.

    Example:
        >>> split_by_subject(["anna", "ben", "anna"], {"train": 0.5, "test": 0.5}, seed=0)
        ('train', 'test', 'train')
    """
    _check_fractions(fractions)
    labels = {name: _label_subject(name, fractions, seed) for name in set(subjects)}
    return tuple(labels[name] for name in subjects)


def assign_splits(
    source: ImageSource,
    fractions: Mapping[str, float] = DEFAULT_FRACTIONS,
    seed: int = 0,
    subjects: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Labels each item of a source: by its stored labels if it has some, else by subject.

    Stored labels that give one subject to two sets are refused.

    Args:
        source: The images.
        fractions: The share of each label, for a source without stored labels.
        seed: Chooses among the splits by subject.
        subjects: Who is in each item, for a source that does not say.
    """
    if subjects is None:
        subjects = source.subjects
    if subjects is not None and len(subjects) != len(source):
        raise ShapeError(f"{len(subjects)} subjects for {len(source)} items: pass one per item")
    if source.split_labels is not None:
        _check_apart(subjects or (), source.split_labels)
        return tuple(source.split_labels)
    if subjects is None:
        # Slices of one volume are not independent: splitting items would leak.
        raise InputError(
            "the images name no subjects and no split: store them as .npz or HDF5 with an array "
            '"subject" or "split", one entry an image'
        )
    return split_by_subject(subjects, fractions, seed)


class Subset:
    """Some items of a source, in the order given; itself a source."""

    def __init__(self, source: ImageSource, indices: Sequence[int]) -> None:
        self.source = source
        self.indices = tuple(indices)
        self.value_range = source.value_range
        self.subjects = _pick(source.subjects, self.indices)
        self.split_labels = _pick(source.split_labels, self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Tensor:
        """Reads one image (C, H, W), float32, in native numbers."""
        return self.source[self.indices[index]]


def select_split(source: ImageSource, labels: Sequence[str], label: str) -> Subset:
    """Keeps the items with one label.

    Args:
        source: The images.
        labels: One label per item, from `assign_splits`.
        label: The label to keep, such as "train".
    """
    if len(labels) != len(source):
        raise ShapeError(f"{len(labels)} labels for {len(source)} items: pass one per item")
    indices = [index for index, name in enumerate(labels) if name == label]
    if not indices:
        whose = len(set(source.subjects)) if source.subjects is not None else "unknown"
        raise InputError(
            f"no image is labelled {label!r}, only {sorted(set(labels))} (subjects: {whose}; each "
            "is in one split): give more subjects, or folders train, val and test"
        )
    return Subset(source, indices)


def _check_apart(subjects: Sequence[str], labels: Sequence[str]) -> None:
    """Refuses a subject with two labels."""
    seen: dict[str, str] = {}
    for subject, label in zip(subjects, labels, strict=False):
        if seen.setdefault(subject, label) != label:
            raise InputError(
                f"subject {subject!r} is labelled {seen[subject]!r} and {label!r}: keep all its "
                "images in one set"
            )


def _check_fractions(fractions: Mapping[str, float]) -> None:
    shares = list(fractions.values())
    if not all(share >= 0 for share in shares) or not math.isclose(sum(shares), 1, abs_tol=1e-9):
        raise InputError(f"fractions {dict(fractions)} must be non-negative and sum to 1")


def _label_subject(subject: str, fractions: Mapping[str, float], seed: int) -> str:
    # Python's own hash changes from process to process.
    text = f"{seed}:{subject}".encode(errors="surrogateescape")
    point = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) / 2**64
    shared = [label for label, share in fractions.items() if share > 0]
    edge = 0.0
    for label in shared[:-1]:
        edge += fractions[label]
        if point < edge:
            return label
    return shared[-1]


def _pick(values: Sequence[str] | None, indices: Sequence[int]) -> tuple[str, ...] | None:
    return None if values is None else tuple(values[index] for index in indices)
