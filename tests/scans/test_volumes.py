"""Volumes that lie on disk while they are read, sent and written: the same numbers."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcdm import spool
from bcdm.errors import MachineError
from bcdm.scans import Results, Scan, crop_kspace, remove_oversampling, write_results
from bcdm.scans.answers import Request, answer, receive
from bcdm.scans.reading import perform

Makers = dict[str, Callable[..., Any]]
FORMATS = ("make_fastmri", "make_packed_fastmri", "make_mrd", "make_npz", "make_zarr")


def read(path: Path) -> Scan:
    """As the process that reads does it, and the one that asks."""
    stream = io.BytesIO()
    assert answer(stream, path, lambda: perform(Request("scan", path)))
    stream.seek(0)
    held = receive(stream, path).held
    assert isinstance(held, Scan)
    return held


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_does_not_depend_on_where_it_lies(
    name: str, makers: Makers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = makers[name](tmp_path)
    plain = read(path)
    monkeypatch.setattr(spool, "SMALL", 0)
    held = read(path)
    assert isinstance(held.data, np.memmap)
    np.testing.assert_array_equal(held.data, plain.data)
    assert held.mask is not None
    np.testing.assert_array_equal(held.mask, plain.mask)
    assert held.facts == plain.facts
    if held.kind == "image":
        return
    cut = remove_oversampling(held)
    np.testing.assert_array_equal(cut.data, remove_oversampling(plain).data)
    assert isinstance(cut.data, np.memmap)


@pytest.mark.parametrize("name", FORMATS)
def test_results_on_disk_are_written_as_others(
    name: str,
    makers: Makers,
    make_results: Callable[..., Results],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scan = read(makers[name](tmp_path))
    results = make_results(scan)
    written = [*write_results(tmp_path / "plain", scan, results, {})]
    monkeypatch.setattr(spool, "SMALL", 0)
    maps = {name: spool.stack(iter(values), len(values)) for name, values in results.items()}
    held = Results(**maps, level=results.level)
    assert isinstance(held.mean, np.memmap)
    for one, other in zip(written, write_results(tmp_path / "held", scan, held, {}), strict=True):
        assert load(one).keys() == load(other).keys()
        for key, values in load(one).items():
            np.testing.assert_array_equal(load(other)[key], values)


def load(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in ("mean", "std", "low", "high")}
    if path.is_dir():
        import zarr

        group: Any = zarr.open_group(path, mode="r")
        return {name: group[name][:] for name in ("mean", "std", "low", "high")}
    import h5py

    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:

        def keep(name: str, entry: Any) -> None:
            if isinstance(entry, h5py.Dataset) and entry.dtype.kind == "f":
                found[name] = entry[()]

        file.visititems(keep)
    assert found
    return found


def test_cropped_slices_are_those_of_the_whole() -> None:
    data = np.random.default_rng(1).normal(size=(3, 2, 8, 6)).astype(np.complex64)
    scan = Scan(Path("a"), "npz", "k-space", data, np.ones((8, 6), bool), None, (4, 6), {})
    cropped = remove_oversampling(scan).data
    np.testing.assert_allclose(cropped, crop_kspace(data, 4, -2), rtol=1e-6)


def test_a_full_disk_is_no_fault_of_the_file(
    makers: Makers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = makers["make_fastmri"](tmp_path)
    monkeypatch.setattr(spool, "SMALL", 0)
    monkeypatch.setattr(spool, "_reserve", fail)
    stream = io.BytesIO()
    assert answer(stream, path, lambda: perform(Request("scan", path)))
    stream.seek(0)
    assert isinstance(receive(stream, path).error, MachineError)
