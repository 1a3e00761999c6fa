"""One network call beside CG-SENSE, with a network that adds nothing."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from experiments.scans import control
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.data import Preparation


def make_model() -> Model:
    """Untrained: its one call gives the linear estimate."""
    config = parse_config(
        {
            "name": "coils",
            "data": {"path": "nothing", "value_range": [0.0, 1.0], "phase": True},
            "operator": {"kind": "family", "members": [{"kind": "receivers"}]},
            "noise_std": [0.01, 0.03],
            "network": {"width": 4, "multipliers": [1], "blocks": 1, "attention": [], "patch": 8},
            "parameterisation": {"prior_std": 0.2},
            "training": {"steps": 1},
        }
    )
    shape = (1, 128, 128)
    return Model(build_method(config, shape), config, None, Preparation(), shape, {})


def make_disc() -> Tensor:
    row = torch.arange(128.0)
    inside = torch.hypot(row[:, None] - 64, row - 60) < 40
    return (inside * 0.7 + 0j).to(torch.complex64)[None, None]


def test_a_network_that_adds_nothing_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control has the same linear estimate among its own, and the best of them."""
    monkeypatch.setattr(control, "PATTERNS", ("poisson",))
    rows = control.compare(make_model(), make_disc(), (2,))
    assert [row["acceleration"] for row in rows] == [2.0, 4.0, 8.0]
    for row in rows:
        assert row["one call"] <= row["CG-SENSE"] + 0.1
    found = [row["CG-SENSE"] for row in rows]
    assert found == sorted(found, reverse=True)


def test_operators_are_of_what_they_say() -> None:
    operator = control.draw_operator("equispaced_columns", 4.0, 3, 2)
    assert operator.maps.shape == (2, 3, 128, 128)
    assert operator.mask.float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert control.find_psnr(0.9 * make_disc() / 0.7, make_disc() / 0.7) == pytest.approx(
        -10 * np.log10(0.01 * float((make_disc().abs() > 0).float().mean())), abs=1e-3
    )


def test_the_script_starts_by_itself() -> None:
    """In a process where nothing else was imported before; without arguments it ends at them."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.scans.control"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not enough values to unpack" in done.stderr
