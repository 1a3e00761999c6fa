"""What is here to work with, as `bcdm doctor` and `bcdm models` say it."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from bcdm import machine
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.shelf import list_models


def test_doctor_says_what_there_is() -> None:
    done = CliRunner().invoke(cli, ["doctor", "--quick"])
    assert done.exit_code == 0, done.output
    for word in (torch.__version__, "processor", "bfloat16", "cpu", "extra formats"):
        assert word in done.output


def test_models_lists_what_is_shipped() -> None:
    done = CliRunner().invoke(cli, ["models"])
    assert done.exit_code == 0, done.output
    for name in list_models():
        assert f"{name}: images " in done.output
    assert "ixi64-mri-scanner: images 1x64x64" in done.output
    assert "also a prior" in done.output


@pytest.mark.parametrize("content", ["{}", "[]", '{"config": {}, "facts": {}}', "{", b"\xe9"])
def test_a_broken_model_is_one_line_beside_the_others(
    content: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    raw = content.encode() if isinstance(content, str) else content
    (tmp_path / "own/config.json").write_bytes(raw)
    monkeypatch.setenv("BCDM_MODELS", str(tmp_path))
    done = CliRunner().invoke(cli, ["models"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("own")]
    assert line.startswith("own: BROKEN")
    assert "ixi64-mri-scanner: images 1x64x64" in done.output


def test_settings_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"name: \xe9")
    done = CliRunner().invoke(cli, ["settings", str(tmp_path / "mine.yaml")])
    assert isinstance(done.exception, InputError)
    assert "no text in UTF-8" in str(done.exception)


@pytest.mark.parametrize("name", ["calls", "trust", "lesions", "patterns", "noise"])
def test_fewer_than_one_image_are_refused(name: str) -> None:
    done = CliRunner().invoke(cli, ["benchmark", name, "ixi64-mri", "--limit", "-1"])
    assert done.exit_code == 2
    assert "-1 is not in the range x>=1" in done.output


@pytest.mark.parametrize(
    ("flags", "precision", "chosen"),
    [
        ({"amx_bf16"}, "auto", "bfloat16"),
        ({"avx512_bf16"}, "auto", "bfloat16"),
        ({"avx2"}, "auto", "float32"),
        ({"avx2"}, "float32", "float32"),
        ({"amx_bf16"}, "bfloat16", "bfloat16"),
    ],
)
def test_precision_is_what_the_processor_has(
    flags: set[str], precision: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_read_processor", lambda: ("a processor", frozenset(flags)))
    assert machine.choose_precision(precision, torch.device("cpu")) == chosen
    with machine.autocast("cpu", precision), machine.run_network(torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == getattr(torch, chosen)


def test_slow_precision_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine, "_read_processor", lambda: ("a processor", frozenset()))
    machine._say_once.cache_clear()
    for _ in range(2):
        assert machine.choose_precision("bfloat16", torch.device("cpu")) == "bfloat16"
    assert [one.getMessage() for one in caplog.records] == [
        "cpu here has no fast bfloat16: float32 is faster"
    ]


def test_devices() -> None:
    assert machine.find_device("cpu") == torch.device("cpu")
    assert machine.find_device("auto").type in {one.split(":")[0] for one in machine.list_devices()}
    with pytest.raises(InputError, match="is no device"):
        machine.find_device("elsewhere")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="there is no cuda here"):
            machine.find_device("cuda")
