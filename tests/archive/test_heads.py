"""How an archive begins: which files it is of is decided once, whoever plans at the same time."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.archive.cases import FAST

from bcdm.archive import heads
from bcdm.archive.files import Files
from bcdm.archive.heads import HEAD, begin, choose_shard, open_source
from bcdm.archive.job import Job
from bcdm.archive.places import Folder


@pytest.fixture
def files(tmp_path: Path, rows: np.ndarray, scanner: Path) -> Job:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in "bd":
        np.savez(folder / f"{name}.npz", kspace=rows[:1])
    return Job(str(folder), str(tmp_path / "out"), str(scanner), noise_std=2.5, shard=1, **FAST)


def list_inputs(job: Job) -> list[list[str]]:
    """Names of the files of each shard."""
    place, head = Folder(Path(job.out)), begin(job, print)
    source = open_source(job, place, head.lists)
    return [
        [entry.name for entry in source.read(shard, lambda *_: None)]
        for shard in range(head.shards)
    ]


def test_of_two_who_plan_one_counts(files: Job, rows, monkeypatch) -> None:
    """Without locks; the slower one has found a file more, and must not move the others."""
    monkeypatch.setattr(Folder, "alone", lambda *_: nullcontext(False))
    plan, began = Files.plan, []

    def plan_after_another(source: Files) -> tuple[int, int | None]:
        if not began:
            began.append("the slower one")
            begin(files, print)
            np.savez(Path(files.source, "a.npz"), kspace=rows[:1])
        return plan(source)

    monkeypatch.setattr(Files, "plan", plan_after_another)
    assert begin(files, print).shards == 2
    assert list_inputs(files) == [["b.npz 0"], ["d.npz 0"]]
    assert len(list(Path(files.out, "inputs").iterdir())) == 1


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_a_killed_plan_left_is_removed_and_nothing_else(files: Job, monkeypatch) -> None:
    own = Path(files.out, "inputs", "mine")
    own.mkdir(parents=True)
    (own / "thesis.tex").write_text("years of work")
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "create", stop)
        with pytest.raises(KeyboardInterrupt):
            begin(files, print)
    assert len(list(own.parent.glob("plan-*"))) == 1
    assert list_inputs(files) == [["b.npz 0"], ["d.npz 0"]]
    assert len(list(own.parent.glob("plan-*"))) == 1
    assert (own / "thesis.tex").exists()


def test_archives_of_earlier_versions_go_on(files: Job) -> None:
    head = begin(files, print)
    path = Path(files.out, HEAD)
    content = json.loads(path.read_text())
    (path.parent / content.pop("lists") / "00000").rename(path.parent / "inputs" / "00000")
    path.write_text(json.dumps(content))
    assert begin(files, print).id == head.id
    assert list_inputs(files) == [["b.npz 0"], ["d.npz 0"]]


def test_shards_are_so_small_that_a_kill_loses_little(job: Job, files: Job, monkeypatch) -> None:
    """A hundredth of all, but no less than a batch; of folders, by the slices of the first file."""
    assert choose_shard(replace(job, batch=2)).shard == 2
    monkeypatch.setattr(heads, "_PIECES", 3)
    assert choose_shard(replace(job, batch=1)).shard == 4
    assert choose_shard(replace(files, batch=1)).shard == 1
    monkeypatch.setattr(heads, "_MOST", 2)
    assert choose_shard(replace(job, batch=1)).shard == 2


def test_an_archive_keeps_its_shards(job: Job) -> None:
    """Also where its input has grown, or another batch would choose others."""
    begin(replace(job, shard=7), print)
    assert choose_shard(replace(job, batch=1)).shard == 7
