"""A task run again gives what it gave once, here or on another machine, to a stated tolerance."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from bcdm.commands import cli
from bcdm.methods import CONTROL

STORED = Path(__file__).parent / "data/rerun"
# Absolute, by the start of a record's name. Other kernels (oneDNN off) moved these numbers by
# less than a thousandth of it; coverage counts pixels, of which one may fall on the other side.
TOLERANCE = {"PSNR": 0.02, "SSIM": 0.002, "CRPS": 0.0002, "coverage": 0.02, "chi-square": 0.02}
# Of a whole training: rounding grows over its steps, and ends up like another seed (.06 dB there).
WHOLE = {"PSNR": 0.1, "SSIM": 0.005, "LPIPS": 0.003, "CRPS": 0.0003, "coverage": 0.01,
         "chi-square": 0.02}  # fmt: skip
TASK = Path(__file__).resolve().parents[2] / "experiments/paper/mri"


def read(folder: Path) -> dict[tuple[str, str], float]:
    """Values by what was measured and of which method, without what differs between machines."""
    rows = json.loads((folder / "results.json").read_text())
    return {
        (row["name"], row["case"]["method"]): row["value"]
        for row in rows
        if "method" in row["case"] and row["value"] is not None and row["unit"] != "s"
    }


def rerun(out: Path, *changes: str) -> dict[tuple[str, str], float]:
    """Trains as many steps as the stored run did, and compares again."""
    out.mkdir()
    shutil.copyfile(STORED / "budgets.json", out / "budgets.json")
    task = out / "task.yaml"
    settings = (STORED / "task.yaml").read_text().replace("base.yaml", str(STORED / "base.yaml"))
    task.write_text(settings + "".join(f"{change}\n" for change in changes))
    arguments = ["benchmark", "paper", "--smoke", "--task", str(task), "--data", str(STORED)]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(out), "--work", str(out / "work")])
    assert done.exit_code == 0, done.output
    return read(out)


def measure_distance(
    one: dict[tuple[str, str], float],
    other: dict[tuple[str, str], float],
    tolerance: Mapping[str, float] = TOLERANCE,
) -> float:
    """The largest difference, in tolerances."""
    assert one.keys() == other.keys()
    away = [
        abs(one[name, method] - other[name, method]) / limit
        for name, method in one
        for start, limit in tolerance.items()
        if name.startswith(start)
    ]
    assert len(away) == len(one)
    return max(away)


def test_a_task_run_again_gives_the_stored_numbers(tmp_path: Path) -> None:
    stored = read(STORED)
    assert {method for _, method in stored} == {CONTROL, "LS", "DDRM", "I2SB", "BCDM"}
    assert measure_distance(rerun(tmp_path / "again"), stored) < 1


@pytest.mark.slow
def test_another_training_does_not(tmp_path: Path) -> None:
    """The tolerance is tight enough to see one."""
    other = rerun(tmp_path / "other", 'set: ["training.seed=1"]')
    assert measure_distance(other, read(STORED)) > 2


def test_the_real_task_gave_the_same_on_another_machine() -> None:
    """Records of experiments/paper/mri and, with other instructions, of its part mri/again."""
    # A Frechet distance is over the images that all methods share: more of them in the part.
    again = {key: v for key, v in read(TASK / "again").items() if key[0] != "Frechet distance"}
    assert {method for _, method in again} == {"LS", "TV", "BCDM"}
    first, other = (
        {key: value for key, value in read(folder).items() if key in again}
        for folder in (TASK, TASK.parent / "sr")
    )
    assert measure_distance(again, first, WHOLE) < 1
    assert measure_distance(again, other, WHOLE) > 10
