"""Never a half-written file under a final name."""

import os
from pathlib import Path

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.files import remove_partial, replacing, write_arrays, write_text


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a.npz"
    target.write_text("old")

    def write_half() -> None:
        with replacing(target) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_has_the_final_name_before_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    for content in ("first", "second"):
        with replacing(target) as partial:
            partial.mkdir()
            (partial / "part").write_text(content)
            assert not target.exists() or (target / "part").read_text() == "first"
    assert (target / "part").read_text() == "second"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="a is a folder: remove it"):
        write_text(tmp_path / "a", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_text_makes_its_folder(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "a.txt", "β")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "β"


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".partial-1-a.zarr").mkdir()
    (tmp_path / ".partial-1-a.zarr" / "part").touch()
    (tmp_path / ".partial-2-b.npz").touch()
    (tmp_path / "kept").touch()
    remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_arrays_are_the_same_bits_at_any_time(tmp_path: Path, monkeypatch) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "text": "words", "one": 0.5}
    write_arrays(tmp_path / "first.npz", arrays)
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_arrays(tmp_path / "second.npz", arrays)
    first, second = (tmp_path / name for name in ("first.npz", "second.npz"))
    assert first.read_bytes() == second.read_bytes()
    with np.load(first, allow_pickle=False) as file:
        assert np.array_equal(file["a"], arrays["a"])
        assert (str(file["text"]), float(file["one"])) == ("words", 0.5)


def test_files_are_flushed_where_that_needs_the_right_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where flushing a file that is open for reading alone is an error."""
    fcntl, flushed = pytest.importorskip("fcntl"), []

    def flush(descriptor: int) -> None:
        flushed.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE)

    monkeypatch.setattr(os, "fsync", flush)
    write_text(tmp_path / "a", "text")
    assert flushed == [os.O_RDWR]
