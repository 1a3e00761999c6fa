"""Stored models come back the same, and nothing else is accepted."""

import json

import pytest
import torch

from bcdm.checkpoint import (
    load,
)
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.measurement import Measurement


def test_model_round_trip(tiny_model, tmp_path) -> None:
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


def test_half_precision_storage(tiny_model, tmp_path) -> None:
    tiny_model(tmp_path / "full")
    tiny_model(tmp_path / "half", weights="float16")
    sizes = [(tmp_path / k / "model.safetensors").stat().st_size for k in ("full", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    full, half = (load(tmp_path / k).method.network.state_dict() for k in ("full", "half"))
    assert all(torch.allclose(full[n], half[n], rtol=1e-3, atol=1e-6) for n in full)
    assert all(t.dtype == torch.float32 for t in half.values())


def test_damage_is_detected(tiny_model, tmp_path) -> None:
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
def test_unknown_models_are_refused(tiny_model, tmp_path, change, words) -> None:
    tiny_model(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(change(content)))
    with pytest.raises(InputError, match=words) as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_model_names_what_there_is(tiny_model, tmp_path, monkeypatch) -> None:
    tiny_model(tmp_path / "mine")
    monkeypatch.setenv("BCDM_MODELS", str(tmp_path))
    assert load("mine").config.name == "tiny"
    with pytest.raises(InputError, match="mine"):
        load("theirs")
