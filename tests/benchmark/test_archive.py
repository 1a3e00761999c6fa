"""The exams of archives, scaled down: they run, and what no load can change holds."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bcdm.commands.entry import cli


def examine(path: Path, *exams: str) -> list[dict]:
    options = [word for exam in exams for word in ("--exam", exam)]
    ran = CliRunner().invoke(
        cli, ["benchmark", "archive", "--smoke", *options, "--json", str(path)]
    )
    assert ran.exit_code == 0, ran.output
    return json.loads(path.read_text())


def test_costs(tmp_path: Path) -> None:
    """All numbers are there; bytes and memory hold, because no load changes them."""
    path = tmp_path / "archive.json"
    other = {"name": "kept", "case": {"exam": "kills"}, "value": 0.0, "interval": [0, 1]}
    path.write_text(json.dumps([other | {"holds": None}]))
    rows = {row["name"]: row for row in examine(path, "costs", "growth")}
    assert rows["kept"]["interval"] == [0, 1]
    assert rows["CPU-seconds over a bare loop"]["value"] > 0.5
    assert rows["memory of ten times more items"]["value"] < 1.1
    assert rows["recognised as finished"]["value"] > 10_000


def test_kills_of_parts(tmp_path: Path) -> None:
    """Two kills; every item once and the bits of a quiet run. The command fails where they miss."""
    rows = examine(tmp_path / "archive.json", "kills")
    assert {row["case"]["scheduler"] for row in rows} == {"--part, one of them twice"}
    assert all(row["holds"] for row in rows)
    assert rows[0]["case"]["kills"] == "1 driver, 1 worker"


@pytest.mark.slow  # a node of Ray gives its own processes 15 s, and gives up where others work
def test_kills_of_ray() -> None:
    pytest.importorskip("ray")
    from bcdm.benchmark.kills import run

    rows = run(3, 300, 5, parts=False, ray=True, report=print)
    assert rows[0].case["kills"] == "1 driver, 1 raylet, 1 worker"
    assert [row.holds for row in rows] == [True] * 4


@pytest.mark.slow
def test_twenty_kills_of_ten_thousand_items() -> None:
    pytest.importorskip("ray")
    from bcdm.benchmark.kills import run

    assert all(row.holds for row in run(20, 10_000, 25, ray=True, report=print))
