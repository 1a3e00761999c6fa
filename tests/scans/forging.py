"""How a file made to do harm is registered with the words that refuse it."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

Makers = dict[str, Callable[..., Any]]
Forger = Callable[[Path, Makers], Path]

FORGERIES: dict[str, tuple[Forger, str, str | None]] = {}
HARMLESS = "Scan("  # in place of words: all that the file claims beyond its pixels is ignored


def forgery(words: str, key: str | None = None) -> Callable[[Forger], Forger]:
    """Registers a maker of a file and the words that its refusal must hold."""

    def register(maker: Forger) -> Forger:
        FORGERIES[maker.__name__] = (maker, words, key)
        return maker

    return register


def inflate_to(size: int, start: bytes = b"", wbits: int = -15) -> bytes:
    """A deflate stream that unpacks to zeros of any size, made of one piece many times over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so that the piece may follow itself.
    return head + piece * (size >> 24) + packer.flush()
