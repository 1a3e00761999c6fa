"""Never a half-written file under a final name."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.files import (
    count_bytes,
    hash_path,
    remove_partial,
    replacing,
    write_arrays,
    write_text,
)


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


def test_two_writers_of_one_file_do_not_share_a_name(tmp_path: Path) -> None:
    target = tmp_path / "a.npz"
    with replacing(target) as first, replacing(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_a_long_name_leaves_room_for_a_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / f"{'ü' * 120}.npz"
    with replacing(target) as partial:
        assert partial.suffix == ".npz"
        partial.write_text("whole")
    assert target.read_text() == "whole"


WRITE = """
import sys, time
from pathlib import Path
from bcdm.files import replacing
with replacing(Path(sys.argv[1]) / "a.npz") as partial:
    partial.write_text("half")
    print("begun", flush=True)
    time.sleep(1e6)
"""


def test_only_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        (left,) = tmp_path.iterdir()
        remove_partial(tmp_path)
        assert left.read_text() == "half", "of a living process"
        writer.kill()
    remove_partial(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_of_another_host_is_kept_for_a_week(tmp_path: Path) -> None:
    names = ["0123abcd-1-89abcdef-a.npz", "1-b.npz"]  # the latter by earlier versions
    for name in names:
        (tmp_path / f".partial-{name}").write_text("half")
    (tmp_path / "kept").touch()
    remove_partial(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    old = time.time() - 8 * 24 * 3600
    os.utime(tmp_path / ".partial-1-b.npz", (old, old))
    remove_partial(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f".partial-{names[0]}", "kept"}
    remove_partial(tmp_path, alone=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_folder_is_hashed_whatever_its_names_are(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"scan-\xff")).write_text("a")
    first = hash_path(tmp_path)
    (tmp_path / os.fsdecode(b"scan-\xff")).rename(tmp_path / os.fsdecode(b"scan-\xfe"))
    assert hash_path(tmp_path) != first
    assert count_bytes(tmp_path) == 1


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
    assert flushed == [os.O_RDWR, os.O_RDONLY]  # the second is the folder, with the new name
