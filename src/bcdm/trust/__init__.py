"""Does a model fit a measurement, and what speaks for a reconstruction and what against it?"""

from bcdm.trust.card import Check, Judgement, Light, Trust, join
from bcdm.trust.matching import UnfitError, check_operator, find_unfamiliar
from bcdm.trust.spacing import judge_spacing
from bcdm.trust.verdict import assess

__all__ = [
    "Check",
    "Judgement",
    "Light",
    "Trust",
    "UnfitError",
    "assess",
    "check_operator",
    "find_unfamiliar",
    "join",
    "judge_spacing",
]
