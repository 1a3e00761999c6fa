"""The benchmark of masks, scaled down: settings are judged before there is a model."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from bcdm.benchmark.masks import draw_coin_lines, run
from bcdm.errors import InputError

SETTINGS = {
    "name": "a",
    "data": {"path": "images", "size": [32, 32], "channels": 1},
    "operator": {
        "kind": "family",
        "members": [
            {
                "kind": "k_space",
                "acceleration": [2, 8],
                "patterns": ["lines", "random_columns", "poisson"],
            }
        ],
    },
    "noise_std": [0.01, 0.1],
    "training": {"steps": 10},
}


def test_own_masks_are_taken_and_bad_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(SETTINGS))
    records = run(str(path), "", draws=5, report=lambda _: None)
    found = {record.case["masks"]: record for record in records}
    for name in ("lines", "random_columns", "poisson", "fastMRI 4x, centre .08"):
        assert found[name].value is not None
        assert found[name].value >= 0.8
        assert found[name].required == ">= 0.95"
    for name in ("poisson 20x", "free_columns 20x", "free_points 4x without a middle"):
        assert found[name].value == 0
        assert found[name].holds
    single = SETTINGS | {"operator": {"kind": "identity"}, "noise_std": 0.1}
    path.write_text(yaml.safe_dump(single))
    with pytest.raises(InputError, match="one operator"):
        run(str(path), "", draws=1, report=lambda _: None)


def test_masks_of_several_coils_are_judged_at_any_size(tmp_path: Path) -> None:
    masks = {"acceleration": [1, 8], "patterns": ["random_columns", "poisson"]}
    several = SETTINGS | {
        "operator": {
            "kind": "family",
            "members": [{"kind": "receivers", "coils": [1, 4], "partial": 0.5, "masks": masks}],
        }
    }
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(several))
    own = {record.case["masks"]: record for record in run(str(path), "", draws=4, report=print)}
    assert own["poisson"].value == 1
    assert own["poisson, partial Fourier"].required == ">= 0.95"
    assert own["poisson 20x"].value == 0
    # Settings that state no sizes are for one: another is refused.
    records = run(str(path), "", draws=1, size=(48, 40), report=print)
    assert {record.value for record in records} == {0.0}
    assert records[0].case["size"] == [48, 40]


def test_a_family_without_room_for_partial_fourier_is_refused(tmp_path: Path) -> None:
    """All its masks are 4x: with a part left out they are faster than any of them."""
    masks = {"acceleration": [4, 4], "patterns": ["poisson"]}
    member = {"kind": "receivers", "coils": [1, 4], "partial": 0.5, "masks": masks}
    path = tmp_path / "a.yaml"
    path.write_text(
        yaml.safe_dump(SETTINGS | {"operator": {"kind": "family", "members": [member]}})
    )
    with pytest.raises(InputError, match="no room for it"):
        run(str(path), "", draws=1, report=lambda _: None)


def test_coins_give_the_acceleration_on_average() -> None:
    masks = [draw_coin_lines((2, 64), 4, 0.08, np.random.default_rng(k)) for k in range(500)]
    counts = np.array([int(mask[0].sum()) for mask in masks])
    assert all(mask[0, 30:35].all() for mask in masks)
    # 16 columns; the spread of 59 coins over the root of 500, four times.
    assert abs(counts.mean() - 16) < 4 * (59 * 0.19 * 0.81 / 500) ** 0.5
    assert counts.std() > 1
