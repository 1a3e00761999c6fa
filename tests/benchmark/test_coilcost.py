import json
from pathlib import Path

from click.testing import CliRunner

from bcdm.commands import cli


def test_a_sample_of_coils_is_timed_beside_the_bare_calls(
    receivers: Path, scanner: Path, tmp_path: Path
) -> None:
    command = ["benchmark", "overhead", "--smoke", "--json", str(tmp_path / "cost.json")]
    done = CliRunner().invoke(cli, [*command, "--coils", str(receivers)])
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "cost.json").read_text())
    assert row["value"] > 0
    assert row["required"] is None
    assert (row["case"]["coils"], row["case"]["calls"]) == (8, 20)
    refused = CliRunner().invoke(cli, [*command, "--coils", str(scanner)])
    assert "makes real images" in str(refused.exception)
