"""Templates of the page: whatever they are given is text, and is escaped."""

from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["ENVIRONMENT", "read_markup"]

_FOLDER = "page"

# Strict: a name that is misspelt in a template is an error, not a gap in the page.
ENVIRONMENT = Environment(
    loader=PackageLoader("bcdm.report", _FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}


def read_markup(name: str) -> Markup:
    """A style sheet or script of this package; the only markup that is no template."""
    text = resources.files("bcdm.report").joinpath(_FOLDER, name).read_text(encoding="utf-8")
    return Markup(text)
