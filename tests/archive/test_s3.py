"""An archive in S3, and measurements from it, against a real server on this machine."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.archive.cases import FAST, find_hashes, open_job

from bcdm.archive.files import Files
from bcdm.archive.heads import begin
from bcdm.archive.job import Job
from bcdm.archive.listing import list_objects
from bcdm.archive.places import ObjectStore, open_place
from bcdm.archive.status import summarise
from bcdm.archive.verification import verify
from bcdm.errors import InputError, MachineError
from bcdm.reconstruction.drawing import Progress

pytest.importorskip("obstore")
moto = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server)
    client.create_bucket(Bucket="scans")
    yield "s3://scans"
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="scans"):
        for one in page.get("Contents", []):
            client.delete_object(Bucket="scans", Key=one["Key"])
    client.delete_bucket(Bucket="scans")
    client.close()


def test_files_are_whole_and_created_once(bucket: str) -> None:
    place = ObjectStore(f"{bucket}/deep/out")
    assert place.read("a.json") is None
    assert place.create("x/a.json", b"one")
    assert not place.create("x/a.json", b"two")
    assert place.read("x/a.json") == b"one"
    place.write("x/a.json", b"three")
    place.write("x/y/b.json", b"four")
    assert sorted(place.list("x")) == ["a.json", "y"]
    assert list(place.walk()) == ["x/a.json", "x/y/b.json"]
    names = ["x/a.json", "x/none", "x/y/b.json"] * 50
    assert list(place.read_all(names)) == [b"three", None, b"four"] * 50
    place.remove("x/y")
    place.remove("x/none")
    assert list(place.list("x")) == ["a.json"]


def test_one_plans_at_a_time_and_a_dead_one_is_replaced(bucket: str, monkeypatch) -> None:
    monkeypatch.setattr("bcdm.archive.objects._LEASE_SECONDS", 0.4)
    place, other, said, order = ObjectStore(bucket), ObjectStore(bucket), [], []
    held = threading.Event()

    def plan() -> None:
        held.wait()
        with other.alone(said.append):
            order.append("second")

    waiting = threading.Thread(target=plan)
    waiting.start()
    with place.alone(print):
        held.set()
        time.sleep(1.0)  # longer than a lease: whoever lives keeps it
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert "waiting for it" in said[0]
    place.create(".planning", b"of one that was killed")
    with place.alone(said.append):
        pass
    assert list(place.list("")) == []


def test_the_bits_of_a_local_archive(bucket: str, job: Job, rows) -> None:
    """A table and an archive in S3; a shard that two do at once is committed by one."""
    address = f"{bucket}/table"
    group = zarr.create_group(open_place(address).open_store(""), zarr_format=3)
    group.create_array("kspace", data=rows, chunks=(4, *rows.shape[1:]))
    group.create_array("noise_std", data=np.full(len(rows), 2.5))
    remote = replace(job, source=address, out=f"{bucket}/out")
    unit, other, states = open_job(remote), open_job(remote), []

    def ask(_: Progress) -> None:
        if not states:
            states.append("begun")
            states.append(other.run(0).state)

    assert unit.run(0, ask).state == "there"
    assert states == ["begun", "new"]
    assert [unit.run(shard).state for shard in range(3)] == ["there", "new", "new"]
    local = open_job(job)
    for shard in range(3):
        local.run(shard)
    assert find_hashes(remote) == find_hashes(job)
    assert summarise(remote.out).is_finished
    # Three objects and folders of each shard: nothing is left of who was slower.
    assert len(list(unit.place.list("shards/00000"))) == 9
    assert all(one.right for one in verify(remote.out, draw=1, report=print))
    with pytest.raises(InputError, match="seed was"):
        begin(replace(remote, seed=1), print)


def test_files_in_s3(bucket: str, rows, scanner: Path, tmp_path: Path) -> None:
    place = open_place(f"{bucket}/files")
    for name in ("b", "a"):
        np.savez(tmp_path / f"{name}.npz", kspace=rows[:2] * (1 if name == "a" else 2))
        place.write(f"deep/{name}.npz", (tmp_path / f"{name}.npz").read_bytes())
    place.write("deep/readme.txt", b"hello")
    root, names = list_objects(f"{bucket}/files/**/*.npz")
    assert (root, list(names)) == (f"{bucket}/files", ["deep/a.npz", "deep/b.npz"])
    settings = {"shard": 9, "noise_std": 2.5, **FAST}
    remote = Job(f"{bucket}/files/**/*.npz", str(tmp_path / "one"), str(scanner), **settings)
    local = Job(f"{tmp_path}/*.npz", str(tmp_path / "two"), str(scanner), **settings)
    assert open_job(remote).run(0).counts.status == {"done": 4}
    open_job(local).run(0)
    one, two = find_hashes(remote), find_hashes(local)
    assert one[0]["mean"] == two[0]["mean"]


def test_an_archive_in_its_input_does_not_take_itself(
    bucket: str, rows, scanner: Path, tmp_path: Path
) -> None:
    place = open_place(f"{bucket}/all")
    np.savez(tmp_path / "a.npz", kspace=rows[:1])
    for name in ("a.npz", "out/old.npz", "outer/b.npz"):
        place.write(name, (tmp_path / "a.npz").read_bytes())
    job = Job(f"{bucket}/all", f"{bucket}/all/out", str(scanner), shard=1, **FAST)
    assert Files(job.source, open_place(job.out), 1).plan() == (2, None)


def test_a_server_that_is_gone_is_no_fault_of_an_item(
    bucket: str, job: Job, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("bcdm.archive.objects._RETRIES", 0)
    with pytest.raises(MachineError, match="cannot be read"):
        begin(replace(job, out=f"{bucket}/out"), print)
    with pytest.raises(MachineError, match="cannot be read"):
        begin(replace(job, source=f"{bucket}/table"), print)
    with pytest.raises(MachineError, match="cannot be removed"):
        open_place(bucket).remove("out")
    with pytest.raises(MachineError, match="cannot be listed"):
        list(list_objects(f"{bucket}/*.npz")[1])
    # What zarr writes does not pass our place: the unit says whose fault it is.
    unit = replace(open_job(job), place=open_place(bucket))
    with pytest.raises(MachineError, match="cannot be written"):
        unit._do(0, None, None)
