"""A package that bcdm knows nothing of brings operator, prior, method, sampler and metric."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import bcdm
from bcdm.benchmark.mixture import Contestant, examine
from bcdm.commands import cli
from bcdm.comparison import study
from bcdm.comparison.contenders import ContenderConfig
from bcdm.comparison.task import load_task
from bcdm.errors import InputError
from bcdm.imports import find_object

STD = 0.05


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were installed."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def get(path: str) -> Any:
    module, name = path.split(":")
    return getattr(import_module(f"outside.{module}"), name)


@pytest.fixture
def truth() -> torch.Tensor:
    power = get("priors:find_power")()
    noise = torch.randn(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    return torch.fft.ifft2(power.sqrt() * torch.fft.fft2(noise)).real


@pytest.fixture
def posterior(truth: torch.Tensor) -> bcdm.reconstruction.Posterior:
    operator = get("operators:make_second_rows")((16, 16))
    measurement = bcdm.Measurement.simulate(truth, operator, STD, seed=0)
    method = get("methods:Pulled")(get("priors:make_smooth")())
    return bcdm.reconstruct(method, measurement, samples=9, calls=20, progress=False)


def test_a_method_from_elsewhere_reconstructs(
    posterior: bcdm.reconstruction.Posterior, truth: torch.Tensor
) -> None:
    assert posterior.samples.shape == (9, 2, 1, 16, 16)
    assert torch.equal(posterior.preview, posterior.mean)
    error = (posterior.mean - truth).square().mean()
    assert error < 0.25 * (posterior.linear - truth).square().mean()
    low, high = posterior.interval(0.8)
    torch.testing.assert_close((low, high), posterior.interval(0.8, calibrated=False))
    measured = torch.arange(16) % 2 == 0
    assert float(posterior.std[..., measured, :].mean()) < float(
        posterior.std[..., ~measured, :].mean()
    )
    region = torch.zeros(16, 16, dtype=torch.bool)
    region[6:10, 6:10] = True
    assert 0 <= posterior.support(region).fraction <= 1


def test_the_trust_card_says_that_nothing_is_known_of_it(
    posterior: bcdm.reconstruction.Posterior,
) -> None:
    (card, _) = posterior.trust
    assert card.light == "amber"
    assert "what is usual for this method is not known" in card.summary
    assert {check.name: check.value for check in card.checks}["method"] == "Pulled"
    spoilt = bcdm.reconstruction.Posterior(
        posterior.model, posterior.measurement, posterior.preview, posterior.samples + 1
    )
    assert spoilt.trust[0].light == "red"
    assert spoilt.trust[0].summary.startswith("Do not rely on it: the samples do not explain")


def test_it_is_saved_drawn_and_reported(
    posterior: bcdm.reconstruction.Posterior, truth: torch.Tensor, tmp_path: Path
) -> None:
    posterior.save(tmp_path / "posterior.npz")
    with np.load(tmp_path / "posterior.npz") as stored:
        np.testing.assert_array_equal(stored["mean"], posterior.mean.numpy())
    posterior.figure(tmp_path / "figure.png", truth=truth)
    assert (tmp_path / "figure.png").stat().st_size > 1000
    posterior.report(tmp_path / "report.html", truth=truth)
    page = (tmp_path / "report.html").read_text()
    assert "reconstructed by Pulled" in page
    assert "that of the reference" in page


def test_more_can_be_said_of_it(truth: torch.Tensor, tmp_path: Path) -> None:
    operator = get("operators:make_second_rows")((16, 16))
    measurement = bcdm.Measurement.simulate(truth[:1], operator, STD, seed=0)
    method = get("methods:Pulled")(get("priors:make_smooth")())
    guest = bcdm.Guest(method, name="Mine", value_range=(-1.0, 1.0), remark="A filter.")
    posterior = bcdm.reconstruct(guest, measurement, samples=9, calls=3, progress=False)
    posterior.report(tmp_path / "report.html", truth=truth[:1])
    page = (tmp_path / "report.html").read_text()
    assert "reconstructed by Mine" in page
    assert "A filter." in page
    assert "-1 to 1 in its units" in page


def test_another_sampler_draws(truth: torch.Tensor) -> None:
    operator = get("operators:make_second_rows")((16, 16))
    measurement = bcdm.Measurement.simulate(truth[:1], operator, STD, seed=0)
    method = get("methods:Pulled")(get("priors:make_smooth")())
    drawn = [
        bcdm.reconstruct(method, measurement, samples=2, calls=5, sampler=one, progress=False)
        for one in (None, get("methods:Plain")(), bcdm.diffusion.Heun())
    ]
    direct = bcdm.sample(
        method.condition(measurement), bcdm.diffusion.Heun(), steps=3, progress=False
    )
    assert not torch.equal(drawn[0].samples, drawn[1].samples)
    # Two calls a step: three steps of Heun are the five calls that were asked for.
    assert direct.shape == drawn[2].samples[0].shape
    assert bcdm.diffusion.Heun().count_steps(5) == 3


def test_what_is_no_method_is_refused(truth: torch.Tensor) -> None:
    measurement = bcdm.Measurement(truth, bcdm.operators.Identity(), STD)
    with pytest.raises(InputError, match="Smooth is no method: it has no condition"):
        bcdm.reconstruct(get("priors:make_smooth")(), measurement)


def test_the_exam_takes_it_by_its_path_and_as_an_object(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    arguments = ["benchmark", "mixture", "--method", "outside.methods:Pulled", "--smoke"]
    arguments += ["--weight", "0.5", "--calls", "20", "--json", str(path)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads(path.read_text())
    names = [row["case"]["method"] for row in rows if row["name"] == "sliced W1 / floor"]
    assert names == ["floor", "exact posterior, ODE", "Pulled"]
    assert rows[-1]["case"]["weight"] == 0.5
    by_object = examine(
        [Contestant("Pulled", get("methods:Pulled"), (0.5,), calls=20)], smoke=True, report=str
    )
    assert [one.value for one in by_object] == [row["value"] for row in rows]
    # The prior's mean alone is far from the posterior; a correction by the data is nearer.
    ratios = {row["case"]["method"]: row["value"] for row in rows if "floor" in row["name"]}
    assert ratios["exact posterior, ODE"] < ratios["Pulled"] < 100
    # Another case may be added to the file; again, it takes the place of what was there.
    for _ in range(2):
        more = CliRunner().invoke(cli, [*arguments, "--case", "8/2", "--add"])
        assert more.exit_code == 0, more.output
        both = json.loads(path.read_text())
        assert both[: len(rows)] == rows
        assert [row["case"]["d/dy"] for row in both[len(rows) :]] == ["8/2"] * len(rows)
    lost = CliRunner().invoke(cli, ["benchmark", "mixture", "--weight", "1"])
    assert "are for --method" in str(lost.exception)


def test_an_import_path_that_leads_nowhere_is_said() -> None:
    exam = ["benchmark", "mixture", "--smoke", "--method"]
    for path, words in (
        ("nothing.here:Method", "there is no module nothing"),
        ("outside.methods:Missing", "outside.methods has no Missing"),
        ("Pulled", "is no import path"),
    ):
        done = CliRunner().invoke(cli, [*exam, path])
        assert isinstance(done.exception, InputError)
        assert words in str(done.exception)


def test_what_a_module_itself_lacks_is_no_wrong_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text("import never_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="never_installed"):
        find_object("needy:anything")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 255, (12, 16, 16), np.uint8)
    split = np.array(["train"] * 6 + ["val"] * 2 + ["test"] * 4)
    np.savez(tmp_path / "images.npz", images=images, split=split)
    base = {
        "name": "tiny",
        "data": {"path": "images.npz", "channels": 1},
        "operator": {"kind": "identity"},
        "noise_std": STD,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 2, "batch": 4, "validation_images": 2},
    }
    outside = {
        "kind": "outside.methods:Pulled",
        "prior": "outside.priors:make_smooth",
        "sampler": "outside.methods:Plain",
        "weight": [0.5, 1.0],
        "calls": 2,
    }
    task = {
        "base": "base.yaml",
        "minutes": 0.002,
        "set": ["training.warmup=1"],
        "networks": {"ours": []},
        "methods": {"ours": {"kind": "network", "network": "ours", "calls": 2}, "theirs": outside},
        "ours": "ours",
        "figure": ["ours", "theirs"],
        "samples": 3,
        "images": 4,
        "few_images": 3,
        "tune_images": 2,
        "tune_samples": 2,
        "operator": "outside.operators:make_second_rows",
        "metrics": {"largest error": "outside.metrics:find_largest_error"},
    }
    for name, content in (("base", base), ("task", task)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return tmp_path


def test_a_study_takes_all_of_it_by_their_paths(folder: Path) -> None:
    arguments = ["study", str(folder / "task.yaml"), "--data", str(folder)]
    arguments += ["--out", str(folder / "out"), "--work", str(folder / "work")]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0 or "miss what is required" in str(done.exception), done.output
    rows = json.loads((folder / "out/results.json").read_text())
    theirs = {row["name"]: row for row in rows if row["case"].get("method") == "theirs"}
    assert theirs["largest error, average"]["value"] > 0
    case = theirs["CRPS, samples"]["case"]
    assert case["made by"] == "outside.methods:Pulled"
    assert case["sampler"] == "outside.methods:Plain"
    assert case["weight"] in case["weights tried"]
    assert "largest error, average" in (folder / "out/table.md").read_text()
    # The same as objects.
    task = load_task(folder / "task.yaml")
    given = {
        "kind": get("methods:Pulled"),
        "prior": get("priors:make_smooth"),
        "sampler": get("methods:Plain"),
        "weight": (0.5, 1.0),
        "calls": 2,
    }
    methods = {**task.methods, "theirs": ContenderConfig(**given)}
    metrics = {"largest error": get("metrics:find_largest_error")}
    other = task.model_copy(update={"methods": methods, "metrics": metrics})
    records = study.run(other, folder, folder / "again", folder / "work", "", report=lambda _: None)
    found = {one.name: one.value for one in records if one.case.get("method") == "theirs"}
    assert found["largest error, average"] == theirs["largest error, average"]["value"]


def test_a_kind_that_is_none_is_refused(folder: Path) -> None:
    text = (
        (folder / "task.yaml").read_text().replace("kind: outside.methods:Pulled", "kind: pulled")
    )
    (folder / "task.yaml").write_text(text)
    with pytest.raises(InputError, match="'pulled' is neither of least_squares"):
        load_task(folder / "task.yaml")
