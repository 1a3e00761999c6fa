"""The page for people: one document that loads nothing from elsewhere."""

import base64
import hashlib
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bcdm import __version__
from bcdm.report.templating import read_markup

__all__ = ["Page"]


class Page:
    """The page and its policy, which allows its own script and style alone.

    Args:
        model: The name of the model.
    """

    def __init__(self, model: str) -> None:
        script = _read("page.js")
        style = Markup("\n").join([read_markup("report.css"), _read("page.css")])
        dark = read_markup("dark.css")
        environment = Environment(
            # Signs and styles are those of the report.
            loader=ChoiceLoader(
                [PackageLoader("bcdm.service", "page"), PackageLoader("bcdm.report", "page")]
            ),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.text = environment.get_template("page.html").render(
            model=model, version=__version__, script=script, style=style, dark_style=dark
        )
        allowed = " ".join(_hash(part) for part in (style, dark))
        self.policy = (
            f"default-src 'none'; script-src {_hash(script)}; style-src {allowed}; "
            "connect-src 'self'; frame-src 'self'; img-src data:; form-action 'none'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )


def _read(name: str) -> Markup:
    text = resources.files("bcdm.service").joinpath("page", name).read_text(encoding="utf-8")
    return Markup(text)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
