"""Cards say what a model takes."""

import json
from pathlib import Path
from typing import Any

import pytest

import bcdm
from bcdm.checkpoint.card import format_card

MODEL = Path(__file__).resolve().parents[2] / "models/ixi64-mri"


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


def test_the_line_that_loads_a_model_works(masked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of one's own is found by its folder, a shipped one by its name."""
    (line,) = [row for row in (masked / "README.md").read_text().splitlines() if "load(" in row]
    monkeypatch.chdir(masked)
    names: dict[str, Any] = {"bcdm": bcdm}
    exec(line, names)
    assert names["model"].name == "masked"
    assert 'model = bcdm.load("ixi64-mri")' in (MODEL / "README.md").read_text().splitlines()
