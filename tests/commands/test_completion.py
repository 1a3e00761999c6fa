"""Names that a shell completes: of models and settings, in no time, and paths where none fits."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from bcdm.commands import cli
from bcdm.shelf import list_models, list_settings


def complete(*words: str) -> list[CompletionItem]:
    """What a shell would offer for the last of the words."""
    shell = ShellComplete(cli, {}, "bcdm", "_BCDM_COMPLETE")
    return shell.get_completions(list(words[:-1]), words[-1])


@pytest.mark.parametrize(
    "words",
    [
        ["reconstruct", "scan.h5", "--model"],
        ["archive", "run", "in", "out", "--model"],
        ["archive", "verify", "out", "--model"],
        ["verify", "out", "--model"],
        ["serve", "--model"],
        ["evaluate"],
        ["calibrate"],
        ["specialise"],
        ["benchmark", "trust"],
        ["benchmark", "calls"],
        ["benchmark", "lesions"],
        ["benchmark", "masks"],
        ["benchmark", "patterns"],
        ["benchmark", "patterns", "brain-mri", "--rival"],
        ["benchmark", "noise"],
        ["benchmark", "scans", "--model"],
        ["benchmark", "service", "--model"],
        ["benchmark", "overhead", "--coils"],
    ],
    ids=" ".join,
)
def test_models_are_completed(words: list[str]) -> None:
    found = [one.value for one in complete(*words, "ixi64")]
    assert found == [name for name in list_models() if name.startswith("ixi64")]
    assert "ixi64-mri" in found
    (path,) = complete(*words, "runs/")
    assert (path.type, path.value) == ("dir", "runs/")


@pytest.mark.parametrize("words", [["train"], ["study"], ["settings"], ["benchmark", "family"]])
def test_settings_are_completed(words: list[str]) -> None:
    found = [one.value for one in complete(*words, "paper/mri/")]
    assert found == [name for name in list_settings() if name.startswith("paper/mri/")]
    assert "paper/mri/task.yaml" in found
    (path,) = complete(*words, "./mine")
    assert (path.type, path.value) == ("file", "./mine")


def test_an_own_model_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/config.json").touch()
    monkeypatch.setenv("BCDM_MODELS", str(tmp_path))
    assert [one.value for one in complete("evaluate", "ow")] == ["own"]


def test_a_shell_is_answered_without_torch() -> None:
    code = """
import os, sys
sys.argv = ["bcdm"]
os.environ |= {
    "_BCDM_COMPLETE": "bash_complete", "COMP_WORDS": "bcdm evaluate ixi64-mri8x-", "COMP_CWORD": "2"
}
from bcdm.commands import main
try:
    main()
finally:
    assert not {"torch", "numpy"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["plain,ixi64-mri8x-small"]
