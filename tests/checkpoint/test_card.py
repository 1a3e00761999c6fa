"""Cards say what a model takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.records import read_records, read_table

import bcdm
from bcdm.checkpoint.card import format_card

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/ixi64-mri"


def test_the_card_says_whether_masks_of_scanners_are_taken() -> None:
    content = json.loads((MODEL / "config.json").read_text())
    assert format_card(content) == (MODEL / "README.md").read_text()
    assert "Poisson discs are warned about" in format_card(content)
    content["config"]["operator"]["members"][0]["patterns"].append("poisson")
    assert "may lack conjugate symmetry" in format_card(content)


def test_the_card_says_which_sizes_a_model_is_for() -> None:
    content = json.loads((MODEL / "config.json").read_text())
    assert "mm apart" not in format_card(content)
    content["config"]["scope"] = {"sides": [128, 512], "spacing": [0.5, 2.0]}
    content["config"]["data"]["phase"] = True
    masks = {"kind": "k_space", "patterns": ["poisson"]}
    content["config"]["operator"]["members"] = [{"kind": "receivers", "masks": masks}]
    card = format_card(content)
    assert "| for | sides of 128 to 512 pixels, 0.5 to 2.0 mm apart |" in card
    assert "complex: of the magnitude" in card
    assert "may lack conjugate symmetry" in card


@pytest.mark.parametrize("name", ["brain-mri", "ixi64-mri-scanner", "faces64", "faces64-prior"])
def test_the_card_says_how_a_model_was_trained(name: str) -> None:
    """What its weights began with, all parts of it, and where its record is."""
    folder = ROOT / "models" / name
    content = json.loads((folder / "config.json").read_text())
    card = (folder / "README.md").read_text()
    assert format_card(content) == card
    training, record = content["config"]["training"], content["facts"]["record"]
    assert f"| what was measured | {record} in the repository of bcdm |" in card
    assert (ROOT / record).exists()
    steps = f"{training['steps']} steps of {training['batch']} images, seed {training['seed']}"
    told = {
        "brain-mri": f"| its last part | {steps} |",
        "ixi64-mri-scanner": f"| training | {steps}, from the weights of ixi64-mri |",
        "faces64": f"| training | {steps} |",
        "faces64-prior": f"| training | {steps}, from the weights of faces64 |",
    }
    assert told[name] in card


@pytest.mark.parametrize("folder", sorted((ROOT / "models").glob("*/config.json")))
def test_the_card_says_what_is_a_prior_too(folder: Path) -> None:
    nothing = json.loads(folder.read_text())["config"]["operator"].get("nothing", 0)
    told = f"It is also a prior: nothing was measured in {nothing:g} of the draws"
    assert (told in folder.with_name("README.md").read_text()) == (nothing > 0)


@pytest.mark.parametrize("folder", sorted((ROOT / "models").glob("*/README.md")))
def test_no_card_gives_its_coverage_alone(folder: Path) -> None:
    """Those of a network of zeros are nearly right, too: the CRPS and the control stand beside."""
    card = folder.read_text()
    if "## Measured" in card:
        rows = card.partition("## Measured")[2]
        for name in ("CRPS, samples", "coverage 90%, all pixels", "TARP distance from diagonal"):
            assert f"| {name}, linear Gaussian posterior |" in rows or f"| {name} |" not in rows
        assert "| CRPS over the control's |" in rows


def test_parts_of_a_training_are_those_of_its_record() -> None:
    facts = json.loads((ROOT / "models/brain-mri/config.json").read_text())["facts"]
    parts = read_table(ROOT / "experiments/scans/README.md", "## What was learned")
    steps = sum(int(cells[0].split()[0].replace(",", "")) for cells in parts.values())
    hours = max(row["hours"] for row in read_records("experiments/scans/learning.json"))
    assert len(parts) == 6
    assert facts["trained"].startswith(f"{steps:,} steps in six parts, ")
    assert facts["trained"].endswith(f"about {hours:.1f} hours of one core")


def test_the_line_that_loads_a_model_works(masked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of one's own is found by its folder, a shipped one by its name."""
    (line,) = [row for row in (masked / "README.md").read_text().splitlines() if "load(" in row]
    monkeypatch.chdir(masked)
    names: dict[str, Any] = {"bcdm": bcdm}
    exec(line, names)
    assert names["model"].name == "masked"
    assert 'model = bcdm.load("ixi64-mri")' in (MODEL / "README.md").read_text().splitlines()
