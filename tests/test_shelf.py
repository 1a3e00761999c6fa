"""Names of models and settings lead to files: in a checkout, a wheel, and a second package."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bcdm import shelf
from bcdm.checkpoint.settings import load_config
from bcdm.commands import cli
from bcdm.comparison.study import find_task
from bcdm.comparison.task import load_task
from bcdm.errors import InputError

SHIPPED = (
    "brain-mri",
    "faces64",
    "faces64-inpaint",
    "faces64-prior",
    "ixi64-mri",
    "ixi64-mri-scanner",
    "ixi64-mri8x",
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outside of the checkout, as who installed a wheel is."""
    monkeypatch.chdir(tmp_path)
    shelf.list_settings.cache_clear()
    yield
    shelf.list_settings.cache_clear()


@pytest.mark.parametrize("name", SHIPPED)
def test_settings_of_a_model_have_its_name(name: str) -> None:
    assert load_config(f"{name}.yaml").name == name
    assert shelf.find_settings(name) == shelf.find_settings(f"{name}.yaml")


@pytest.mark.parametrize("task", ["mri", "deblur", "sr", "inpaint", "denoise"])
def test_tasks_of_the_paper_have_a_name(task: str) -> None:
    found = load_task(find_task(task))
    assert found.base.is_file()
    assert find_task(f"paper/{task}/task.yaml") == find_task(task)


def test_of_two_files_for_a_model_the_plain_one_is_meant() -> None:
    assert shelf.find_settings("brain-mri.yaml").name == "brain-mri.yaml"
    assert shelf.find_settings("scans/brain-mri.large.yaml").name == "brain-mri.large.yaml"


def test_a_file_comes_before_a_name() -> None:
    Path("faces64.yaml").write_text("name: mine")
    assert shelf.find_settings("faces64.yaml") == Path("faces64.yaml")


def test_unknown_settings() -> None:
    with pytest.raises(InputError, match="neither a file nor listed by `bcdm settings`"):
        shelf.find_settings("faces65.yaml")
    done = CliRunner().invoke(cli, ["train", "faces65.yaml"])
    assert isinstance(done.exception, InputError)


def test_settings_are_listed_and_shown() -> None:
    done = CliRunner().invoke(cli, ["settings"])
    assert done.exit_code == 0, done.output
    groups = {line for line in done.output.splitlines() if not line.startswith(" ")}
    assert groups == {"bcdm train", "bcdm study", "bcdm benchmark family"}
    names = {line.split()[0] for line in done.output.splitlines() if line.startswith(" ")}
    assert {f"{name}.yaml" for name in SHIPPED} <= names
    assert {"paper/mri/task.yaml", "families/mri64.cases.yaml"} <= names
    assert {f"paper/{task}/equal.yaml" for task in ("mri", "sr", "inpaint")} <= names
    shared = {f"paper/{name}.yaml" for name in ("common", "faces", "common-equal", "faces-equal")}
    assert not names & {*shared, "paper/published.yaml"}
    shown = CliRunner().invoke(cli, ["settings", "ixi64-mri"])
    assert shown.output == shelf.find_settings("ixi64-mri").read_text()
    assert "bcdm settings" in CliRunner().invoke(cli, ["train", "--help"]).output


def test_a_wheel_holds_settings_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bcdm/settings/a").mkdir(parents=True)
    (tmp_path / "bcdm/settings/a/b.yaml").write_text("# What for.\nname: mine\ntraining: {}\n")
    monkeypatch.setattr(shelf, "_PACKAGE", tmp_path / "bcdm")
    monkeypatch.setattr(shelf, "_CHECKOUT", tmp_path / "none")
    assert set(shelf.list_settings()) == {"mine.yaml", "a/b.yaml"}
    assert shelf.find_settings("mine").read_text().startswith("# What for.")


def put_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_models_of_a_wheel_and_of_the_second_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BCDM_MODELS", raising=False)
    monkeypatch.setattr(shelf, "_PACKAGE", tmp_path / "bcdm")
    monkeypatch.setattr(shelf, "_CHECKOUT", tmp_path / "none")
    own = put_model(tmp_path / "bcdm/models/own")
    assert shelf.list_models() == ["own"]
    with pytest.raises(InputError, match=r"one of \['own'\]; the package bcdm-models has more"):
        shelf.find_model("more")
    more = put_model(tmp_path / "site/bcdm_models/more")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    importlib.invalidate_caches()
    assert shelf.list_models() == ["more", "own"]
    assert (shelf.find_model("own"), shelf.find_model("more")) == (own, more)
    with pytest.raises(InputError, match=r"one of \['more', 'own'\]$"):
        shelf.find_model("none")
