"""What is released: a small wheel that holds the settings and the demo's model, models apart."""

import subprocess
import sys
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcdm import __version__
from bcdm.commands.doctor import SMALL

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 2e6
MODELS = sorted(path.parent.name for path in (ROOT / "models").glob("*/config.json"))


def read_project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def compress(file: Path) -> int:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return len(packer.compress(file.read_bytes()) + packer.flush()) + 2 * len(str(file)) + 100


def test_the_wheel_stays_below_2_mb() -> None:
    """By its parts, each packed as in a wheel; a slow test builds it."""
    parts = [path for path in (ROOT / "src/bcdm").rglob("*") if path.suffix not in ("", ".pyc")]
    parts += [*(ROOT / "experiments").rglob("*.yaml"), *(ROOT / "models" / SMALL).iterdir()]
    assert sum(map(compress, filter(Path.is_file, parts))) < LIMIT


def test_what_is_said_of_the_distributions() -> None:
    own, models = read_project("."), read_project("models")
    assert own["version"] == __version__
    assert models["name"] == "bcdm-models"
    for project in (own, models):
        assert {"description", "readme", "license", "authors", "requires-python"} <= set(project)
    assert {"LICENSE", "NOTICE"} == set(own["license-files"])


def test_the_notice_covers_what_is_shipped() -> None:
    text = (ROOT / "NOTICE").read_text()
    for model in MODELS:
        assert f"models/{model[:5]}" in text, f"{model}: what licence do its weights have?"


@pytest.mark.parametrize("name", ["ci", "release"])
def test_workflows_call_the_scripts(name: str) -> None:
    content = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
    (job,) = content["jobs"].values()
    script = {"ci": ".ci/run", "release": ".ci/release"}[name]
    assert script in [step.get("run") for step in job["steps"]]
    assert (ROOT / script).stat().st_mode & 0o111


def build(folder: Path, out: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", out, folder]
    subprocess.run(command, check=True)
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.mark.slow
def test_wheels_hold_what_they_should(tmp_path: Path) -> None:
    with build(ROOT, tmp_path / "core") as wheel:
        names = set(wheel.namelist())
        assert Path(wheel.filename or "").stat().st_size < LIMIT
    assert {n.split("/")[2] for n in names if n.startswith("bcdm/models/")} == {SMALL}
    held = {n.removeprefix("bcdm/settings/") for n in names if n.startswith("bcdm/settings/")}
    root = ROOT / "experiments"
    assert held == {p.relative_to(root).as_posix() for p in root.rglob("*.yaml")} - {
        "paper/published.yaml"
    }
    assert {"bcdm/py.typed", "bcdm/demo/brain.png", "bcdm/data/splits.json"} <= names
    assert all(n.startswith(("bcdm/", f"bcdm-{__version__}.dist-info/")) for n in names)
    with build(ROOT / "models", tmp_path / "models") as wheel:
        folders = {n.split("/")[1] for n in wheel.namelist() if n.startswith("bcdm_models/")}
    assert folders == set(MODELS) - {SMALL}
