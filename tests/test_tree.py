"""The tree is as CONTRIBUTING.md says: every room is on its map, and files stay short."""

import re
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/bcdm"
LONGEST, MEDIAN = 400, 150


def count_lines(*folders: str) -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }


def test_files_are_short() -> None:
    lines = count_lines("src", "tests", "experiments", "tools")
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}
    assert median(count_lines("src").values()) <= MEDIAN
    assert median(lines.values()) <= MEDIAN


def test_the_map_names_every_room_and_nothing_else() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| --- | --- |\n")[1].split("\n\n")[0]
    first = [row.split(" | ")[0] for row in table.splitlines()]
    named = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    files = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    rooms = {f"{path.name}/" for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__/"}
    assert sorted(named) == sorted(files | rooms)
