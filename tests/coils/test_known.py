from pathlib import Path

import numpy as np
import pytest

from bcdm.coils import extend_maps, read_maps
from bcdm.errors import InputError

SHAPE = (3, 2, 8, 6)


def make_maps(slices: int = 1) -> np.ndarray:
    rng = np.random.default_rng(0)
    shape = (slices, *SHAPE[1:])
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


@pytest.mark.parametrize("slices", [1, 3])
def test_maps_for_all_slices_or_for_each_are_read(tmp_path: Path, slices: int) -> None:
    maps = make_maps(slices)
    np.save(tmp_path / "maps.npy", maps[0] if slices == 1 else maps)
    np.savez(tmp_path / "maps.npz", image=np.ones(3), sens=maps)
    for name in ("maps.npy", "maps.npz"):
        np.testing.assert_array_equal(read_maps(tmp_path / name, SHAPE), maps)


def test_what_is_no_maps_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "maps.npz"
    np.savez(path, maps=make_maps())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read as maps"):
        read_maps(path, SHAPE)
    np.savez(path, maps=make_maps()[..., :4])
    with pytest.raises(InputError, match=r"maps.npz holds maps .* \(2, 8, 6\)"):
        read_maps(path, SHAPE)
    np.savez(path, maps=np.abs(make_maps()))
    with pytest.raises(InputError, match="complex"):
        read_maps(path, SHAPE)
    np.savez(path, maps=np.nan * make_maps())
    with pytest.raises(InputError, match="not finite"):
        read_maps(path, SHAPE)
    np.savez(path, one=np.ones(3), two=np.ones(2))
    with pytest.raises(InputError, match="name one 'maps'"):
        read_maps(path, SHAPE)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="cannot be read"):
        read_maps(path, SHAPE)


def test_smooth_maps_are_carried_on_smoothly() -> None:
    rows, columns = np.meshgrid(*[np.linspace(-1, 1, 48)] * 2, indexing="ij")
    maps = np.stack([np.exp(1j * rows), 0.5 + 0.2j * columns]).astype(np.complex64)
    inside = np.hypot(rows, columns) < 0.7
    found = extend_maps(np.where(inside, maps, 0))
    np.testing.assert_array_equal(found[:, inside], maps[:, inside])
    near = np.hypot(rows, columns) < 0.75
    np.testing.assert_allclose(found[:, near], maps[:, near], atol=0.15)
    assert np.abs(np.diff(found, axis=-1)).max() < 0.2
    np.testing.assert_array_equal(extend_maps(maps), maps)
