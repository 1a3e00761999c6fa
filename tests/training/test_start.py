"""Training that starts from another network."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint import save_model
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.data import ArrayFile
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.operators import Identity, PixelMask
from bcdm.training.train import Processes, Trainer, copy_weights

SHAPE = (1, 16, 16)


def build(width: int = 8, **parameterisation: object) -> Bayesian:
    method = build_method(parse_config({
        "name": "a", "data": {"path": "images"}, "operator": {"kind": "nothing"}, "noise_std": 1.0,
        "network": {"width": width, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "parameterisation": parameterisation, "training": {"steps": 1},
    }), SHAPE)  # fmt: skip
    torch.manual_seed(width)
    with torch.no_grad():
        for weight in method.network.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return method


def test_a_start_gives_what_the_other_gave() -> None:
    """Also with more inputs, which have no effect yet."""
    source, target = build(), build(probes=True)
    copy_weights(source, target)
    mask = PixelMask(torch.arange(256).reshape(16, 16) % 3 == 0)
    measurement = Measurement(torch.ones(1, *SHAPE), mask, 0.1)
    level = source.schedule.level(torch.tensor([1.0]).double())
    x_t = torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0))
    expected = source.condition(measurement)(x_t, level)
    torch.testing.assert_close(target.condition(measurement)(x_t, level), expected)
    # Which they then learn to have.
    first = next(w for w in target.network.parameters() if w.ndim == 4)
    with torch.no_grad():
        first[:, -1] = 1
    assert not torch.allclose(target.condition(measurement)(x_t, level), expected)


def test_a_trainer_starts_from_the_model_that_its_settings_name(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((2, 16, 16), np.uint8))
    settings = {
        "name": "a",
        "data": {"path": "images.npy", "source_range": [0, 255]},
        "operator": {"kind": "identity"},
        "noise_std": 1.0,
        "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
        "training": {"steps": 1, "start_from": str(tmp_path / "model")},
    }
    source, config = build().network, parse_config(settings)
    save_model(tmp_path / "model", config, source, Identity(), SHAPE, {})
    images = ArrayFile(tmp_path / "images.npy")
    trainer = Trainer(config, images, None, tmp_path / "run", Processes())
    started, other = trainer.state.network.state_dict(), source.state_dict()
    assert started.keys() == other.keys()
    assert all(torch.equal(started[name], other[name]) for name in other)


def test_another_network_is_refused() -> None:
    with pytest.raises(InputError, match="start_from is of another network"):
        copy_weights(build(16), build(8))
    # Channels would get the weights of others.
    with pytest.raises(InputError, match=r"sees \['uncertainty'\].*not \['probes', 'uncertainty'"):
        copy_weights(build(uncertainty=True), build(probes=True, uncertainty=True))
