"""Noise or aliasing: the control is a network that adds nothing."""

from pathlib import Path

import pytest
import torch
from experiments.scans import limits
from tests.experiments.test_control import make_disc, make_model

from bcdm.benchmark.contestants import list_classical


def test_a_network_that_adds_nothing_is_the_linear_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many passes it makes; total variation at its best is far better on a flat disc."""
    monkeypatch.setattr(limits, "NOISES", (0.05,))
    monkeypatch.setattr(limits, "undersample", lambda data: iter(()))
    (row,) = limits.judge(make_model(), make_disc(), Path())
    assert row["passes 1"] == pytest.approx(row["linear"], abs=1e-3)
    assert row["passes 3"] == pytest.approx(row["linear"], abs=1e-3)
    assert row["total variation"] < 0.6 * row["linear"]


def test_passes_are_those_of_training_again_afterwards() -> None:
    model = make_model()
    (case,) = limits.add_noise(make_disc(), 0.05)
    assert case.inside.sum() == pytest.approx(float((make_disc().abs() > 0).sum()), rel=0.1)
    before = model.method.network.iterations
    with torch.no_grad():
        limits.Judge(model, list_classical()[1]).list_errors(case)
    assert model.method.network.iterations == before
