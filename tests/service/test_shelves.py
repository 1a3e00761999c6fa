"""Files of jobs: closed to others, and nothing is left of what failed."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bcdm.benchmark.serving import Server
from bcdm.errors import InputError
from bcdm.service import routes
from bcdm.service.jobs import FullError
from bcdm.service.settings import ServiceSettings
from bcdm.service.shelves import Shelves

JOB = "0" * 32


def test_others_read_nothing_of_a_service(server: Server) -> None:
    for path in (server.work, *server.work.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    shelves = Shelves(tmp_path)
    out = shelves.find(JOB).out
    out.mkdir(parents=True)
    monkeypatch.setattr(routes, "_find_job", lambda *_: SimpleNamespace(state="done"))
    monkeypatch.setattr("bcdm.service.shelves.Shelf.list_files", lambda _: ["a.npz"])
    return SimpleNamespace(shelves=shelves, has_disk=True)


def test_a_result_that_cannot_be_packed_leaves_nothing(
    service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(routes, "pack", fail)
    with pytest.raises(OSError, match="No space"):
        routes.fetch_result(JOB, service, None)
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.parametrize("wanted", ["bytes=0-3", "bytes=99999-", "nothing"])
def test_a_result_that_was_sent_leaves_nothing(service: Any, tmp_path: Path, wanted: str) -> None:
    """However much of it was asked for."""
    (service.shelves.find(JOB).out / "a.npz").write_bytes(b"held")
    answer, sent = routes.fetch_result(JOB, service, None), []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"range", wanted.encode())],
        "extensions": {},
    }
    asyncio.run(answer(scope, receive, send))
    assert sent[0]["status"] == {"bytes=0-3": 206, "bytes=99999-": 416, "nothing": 400}[wanted]
    assert list((tmp_path / "incoming").iterdir()) == []


def test_a_result_is_not_packed_on_a_full_disk(service: Any, tmp_path: Path) -> None:
    service.has_disk = False
    with pytest.raises(FullError):
        routes.fetch_result(JOB, service, None)
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.parametrize("name", ["idle", "upload", "lease", "job_seconds", "keep_hours", "grace"])
@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_times_are_times(name: str, value: float) -> None:
    settings = ServiceSettings("model", Path("work"))
    with pytest.raises(InputError, match=name):
        replace(settings, **{name: value})
