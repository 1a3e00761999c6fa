"""One writer a folder, and one marker that says it is finished."""

import errno
import fcntl
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bcdm.folders import MARKER, claim, find_finished

HOLD = """
import sys, time
from pathlib import Path
from bcdm.folders import claim
with claim(Path(sys.argv[1]), lambda line: print(line, flush=True)) as alone:
    assert alone
    print("holds it", flush=True)
    if sys.argv[2] == "hold":
        time.sleep(1e6)
"""


def start(folder: Path, word: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), word], stdout=subprocess.PIPE, text=True
    )


def read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def test_a_second_process_waits_until_the_first_is_killed(tmp_path: Path) -> None:
    with start(tmp_path, "hold") as first:
        assert read(first) == "holds it"
        with start(tmp_path, "end") as second:
            assert f"is being written by process {first.pid} on " in read(second)
            assert second.poll() is None
            first.kill()
            assert read(second) == "holds it"
        assert second.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_threads_keep_each_other_out(tmp_path: Path) -> None:
    inside, most = [], []

    def work(number: int) -> None:
        with claim(tmp_path, lambda _: None):
            inside.append(number)
            most.append(len(inside))
            (tmp_path / "a").write_text(str(number))
            assert (tmp_path / "a").read_text() == str(number)
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))
    assert most == [1] * 24


def test_where_there_are_no_locks_it_is_said(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    said: list[str] = []
    with claim(tmp_path, said.append) as alone:
        assert not alone
    assert said == [f"{tmp_path} cannot be locked: let no other process write there"]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples/0").write_text("1234")
    (tmp_path / "mean").write_text("12")
    content = {"request": "this", "sizes": {"mean": 2, "samples": 4}}
    (tmp_path / MARKER).write_text(json.dumps(content))
    return tmp_path


def test_what_is_finished_is_found(finished: Path) -> None:
    found = find_finished(finished, "this")
    assert found is not None
    assert found["sizes"]["mean"] == 2


@pytest.mark.parametrize(
    "content",
    [
        {"request": "that", "sizes": {"mean": 2}},
        {"request": "", "sizes": {"mean": 2}},
        {"request": "this", "sizes": {"mean": 3}},
        {"request": "this", "sizes": {"absent": 3}},
        {"request": "this", "sizes": {"../mean": 2}},
        {"request": "this", "sizes": [1]},
        {"request": "this"},
        [],
    ],
)
def test_what_is_not_finished_is_not_found(finished: Path, content) -> None:
    (finished / MARKER).write_text(json.dumps(content))
    assert find_finished(finished, "this") is None
    assert find_finished(finished, "") is None


def test_a_torn_marker_is_none(finished: Path) -> None:
    (finished / MARKER).write_text('{"request": "th')
    assert find_finished(finished, "this") is None
    assert find_finished(finished / "absent", "this") is None
