"""Formulas become MathML when the site is built: browsers draw it without scripts or fonts."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    """Replaces what arithmatex marked as formulas."""
    text = _BLOCK.sub(lambda found: _convert(found[1], "block"), text)
    return _INLINE.sub(lambda found: _convert(found[1], "inline"), text)


def _convert(latex: str, display: str) -> str:
    """MathML of a formula; one with a command that the converter does not know is refused."""
    plain = html.unescape(latex).strip()
    drawn: str = convert(plain, display=display)
    if unknown := re.search(r">\\\w+<", drawn):
        raise ValueError(f"the formula {plain!r} would show {unknown[0][1:-1]} as it stands here")
    return drawn
