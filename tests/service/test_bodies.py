"""Bodies: counted while they come, and not waited for for ever."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import HTTPException
from starlette.requests import Request

from bcdm.service.bodies import receive_file
from bcdm.service.settings import ServiceSettings

SETTINGS = ServiceSettings("model", Path("work"))


def send(path: Path, blocks: Sequence[bytes | None], settings: ServiceSettings = SETTINGS) -> int:
    """Receives blocks of at most 10 bytes in all; None is silence, the end is a client gone."""
    given = iter(blocks)

    async def receive() -> dict[str, object]:
        block = next(given, b"")
        if block is None:
            await asyncio.sleep(3600)
        if block == b"gone":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": block, "more_body": bool(block)}

    request = Request({"type": "http", "headers": []}, receive)
    return asyncio.run(receive_file(request, path, 10, settings))


def test_what_comes_is_on_the_disk(tmp_path: Path) -> None:
    assert send(tmp_path / "file", [b"12345", b"67890"]) == 10
    assert (tmp_path / "file").read_bytes() == b"1234567890"


@pytest.mark.parametrize(
    ("blocks", "code"),
    [
        ([b"12345", b"678901"], 413),
        ([], 422),
        ([b"123", b"gone"], 400),
        ([b"123", None], 408),
    ],
)
def test_what_is_refused(tmp_path: Path, blocks: list[bytes | None], code: int) -> None:
    with pytest.raises(HTTPException) as found:
        send(tmp_path / "file", blocks, replace(SETTINGS, idle=0.01))
    assert found.value.status_code == code


def test_a_client_that_drips_has_an_end(tmp_path: Path) -> None:
    with pytest.raises(HTTPException) as found:
        send(tmp_path / "file", [b"1", None], replace(SETTINGS, upload=0.01))
    assert found.value.status_code == 408
