"""Files on their way in: counted as they come, to the disk, never whole in memory."""

import asyncio
from pathlib import Path

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from bcdm.service.settings import ServiceSettings

__all__ = ["receive_file"]

_BARE = "send the file itself as the body"


async def receive_file(request: Request, path: Path, most: int, settings: ServiceSettings) -> int:
    """Writes the body of a request to a file.

    Args:
        request: Whose body.
        path: Where to.
        most: Bytes that it may have; one that says it has more is refused unread.
        settings: How long it may take.

    Returns:
        How many bytes it has.

    Raises:
        HTTPException: 413 if there is more, 408 if it takes too long, 422 if it is empty or a form.
    """
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(422, f"a form came: {_BARE}, as curl --data-binary @scan.h5 does")
    said = request.headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise _too_large(most)
    size, blocks = 0, aiter(request.stream())
    try:
        async with asyncio.timeout(settings.upload):
            with path.open("wb") as file:
                while True:
                    async with asyncio.timeout(settings.idle):
                        block = await anext(blocks, None)
                    if block is None:
                        break
                    size += len(block)
                    if size > most:
                        raise _too_large(most)
                    file.write(block)
    except TimeoutError:
        raise HTTPException(408, "the file did not come in time") from None
    except ClientDisconnect:
        raise HTTPException(400, "the file ended too early") from None
    if size == 0:
        raise HTTPException(422, f"the body is empty: {_BARE}")
    return size


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a file may have {most} bytes here")
