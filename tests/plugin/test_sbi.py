"""A flow of sbi through the door for others: no diffusion, and still examined."""

from pathlib import Path

import pytest
import torch

from bcdm.benchmark.instances import load_instances
from bcdm.benchmark.mixture import Contestant, examine

pytest.importorskip("sbi", reason="sbi is not installed: make test-sbi")
FOLDER = Path(__file__).resolve().parents[2] / "examples/sbi"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)


def test_what_the_flow_sees_is_the_gaussian_posterior() -> None:
    import sbi_methods

    one = load_instances(8, 4)[0].measurement
    mean, spread = sbi_methods.find_linear(one)
    matrix, variance = one.operator.matrix, one.std.item() ** 2
    exact = torch.linalg.inv(matrix.mT @ matrix / variance + torch.eye(8).double())
    torch.testing.assert_close(spread[0] @ spread[0], exact)
    torch.testing.assert_close(mean[0], exact @ (matrix.mT @ one.y[0]) / variance)


@pytest.mark.filterwarnings("ignore:Maximum number of epochs", "ignore:torch.triangular_solve")
def test_it_takes_the_exam(monkeypatch: pytest.MonkeyPatch) -> None:
    import sbi_methods

    short = sbi_methods.train(8, 2000, 1)
    monkeypatch.setattr(sbi_methods, "train", lambda _: short)
    rows = examine([Contestant("NPE", sbi_methods.NPE, calls=1)], smoke=True, report=lambda _: None)
    assert "NPE" in {row.case["method"] for row in rows}
