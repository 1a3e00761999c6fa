"""Examples in docstrings are shown as code: `>>>` would be a quotation three levels deep."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^([ \t]*)>>> .*(?:\n(?![ \t]*$).+)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts fences around each example."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Is called for each module, class, function and attribute that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
