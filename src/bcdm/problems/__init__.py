"""What training draws: operators, noise levels; and whether a measurement is one of those."""

from bcdm.problems.cloud import Cloud
from bcdm.problems.draws import PROBLEM_STEP, DrawnProblems, OneProblem, Problems
from bcdm.problems.familiarity import Familiarity, UnfamiliarWarning, Verdict
from bcdm.problems.levels import Levels

__all__ = [
    "PROBLEM_STEP",
    "Cloud",
    "DrawnProblems",
    "Familiarity",
    "Levels",
    "OneProblem",
    "Problems",
    "UnfamiliarWarning",
    "Verdict",
]
