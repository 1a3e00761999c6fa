"""Stored models come back the same, and nothing else is accepted."""

import json
from dataclasses import replace

import pytest
import torch

from bcdm.checkpoint import load, read_facts, store_cloud, write_facts
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Identity, PixelMask
from bcdm.problems import Familiarity


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


def test_a_family_s_cloud_is_stored(tiny_model, tmp_path, monkeypatch) -> None:
    """Drawing it takes seconds, in every process; a folder of an earlier version still does."""
    tiny_model(tmp_path, family=True)
    model = load(tmp_path)
    strange = Measurement(torch.zeros(1, 1, 16, 16), Identity(), 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(Familiarity, "draw_cloud", None)
        verdicts = model.judge(strange)
    assert not verdicts[0].familiar
    path = tmp_path / "familiarity.safetensors"
    kept = path.read_bytes()
    content, hashes = read_facts(tmp_path), read_facts(tmp_path)["hashes"]
    path.unlink()
    del content["hashes"][path.name]
    write_facts(tmp_path, content)
    earlier = load(tmp_path)
    assert earlier.cloud is None
    assert earlier.judge(strange) == verdicts
    store_cloud(tmp_path)
    assert path.read_bytes() == kept
    assert read_facts(tmp_path)["hashes"] == hashes
    # It is the same model with and without: results that name it stay true.
    assert model.facts["hashes"] == earlier.facts["hashes"]


def test_a_single_operator_has_no_cloud(tiny_model, tmp_path) -> None:
    tiny_model(tmp_path)
    assert not (tmp_path / "familiarity.safetensors").exists()
    with pytest.raises(InputError, match="single operator"):
        store_cloud(tmp_path)


def test_a_family_that_measured_nothing_at_times_is_a_prior() -> None:
    model = load("ixi64-mri")
    with pytest.raises(InputError, match='"nothing"'):
        _ = model.prior
    operator = model.config.operator.model_copy(update={"nothing": 0.1})
    blind = replace(model, config=model.config.model_copy(update={"operator": operator}))
    assert posterior_mean(blind.prior).shape == (1, 1, 64, 64)
    nothing = Measurement(torch.zeros(1, 1, 64, 64), PixelMask(torch.zeros(64, 64)), 0.1)
    assert blind.familiarity is not None
    assert blind.familiarity.judge(nothing)[0].familiar
    assert model.familiarity is not None
    assert not model.familiarity.judge(nothing)[0].familiar
