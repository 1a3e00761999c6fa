"""Files made to do harm: bombs, links out of the file, code, impossible sizes."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.scans import forged_arrays, forged_hdf5, forged_images
from tests.scans.forging import FORGERIES, HARMLESS, Makers, forgery

_MADE = (forged_arrays, forged_hdf5, forged_images)  # each registers its own when imported


@forgery("is empty")
def empty_file(folder: Path, makers: Makers) -> Path:
    (folder / "a.h5").touch()
    return folder / "a.h5"


@forgery("is no file or folder")
def missing_file(folder: Path, makers: Makers) -> Path:
    return folder / "a.png"


@forgery("is no file or folder")
def pipe(folder: Path, makers: Makers) -> Path:
    os.mkfifo(folder / "a.npy")
    return folder / "a.npy"


@forgery("holds neither a DICOM series nor zarr")
def empty_folder(folder: Path, makers: Makers) -> Path:
    return folder


@forgery("does not hold PNG as its name says")
def text_named_png(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_text("a picture")
    return folder / "a.png"


@forgery("is of no known format")
def name_of_two_lines(folder: Path, makers: Makers) -> Path:
    (folder / "a\nb\x1b[31m.txt").write_text("text")
    return folder / "a\nb\x1b[31m.txt"


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, makers: Makers, read_many: Any
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """All forgeries, read in one go."""
    root = tmp_path_factory.mktemp("forgeries")
    paths = {}
    for name, (maker, _, _) in FORGERIES.items():
        (root / name).mkdir()
        paths[name] = maker(root / name, makers)
    keys = [FORGERIES[name][2] for name in paths]
    outcomes = read_many([*paths.values()], keys)
    return {
        name: (path, outcome) for (name, path), outcome in zip(paths.items(), outcomes, strict=True)
    }


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_refused_in_one_line(name: str, found: dict[str, Any]) -> None:
    path, outcome = found[name]
    line = outcome["line"]
    allowed = ("refused", *(["ended"] if outcome["fragile"] else []))
    words = FORGERIES[name][1]
    assert outcome["outcome"] in (("scan",) if words == HARMLESS else allowed), line
    assert words in line
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert outcome["seconds"] < 10
    assert outcome["bytes"] < 2e9
    assert not (path.parent / "sprung").exists()


@pytest.mark.parametrize(
    "name", ["nifti_of_countless_slices", "npz_bomb_of_allowed_size", "png_bomb"]
)
def test_small_files_that_declare_much_take_little(name: str, found: dict[str, Any]) -> None:
    """Each is valid, and took 1.1 to 1.5 GB or hours when it was read."""
    path, outcome = found[name]
    assert path.stat().st_size < 1.1e6
    assert outcome["outcome"] == "refused"
    assert outcome["bytes"] < 300e6
    assert outcome["seconds"] < 1
