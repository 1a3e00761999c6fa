"""Stored outcomes: found again where all they depend on is the same, and only there."""

from pathlib import Path

from bcdm.checkpoint import load
from bcdm.comparison.contenders import ContenderConfig
from bcdm.comparison.engine import _describe
from bcdm.comparison.task import Task


def test_outcomes_without_lpips_serve_no_task_with_it() -> None:
    ours = ContenderConfig(kind="network", network="ours", calls=3)
    task = Task(base=Path("base.yaml"), minutes=1, networks={"ours": ()}, methods={"BCDM": ours},
                ours="BCDM", figure=("BCDM",))  # fmt: skip
    models = {"ours": load("ixi64-mri8x")}
    without = _describe(task, ours, models)
    judged, moved = (
        _describe(task.model_copy(update={"lpips": Path(name)}), ours, models) for name in "ab"
    )
    assert without != judged
    assert judged == moved
    # Nothing is added where it is asked for: outcomes of earlier versions keep their names.
    assert len(judged) == 4
