"""What a folder or a pattern means: in order, each file once, one folder in memory."""

from pathlib import Path

import pytest

from bcdm.archive.listing import find_root, matches, walk
from bcdm.errors import InputError

FILES = ("b.h5", "a.h5", "x/c.h5", "x/y/d.h5", "x/e.txt", "z.zarr/zarr.json", ".hidden/f.h5", ".g")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["a.h5", "b.h5", "x/c.h5", "x/e.txt", "x/y/d.h5", "z.zarr"]),
        ("/*.h5", ["a.h5", "b.h5"]),
        ("/**/*.h5", ["a.h5", "b.h5", "x/c.h5", "x/y/d.h5"]),
        ("/x/**", ["c.h5", "e.txt", "y/d.h5"]),
        ("/[xz]*", ["x", "z.zarr"]),
        ("/*/*.h5", ["x/c.h5"]),
        ("/q*", []),
    ],
)
def test_walk(folder: Path, pattern: str, found: list[str]) -> None:
    root, parts = find_root(f"{folder}{pattern}")
    assert list(walk(Path(root), parts)) == found


@pytest.mark.parametrize(
    "pattern", ["", "/*.h5", "/**/*.h5", "/x/**", "/*/*.h5", "/q*", "/x*/**/*.h5", "/**/y/*"]
)
def test_objects_are_matched_as_files_are(folder: Path, pattern: str) -> None:
    root, parts = find_root(f"{folder}{pattern}")
    files = [path for path in walk(Path(root), parts) if (Path(root) / path).is_file()]
    below = Path(root).relative_to(folder)
    names = [Path(name).relative_to(below) for name in FILES if Path(name).is_relative_to(below)]
    found = sorted(str(name) for name in names if matches(name.parts, parts))
    # A group of zarr is a folder on disk, and an object for each of its files.
    assert [name for name in found if "zarr" not in name] == files


def test_a_file_is_not_found_twice(folder: Path) -> None:
    with pytest.raises(InputError, match="once"):
        list(walk(folder, ("**", "x", "**")))
