"""A folder as a place: whole files, one creator, locks that end with their holder."""

import os
import threading
from pathlib import Path

from bcdm.archive.places import Folder


def test_files_are_written_read_and_listed(tmp_path: Path) -> None:
    place = Folder(tmp_path / "out")
    assert place.read("a/b.json") is None
    assert list(place.list("a")) == []
    place.write("a/b.json", b"one")
    place.write("a/b.json", b"two")
    assert place.read("a/b.json") == b"two"
    assert list(place.list("a")) == ["b.json"]
    place.remove("a")
    place.remove("a/b.json")
    assert list(place.list("")) == []


def test_of_many_who_create_a_file_one_does(tmp_path: Path) -> None:
    place, made = Folder(tmp_path), []

    def create(number: int) -> None:
        if place.create("marker.json", f"{number}".encode()):
            made.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert place.read("marker.json") == f"{made[0]}".encode()
    assert list(place.list("")) == ["marker.json"]


def test_a_file_is_created_where_there_are_no_links(tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    assert Folder(tmp_path).create("marker.json", b"one")
    assert list(Folder(tmp_path).list("")) == ["marker.json"]


def test_one_takes_a_thing_at_a_time(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    with place.take("shards/1") as first:
        with place.take("shards/1") as second, place.take("shards/2") as other:
            assert (first, second, other) == (True, False, True)
        # Who did not get it must not have taken it away from who did.
        with place.take("shards/1") as third:
            assert third is False
    with place.take("shards/1") as again:
        assert again is True
    assert list(place.list("shards")) == []
