"""A volume with red slices: these are left out, the others written, all of them reported."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bcdm.checkpoint import load
from bcdm.commands import cli
from bcdm.reconstruction import posterior
from bcdm.scans import read_provenance
from bcdm.trust import Light, Trust

NOISE = 0.025


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


@pytest.fixture
def scan(scanner: Path, images, tmp_path: Path) -> Path:
    """k-space of three slices."""
    operator = load(scanner).operator
    y = operator.forward((images + 1) / 2).numpy()
    noise = np.random.default_rng(0).standard_normal((2, *y.shape)) * NOISE
    mask = operator.mask.numpy()
    kspace = ((y + noise[0] + 1j * noise[1]) * mask).astype(np.complex64)
    np.savez(tmp_path / "scan.npz", kspace=kspace, mask=mask)
    return tmp_path / "scan.npz"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch):
    """Gives slices the cards that are named, one after the other."""

    def choose(*lights: Light) -> None:
        cards = [[Trust(light, f"It is {light}.")] for light in lights]
        monkeypatch.setattr(posterior, "assess", lambda *_, **__: cards.pop(0))

    return choose


def reconstruct(scan: Path, model: Path, *more: object) -> Result:
    out = scan.with_name("out")
    return run(
        *("reconstruct", scan, "--model", model, "-o", out, "--samples", 9, "--calls", 1),
        *("--noise-std", NOISE, *more),
    )


def read_slices(scan: Path) -> tuple[dict[str, np.ndarray], Sequence[dict[str, object]]]:
    with np.load(scan.with_name("out") / "scan_results.npz") as file:
        maps = {name: file[name] for name in ("mean", "std", "low", "high")}
    return maps, json.loads((scan.with_name("out") / "run.json").read_text())["slices"]


def test_the_report_can_be_left_out_and_written_later(scan, scanner, judge) -> None:
    page = scan.with_name("out") / "report.html"
    judge("green", "green", "amber")
    done = reconstruct(scan, scanner, "--no-report")
    assert done.exit_code == 0, (done.output, done.exception)
    assert not page.exists()
    assert "amber: Slices: 2 green, 1 amber, 0 red" in done.output
    assert "report.html" not in done.output
    judge("green", "green", "amber")
    done = reconstruct(scan, scanner)
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"wrote {page}" in done.output
    text = page.read_text()
    assert text.count('<section class="slice good"') == 2
    assert text.count('<section class="slice doubtful"') == 1


def test_red_slices_are_left_out_and_the_others_written(scan, scanner, judge) -> None:
    judge("green", "red", "amber")
    done = reconstruct(scan, scanner)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "because their cards are red: slices 1 (counted from 0)" in done.output
    maps, slices = read_slices(scan)
    for values in maps.values():
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[[0, 2]]).all()
    assert [one["light"] for one in slices] == ["green", "red", "amber"]
    assert [one["written"] for one in slices] == [True, False, True]
    assert (scan.with_name("out") / "report.html").exists()
    assert read_provenance(scan.with_name("out") / "scan_results.npz")["left_out"] == [1]
    again = reconstruct(scan, scanner)
    assert "there already" in again.output
    assert "slices 1 (counted from 0)" in again.output
    for name in ("run.json", "scan_results.npz"):
        found = run("verify", scan.with_name("out") / name, "--model", scanner)
        assert found.exit_code == 0, found.output
        assert "right  slices: left out: 1 of 3" in found.output


def test_what_is_forced_is_written(scan, scanner, judge) -> None:
    judge("green", "red", "amber")
    done = reconstruct(scan, scanner, "--force")
    assert done.exit_code == 0, (done.output, done.exception)
    maps, slices = read_slices(scan)
    assert all(np.isfinite(values).all() for values in maps.values())
    assert all(one["written"] for one in slices)


def test_of_nothing_but_red_slices_there_is_a_report(scan, scanner, judge) -> None:
    judge("red", "red", "red")
    done = reconstruct(scan, scanner)
    out = scan.with_name("out")
    assert "No image was written" in str(done.exception)
    assert not (out / "scan_results.npz").exists()
    assert f"wrote {out / 'report.html'}" in done.output
    assert (out / "report.html").exists()
    # Repeated, it is refused again without a look at the scan.
    assert str(reconstruct(scan, scanner).exception) == str(done.exception)
    found = run("verify", out / "run.json", "--model", scanner)
    assert found.exit_code == 0, found.output
    assert "slices: none written: the run was refused" in found.output


def test_a_result_that_hides_a_gap_is_found(scan, scanner, judge) -> None:
    judge("green", "red", "amber")
    reconstruct(scan, scanner)
    path = scan.with_name("out") / "run.json"
    facts = json.loads(path.read_text())
    facts["slices"][1]["written"] = True
    path.write_text(json.dumps(facts))
    found = run("verify", scan.with_name("out") / "scan_results.npz", "--model", scanner)
    assert found.exit_code == 1
    assert "WRONG  slices" in found.output
