"""Stored operators come back the same, and nothing else is accepted."""

import json

import pytest
import torch

from bcdm.checkpoint import (
    load,
    load_operator,
    pull_model,
    push_model,
    save_model,
    save_operator,
)
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.settings import parse_config
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Dense,
    FourierMask,
    Identity,
    LinearOperator,
    MatrixFree,
    PixelMask,
)

MASK = torch.arange(16).reshape(4, 4) % 3 == 0


@pytest.mark.parametrize(
    "operator",
    [
        Identity(),
        PixelMask(MASK),
        BlockMean((2, 4), "mean"),
        FourierMask(MASK, real=True, centered=False),
        CircularBlur(torch.tensor([[0.2, 0.5, 0.3]]), (4, 4)),
        Dense(torch.arange(32.0).reshape(2, 16), (1, 4, 4)),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_round_trip(operator: LinearOperator, tmp_path) -> None:
    save_operator(operator, tmp_path / "operator.safetensors")
    loaded = load_operator(tmp_path / "operator.safetensors")
    written = (tmp_path / "operator.safetensors").read_bytes()
    for _ in range(5):
        save_operator(operator, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == written
    plain = tmp_path / "plain"
    plain.touch()  # others may read it where they may read any file
    assert (tmp_path / "operator.safetensors").stat().st_mode == plain.stat().st_mode
    assert type(loaded) is type(operator)
    assert loaded.settings() == operator.settings()
    x = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.forward(x), operator.forward(x))
    assert torch.equal(loaded.solve(1.0, 2.0, x), operator.solve(1.0, 2.0, x))


def test_operators_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PixelMask(MASK).mask = ~MASK  # type: ignore[misc]


def test_refusals(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot be stored"):
        save_operator(MatrixFree(lambda x: x, shape=(2,)), tmp_path / "a")
    (tmp_path / "b").write_bytes(b"not safetensors")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "b")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "absent")


def tiny_model(folder, **training) -> None:
    config = parse_config({
        "name": "tiny",
        "data": {"path": "images", "channels": 1, "source_range": [0, 255]},
        "operator": {"kind": "fourier_mask", "acceleration": 4},
        "noise_std": 0.05,
        "network": {"width": 8, "multipliers": [1, 2], "attention": []},
        "training": {"steps": 1, **training},
    })  # fmt: skip
    method = build_method(config, (1, 16, 16))
    with torch.no_grad():
        for parameter in method.network.parameters():
            parameter += 0.01
    operator = build_operator(config.operator, (16, 16))
    save_model(folder, config, method.network, operator, (1, 16, 16), {"training_images": 3})


def test_model_round_trip(tmp_path) -> None:
    tiny_model(tmp_path)
    model = load(tmp_path)
    assert model.config.name == "tiny"
    x = torch.randn(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    measurement = Measurement.simulate(x, model.operator, 0.05, seed=0)
    mean = posterior_mean(model.condition(measurement))
    assert mean.shape == x.shape
    again = posterior_mean(load(tmp_path).condition(measurement))
    assert torch.equal(mean, again)
    card = (tmp_path / "README.md").read_text()
    assert "fourier_mask" in card
    assert model.facts["hashes"]["model.safetensors"] in card


def test_half_precision_storage(tmp_path) -> None:
    tiny_model(tmp_path / "full")
    tiny_model(tmp_path / "half", weights="float16")
    sizes = [(tmp_path / k / "model.safetensors").stat().st_size for k in ("full", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    full, half = (load(tmp_path / k).method.network.state_dict() for k in ("full", "half"))
    assert all(torch.allclose(full[n], half[n], rtol=1e-3, atol=1e-6) for n in full)
    assert all(t.dtype == torch.float32 for t in half.values())


def test_damage_is_detected(tmp_path) -> None:
    tiny_model(tmp_path)
    weights = bytearray((tmp_path / "model.safetensors").read_bytes())
    weights[-3] ^= 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(InputError, match=r"model.safetensors is damaged"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c | {"format": 99}, "update bcdm"),
        (lambda c: c | {"config": c["config"] | {"later": 1}}, "unknown setting"),
        (lambda c: c | {"config": c["config"] | {"noise_std": 0.5}}, "settings is damaged"),
        (lambda c: {k: v for k, v in c.items() if k != "shape"}, "incomplete"),
        (lambda c: [], "config.json"),
    ],
)
def test_unknown_models_are_refused(tmp_path, change, words) -> None:
    tiny_model(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(change(content)))
    with pytest.raises(InputError, match=words) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_model_names_what_there_is(tmp_path, monkeypatch) -> None:
    tiny_model(tmp_path / "mine")
    monkeypatch.setenv("BCDM_MODELS", str(tmp_path))
    assert load("mine").config.name == "tiny"
    with pytest.raises(InputError, match="mine"):
        load("theirs")


def test_hub_is_reached_with_the_right_files(tmp_path, monkeypatch) -> None:
    """The Hub itself cannot be reached in tests: its two calls are stood in for."""
    hub = pytest.importorskip("huggingface_hub")
    tiny_model(tmp_path)
    seen: dict[str, object] = {}

    class Api:
        def create_repo(self, name: str, exist_ok: bool) -> None:
            seen["created"] = name

        def upload_folder(self, repo_id: str, folder_path: str) -> str:
            seen["uploaded"] = (repo_id, folder_path)
            return "url"

    def download(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        seen["patterns"] = allow_patterns
        return str(tmp_path)

    monkeypatch.setattr(hub, "HfApi", Api)
    monkeypatch.setattr(hub, "snapshot_download", download)
    assert push_model(tmp_path, "someone/tiny") == "url"
    assert seen["uploaded"] == ("someone/tiny", str(tmp_path))
    assert load(pull_model("someone/tiny")).config.name == "tiny"
    assert "*.safetensors" in seen["patterns"]
    with pytest.raises(InputError):
        push_model(tmp_path / "nothing", "someone/tiny")
