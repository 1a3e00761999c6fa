"""Runs the examples of the README and of the docs as tests; tutorials scaled down.

`<!-- scaled down: samples=16 -> samples=3; ... -->` on a page says what is made smaller.
"""

import os
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.sybil import SybilCollection
from sybil.typing import Parser

# Of the page that is run; they end with it.
_SERVERS: list[Any] = []
_SCALED = re.compile(r"<!-- scaled down: (.+?) -->")


class Tutorial(Document):
    """A page whose examples are made smaller before they run."""

    @classmethod
    def parse(cls, path: str, *parsers: Parser, encoding: str = "utf-8") -> Document:
        """Reads a page, and replaces what its comments name."""
        text = Path(path).read_text(encoding)
        for pairs in _SCALED.findall(text):
            for pair in pairs.split("; "):
                old, new = pair.split(" -> ")
                assert text.count(old) > 1, f"{path}: nothing but its comment says {old!r}"
                text = text.replace(old, new)
        document = cls(text, path)
        for parser in parsers:
            for region in parser(document):
                document.add(region)
        return document


def run_commands(example: Example) -> None:
    """Runs lines that begin with `$ bcdm`; what else stands there is their answer."""
    from bcdm.commands import cli

    for line in example.parsed.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            name, *words = shlex.split(line[2:], comments=True)
            assert name == "bcdm", line
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == 0, f"{line}\n{done.output}"


def serve(model: str) -> str:
    """Starts a service in the folder of a page, on a port that is free; its address."""
    from bcdm.benchmark.serving import Server
    from bcdm.service.tokens import make_tokens

    path = Path("service/tokens")
    make_tokens(path)
    server = Server(model, path.parent.absolute(), path.read_text(), "--device", "cpu")
    _SERVERS.append(server)
    return f"http://127.0.0.1:{server.port}"


def enter(namespace: dict[str, Any]) -> None:
    """Goes into a folder that is removed afterwards."""
    namespace["_before"], namespace["_folder"] = Path.cwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)
    namespace["serve"] = serve


def leave(namespace: dict[str, Any]) -> None:
    """Ends services of the page, and goes back."""
    while _SERVERS:
        _SERVERS.pop().kill()
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


TUTORIALS = "docs/tutorials/*.md"
python = PythonCodeBlockParser()
pages = Sybil(
    parsers=[python, SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    excludes=[TUTORIALS],
)
tutorials = Sybil(
    parsers=[python, CodeBlockParser("console", run_commands), SkipParser()],
    patterns=[TUTORIALS],
    document_types={".md": Tutorial},
    setup=enter,
    teardown=leave,
)
pytest_collect_file = SybilCollection([pages, tutorials]).pytest()

# Files of a minute and more, begun first: at the end of a run no process waits for another.
_LONG = {
    "test_resume.py",
    "test_paper.py",
    "test_study.py",
    "test_interruption.py",
    "test_archive.py",
    "test_bayesian.py",
    "test_recovery.py",
    "test_entry.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, all else as it was."""
    items.sort(key=lambda item: item.path.name not in _LONG)
