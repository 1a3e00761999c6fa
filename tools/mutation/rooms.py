"""The rooms that are mutated, and the tests that guard each."""

from dataclasses import dataclass

__all__ = ["ROOMS", "Room"]


@dataclass(frozen=True)
class Room:
    """Source files below src/bcdm (a folder stands for all in it), and tests below tests.

    Attributes:
        sources: What is mutated.
        tests: What must notice.
        without: Parts of names of tests that are left out: they run other processes, which this
            tool does not reach, or run for long.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()


ROOMS = {
    "conditioning": Room(
        ("conditioning.py", "measurement.py"),
        ("test_conditioning.py", "test_measurement.py", "methods/test_bayesian.py"),
        ("test_learned",),
    ),
    "methods": Room(
        ("methods",),
        ("methods", "test_conditioning.py"),
        ("test_learned", "test_trained"),
    ),
    "diffusion": Room(
        ("diffusion",),
        ("diffusion", "methods/test_bridge.py"),
        ("test_learned", "test_trained", "test_chain_reaches"),
    ),
    "trust": Room(("trust",), ("trust",)),
    "calibration": Room(
        ("evaluation/calibration.py", "checkpoint/calibration.py"),
        ("evaluation/test_calibration.py", "checkpoint/test_calibration.py"),
    ),
    "training": Room(
        ("training/objective.py", "training/train.py", "problems/levels.py"),
        ("training", "methods/test_bayesian.py", "problems/test_levels.py"),
        ("test_killed_run", "test_world_size", "test_other_settings", "test_plan.py",
         "test_learned"),
    ),
}  # fmt: skip
