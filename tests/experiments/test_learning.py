"""The cost of each row of a learning curve is the processor's, over all sittings."""

import pytest
from experiments.scans.learning import count_minutes, describe

NOTED = [
    {"pid": 1, "cpu_seconds": 60, "step": 100},
    {"pid": 1, "cpu_seconds": 120, "step": 200},
    {"pid": 2, "cpu_seconds": 6, "step": 200},
    {"pid": 2, "cpu_seconds": 66, "step": 300},
]


def test_minutes_of_sittings_add_up() -> None:
    assert count_minutes(NOTED, [50, 150, 250, 300]) == pytest.approx([0.5, 1.55, 2.6, 3.1])


def test_rows_have_their_cost_and_their_loss() -> None:
    log = [
        {"step": 100, "loss": 3.0},
        {"step": 100, "psnr": 20.0},
        {"step": 200, "loss": 2.0},
        {"step": 300, "loss": 1.0},
        {"step": 300, "psnr": 25.0},
    ]
    first, second = describe(log, NOTED)
    assert first == {"minutes": 1.0, "loss": 3.0, "step": 100, "psnr": 20.0}
    assert second["loss"] == 1.5
    assert second["minutes"] == pytest.approx(3.1)
