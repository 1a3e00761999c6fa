"""A study from a file of settings to records and learning curves, and what a restart keeps."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
import yaml
from click.testing import CliRunner
from tests.comparison.studies import DUAL, read, run

from bcdm.assessment import images
from bcdm.checkpoint import load
from bcdm.commands import cli
from bcdm.comparison.budget import Budget, write_budget
from bcdm.comparison.contenders import ContenderConfig, expand_grid
from bcdm.comparison.engine import choose_shown
from bcdm.comparison.task import load_task
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import CONTROL
from bcdm.operators import PixelMask
from bcdm.shelf import find_settings


def pretend_tested(rows: list[int], whole: int) -> images.Tested:
    return cast(images.Tested, SimpleNamespace(rows=rows, whole=whole))


def test_networks_are_trained_and_compared_alike(folder: Path) -> None:
    done = run(folder, "--device", "cpu")
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    rows = read(folder)
    assert {row["case"].get("method") for row in rows} == {CONTROL, "plain", "dual", None}
    over = {r["case"]["method"]: r["value"] for r in rows if r["name"].startswith("CRPS over")}
    assert over.keys() == {CONTROL, "plain", "dual"}
    assert over[CONTROL] == 1
    crps = {r["case"]["method"]: r["value"] for r in rows if r["name"] == "CRPS, samples"}
    assert over["plain"] == pytest.approx(crps["plain"] / crps[CONTROL])
    table = (folder / "out/table.md").read_text().splitlines()
    assert table[0].startswith("| method | calls | CRPS | CRPS over the control's | ")
    assert table[2].startswith(f"| {CONTROL} | 0 | ")
    judged = {row["name"]: row["case"] for row in rows if row["required"]}
    assert set(judged) == {"CRPS gained over another", "one-call PSNR gained over another (dB)"}
    assert all(case["images"] == 3 for case in judged.values())
    for name in ("curves.png", "panel.png"):
        assert (folder / "out" / name).stat().st_size > 1000
    budgets = json.loads((folder / "out/budgets.json").read_text())
    assert {name: given["minutes"] for name, given in budgets.items()} == {
        "plain": 0.002, "dual": 0.003,
    }  # fmt: skip
    # Nothing is done twice.
    weights = sorted((folder / "work/networks").glob("*/model/model.safetensors"))
    assert len(weights) == 2
    before = [path.stat().st_mtime_ns for path in weights]
    run(folder)
    assert [path.stat().st_mtime_ns for path in weights] == before
    assert [r["value"] for r in read(folder)] == [r["value"] for r in rows]


def test_a_network_that_is_there_is_not_trained(folder: Path) -> None:
    run(folder)
    trained = next((folder / "work/networks").glob("*/model"))
    content = yaml.safe_load((folder / "study.yaml").read_text())
    content["networks"] |= {"plain": [f"model={trained}"]}
    content["methods"] = {"plain": None}
    content |= {"beaten": [], "figure": ["plain"], "minutes": 1e9}
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    arguments = ["study", str(folder / "study.yaml"), "--data", str(folder)]
    arguments += ["--out", str(folder / "given"), "--work", str(folder / "elsewhere")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    assert not (folder / "elsewhere/networks").exists()
    rows = json.loads((folder / "given/results.json").read_text())
    assert {row["case"].get("method") for row in rows} == {CONTROL, "plain", None}
    assert not (folder / "given/curves.png").exists()
    content["networks"] |= {"plain": [f"model={folder / 'none'}"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    assert "no model" in str(CliRunner().invoke(cli, arguments).exception)


def test_what_is_not_there_is_said_before_anything_is_trained(folder: Path) -> None:
    content = yaml.safe_load((folder / "study.yaml").read_text())
    content["methods"] = {"plain": None, "mine": {"kind": "json:none", "calls": 2}}
    content |= {"beaten": [], "figure": ["plain"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    assert "json has no none" in str(run(folder).exception)
    assert not (folder / "work").exists()


@pytest.mark.parametrize("name", ["parameterisation/inpaint.yaml", "paper/mri/task.yaml"])
def test_settings_that_are_copied_name_the_same_others(tmp_path: Path, name: str) -> None:
    copied = CliRunner().invoke(cli, ["settings", name]).output
    (tmp_path / "mine.yaml").write_text(copied)
    both = [load_task(path) for path in (tmp_path / "mine.yaml", find_settings(name))]
    mine, known = (one.model_copy(update={"base": one.base.resolve()}) for one in both)
    assert mine == known


def test_a_task_that_is_no_text_is_one_line(folder: Path) -> None:
    (folder / "study.yaml").write_bytes(b"base: \xe9")
    found = str(run(folder).exception)
    assert "is no task" in found
    assert "\n" not in found


@pytest.mark.parametrize("device", ["elsewhere", "meta"])
def test_an_unknown_device_is_refused_before_anything_is_trained(folder: Path, device: str) -> None:
    done = run(folder, "--device", device)
    assert isinstance(done.exception, InputError), done.output
    assert "choose among ['cpu'" in str(done.exception)
    assert not list((folder / "work").glob("networks/*/model"))


def test_fid_where_its_weights_are_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network itself needs torch-fidelity (tests/evaluation/test_inception.py): means here."""
    run(folder)
    assert "FID" not in {row["name"] for row in read(folder)}
    weights = folder / "weights.pth"
    weights.write_bytes(b"any")

    class Means:
        features = staticmethod(lambda images: images.mean(-1).flatten(1))

    monkeypatch.setattr("bcdm.assessment.metrics.Inception.load", lambda path: Means)
    run(folder, "--fid", str(weights))
    found = {row["case"]["method"]: row for row in read(folder) if row["name"] == "FID"}
    assert set(found) == {CONTROL, "plain", "dual"}
    digest = hashlib.sha256(b"any").hexdigest()
    assert all(digest.startswith(row["case"]["FID's weights"]) for row in found.values())
    assert all(row["value"] > 0 for row in found.values())
    assert "| FID |" in (folder / "out/table.md").read_text()
    assert "FID & " in (folder / "out/table.tex").read_text()


def test_a_task_adds_to_what_it_extends(folder: Path) -> None:
    task = load_task(folder / "study.yaml")
    assert task.set == ("training.warmup=1", "parameterisation.prior_std=0.4")
    assert set(task.networks) == {"plain", "dual", "never used"}
    assert task.base == folder / "base.yaml"
    few = {"extends": "study.yaml", "methods": {"dual": None}, "ours": "dual", "beaten": []}
    (folder / "few.yaml").write_text(yaml.safe_dump(few | {"figure": ["dual"]}))
    assert load_task(folder / "few.yaml").methods == {"dual": task.methods["dual"]}


def test_a_prior_does_not_say_what_is_measured(folder: Path) -> None:
    """A study of a prior alone would measure nothing: it says so before it trains."""
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["networks"]["plain"] = ["operator={kind: nothing}", "noise_std=1.0"]
    del study["operator"]
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    assert "give operator and noise_std" in str(run(folder).exception)
    assert not list(folder.glob("**/log.jsonl"))


def test_a_study_without_networks_says_what_it_needs(folder: Path) -> None:
    study = yaml.safe_load((folder / "study.yaml").read_text())
    own = {"kind": "least_squares"}
    study = {"base": "base.yaml", "minutes": 1, "networks": {}, "methods": {"mine": own}} | {
        "ours": "mine", "figure": ["mine"], "operator": study["operator"], "noise_std": 0.05,
    }  # fmt: skip
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    assert "a study tests on the data of a network" in str(run(folder).exception)


def test_fewer_images_than_asked_for_are_enough(folder: Path) -> None:
    common = yaml.safe_load((folder / "common.yaml").read_text())
    (folder / "common.yaml").write_text(yaml.safe_dump(common | {"images": 500, "few_images": 400}))
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    assert (folder / "out/panel.png").stat().st_size > 1000


def test_means_are_clipped_where_settings_say_so(folder: Path) -> None:
    run(folder)
    models = [load(one / "model") for one in (folder / "work/networks").iterdir()]
    (model,) = (one for one in models if one.config.parameterisation.statistic == "wiener")
    bright = torch.full((4, 1, 16, 16), 3.0)
    measurement = Measurement.simulate(bright, PixelMask(torch.ones(16, 16)), 0.1, seed=0)
    means = {}
    for clip in (False, True):
        config = ContenderConfig(kind="network", network="any", calls=2, clip=clip)
        (one,) = expand_grid(config, {"any": model})
        found = one.estimate(measurement, range(4), 0)
        assert found is not None
        means[clip] = found
    assert means[False].max() > 1
    assert torch.equal(means[True], means[False].clamp(-1, 1))


@pytest.mark.parametrize("changes", [["training.seed=1"], [*DUAL, "steps=network:plain"]])
def test_networks_that_cost_as_much_get_the_same_steps(folder: Path, changes: list[str]) -> None:
    """A step of theirs takes as long, whatever else the machine did while one was timed."""
    study = yaml.safe_load((folder / "study.yaml").read_text())
    study["networks"]["again"] = changes
    study["methods"] = {
        name: {"kind": "network", "network": name, "calls": 2} for name in ("plain", "again")
    }
    study |= {"beaten": [], "figure": ["plain", "again"]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    write_budget(folder / "out/budgets.json", "plain", Budget(0.002, 10.0, 3))
    run(folder)
    assert json.loads((folder / "out/budgets.json").read_text())["again"]["steps"] == 3


def test_few_images_are_among_the_many(folder: Path) -> None:
    """Methods are paired by image: the images of fewer are images of more."""
    assert images.choose_evenly(5, 9) == [0, 1, 2, 3, 4]
    assert images.choose_evenly(128, 64)[-1] == 127
    task = load_task(folder / "study.yaml")
    for whole in (2, 5, 7):  # there may be fewer than are asked for
        few = images.choose_evenly(whole, 3)
        shown = choose_shown(task, pretend_tested(few, whole))
        every = choose_shown(task, pretend_tested(list(range(whole)), whole))
        assert [few[k] for k in shown] == every
    done = run(folder)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    # The truth's chi-square depends on image and noise alone.
    truth = {
        row["case"]["method"]: row["value"]
        for row in read(folder)
        if row["name"] == "chi-square per degree of freedom, truth"
    }
    task = yaml.safe_load((folder / "common.yaml").read_text())
    task["methods"]["plain"]["few"] = True
    (folder / "common.yaml").write_text(yaml.safe_dump(task))
    run(folder)
    again = {
        row["case"]["method"]: row["value"]
        for row in read(folder)
        if row["name"] == "chi-square per degree of freedom, truth"
    }
    assert truth["plain"] != truth["dual"]
    assert again["plain"] == truth["dual"]


def test_a_family_model_asks_for_an_operator(folder: Path) -> None:
    arguments = ["--data", str(folder), "--out", str(folder / "run")]
    done = CliRunner().invoke(cli, ["train", str(folder / "base.yaml"), *arguments])
    assert done.exit_code == 0, done.output
    card = (folder / "run/model/README.md").read_text()
    assert "kind holes" in card
    assert "kind blocks" in card
    done = CliRunner().invoke(
        cli, ["evaluate", str(folder / "run/model"), "--data", str(folder), "--noise-std", "0.1"]
    )
    assert "serves a family" in str(done.exception)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{base: x, minute: 3}", "is no task"),
        ("[1]", "holds no settings"),
        ("{extends: none.yaml}", "is no task"),
        ("{extends: common.yaml, base: base.yaml, beaten: [none]}", "compares no method"),
        (
            "{extends: common.yaml, base: base.yaml, networks: {dual: ['steps=network:none']}}",
            "has no network",
        ),
        (
            "{extends: common.yaml, base: base.yaml, networks: {dual: ['branch=network:none']}}",
            "has no network",
        ),
        (
            "{extends: common.yaml, base: base.yaml, networks: {"
            "a: ['steps=network:b'], b: ['training.start_from=network:a']}}",
            "networks wait for each other: ['a', 'b', 'a']",
        ),
        (
            "{extends: common.yaml, base: base.yaml, networks: {"
            "plain: ['model=mine', 'training.seed=1']}}",
            "network 'plain' is a model that is there: no more changes",
        ),
        ("{extends: common.yaml, base: base.yaml, methods: [plain]}", "methods maps names to"),
    ],
)
def test_mistakes_are_one_line(folder: Path, content: str, said: str) -> None:
    (folder / "study.yaml").write_text(content)
    found = str(run(folder).exception)
    assert said in found
    assert "\n" not in found
