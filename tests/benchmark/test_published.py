"""The paper's numbers as stored: whole, and in agreement with what its text says of them."""

import re
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "experiments/paper"
PUBLISHED: dict[str, Any] = yaml.safe_load((FOLDER / "published.yaml").read_text())


def take(task: str, method: str, metric: str) -> float:
    value = PUBLISHED["tables"][task]["methods"][method][metric]
    return float(value[0] if isinstance(value, list) else value)


@pytest.mark.parametrize("task", PUBLISHED["stated_gains"])
@pytest.mark.parametrize("rival", ["guided", "DI"])
def test_gains_in_the_text_follow_from_the_tables(task: str, rival: str) -> None:
    """To the digits printed."""
    names = ["DPS", "DMPS"] if rival == "guided" else [rival]
    for metric, stated in PUBLISHED["stated_gains"][task][rival].items():
        ours, theirs = take(task, "BCDM", metric), mean(take(task, n, metric) for n in names)
        gain = {
            "psnr": ours - theirs,
            "ssim": 100 * (ours / theirs - 1),
            "fid": theirs - ours,
        }[metric]
        assert gain == pytest.approx(stated, abs=0.06), (task, rival, metric)


def test_tables_are_whole() -> None:
    for task, table in PUBLISHED["tables"].items():
        assert (FOLDER / task).is_dir()
        assert "BCDM" in table["methods"]
        for name, row in table["methods"].items():
            assert {"psnr", "ssim", "fid"} <= set(row)
            marked = name != "BCDM" and task != "denoise"
            assert set(row.get("marked", {})) == ({"psnr", "ssim"} if marked else set())
    for table in (PUBLISHED["training_hours"], PUBLISHED["seconds_per_sample"]):
        assert set(table) == {"from", "mri", "deblur", "inpaint", "sr"}


def test_claims_are_numbered_and_judged() -> None:
    lines = (FOLDER / "README.md").read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, len(rows) + 1))
    assert all(row.count("|") == 6 for row in rows)
    verdicts = ("**holds**", "**fails**", "**in part**")
    assert all(row.split("|")[5].strip().startswith(verdicts) for row in rows)
