"""How long the networks of a study train."""

import json
from pathlib import Path

import yaml
from tests.comparison.studies import read, run

from bcdm.comparison.budget import Budget, write_budget
from bcdm.comparison.task import load_task


def test_committed_budgets_fix_the_steps(folder: Path) -> None:
    """Another machine trains for as many steps, whatever a step takes there."""
    write_budget(folder / "out/budgets.json", "plain", Budget(0.002, 10.0, 3))
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    assert json.loads((folder / "out/budgets.json").read_text())["plain"]["steps"] == 3
    log = (folder / "out/logs/plain.jsonl").read_text().splitlines()
    assert max(json.loads(line)["step"] for line in log) == 3
    write_budget(folder / "out/budgets.json", "plain", Budget(0.002, 10.0, 4))
    assert "was trained for 3 steps, not 4" in str(run(folder).exception)


def test_budgets_of_other_settings_are_forgotten(folder: Path) -> None:
    """A larger network is timed anew: a step of it takes longer."""
    run(folder)
    budgets = json.loads((folder / "out/budgets.json").read_text())
    budgets["plain"] |= {"seconds": 1e-3, "steps": 1000}
    (folder / "out/budgets.json").write_text(json.dumps(budgets))
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["set"].append("training.batch=3")
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    assert json.loads((folder / "out/budgets.json").read_text())["plain"]["steps"] < 1000


def test_steps_of_another_network_are_taken_whatever_its_minutes(folder: Path) -> None:
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["networks"]["plain"] = ["minutes=0.004"]
    study["networks"] = {"again": ["steps=network:plain", "training.seed=1"], **study["networks"]}
    methods = {
        name: {"kind": "network", "network": name, "calls": 2} for name in ("again", "plain")
    }
    study |= {"methods": methods, "beaten": [], "figure": ["plain", "again"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    assert load_task(folder / "study.yaml").find_twin("plain") == "plain"
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    budgets = json.loads((folder / "out/budgets.json").read_text())
    assert budgets["again"]["steps"] == budgets["plain"]["steps"]
    assert budgets["again"]["minutes"] == 0.002


def test_a_longer_network_branches_off_a_shorter_one(folder: Path) -> None:
    """The same to the bit as trained alone; a smoke run, all of whose networks are as short."""
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["networks"] = {
        "plain": ["minutes=0.2", "training.decay=0.5"],
        "longer": ["minutes=0.4", "training.decay=0.5", "branch=network:plain"],
        "alone": ["minutes=0.5", "training.decay=0.5"],
    }
    method = {"kind": "network", "calls": 2}
    study["methods"] = {name: method | {"network": name} for name in study["networks"]}
    study |= {"figure": ["plain"], "beaten": []}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    for name, minutes, steps in (("plain", 0.2, 4), ("longer", 0.4, 10), ("alone", 0.5, 10)):
        write_budget(folder / "out/budgets.json", name, Budget(minutes, 0.1, steps))
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    scores = {
        row["case"]["method"]: row["value"]
        for row in read(folder)
        if row["name"] == "CRPS, samples"
    }
    assert scores["longer"] == scores["alone"] != scores["plain"]
    kept = sorted(path.name for path in (folder / "work/networks").glob("*/branch/*"))
    assert kept == ["step-000000002", "step-000000005", "step-000000005"]
    (folder / "out/budgets.json").unlink()
    done = run(folder, "--smoke")
    assert done.exit_code == 0, done.output
