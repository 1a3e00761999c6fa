"""The gap to a specialist over minutes, on a tiny family: every row is there, and once trained."""

from pathlib import Path

import pytest
from experiments.specialising import CASES, REQUIRED, Plan, measure

from bcdm.assessment.options import Options
from bcdm.checkpoint import load
from bcdm.checkpoint.given import read_operator_for
from bcdm.operators import PixelMask


def test_the_gap_over_minutes(family: Path, tmp_path: Path) -> None:
    options = Options(data=family, limit=3, samples=3, calls=2)
    plan = Plan(tmp_path, (1e-6,), 0.05, options, ("training.steps=1",))
    name, box = str(family / "run/model"), "{kind: centre_box, box: [4, 4]}"
    rows = measure("box", name, box, plan, "command")
    gaps = {row.case["minutes"]: row for row in rows if row.name == "PSNR behind the specialist"}
    assert list(gaps) == [0.0, 1e-6]
    assert [row.case["steps"] for row in gaps.values()] == [0, 1]
    assert gaps[0.0].required == REQUIRED[0.0]
    for minutes, gap in gaps.items():
        psnr = {
            row.case["model"]: row.value
            for row in rows
            if row.name == "PSNR" and row.case["minutes"] == minutes
        }
        assert gap.value == pytest.approx(psnr["specialist"] - psnr["specialised"], abs=1e-9)
    # The specialist is for the same problem, from weights of its own.
    alike = load(tmp_path / "box/scratch/model")
    assert isinstance(alike.operator, PixelMask)
    assert alike.noise_std == 0.05
    assert alike.config.training.start_from is None
    assert alike.config.data == load(name).config.data
    # Again: nothing is trained or measured anew.
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert measure("box", name, box, plan, "command") == rows
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_operators_of_all_cases_can_be_built() -> None:
    for name, operator in CASES.values():
        read_operator_for(operator, load(name))
