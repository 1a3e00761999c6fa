"""Tokens: who is known, and what is refused before anything starts."""

import hashlib
import os
from base64 import b64encode
from pathlib import Path

import pytest

from bcdm.errors import InputError
from bcdm.service.tokens import Tokens, make_tokens, read_tokens

TOKEN = "a-long-word-of-20-letters"


def test_a_token_is_found_as_bearer_and_as_password() -> None:
    digest = hashlib.sha256(b"another-word-of-20-letters").hexdigest()
    tokens = Tokens(
        ["# comment", "", f"clinic submit,read {TOKEN}", f"watch admin sha256:{digest}"]
    )
    clinic = tokens.find(f"Bearer {TOKEN}")
    assert clinic is not None
    assert (clinic.name, clinic.may("submit"), clinic.may("admin")) == ("clinic", True, False)
    assert tokens.find("basic " + b64encode(f"any:{TOKEN}".encode()).decode()) == clinic
    watch = tokens.find("bearer another-word-of-20-letters")
    assert watch is not None
    assert watch.may("read")
    assert "word" not in repr(tokens.__dict__), "only hashes are kept"
    for wrong in (
        "",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer sha256:{digest}",
        "Basic é",
        TOKEN,
    ):
        assert tokens.find(wrong) is None, wrong


@pytest.mark.parametrize(
    "line", [f"clinic {TOKEN}", f"clinic root {TOKEN}", "clinic read short", "clinic read sha256:1"]
)
def test_a_wrong_line_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(InputError, match="line 1 of the tokens") as found:
        Tokens([line])
    assert TOKEN not in str(found.value)


def test_files_are_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "tokens"
    assert make_tokens(path).find("Bearer " + path.read_text().split()[2]) is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    before = path.read_text()
    make_tokens(path)
    assert path.read_text() == before, "the token stays"
    os.chmod(path, 0o644)
    with pytest.raises(InputError, match="chmod 600"):
        read_tokens(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens(tmp_path / "none")
    monkeypatch.delenv("BCDM_TOKENS", raising=False)
    assert read_tokens(None) is None
    monkeypatch.setenv("BCDM_TOKENS", f"a read {TOKEN};b admin {TOKEN}2")
    found = read_tokens(None)
    assert found is not None
    assert found.find(f"Bearer {TOKEN}2") is not None
    with pytest.raises(InputError, match="no token"):
        Tokens(["# nothing"])
