"""Stored outcomes: found again where all they depend on is the same, and only there."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint import load, save_operator
from bcdm.comparison.contenders import ContenderConfig
from bcdm.comparison.identity import describe_outcome
from bcdm.comparison.task import Task
from bcdm.errors import InputError
from bcdm.methods import LeastSquares
from bcdm.operators import PixelMask

OURS = ContenderConfig(kind="network", network="ours", calls=3)
TASK = Task(
    base=Path("base.yaml"),
    minutes=1,
    networks={"ours": ()},
    methods={"BCDM": OURS},
    ours="BCDM",
    figure=("BCDM",),
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with images and weights; what is in them is not looked at."""
    (tmp_path / "brain_ixi_t1").mkdir()
    np.savez(tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz", images=np.zeros(3))
    (tmp_path / "a.pth").write_bytes(b"weights")
    return tmp_path


def describe(data: Path, **changes: object) -> list[object]:
    model = load("ixi64-mri8x")
    task = TASK.model_copy(update=changes)
    return describe_outcome(task, OURS, {"ours": model}, model, data)


def test_outcomes_serve_no_task_with_other_weights(data: Path) -> None:
    judged = describe(data, lpips=Path("a.pth"))
    assert describe(data) != judged
    assert describe(data, fid=Path("a.pth")) != judged
    (data / "b.pth").write_bytes(b"weights")
    assert describe(data, lpips=Path("b.pth")) == judged
    (data / "b.pth").write_bytes(b"others.")
    assert describe(data, lpips=Path("b.pth")) != judged


def test_outcomes_serve_no_other_images(data: Path) -> None:
    before = describe(data)
    assert describe(data) == before
    np.savez(data / "brain_ixi_t1/ixi_t1_axial128.npz", images=np.ones(3))
    assert describe(data) != before


def test_outcomes_serve_no_other_operator(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = data / "operator.safetensors"
    save_operator(PixelMask(torch.ones(64, 64)), stored)
    before = describe(data, operator=str(stored))
    save_operator(PixelMask(torch.zeros(64, 64)), stored)
    assert describe(data, operator=str(stored)) != before
    # The same for one that a function makes: its file counts.
    monkeypatch.syspath_prepend(str(data))
    source = data / "made_for_outcomes.py"
    source.write_text("def make(size):\n    return 1\n")
    before = describe(data, operator="made_for_outcomes:make")
    source.write_text("def make(size):\n    return 2\n")
    assert describe(data, operator="made_for_outcomes:make") != before


def make_mean() -> object:
    return LeastSquares()


def test_an_outcome_is_found_again_by_a_path_alone(data: Path) -> None:
    """Two settings of one class, two lambdas: nothing but their rows tells them apart."""
    model = load("ixi64-mri8x")

    def tell(kind: object) -> list[object]:
        config = ContenderConfig(kind=kind, calls=3)
        return describe_outcome(TASK, config, {"ours": model}, model, data)

    for known in (make_mean, f"{__name__}:make_mean"):
        assert tell(known) == tell(known)
    for unknown in (partial(make_mean), lambda: LeastSquares(), type("Mine", (), {})):
        assert tell(unknown) != tell(unknown)


def test_what_is_missing_is_named(data: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.pth cannot be read"):
        describe(data, lpips=Path("missing.pth"))
    (data / "brain_ixi_t1/ixi_t1_axial128.npz").unlink()
    with pytest.raises(InputError, match=r"ixi_t1_axial128\.npz"):
        describe(data)
