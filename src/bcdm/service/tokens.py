"""Who may do what: tokens, each with a name and scopes."""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from bcdm.errors import InputError

__all__ = ["Caller", "Scope", "Tokens", "make_tokens", "read_tokens"]

Scope = Literal["submit", "read", "admin"]
VARIABLE = "BCDM_TOKENS"
_LEAST = 20  # letters: nobody guesses so many
_HASHED = "sha256:"


@dataclass(frozen=True)
class Caller:
    """Somebody whose token is known.

    Attributes:
        name: Jobs belong to it.
        scopes: "submit" sends and cancels jobs; "read" sees own jobs and their results; "admin"
            does all that, with the jobs of others, too, and sees the metrics.
    """

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes or self.is_admin

    @property
    def is_admin(self) -> bool:
        """Whether it may do everything."""
        return "admin" in self.scopes


class Tokens:
    """All tokens, as hashes.

    Args:
        lines: Each a name, scopes with commas between them, and a token or "sha256:" and its hash.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._known: list[tuple[bytes, Caller]] = []
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].split()
            if text:
                self._known.append(_parse(text, number))
        if not self._known:
            raise InputError("there is no token: give lines such as: clinic submit,read TOKEN")

    def find(self, header: str) -> Caller | None:
        """Who sent the header `Authorization`; None if it is nobody known.

        `Bearer TOKEN` for programs; for browsers, which ask for a name and a password, the
        password of `Basic` is the token.
        """
        token = _extract(header)
        digest = hashlib.sha256(token).digest()
        found = None
        # All are compared, and in constant time: how long it takes tells nothing.
        for own, caller in self._known:
            if hmac.compare_digest(own, digest):
                found = caller
        return found if token else None


def _extract(header: str) -> bytes:
    kind, _, content = header.partition(" ")
    content = content.strip()
    if kind.lower() == "bearer":
        return content.encode("latin-1", "replace")
    if kind.lower() != "basic":
        return b""
    try:
        return base64.b64decode(content, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _parse(text: Sequence[str], number: int) -> tuple[bytes, Caller]:
    # Never with the line itself: it may hold a token.
    if len(text) != 3:
        raise InputError(f"line {number} of the tokens is not: NAME SCOPES TOKEN")
    name, scopes, token = text
    known = set(get_args(Scope))
    asked = set(scopes.split(","))
    if not asked <= known:
        raise InputError(f"line {number} of the tokens: scopes are {', '.join(sorted(known))}")
    chosen: frozenset[Scope] = frozenset(one for one in get_args(Scope) if one in asked)
    return _hash(token, number), Caller(name, chosen)


def _hash(token: str, number: int) -> bytes:
    if token.startswith(_HASHED):
        try:
            digest = bytes.fromhex(token.removeprefix(_HASHED))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise InputError(f"line {number} of the tokens: sha256: needs 64 digits after it")
        return digest
    if len(token) < _LEAST:
        raise InputError(f"line {number} of the tokens: a token needs {_LEAST} letters or more")
    return hashlib.sha256(token.encode()).digest()


def read_tokens(path: Path | None) -> Tokens | None:
    """From a file, else from BCDM_TOKENS (lines, or semicolons between them); None without either.

    The file must be closed to others.
    """
    if path is not None:
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as tokens: {error}") from None
        if os.name != "nt" and mode & 0o077:
            raise InputError(f"others can read {path}: chmod 600 {path}")
        return Tokens(text.splitlines())
    if VARIABLE in os.environ:
        return Tokens(os.environ[VARIABLE].replace(";", "\n").splitlines())
    return None


def make_tokens(path: Path) -> Tokens:
    """Writes a file with one token that may do everything, unless it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"owner admin {secrets.token_urlsafe(32)}\n")
    found = read_tokens(path)
    assert found is not None
    return found
