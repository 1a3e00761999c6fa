"""Training that starts from another network."""

import pytest
import torch

from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.operators import PixelMask
from bcdm.training.train import copy_weights

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
    copy_weights(source.network, target.network)
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


def test_another_network_is_refused() -> None:
    with pytest.raises(InputError, match="start_from is of another network"):
        copy_weights(build(16).network, build(8).network)
