"""Without --calls a sample takes as many network calls as the model was calibrated with."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tests.archive.cases import measure_rows, write_table
from tests.records import read_words

import bcdm
from bcdm.checkpoint import load
from bcdm.checkpoint.calibration import Calibration
from bcdm.commands import cli
from bcdm.shelf import CALLS, find_calls, list_models

CALIBRATED = 3  # of the models of tests


@pytest.fixture
def scan(tmp_path: Path, scanner: Path) -> Path:
    np.savez(tmp_path / "scan.npz", kspace=measure_rows(scanner, 1)[0, 0])
    return tmp_path / "scan.npz"


def reconstruct(scan: Path, model: Path, *more: str) -> str:
    given = ["reconstruct", str(scan), "--model", str(model), "-o", str(scan.parent / "out")]
    ran = CliRunner().invoke(
        cli, [*given, "--noise-std", "2.5", "--samples", "9", "--force", "--no-report", *more]
    )
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_a_calibration_knows_its_calls(scanner: Path) -> None:
    calibration = Calibration.of(load(scanner))
    assert calibration is not None
    assert calibration.calls == load(scanner).calls == find_calls(scanner) == CALIBRATED


def test_calls_of_shipped_models_are_those_of_the_command_that_calibrated_them() -> None:
    assert find_calls("brain-mri") == load("brain-mri").calls == 12
    assert "bcdm calibrate brain-mri --typical 160 --limit 160 --intervals 24 --samples 19 " + (
        "--calls 12"
    ) in read_words("experiments/scans/README.md")
    others = set(list_models()) - {"brain-mri"}
    assert {find_calls(name) for name in others} == {CALLS}
    told = f"calibrated with: {find_calls('brain-mri')} for `brain-mri`, {CALLS} for the others."
    assert told in read_words("docs/guides/models.md")


@pytest.mark.parametrize("content", ["", "[]", '{"facts": 3}', '{"facts": {"calibration": 1}}'])
def test_a_damaged_folder_is_left_to_those_who_load_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert find_calls(tmp_path) == CALLS


def test_a_scan_takes_those_of_its_model(scan: Path, scanner: Path) -> None:
    reconstruct(scan, scanner)
    found = json.loads((scan.parent / "out/run.json").read_text())
    assert found["settings"]["calls"] == CALIBRATED


def test_fewer_are_told_of(scan: Path, scanner: Path) -> None:
    told = "calls        2 a sample, fewer than 3: right data may be found wrong"
    assert told in reconstruct(scan, scanner, "--calls", "2", "--dry-run")
    assert "fewer than" not in reconstruct(scan, scanner, "--calls", "3", "--dry-run")


def test_an_array_takes_those_of_its_model(scanner: Path) -> None:
    model, y = load(scanner), torch.from_numpy(measure_rows(scanner, 1)) / 50
    measurement = bcdm.Measurement(y, model.operator, 0.05)
    drawn, same, others = (
        bcdm.reconstruct(model, measurement, samples=2, force=True, **given).samples
        for given in ({}, {"calls": CALIBRATED}, {"calls": 4})
    )
    assert torch.equal(drawn, same)
    assert not torch.equal(drawn, others)


def test_an_archive_takes_those_of_its_model(tmp_path: Path, scanner: Path) -> None:
    table = write_table(tmp_path / "table.zarr", measure_rows(scanner, 2))
    given = [str(table), str(tmp_path / "out"), "--model", str(scanner), "--samples", "9"]
    ran = CliRunner().invoke(cli, ["archive", "run", *given, "--force", "--workers", "1"])
    assert ran.exit_code == 0, ran.output
    head = json.loads((tmp_path / "out/archive.json").read_text())
    assert head["settings"]["calls"] == CALIBRATED
