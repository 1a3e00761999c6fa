"""Images of other kinds are read as a model takes them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.benchmark import strangers
from bcdm.benchmark.defects import list_cases
from bcdm.benchmark.strangers import STRANGERS, Stranger, load_strangers
from bcdm.checkpoint import Model
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.data import Preparation
from bcdm.operators import BlockMean, PixelMask


def make_family(*members: dict[str, object]) -> Model:
    """Untrained: only what it measures with counts here."""
    config = parse_config(
        {
            "name": "family",
            "data": {"path": "images.npz", "size": [16, 16], "channels": 1},
            "operator": {"kind": "family", "members": list(members)},
            "noise_std": [0.01, 0.1],
            "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "training": {"steps": 1},
        }
    )
    shape = (1, 16, 16)
    return Model(build_method(config, shape), config, None, Preparation((16, 16), 1), shape, {})


HOLES: dict[str, object] = {"kind": "holes", "hidden": [0.1, 0.3]}
BLOCKS: dict[str, object] = {"kind": "blocks", "factors": [2, 4]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grey = np.full((6, 20, 16), 51, np.uint8)
    names = np.array(["a", "a", "b", "b", "c", "c"])
    np.savez(tmp_path / "labels.npz", images=grey, contrast=np.array(["X", "Y"] * 3), subject=names)
    deep = np.full((2, 16, 16), 4095, np.uint16)
    np.savez(tmp_path / "arrays.npz", p1_Z=deep, p2_Z=deep, p1_W=deep // 5)
    return tmp_path


def test_images_are_chosen_by_label_or_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = (
        Stranger("by label", "labels.npz", "contrast", "X", without=("b",)),
        Stranger("by name", "arrays.npz", "", "_Z"),
        Stranger("for colours", "labels.npz", "contrast", "X", channels=3),
        Stranger("not there", "missing.npz", "contrast", "X"),
    )
    monkeypatch.setattr(strangers, "STRANGERS", sets)
    found = {one.name: (x, who) for one, x, who in load_strangers(make_family(HOLES), folder, 3)}
    assert list(found) == ["by label", "by name"]
    labelled, whose = found["by label"]
    assert (labelled.shape, whose) == ((2, 1, 16, 16), ["a", "c"])
    # A fifth of the range, padded to a square by black.
    assert float(labelled[0, 0, 8, 8]) == pytest.approx(-0.6)
    assert float(labelled[0, 0, 8, 0]) == pytest.approx(-1)
    named, whose = found["by name"]
    assert whose == ["p1", "p2", "p2"]
    assert torch.equal(named, torch.ones(3, 1, 16, 16))


def test_what_scores_were_chosen_on_is_never_judged() -> None:
    for one in STRANGERS:
        assert ("patient01" in one.without) == ("openms" in one.file)


def test_cases_of_several_kinds_of_operators(tmp_path: Path) -> None:
    """Each image is in one batch, and twice the noise is that."""
    rng = np.random.default_rng(0)
    split = np.array(["train"] * 2 + ["test"] * 12)
    np.savez(
        tmp_path / "images.npz", images=rng.integers(50, 200, (14, 16, 16), np.uint8), split=split
    )
    cases = {case.name: case for case in list_cases(make_family(HOLES, BLOCKS), tmp_path, 12, 0)}
    assert not any("mask" in name or "k-space" in name for name in cases)
    right, twice = (
        cases[name].make()
        for name in ("nothing, 0.7 times as bright", "noise is twice what is stated")
    )
    assert {type(measured.operator) for _, measured in right} == {PixelMask, BlockMean}
    assert sorted(k for rows, _ in right for k in rows) == list(range(12))
    half = cases["noise is half what is stated"].make()
    for (rows, one), (_, other) in zip(twice, half, strict=True):
        mask = one.data_mask
        away = (one.y - other.y) / 1.5
        away = away if mask is None else away[mask.expand_as(away)]
        assert len(rows) == len(one.y)
        assert float(away.std()) == pytest.approx(float(one.std.mean()), rel=0.8)
    (inverted,) = {len(cases["grey levels are inverted"].subjects)}
    assert inverted == 12


def test_other_contrasts_are_counted_together() -> None:
    together = [one.name for one in STRANGERS if one.is_contrast]
    assert [name.split(" ")[0] for name in together] == ["T2-weighted", "FLAIR"] * 2 + [
        "T2-weighted"
    ]
