"""One shard: the same bits whoever does it, how often, and in which shard its items are."""

import errno
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.archive.cases import FAST, open_job, write_table

from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers, name_marker, read_marker
from bcdm.archive.places import Folder
from bcdm.archive.store import hash_shard, open_group, read_lines
from bcdm.archive.unit import Unit
from bcdm.checkpoint import load
from bcdm.checkpoint.calibration import Calibration, store_calibration
from bcdm.checkpoint.usual import Usual
from bcdm.errors import Cancelled, InputError, MachineError
from bcdm.reconstruction import reconstruct
from bcdm.reconstruction.drawing import Progress
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import read_scan


def run_all(job: Job) -> Folder:
    unit = open_job(job)
    for shard in range(unit.head.shards):
        assert unit.run(shard).state == "new"
    return Folder(Path(job.out))


def collect(place: Folder) -> dict[str, np.ndarray]:
    """All arrays of an archive, end to end."""
    head = json.loads((place.path / "archive.json").read_text())
    parts: dict[str, list[np.ndarray]] = {}
    for marker in list_markers(place, head["shards"], head["id"]):
        for name, array in open_group(place, marker.stem).arrays():
            parts.setdefault(name, []).append(np.asarray(array[...]))
    return {name: np.concatenate(some) for name, some in parts.items()}


def test_every_item_is_there_once_in_the_units_of_its_file(job: Job, rows, scanner: Path) -> None:
    place = run_all(job)
    found = collect(place)
    assert found["mean"].shape == (10, 1, 16, 16)
    assert (found["status"] == 0).all()
    assert (found["size"] == 16).all()
    assert (found["low"] <= found["high"]).all()
    # Smooth images from 0 to 100: the model was never trained, so that only the scale is right.
    assert 20 < found["mean"].mean() < 80
    names = [
        line["from"]
        for marker in list_markers(place, 3, begin(job, print).id)
        for line in read_lines(place, marker.stem)
    ]
    assert names == [f"row {k}" for k in range(10)]


def test_shards_and_order_do_not_change_an_item(job: Job, tmp_path: Path, rows) -> None:
    """Other shards, rows in another order, a second run: the bits stay."""
    one = collect(run_all(job))
    other = replace(job, out=str(tmp_path / "other"), shard=3)
    two = collect(run_all(other))
    turned = write_table(tmp_path / "turned.zarr", rows[::-1].copy())
    three = collect(run_all(replace(job, source=str(turned), out=str(tmp_path / "third"))))
    for name, values in one.items():
        np.testing.assert_array_equal(values, two[name])
        np.testing.assert_array_equal(values, three[name][::-1])


def test_files_give_the_samples_of_the_command(scanner: Path, rows, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "deep").mkdir(parents=True)
    np.savez(folder / "deep" / "a.npz", kspace=rows[:3])
    np.savez(folder / "b.npz", kspace=rows[3:5])
    (folder / "c.npz").write_bytes(b"nothing")
    out = tmp_path / "out"
    job = Job(str(folder), str(out), str(scanner), shard=4, noise_std=2.5, keep=True, **FAST)
    place = run_all(job)
    found = collect(place)
    # The first file has two slices, so that a shard of four has two files.
    assert begin(job, print).shards == 2
    assert found["status"].tolist() == [0, 0, 2, 0, 0, 0]
    model = load(scanner)
    fitted = fit_scan(read_scan(folder / "b.npz"), model, noise_std=2.5)
    item = next(read_lines(place, next(list_markers(place, 2, begin(job, print).id)).stem))
    measured = fitted.measure(0)
    drawn = reconstruct(
        model, measured, samples=9, calls=2, batch=16, items=[item["id"]], progress=False
    )
    # A call for fewer than a batch is not filled up, and rounds differently.
    np.testing.assert_allclose(
        found["samples"][0], fitted.units.to_file(drawn.samples[:, 0]), atol=1e-3
    )


def test_an_archive_in_its_input_does_not_take_itself(scanner: Path, rows, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", kspace=rows[:2])
    out = tmp_path / "out"
    job = Job(str(tmp_path), str(out), str(scanner), shard=1, noise_std=2.5, **FAST)
    begin(job, print)
    (out / "archive.json").unlink()  # the lists of files are there, and planned anew
    assert begin(job, print).shards == 1


def test_k_space_of_an_archive_has_cards_of_a_scale_that_was_taken(
    scanner: Path, rows: np.ndarray, tmp_path: Path
) -> None:
    """Here every scale that is taken is red."""
    folder = tmp_path / "odd"
    shutil.copytree(scanner, folder)
    calibration = Calibration.of(load(folder))
    assert calibration is not None
    easy, hard = (Usual({"residual": [at - 9.0, at, at + 9.0]}, 0.0) for at in (0.0, -90.0))
    store_calibration(folder, replace(calibration, usual=easy, taken=hard))
    table = write_table(tmp_path / "table.zarr", rows[:2])
    job = Job(str(table), str(tmp_path / "o"), str(folder), shard=10, **FAST)
    place = run_all(replace(job, force=False))
    marker = next(
        list_markers(place, 1, json.loads((place.path / "archive.json").read_text())["id"])
    )
    assert marker.counts["status"] == {"refused": 2}


def test_a_bad_item_has_a_reason_and_stops_nothing(tmp_path: Path, rows, scanner: Path) -> None:
    bad = rows.copy()
    bad[1, 0, 3, 3] = np.nan
    bad[2] = 0
    table = write_table(tmp_path / "bad.zarr", bad)
    place = run_all(Job(str(table), str(tmp_path / "o"), str(scanner), shard=10, **FAST))
    marker = next(
        list_markers(place, 1, json.loads((place.path / "archive.json").read_text())["id"])
    )
    assert marker.counts["status"] == {"done": 8, "failed": 2}
    lines = list(read_lines(place, marker.stem))
    assert "not finite" in lines[1]["reason"]
    assert "zeros alone" in lines[2]["reason"]
    group = open_group(place, marker.stem)
    assert np.isnan(group["mean"][1:3]).all()
    assert np.isfinite(group["mean"][3:]).all()
    assert group["status"][:4].tolist() == [0, 2, 2, 0]


def test_items_of_equal_content_are_all_written(tmp_path: Path, rows, scanner: Path) -> None:
    same = np.concatenate([rows[:1]] * 3 + [rows[1:2]])
    table = write_table(tmp_path / "same.zarr", same)
    found = collect(run_all(Job(str(table), str(tmp_path / "o"), str(scanner), shard=9, **FAST)))
    np.testing.assert_array_equal(found["mean"][0], found["mean"][2])
    assert not np.array_equal(found["mean"][0], found["mean"][3])


def test_each_row_has_its_own_mask(tmp_path: Path, rows, scanner: Path) -> None:
    """A model of one mask refuses the row that was measured by another."""
    mask = np.repeat((rows[:1, 0] != 0), len(rows), 0).astype(np.uint8)
    mask[4][tuple(np.argwhere(mask[4])[0])] = 0
    table = write_table(tmp_path / "masks.zarr", rows, mask=mask)
    found = collect(run_all(Job(str(table), str(tmp_path / "o"), str(scanner), **FAST)))
    assert found["status"].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_a_finished_shard_is_skipped_and_a_damaged_marker_is_not(job: Job) -> None:
    unit = open_job(job)
    assert unit.run(0).state == "new"
    assert unit.run(0).state == "there"
    marker = Path(job.out, name_marker(0))
    first = read_marker(unit.place, 0, unit.head.id)
    marker.write_text(marker.read_text().replace('"done": 4', '"done": 5'))
    assert unit.find(0) is None
    assert unit.run(0).state == "new"
    second = read_marker(unit.place, 0, unit.head.id)
    assert first.hashes == second.hashes
    assert hash_shard(unit.place, second.stem, second.hashes) == second.hashes
    # What the first one wrote is gone.
    assert len(list(marker.parent.glob("*.zarr"))) == 1


def test_what_another_worker_does_is_left_to_it(job: Job) -> None:
    unit, other = open_job(job), open_job(job)
    states = []

    def ask(_: Progress) -> None:
        if not states:
            states.append(other.run(0).state)

    assert unit.run(0, ask).state == "new"
    assert states == ["busy"]


def test_without_locks_two_do_the_same_and_one_commits(job: Job, monkeypatch) -> None:
    monkeypatch.setattr(Folder, "take", lambda *_: nullcontext(None))
    unit, other = open_job(job), open_job(job)
    states = []

    def ask(_: Progress) -> None:
        if not states:
            states.append("begun")
            states.append(other.run(0).state)

    assert unit.run(0, ask).state == "there"
    assert states == ["begun", "new"]
    marker = read_marker(unit.place, 0, unit.head.id)
    assert hash_shard(unit.place, marker.stem, marker.hashes) == marker.hashes
    assert len(list(Path(job.out, "shards/00000").glob("*.zarr"))) == 1


def test_a_marker_that_came_in_between_stays(job: Job, monkeypatch) -> None:
    """Without locks: another one commits after we looked, and before we begin."""
    monkeypatch.setattr(Folder, "take", lambda *_: nullcontext(None))
    unit = open_job(job)
    unit.run(0)
    marker = Path(job.out, name_marker(0))
    before = marker.read_bytes()
    monkeypatch.setattr(Unit, "find", lambda *_: None)
    assert unit.run(0).state == "there"
    assert marker.read_bytes() == before
    assert len(list(marker.parent.iterdir())) == 3


def test_a_commit_whose_answer_is_lost_keeps_what_it_commits(job: Job, monkeypatch) -> None:
    unit, create = open_job(job), Folder.create

    def lose(place: Folder, name: str, content: bytes) -> bool:
        assert create(place, name, content)
        raise MachineError("the connection was lost")

    def ask_twice(place: Folder, name: str, content: bytes) -> bool:
        create(place, name, content)
        return create(place, name, content)

    monkeypatch.setattr(Folder, "create", lose)
    with pytest.raises(MachineError, match="was lost"):
        unit.run(0)
    monkeypatch.setattr(Folder, "create", ask_twice)
    assert unit.run(0).state == "there"
    assert unit.run(1).state == "new"
    for shard in (0, 1):
        marker = read_marker(unit.place, shard, unit.head.id)
        assert hash_shard(unit.place, marker.stem, marker.hashes) == marker.hashes


def test_a_full_disk_stops_and_leaves_nothing_half(job: Job, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    unit = open_job(job)
    monkeypatch.setattr(Folder, "settle", fail)
    with pytest.raises(MachineError, match="No space"):
        unit.run(0)
    assert list(Path(job.out, "shards/00000").iterdir()) == []
    monkeypatch.undo()
    assert unit.run(0).state == "new"


def test_cancelling_leaves_nothing_half(job: Job) -> None:
    def cancel(_: Progress) -> None:
        raise Cancelled

    unit = open_job(job)
    with pytest.raises(Cancelled):
        unit.run(0, cancel)
    assert list(Path(job.out, "shards/00000").iterdir()) == []


def test_other_settings_are_refused(job: Job, tmp_path: Path, rows, scanner: Path) -> None:
    begin(job, print)
    assert begin(job, print).shards == 3
    for name, value in (("seed", 1), ("calls", 3), ("shard", 5), ("threads", 2), ("keep", True)):
        with pytest.raises(InputError, match=f"other settings .*{name} was"):
            begin(replace(job, **{name: value}), print)
    longer = write_table(tmp_path / "longer.zarr", np.concatenate([rows, rows]))
    with pytest.raises(InputError, match="input was"):
        begin(replace(job, source=str(longer)), print)


def test_a_device_is_a_fact_of_a_shard_and_no_setting(job: Job) -> None:
    head = begin(job, print)
    assert begin(replace(job, device="auto"), print).id == head.id
    unit = open_job(replace(job, device="cpu"))
    unit.run(0)
    marker = read_marker(unit.place, 0, head.id)
    assert marker is not None
    assert marker.made_by["device"] == "cpu"
    for name, said in (("elsewhere", "is no device"), ("meta", "there is no meta here")):
        with pytest.raises(InputError, match=said):
            open_job(replace(job, device=name))


def test_a_folder_of_something_else_is_refused(job: Job, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="no archive"):
        begin(job, print)


def test_a_disk_that_is_gone_fails_no_item(scanner: Path, rows, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    np.savez(folder / "a.npz", kspace=rows[:1])
    unit = open_job(Job(str(folder), str(tmp_path / "o"), str(scanner), noise_std=2.5, **FAST))
    folder.rename(tmp_path / "away")
    with pytest.raises(MachineError, match="mount it"):
        unit.run(0)
    (tmp_path / "away").rename(folder)
    assert unit.run(0).counts.status == {"done": 1}


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_disk_that_goes_in_mid_shard_fails_no_item(
    scanner: Path, rows, tmp_path: Path, left: str
) -> None:
    """As an unmounted one does: its folder is there, and empty."""
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "abc":
        np.savez(folder / f"{name}.npz", kspace=rows[:1])
    settings = {**FAST, "batch": 1}
    unit = open_job(Job(str(folder), str(tmp_path / "o"), str(scanner), noise_std=2.5, **settings))

    def unplug(_: Progress) -> None:
        if folder.is_dir() and any(folder.iterdir()):
            folder.rename(tmp_path / "away")
            if left != "nothing":
                folder.mkdir()

    with pytest.raises(MachineError, match="mount it"):
        unit.run(0, unplug)
    if left != "nothing":
        folder.rmdir()
    (tmp_path / "away").rename(folder)
    assert unit.run(0).counts.status == {"done": 3}


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO])
def test_a_disk_that_fails_fails_no_item(
    scanner: Path, rows, tmp_path: Path, monkeypatch, code: int
) -> None:
    """While a file is hashed; while it is read is `test_volumes`."""
    np.savez(tmp_path / "a.npz", kspace=rows[:1])
    unit = open_job(Job(str(tmp_path / "a.npz"), str(tmp_path / "o"), str(scanner), **FAST))
    opened = Path.open

    def fail(path: Path, *given: object, **named: object) -> object:
        if path.name == "a.npz":
            raise OSError(code, "the disk is gone")
        return opened(path, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(MachineError, match="the disk is gone"):
        unit.run(0)


def test_a_shard_is_a_few_files(job: Job) -> None:
    """Four arrays of images, six of numbers, lines and marker, whatever the number of items."""
    run_all(replace(job, shard=10))
    files = [path for path in Path(job.out, "shards").rglob("*") if path.is_file()]
    assert len([path for path in files if path.name != "zarr.json"]) <= 12


def test_memory_holds_blocks_alone(job: Job, monkeypatch, tmp_path: Path) -> None:
    """Blocks of two items: the same numbers, and never more than two of them wait."""
    from bcdm.archive import store

    whole = collect(run_all(job))
    monkeypatch.setattr(store, "_BLOCK_BYTES", 2 * 4 * 256)
    monkeypatch.setattr(store, "_CHUNK_BYTES", 4 * 256)
    most, write = [], store.ShardWriter.add

    def add(self: store.ShardWriter, *given: object, **named: object) -> None:
        write(self, *given, **named)  # type: ignore[arg-type]
        most.append(len(self._blocks))

    monkeypatch.setattr(store.ShardWriter, "add", add)
    other = replace(job, out=str(tmp_path / "small"), shard=10)
    place = run_all(other)
    small = collect(place)
    assert max(most) <= 2
    for name, values in whole.items():
        np.testing.assert_array_equal(values, small[name])
    marker = next(list_markers(place, 1, begin(other, print).id))
    assert zarr.open_group(place.path / f"{marker.stem}.zarr")["mean"].shards == (2, 1, 16, 16)
    assert hash_shard(place, marker.stem, marker.hashes) == marker.hashes
