"""Questions to a finished archive: status, verify, export, by the command line, too."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from tests.archive.cases import FAST, open_job, write_table

from bcdm.archive.export import export
from bcdm.archive.heads import HEAD, begin
from bcdm.archive.job import Job
from bcdm.archive.markers import Counts, Marker, list_markers, name_marker
from bcdm.archive.places import open_place
from bcdm.archive.status import summarise
from bcdm.archive.verification import verify
from bcdm.commands.entry import cli
from bcdm.errors import InputError


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, scanner: Path, rows: np.ndarray) -> Job:
    """Ten items in shards of four; one of them is of zeros."""
    folder = tmp_path_factory.mktemp("finished")
    bad = rows.copy()
    bad[5] = 0
    table = write_table(folder / "table.zarr", bad)
    job = Job(str(table), str(folder / "out"), str(scanner), shard=4, **FAST)
    unit = open_job(job)
    for shard in range(3):
        unit.run(shard)
    return job


@pytest.fixture
def copied(finished: Job, tmp_path: Path) -> Path:
    shutil.copytree(finished.out, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_shard_is_as_many_files_as_the_page_says(finished: Job) -> None:
    """Of small images, with a failure among them; its marker is one, too."""
    folder = Path(finished.out)
    stem = Path(name_marker(1)).name.split(".")[0]
    files = [path for path in folder.rglob("*") if path.is_file()]
    count = sum(any(part.startswith(stem) for part in path.parts) for path in files)
    page = (Path(__file__).parents[2] / "docs/scale.md").read_text()
    assert f"{count} objects a shard of 64 x 64" in page
    assert f"more files ({count} each at 64 x 64" in page
    assert f"opens {count} files a shard" in page


def test_status(finished: Job, copied: Path) -> None:
    found = summarise(finished.out)
    assert found.is_finished
    assert found.counts.status == {"done": 9, "failed": 1}
    assert any("zeros alone" in line for line in found.describe())
    (copied / name_marker(1)).unlink()
    some = CliRunner().invoke(cli, ["archive", "status", str(copied)])
    assert some.exit_code == 1
    assert "not finished: 2 of 3 shards" in some.output
    with pytest.raises(InputError, match="no archive"):
        summarise(str(copied / "shards"))


def test_status_reads_markers_alone(finished: Job, copied: Path) -> None:
    for folder in copied.glob("shards/*/*.zarr"):
        shutil.rmtree(folder)
    assert summarise(str(copied)).counts.items == 10


def test_markers_of_many_shards_are_in_several_folders(tmp_path: Path) -> None:
    place, counts = open_place(str(tmp_path)), Counts()
    counts.count("done", "green", "")
    for shard in (0, 999, 1000, 2500):
        place.create(name_marker(shard), Marker("a", shard, "s", counts.to_plain(), {}).encode())
    place.create(name_marker(1001), Marker("b", 1001, "s", counts.to_plain(), {}).encode())
    assert [one.shard for one in list_markers(place, 2501, "a")] == [0, 999, 1000, 2500]
    assert len(list((tmp_path / "shards").iterdir())) == 3


def test_verify(finished: Job) -> None:
    found = list(verify(finished.out, draw=2, report=print))
    assert all(one.right for one in found)
    assert [one.found for one in found if one.name.startswith("item")] == [
        "the same to the bit"
    ] * 2


def test_verify_draws_no_item_twice(finished: Job) -> None:
    *_, last = found = list(verify(finished.out, draw=50, report=print))
    drawn = [one.name for one in found if one.name.startswith("item ")]
    assert len(drawn) == len(set(drawn))
    assert last.found == f"{len(drawn)} of 50 drawn again: few are done"


def test_verify_does_not_ask_for_the_device_of_who_began(copied: Path) -> None:
    head = copied / HEAD
    content = json.loads(head.read_text())
    content["job"]["device"] = "cuda:7"
    head.write_text(json.dumps(content))
    found = list(verify(str(copied), draw=1, report=print))
    assert all(one.right for one in found)
    with pytest.raises(InputError, match="there is no meta here"):
        list(verify(str(copied), draw=1, device="meta", report=print))


@pytest.mark.parametrize("damage", ["array", "lines", "gone"])
def test_verify_notices_damage(copied: Path, damage: str) -> None:
    (array,) = copied.glob("shards/00000/00000001-*.zarr/mean/c/0/0/0/0")
    (lines,) = copied.glob("shards/00000/00000001-*.jsonl.gz")
    if damage == "array":
        held = bytearray(array.read_bytes())
        held[100] ^= 1
        array.write_bytes(held)
    elif damage == "lines":
        lines.write_bytes(lines.read_bytes()[:-9])
    else:
        array.unlink()
    found = list(verify(str(copied), draw=3, report=print))
    assert [one.name for one in found if not one.right] == ["shard 1", "hashes"]
    # Items are drawn from the others.
    drawn = [one.name for one in found if one.name.startswith("item ")]
    assert len(drawn) == 3
    assert not any(name.endswith("shard 1") for name in drawn)


def test_verify_notices_a_model_that_changed(
    finished: Job, copied: Path, scanner: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(scanner, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config, indent=3))
    found = list(verify(str(copied), draw=1, model=str(other), report=print))
    assert [one.name for one in found if not one.right] == ["model"]
    assert not any(one.name.startswith("item") for one in found)


def test_export_to_arrays(finished: Job, tmp_path: Path) -> None:
    for format in ("zarr", "hdf5"):
        assert export(finished.out, tmp_path / format, format, ["mean", "std"]) == 10
    one = zarr.open_group(tmp_path / "zarr", mode="r")
    place, head = open_place(finished.out), begin(finished, print)
    parts = [
        np.asarray(zarr.open_group(place.open_store(f"{m.stem}.zarr"))["mean"][...])
        for m in list_markers(place, 3, head.id)
    ]
    np.testing.assert_array_equal(one["mean"][...], np.concatenate(parts))
    with h5py.File(tmp_path / "hdf5") as two:
        assert set(two) == {*one.array_keys()}
        for name in two:
            np.testing.assert_array_equal(one[name][...], two[name][...])
    assert one["status"][...].tolist() == [0] * 5 + [2] + [0] * 4


def test_export_to_a_table(finished: Job, tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        cli, ["archive", "export", finished.out, str(tmp_path / "t.csv"), "--format", "csv"]
    )
    assert ran.exit_code == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["from"] for line in lines] == [f"row {k}" for k in range(10)]
    assert lines[5]["status"] == "failed"


def test_export_refuses_what_is_not_finished(copied: Path, tmp_path: Path) -> None:
    (copied / name_marker(1)).unlink()
    with pytest.raises(InputError, match="2 of 3 shards"):
        export(str(copied), tmp_path / "t", "csv")
    with pytest.raises(InputError, match="exists"):
        export(str(copied), copied, "csv")


def test_who_hands_out_shards_needs_no_torch(finished: Job) -> None:
    """So that status, and a command that finds all finished, cost next to nothing."""
    code = "import sys; from bcdm.archive.status import summarise; from bcdm.archive import local\n"
    code += "assert summarise(sys.argv[1]).is_finished; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, finished.out], check=True)


def test_an_archive_of_nothing_ends_with_a_failure(
    tmp_path: Path, scanner: Path, rows: np.ndarray
) -> None:
    table = write_table(tmp_path / "table.zarr", np.zeros_like(rows[:2]))
    given = [str(table), str(tmp_path / "out"), "--model", str(scanner), "--samples", "9"]
    command = ["archive", "run", *given, "--calls", "2", "--workers", "1"]
    for _ in ("made", "found finished"):
        ran = CliRunner().invoke(cli, command)
        assert "2 x " in ran.output
        assert isinstance(ran.exception, InputError)
        assert "no item was reconstructed" in str(ran.exception)
    # A job that failed is run again, which would not help a part.
    assert CliRunner().invoke(cli, [*command, "--part", "0/1"]).exit_code == 0
