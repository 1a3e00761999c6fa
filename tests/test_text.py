"""What is shown steers no terminal."""

import os
import unicodedata

import pytest

from bcdm.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("scan 1 – knöchel.nii.gz", "scan 1 – knöchel.nii.gz"),
        ("a\u00a0b", "a\u00a0b"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        (os.fsdecode(b"\xff\xc3\xb6"), r"\xffö"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_steers_a_terminal_is_shown_by_its_code(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_no_character_gets_through() -> None:
    for code in range(0x110000):
        for character in printable(chr(code)):
            assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}, code
