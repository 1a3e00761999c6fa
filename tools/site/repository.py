"""Pages that lie elsewhere in the repository, and links that hold there and on the site alike."""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
SHOWN = (
    "experiments/**/*.md",
    "experiments/**/*.png",
    "benchmarks/README.md",
    "models/**/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_NAME = re.compile(r"(?<![`\[])`(bcdm(?:\.\w+)+)(\(\))?`(?![`\]])")
_FENCE = re.compile(r"(^```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)
_FOREIGN = re.compile(
    r'<(?:script|img|iframe|source|video)\b[^>]*\bsrc="(?:https?:)?//[^"]*"'
    r'|<link\b[^>]*\brel="(?:stylesheet|preconnect|icon)"[^>]*\bhref="(?:https?:)?//[^"]*"'
)
log = logging.getLogger("mkdocs.hooks.repository")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills in entries of the navigation that are patterns, such as `decisions/*.md`."""
    config.nav = _expand(config.nav, Path(config.docs_dir))
    return config


def _expand(entry: Any, docs: Path) -> Any:
    if isinstance(entry, list):
        return [_expand(e, docs) for e in entry]
    if isinstance(entry, dict):
        return {name: _expand(e, docs) for name, e in entry.items()}
    if not (isinstance(entry, str) and "*" in entry):
        return entry
    base = docs if list(docs.glob(entry)) else ROOT
    return [path.relative_to(base).as_posix() for path in sorted(base.glob(entry))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages of records, models and the project; they keep their place in the repository."""
    for path in sorted({path for pattern in SHOWN for path in ROOT.glob(pattern)}):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Leads links to their place on the site, and names of bcdm to their description."""
    uri = page.file.src_uri
    home = uri if page.file.generated_by else f"docs/{uri}"
    parts = _FENCE.split(markdown)
    for k in range(0, len(parts), 2):  # the odd ones are code
        text = _LINK.sub(lambda found: _lead(found, uri, home, files), parts[k])
        parts[k] = _NAME.sub(r'<autoref identifier="\1" optional>`\1\2`</autoref>', text)
    return "".join(parts)


def _lead(found: re.Match[str], uri: str, home: str, files: Files) -> str:
    mark, text, target = found.groups()
    path, hash_, anchor = target.partition("#")
    if ":" in path or not path:
        return found[0]
    place = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
    shown = place.removeprefix("docs/")
    if files.get_file_from_path(f"{shown}/README.md"):
        shown = f"{shown}/README.md"
    if files.get_file_from_path(shown):
        return f"{mark}[{text}]({posixpath.relpath(shown, posixpath.dirname(uri))}{hash_}{anchor})"
    if (ROOT / place).exists():  # a file that is no page: its name has to do
        return text if text.strip("`") in place else f"{text} (`{place}`)"
    return found[0]


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Notices whatever a browser would fetch from elsewhere."""
    for found in _FOREIGN.findall(output):
        log.warning("%s fetches from outside: %s", page.file.src_uri, found)
    return output
