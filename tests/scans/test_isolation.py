"""The process that reads: kept between files, ended by its limits, never a trouble to the host."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.scans import isolation, read_mask, read_provenance, read_scan, write_results
from bcdm.scans.answers import Request
from bcdm.scans.complaints import library
from bcdm.scans.isolation import Readers
from bcdm.scans.limits import LIMITS

Makers = dict[str, Callable[..., Any]]

STRANGE = (str(Path(__file__).with_name("strange_reader.py")),)
SOON = replace(LIMITS, work=0.2, patience=5)  # a second on the wall
NEVER = replace(LIMITS, work=0.2, patience=1e6)


@pytest.fixture
def make_readers() -> Iterator[Callable[..., Readers]]:
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Readers:
            return stack.enter_context(contextlib.closing(Readers(program=STRANGE, **options)))

        yield make


def ask(readers: Readers, name: str) -> int:
    """The process that read a file of this name."""
    found = readers.ask(Request("provenance", Path(name)))
    assert isinstance(found, str)
    return int(found)


def test_a_process_is_kept_between_files(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers(files=3)
    first, second, third, fourth = (ask(readers, "a") for _ in range(4))
    assert first == second == third != os.getpid()
    assert fourth != first


def test_a_file_that_we_refuse_costs_no_process(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers()
    first = ask(readers, "a")
    with pytest.raises(InputError, match="we refused"):
        ask(readers, "is refused")
    assert ask(readers, "a") == first
    # A library may have been left in any state by what it complained of.
    with pytest.raises(InputError, match="a library complained"):
        ask(readers, "complains")
    assert ask(readers, "a") != first


def test_a_reader_that_hangs_is_ended_by_the_clock(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers(limits=SOON)
    with pytest.raises(InputError, match=r"^hangs was not read within 1 s: check the disk"):
        ask(readers, "hangs")
    assert ask(readers, "a") != os.getpid()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such limit")
def test_a_reader_that_works_on_and_on_is_ended(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers(limits=NEVER)
    first = ask(readers, "a")
    with pytest.raises(InputError, match=r"^spins takes too long to read"):
        ask(readers, "spins")
    assert ask(readers, "a") != first


def test_the_time_of_one_file_is_not_counted_for_the_next(
    make_readers: Callable[..., Readers],
) -> None:
    readers = make_readers(limits=replace(LIMITS, work=0.5))
    # All together take more of the processor than one may.
    assert len({ask(readers, "works") for _ in range(5)}) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_reader_that_fills_the_memory_is_refused(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers(limits=replace(LIMITS, memory=400_000_000, work=60.0))
    with pytest.raises(InputError, match=r"^fills takes more memory than a scan may"):
        ask(readers, "fills")
    assert ask(readers, "a") != os.getpid()


def test_a_crash_is_one_line(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers()
    with pytest.raises(InputError, match="damaged so badly that its library crashes"):
        ask(readers, "crashes")
    # An earlier file may be to blame, so that a new process tries again.
    first = ask(readers, "a")
    assert ask(readers, "crashes when old") != first


def test_a_reader_that_somebody_ends_is_started_anew(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers()
    for _ in range(3):
        first = ask(readers, "a")
        os.kill(first, signal.SIGKILL)
        assert ask(readers, "a") != first


def test_each_thread_has_its_own(make_readers: Callable[..., Readers]) -> None:
    readers = make_readers()
    barrier = threading.Barrier(2)

    def read(name: str) -> int:
        barrier.wait()
        return ask(readers, name)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            assert len(list(pool.map(read, ("a", "b")))) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_nothing_is_left_when_the_process_that_asks_is_killed(
    tmp_path: Path, makers: Makers
) -> None:
    script = """
import sys, time
from bcdm.scans import isolation, read_scan
read_scan(sys.argv[1])
print(isolation._READERS._idle[0]._process.pid, flush=True)
time.sleep(1e6)
"""
    command = [sys.executable, "-c", script, str(makers["make_npy"](tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        reader = Path("/proc", host.stdout.readline().strip())
        assert (reader / "stat").read_text().split()[2] in "SRD"
        host.kill()
    # Its input has ended, and so it ends; for as long as it takes.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while (reader / "stat").read_text().split()[2] != "Z":
            threading.Event().wait(0.05)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_leaves_the_process_to_its_parent(tmp_path: Path, makers: Makers) -> None:
    path = makers["make_npy"](tmp_path)
    expected = read_scan(path).data
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if np.array_equal(read_scan(path).data, expected) else 2
            isolation._READERS.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(read_scan(path).data, expected)


def test_relative_paths_follow_the_process_that_asks(
    tmp_path: Path, makers: Makers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "scan.npy", np.full((4, 4), value))
        monkeypatch.chdir(tmp_path / name)
        assert float(read_scan("scan.npy").data[0, 0, 0, 0]) == value
    with pytest.raises(InputError, match=r"^other.npy is no file"):
        read_scan("other.npy")


def test_masks_are_read_by_the_process_too(tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.eye(4))
    assert np.array_equal(read_mask(tmp_path / "mask.npy", (4, 4)), np.eye(4, dtype=bool))
    with pytest.raises(InputError, match=r"store \(5, 4\)"):
        read_mask(tmp_path / "mask.npy", (5, 4))


def test_threads_leave_the_filters_of_warnings_alone(tmp_path: Path, makers: Makers) -> None:
    path, before = makers["make_npy"](tmp_path), list(warnings.filters)
    seen = []

    def read(_: int) -> None:
        read_scan(path)
        seen.append(list(warnings.filters))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(16)))
    assert all(filters == before for filters in seen)
    assert list(warnings.filters) == before


def test_calls_into_libraries_that_overlap_leave_the_filters_alone() -> None:
    """As in two threads, of which the first to begin is the first to end."""
    before = list(warnings.filters)
    first, second = library(Path("a")), library(Path("b"))
    for entered in (first, second):
        entered.__enter__()
    for left in (first, second):
        left.__exit__(None, None, None)
    assert list(warnings.filters) == before


def test_writing_leaves_the_filters_alone(tmp_path: Path, makers: Makers) -> None:
    """In a process of its own, because the filter is set when ismrmrd is imported first."""
    makers["make_mrd"](tmp_path)
    script = """
import sys, warnings, numpy as np
from bcdm.scans import Results, read_scan, write_results
scan = read_scan(sys.argv[1])
before = list(warnings.filters)
ones = np.ones((len(scan.data), 1, *scan.size), np.float32)
write_results(sys.argv[1] + "_out", scan, Results(ones, ones, ones, ones, 0.9), {})
added = [each for each in warnings.filters if each not in before]
assert "ismrmrd" in sys.modules
assert not [each for each in added if each[2] is Warning], added
"""
    command = [sys.executable, "-c", script, str(tmp_path / "scan.h5")]
    subprocess.run(command, check=True)


def test_names_that_are_not_utf8(sample: Path, make_results: Callable[..., Any]) -> None:
    path = sample.rename(sample.with_name(os.fsdecode(b"\xff\x1b[31m" + os.fsencode(sample.name))))
    scan = read_scan(path)
    assert scan.path == path
    assert f"{scan!r}".isprintable()
    out = write_results(path.parent / "out", scan, make_results(scan), {"seed": 1})
    assert [read_provenance(each) for each in out] == [{"seed": 1}] * len(out)
    with pytest.raises(InputError, match=r"\?\?\[31ms") as caught:
        read_scan(path, key="../x")
    assert str(caught.value).isprintable()


def test_a_thousand_small_files_are_one_series(tmp_path: Path, makers: Makers) -> None:
    image = makers["make_slice"](0)
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID = "1.2.3.4.1000"
    image.ImagePositionPatient = ["1", "2", "1000.5"]
    image.save_as(tmp_path / "template", enforce_file_format=True)
    raw = (tmp_path / "template").read_bytes()
    series = tmp_path / "series"
    series.mkdir()
    for index in range(1000, 2000):
        other = raw.replace(b"1.2.3.4.1000", b"1.2.3.4.%d" % index)
        (series / f"{index}").write_bytes(other.replace(b"\\1000.5", b"\\%d.5" % index))
    scan = read_scan(series)
    assert scan.data.shape == (1000, 1, 6, 8)
    assert scan.facts["slices"] == 1000
