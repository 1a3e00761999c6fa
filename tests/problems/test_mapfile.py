from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint.building import build_familiarity, build_problems
from bcdm.checkpoint.settings import RunConfig, parse_config
from bcdm.errors import InputError
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.families import KSpace
from bcdm.problems.mapfile import read_measured
from bcdm.problems.receivers import Receivers

SIZE = (16, 20)


def store_maps(folder: Path, counts: tuple[int, ...] = (6,)) -> Path:
    """Sets of maps beside an image, as a file of measured ones has them."""
    rng = np.random.default_rng(0)
    sets = {f"set{k}": draw_birdcage(SIZE, k, rng=rng).numpy() for k in counts}
    np.savez(folder / "maps.npz", image=np.ones(SIZE, np.complex64), **sets)
    return folder / "maps.npz"


def make_config(maps: str | None) -> RunConfig:
    member = {"kind": "receivers", "coils": [2, 6], "masks": {"acceleration": [2, 4]}}
    if maps is not None:
        member["maps"] = maps
    return parse_config(
        {
            "name": "tiny",
            "data": {"path": "images.npz", "phase": True, "value_range": [0, 1]},
            "operator": {"kind": "family", "members": [member]},
            "noise_std": [0.01, 0.1],
            "training": {"steps": 1},
        }
    )


def test_sets_of_maps_are_read_and_images_left_alone(tmp_path: Path) -> None:
    sets = read_measured(store_maps(tmp_path, (3, 6)))
    assert [maps.shape for maps in sets] == [(3, *SIZE), (6, *SIZE)]
    assert all(maps.dtype == torch.complex64 for maps in sets)


def test_a_third_of_the_coils_are_measured_ones(tmp_path: Path) -> None:
    """Told by maps that no drawn coil has: all of them are flat."""
    np.save(tmp_path / "flat.npy", np.ones((4, *SIZE), np.complex64))
    family = Receivers(KSpace(), (2, 4), maps=str(tmp_path / "flat.npy"))
    drawn = [family.draw(SIZE, np.random.default_rng(k)) for k in range(300)]
    flat = [float(one.maps.abs().std((-2, -1)).max()) < 1e-5 for one in drawn]
    assert np.mean(flat) == pytest.approx(1 / 3, abs=0.08)


def test_sets_with_too_few_coils_are_passed_over(tmp_path: Path) -> None:
    family = Receivers(KSpace(), (5, 9), maps=str(store_maps(tmp_path, (2,))))
    counts = [len(family.draw(SIZE, np.random.default_rng(k)).maps) for k in range(60)]
    assert min(counts) == 5
    assert max(counts) == 9


def test_settings_name_maps_in_the_data_folder(tmp_path: Path, monkeypatch) -> None:
    store_maps(tmp_path)
    config = make_config("maps.npz")
    build_problems(config, SIZE, data=tmp_path).draw(range(8))
    monkeypatch.setenv("BCDM_DATA", str(tmp_path))
    build_problems(config, SIZE).draw(range(8))
    # What is stored is what was stated, and nothing where nothing was.
    assert config.operator.model_dump()["members"][0]["maps"] == "maps.npz"
    assert "maps" not in make_config(None).operator.model_dump()["members"][0]


def test_a_model_is_judged_where_its_maps_are_not() -> None:
    """Masks are drawn before coils: what is sampled is the same with and without them."""
    near, far = (build_familiarity(make_config(maps), (1, *SIZE)) for maps in (None, "nowhere.npz"))
    assert near is not None
    assert far is not None
    first, second = (one.problems.draw(range(4))[0].mask for one in (near, far))
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("held", ["nothing", "text", "magnitudes", "nan"])
def test_refuses_files_without_maps(tmp_path: Path, held: str) -> None:
    file = tmp_path / "maps.npz"
    if held == "text":
        file.write_text("no maps")
    elif held != "nothing":
        values = np.ones((2, *SIZE), np.float32 if held == "magnitudes" else np.complex64)
        np.savez(file, maps=values * np.nan if held == "nan" else values)
    with pytest.raises(InputError, match="coil maps"):
        read_measured(file)
