"""Runs a study and reads what it wrote."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from bcdm.commands import cli

DUAL = ["parameterisation.statistic=dual", "parameterisation.output=denoised"]


def run(folder: Path, *more: str) -> Result:
    arguments = ["study", str(folder / "study.yaml"), "--data", str(folder), *more]
    arguments += ["--out", str(folder / "out"), "--work", str(folder / "work")]
    return CliRunner().invoke(cli, arguments)


def read(folder: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((folder / "out/results.json").read_text())
    return rows
