"""What is wrong with settings, in a line that names the mend."""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

__all__ = ["explain"]

Place = tuple[int | str, ...]

# Models and dataclasses have different words for the same.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def explain(error: ValidationError, known: Callable[[Place], Sequence[str]]) -> str:
    """The first mistake, and the nearest valid name where one is unknown.

    Args:
        error: What pydantic found.
        known: Gives the settings of the group that an unknown one stands in.
    """
    found = error.errors()
    # A name that is mistyped is missing, too: that it is unknown says more.
    first = next((one for one in found if one["type"] in _UNKNOWN), found[0])
    place, kind = first["loc"], first["type"]
    where = ".".join(map(str, place))
    if kind in _UNKNOWN:
        return f"unknown setting {where}{_guess(str(place[-1]), known(place))}"
    if kind == "missing":
        return f"setting {where} is missing"
    if kind.startswith("union_tag"):
        return _explain_tag(where, first["ctx"])
    setting = f"setting {where}: " if where else ""
    if kind in ("model_type", "dict_type", "model_attributes_type", "dataclass_type"):
        return f"{setting}{first['input']!r} stands where settings are meant, such as {{a: 1}}"
    return f"{setting}{first['msg'].removeprefix('Value error, ')}"


def _explain_tag(where: str, told: dict[str, Any]) -> str:
    """A kind that there is not, or that was left out."""
    setting = f"setting {where}: " if where else ""
    name = told["discriminator"].strip("'")
    if "tag" not in told:
        return f"{setting}its {name} is missing"
    tags = [tag.strip("' ") for tag in told["expected_tags"].split(",")]
    near = _guess(told["tag"], tags)
    return f"{setting}no {name} {told['tag']!r}{near or ': one of ' + ', '.join(tags)}"


def _guess(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
