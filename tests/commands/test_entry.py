"""The command line as a user runs it: real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bcdm.commands import cli


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        "from bcdm.commands import main; main()",
        *arguments,
    ]
    # No limit of time: a busy machine is slow, and not wrong.
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_needs_no_torch() -> None:
    code = "import sys, bcdm, bcdm.commands\nassert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    shown = run("--help")
    assert shown.returncode == 0
    assert "benchmark" in shown.stdout


def test_lazy_names_are_all_there() -> None:
    import bcdm

    for name in bcdm.__all__:
        assert getattr(bcdm, name) is not None
    with pytest.raises(AttributeError):
        _ = bcdm.nothing


@pytest.mark.parametrize("bench", ["moments", "mixture", "learned", "overhead"])
def test_benchmarks_write_records(bench: str, tmp_path: Path) -> None:
    done = run("benchmark", bench, "--smoke", "--json", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "r.json").read_text())
    assert rows
    assert all(row["command"].startswith(f"bcdm benchmark {bench} --smoke") for row in rows)
    assert all(row["holds"] is not False for row in rows)


def test_missed_requirement_fails() -> None:
    code = (
        "from bcdm.commands.echo import finish; from bcdm.assessment.records import Record; "
        "finish([Record('a', {}, 2.0, required='<= 1')], None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 of 1 rows miss" in done.stderr


def test_curves_of_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        rows = [{"step": k, "psnr": 20 + k, "RMSE at log-SNR 0": 0.1, "RMSE at log-SNR 4": 0.05}
                for k in range(1, 4)]  # fmt: skip
        text = "\n".join(map(json.dumps, [{"step": 1, "loss": 2.0}, *rows]))
        (tmp_path / f"{name}.log.jsonl").write_text(text)
    logs = [str(tmp_path / f"{name}.log.jsonl") for name in ("one", "two")]
    done = CliRunner().invoke(cli, ["curves", *logs, "-o", str(tmp_path / "c.png")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    names = [tmp_path / folder / "run" / "log.jsonl" for folder in "ab"]
    for name in names:
        name.parent.mkdir(parents=True)
        name.write_text(Path(logs[0]).read_text())
    shown: list[str] = []
    monkeypatch.setattr(
        "bcdm.comparison.learning.plot_curves", lambda _, named: shown.extend(named)
    )
    CliRunner().invoke(cli, ["curves", *map(str, names), "-o", str(tmp_path / "c.png")])
    assert shown == [str(name) for name in names]
    monkeypatch.undo()
    Path(logs[0]).write_text('{"step": 1, "loss": 2.0}\n')
    done = CliRunner().invoke(cli, ["curves", *logs, "-o", str(tmp_path / "d.png")])
    assert "holds no validation yet" in str(done.exception)
