"""Several pieces of bytes as one, for headers that travel with a scan."""

from collections.abc import Iterable

from bcdm.errors import InputError

__all__ = ["pack", "unpack"]

_WIDTH = 8


def pack(pieces: Iterable[bytes]) -> bytes:
    """Joins pieces, each after its length.

    >>> unpack(pack([b"xml", b"", b"head"]))
    [b'xml', b'', b'head']
    """
    return b"".join(len(piece).to_bytes(_WIDTH, "little") + piece for piece in pieces)


def unpack(packed: bytes) -> list[bytes]:
    """Takes the pieces apart again."""
    pieces, start = [], 0
    while start < len(packed):
        length = int.from_bytes(packed[start : start + _WIDTH], "little")
        start += _WIDTH + length
        pieces.append(packed[start - length : start])
    if start != len(packed) or not pieces:
        raise InputError("the scan carries no header to write by: read it with read_scan")
    return pieces
