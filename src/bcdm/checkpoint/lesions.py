"""What is known of small lesions in a model's images, in words: for its card and for reports."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

__all__ = ["Lesions", "describe_lesions"]

_SCANS = {"fourier_mask", "k_space", "receivers"}  # kinds of operators that are MRI


class Lesions(TypedDict):
    """What `bcdm benchmark lesions` found of discs in images of subjects that are new to a model.

    All but the first two are fractions.
    """

    regions: int
    subjects: int
    direction: float
    kept: float
    held: float
    outside: float
    command: str


def describe_lesions(facts: Mapping[str, Any], kinds: Iterable[str]) -> str | None:
    """One sentence; None for a model of anything but MRI.

    Args:
        facts: Of the model.
        kinds: Of its operators.
    """
    if not _SCANS & set(kinds):
        return None
    found = facts.get("lesions")
    if not isinstance(found, dict) or not Lesions.__required_keys__ <= set(found):
        return (
            "How well the contrast of small lesions is kept was not measured for this model: do "
            "not read it from the samples."
        )
    advice = (
        "do not read how bright a small lesion is from the samples"
        if found["held"] < 0.7
        else "ask for the interval of a region (bcdm feature)"
    )
    return (
        f"Of {found['regions']} small discs put into images of {found['subjects']} new subjects "
        f"the mean showed {found['direction']:.0%} on the right side, brighter or darker, with "
        f"{found['kept']:.2f} of their contrast (median). 80 % intervals of the contrast held "
        f"{found['held']:.0%}, and {found['outside']:.0%} lay outside of all samples: {advice}."
    )
