"""Are pixels as far apart as those that a model was trained on?"""

from collections.abc import Sequence

from bcdm.checkpoint.settings import ScopeConfig
from bcdm.trust.card import Check, Trust, add_check

__all__ = ["judge_spacing"]

_ROUNDING = 0.02  # by which headers and cards may differ


def judge_spacing(card: Trust, scope: ScopeConfig | None, spacing: Sequence[float] | None) -> Trust:
    """The card with a row about the distance of pixels, for models of more than one size.

    Args:
        card: What else is known.
        scope: What the model is for; None adds nothing.
        spacing: Of rows and of columns in mm, as the file says; None if it does not.
    """
    if scope is None:
        return card
    low, high = scope.spacing
    meant = f"the model is for {low:g} to {high:g} mm"
    if not spacing:
        reason = f"the file does not say how far apart pixels are, and {meant}"
        return add_check(card, Check("pixel spacing", "unknown", "none", reason))
    down, along = float(spacing[0]), float(spacing[1])
    value = f"{down:.3g} x {along:.3g} mm"
    near = low * (1 - _ROUNDING) <= min(down, along) and max(down, along) <= high * (1 + _ROUNDING)
    if near:
        return add_check(card, Check("pixel spacing", value, "good", meant))
    reason = f"pixels are not as far apart as in training: {meant}"
    return add_check(card, Check("pixel spacing", value, "doubtful", reason))
