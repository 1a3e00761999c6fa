"""Names and texts of files, made safe to show."""

import unicodedata

__all__ = ["is_unicode", "number", "printable"]


def printable(text: object) -> str:
    r"""Text on one line that steers no terminal.

    Control characters, marks that turn the direction of writing, and bytes of a file name that
    are not UTF-8 are shown by their codes.

    >>> printable("scan\x1b[2J.png")
    'scan\\x1b[2J.png'
    >>> printable("knöchel-\udcff.nii")
    'knöchel-\\xff.nii'
    """
    return "".join(_show(character) for character in str(text))


def number(count: int, noun: str) -> str:
    """So many of something.

    >>> number(1, "slice"), number(2000, "slice")
    ('1 slice', '2,000 slices')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def is_unicode(name: str) -> bool:
    r"""Whether a file name is one of characters, not of bytes that mean none.

    >>> is_unicode("knöchel"), is_unicode("kn\udcf6chel")
    (True, False)
    """
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _show(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    # How Python keeps a byte of a file name that is not UTF-8.
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
