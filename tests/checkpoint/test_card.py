"""Cards say what a model takes."""

import json
from pathlib import Path

from bcdm.checkpoint.card import format_card

MODEL = Path(__file__).resolve().parents[2] / "models/ixi64-mri"


def test_the_card_says_whether_masks_of_scanners_are_taken() -> None:
    content = json.loads((MODEL / "config.json").read_text())
    assert format_card(content) == (MODEL / "README.md").read_text()
    assert "Poisson discs are warned about" in format_card(content)
    content["config"]["operator"]["members"][0]["patterns"].append("poisson")
    assert "may lack conjugate symmetry" in format_card(content)
