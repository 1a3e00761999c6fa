"""Settings: typed, overridable, and helpful when they are wrong."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
import yaml

from bcdm.benchmark.family import load_comparison
from bcdm.checkpoint.building import (
    build_augmentation,
    build_method,
    build_operator,
    build_preparation,
    build_problems,
)
from bcdm.checkpoint.kinds import Settings
from bcdm.checkpoint.settings import load_config, parse_config, parse_operator, resolve_data_path
from bcdm.comparison.task import load_task
from bcdm.data import Augmentation, Preparation
from bcdm.diffusion import DPMSolver, sample
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import PixelMask
from bcdm.problems.families import KSpace
from bcdm.shelf import find_model

ROOT = Path(__file__).resolve().parents[2]


def family(*members: dict[str, object]) -> dict[str, object]:
    return {"kind": "family", "members": list(members)}


BASE = {
    "name": "a",
    "data": {"path": "images"},
    "operator": {"kind": "identity"},
    "noise_std": 0.1,
    "training": {"steps": 10},
}


FILES = [p for p in sorted(ROOT.glob("experiments/**/*.yaml")) if p.name != "published.yaml"]
SHARED = ("common.yaml", "faces.yaml", "common-equal.yaml", "faces-equal.yaml")  # what tasks extend
TASKS = [p for p in FILES if "extends" in p.read_text() or "methods:" in p.read_text()]
TASKS = [p for p in TASKS if p.name not in SHARED]
COMPARISONS = [p for p in FILES if "cases" in yaml.safe_load(p.read_text())]
RUNS = [p for p in FILES if "training" in yaml.safe_load(p.read_text())]


def test_every_committed_file_is_of_some_kind() -> None:
    kinds = [*TASKS, *COMPARISONS, *RUNS]
    assert len(set(kinds)) == len(kinds)
    assert set(kinds) | {p for p in FILES if p.name in SHARED} == set(FILES)


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda p: p.stem)
def test_committed_comparisons_are_valid(path: Path) -> None:
    comparison = load_comparison(path)
    for case in [*comparison.cases.values(), *comparison.foreign.values()]:
        build_operator(parse_operator(case.operator), (64, 64))


@pytest.mark.parametrize("path", TASKS, ids=lambda p: f"{p.parent.name} {p.stem}")
def test_committed_tasks_are_valid(path: Path) -> None:
    task = load_task(path)
    assert task.precision != "auto", "records of experiments are of one precision, on any machine"
    for name in task.networks:
        if (model := task.find_given(name)) is not None:
            assert find_model(model).is_dir()
            continue
        assert task.find_minutes(name) > 0
        config = load_config(task.base, task.list_changes(name))
        build_method(config, (config.data.channels or 1, 64, 64))
    for method in task.methods.values():
        assert method.network is None or method.network in task.networks


@pytest.mark.parametrize("path", RUNS, ids=lambda p: f"{p.parent.name} {p.stem}")
def test_committed_experiments_are_valid(path: Path) -> None:
    config = load_config(path)
    # Files that operators are drawn from need not be there.
    build_problems(config, config.data.size or (64, 64), data=Path())
    build_method(config, (config.data.channels or 1, 64, 64))
    assert parse_config(yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))) == config


def test_overrides(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(BASE))
    config = load_config(path, ["training.steps=5", "network.width=8", "name=b"])
    assert (config.training.steps, config.network.width, config.name) == (5, 8, "b")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nois_std": 1}, "did you mean 'noise_std'"),
        ({"training": {"steps": 10, "leaning_rate": 1}}, "did you mean 'learning_rate'"),
        ({"training": {"steps": 10, "wdth": 64}}, "unknown setting training.wdth$"),
        ({"network": {"wdth": 64}}, "did you mean 'width'"),
        (
            {"operator": family({"kind": "k_space", "pattern": ["lines"]})},
            "did you mean 'patterns'",
        ),
        ({"operator": family({"kind": "k_space", "patterns": ["line"]})}, "k_space.patterns"),
        ({"operator": family({"kind": "holes", "hidden": [0.5, 0.1]})}, "holes: hidden"),
        ({"operator": family({"kind": "spots"})}, "operator.family.members"),
        ({"operator": {"kind": "family", "members": []}}, "members"),
        ({"network": {"iteration": 2}}, "did you mean 'iterations'"),
        ({"network": {"iterations": 0}}, "network.iterations"),
        ({"network": {"width": 0}}, "setting network: width, blocks"),
        ({"network": {"progressive_input": "x"}}, "network.progressive_input"),
        ({"parameterisation": {"statistics": "wiener"}}, "did you mean 'statistic'"),
        ({"parameterisation": {"statistic": "wienr"}}, "parameterisation.statistic"),
        ({"parameterisation": {"prior_std": 0.0}}, "setting parameterisation: weight and prior"),
        ({"parameterisation": {"prior_std": float("nan")}}, "parameterisation.prior_std"),
        ({"training": {"steps": 0}}, "training.steps"),
        ({"training": {"steps": 5, "log_every": 0}}, "log_every"),
        ({"training": {"steps": 5, "clip": 0}}, "training.clip"),
        ({"training": {"steps": 5, "ema": 1}}, "training.ema"),
        ({"training": {"steps": 5, "warmup": -1}}, "training.warmup"),
        ({"training": {"steps": 5, "betas": [0.9, 1.5]}}, "training.betas"),
        ({"operator": {"kind": "fourier_mask", "acceleration": 0}}, "acceleration"),
        ({"noise_std": -1}, "noise_std"),
        ({"operator": {"kind": "blur"}}, "operator"),
        ({"operator": {"kind": "centre_box"}}, "box"),
        ({"operator": {"kind": "radon"}}, "angles"),
        ({"operator": {"kind": "radon", "angles": 0}}, "angles"),
        ({"operator": {"kind": "radon", "angles": 9, "center": 3}}, "did you mean 'centre'"),
    ],
)
def test_mistakes_are_one_line(change: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_config(BASE | change)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(InputError, match="not YAML"):
        load_config(tmp_path / "bad.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(InputError, match="no settings"):
        load_config(tmp_path / "empty.yaml")
    (tmp_path / "good.yaml").write_text(yaml.safe_dump(BASE))
    with pytest.raises(InputError, match="--set"):
        load_config(tmp_path / "good.yaml", ["steps"])
    with pytest.raises(InputError, match="not YAML"):
        load_config(tmp_path / "good.yaml", ["training.steps=["])


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BCDM_DATA", raising=False)
    with pytest.raises(InputError, match="BCDM_DATA"):
        resolve_data_path("images", None)
    monkeypatch.setenv("BCDM_DATA", str(tmp_path))
    assert resolve_data_path("images", None) == tmp_path / "images"
    assert resolve_data_path("images", "/elsewhere") == Path("/elsewhere/images")


CHANGED: dict[str, object] = {
    "size": (8, 12),
    "channels": 3,
    "value_range": (0.0, 2.0),
    "crop": (1, 2, 20, 24),
    "source_range": (0.0, 9.0),
    "flip": True,
    "shift": 3,
    "lesions": 0.25,
    "contrast": 0.5,
    "turn": 7.0,
    "zoom": 0.125,
    "phase": True,
    "shading": 0.3,
}


def test_what_is_done_to_images_is_what_settings_say() -> None:
    """Every field of both has a setting of its name, with its default, and gets what it says."""
    plain = {"path": "images", "source_range": (0.0, 255.0)}
    for data, expected in ((plain, {}), (plain | CHANGED, CHANGED)):
        config = parse_config(BASE | {"data": data}).data
        for kind, built in (
            (Preparation, build_preparation(config)),
            (Augmentation, build_augmentation(config)),
        ):
            named = {field.name for field in fields(kind)}
            assert named <= CHANGED.keys()
            assert built == kind(**{k: v for k, v in expected.items() if k in named})  # type: ignore[arg-type]


def test_the_papers_network_has_two_experts() -> None:
    config = parse_config(
        BASE
        | {
            "network": {
                "width": 8,
                "multipliers": [1, 2],
                "iterations": 4,
                "experts_below_t": 50,
            },
            "parameterisation": {"statistic": "whitened", "output": "image"},
        }
    )
    method = build_method(config, (1, 16, 16))
    single = build_method(
        parse_config(BASE | {"network": {"width": 8, "multipliers": [1, 2]}}), (1, 16, 16)
    )
    count = [sum(p.numel() for p in m.network.parameters()) for m in (method, single)]
    assert count[0] == 2 * count[1]
    # It runs, at levels on both sides of the split.
    mask = PixelMask(torch.arange(256).reshape(16, 16) % 3 == 0)
    measurement = Measurement(torch.zeros(1, 1, 16, 16), mask, 0.1)
    drawn = sample(method.condition(measurement), DPMSolver(), steps=3, indices=range(2))
    assert drawn.shape == (2, 1, 16, 16)


def test_nothing_measured_is_an_unconditional_model() -> None:
    """An untrained network gives zero, so the mean is that of a white prior given x_t alone."""
    config = parse_config(
        BASE | {"operator": {"kind": "nothing"}, "network": {"width": 8, "multipliers": [1, 2]}}
    )
    method = build_method(config, (1, 16, 16))
    operator = build_operator(config.operator, (16, 16))  # type: ignore[arg-type]
    prior = method.condition(Measurement(torch.zeros(1, 1, 16, 16), operator, 1.0))
    level = prior.schedule.level(torch.tensor([1.0]).double())
    x_t = torch.ones(3, 1, 16, 16)
    spread = config.parameterisation.prior_std**2
    factor = spread * level.alpha / (spread * level.alpha**2 + level.sigma**2)
    torch.testing.assert_close(prior(x_t, level), factor.float() * x_t)


def test_settings_that_came_later_are_left_out_where_they_say_nothing() -> None:
    """Stored settings, and the hashes made of them, are those of versions that knew none."""
    text = (ROOT / "experiments/families/mri64.yaml").read_text()
    raw = yaml.safe_load(text)
    stored = parse_config(raw).model_dump(mode="json")
    assert "lesions" not in stored["data"]
    assert "nothing" not in stored["operator"]
    assert list(stored["operator"]["members"][0]) == ["kind", "acceleration", "patterns", "centre"]
    raw["data"]["lesions"], raw["operator"]["nothing"] = 0.3, 0.1
    stored = parse_config(raw).model_dump(mode="json")
    assert stored["data"]["lesions"] == 0.3
    assert stored["operator"]["nothing"] == 0.1


def test_members_of_a_family_are_what_draws() -> None:
    """One class holds the settings and draws; what came later is stored where it is used."""
    given = {"kind": "k_space", "acceleration": [2, 4], "patterns": ["lines"], "centre": 0.08}
    config = parse_config(BASE | {"operator": family(given)})
    assert config.operator.members == (KSpace((2.0, 4.0), ("lines",)),)
    assert config.model_dump(mode="json")["operator"] == family(given)
    later = parse_config(BASE | {"operator": family(given | {"middle": [0.3, 0.4]})})
    assert later.model_dump(mode="json")["operator"]["members"][0]["middle"] == [0.3, 0.4]
    assert parse_config(later.model_dump(mode="json")) == later


@pytest.mark.parametrize("name", ["ixi64-mri.yaml", "ixi64-mri-scanner.yaml"])
def test_settings_are_told_in_one_line(name: str) -> None:
    config = load_config(Path(name))
    assert repr(config).startswith("RunConfig(name='ixi64-mri")
    inside = [getattr(config, key) for key in type(config).model_fields]
    texts = [repr(one) for one in (config, *inside) if isinstance(one, Settings)]
    assert len(texts) >= 5
    assert [text for text in texts if len(text) > 120 or "\n" in text] == []


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        ("{kind: gaussian_blur, std: 1000000}", "leaves nothing of 16 x 16 pixels"),
        ("{kind: radon, angles: 1000000000}", "too many to measure of 16 x 16 pixels"),
        ("{kind: radon, angles: 9, detectors: 1000000000}", "too many to measure"),
    ],
)
def test_operators_far_larger_than_the_image_are_refused(operator: str, words: str) -> None:
    """Before memory is taken for them: a service is sent such settings."""
    with pytest.raises(InputError, match=words):
        build_operator(parse_operator(operator), (16, 16))
