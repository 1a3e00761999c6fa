"""Rows of a comparison: what their settings have to say, and what is tuned."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from pydantic import ValidationError

from bcdm.checkpoint import Model
from bcdm.comparison.contenders import ContenderConfig, expand_grid
from bcdm.diffusion import VP
from bcdm.measurement import Measurement
from bcdm.methods import ExactDenoiser, GaussianMixture
from bcdm.operators import PixelMask


@pytest.mark.parametrize("kind", ["network", "dps", "mmps", "bridge", "denoising"])
def test_what_draws_samples_needs_calls(kind: str) -> None:
    with pytest.raises(ValidationError, match="say by how many `calls`"):
        ContenderConfig(kind=kind, network="plain")
    for quiet in ("mean", "least_squares", "linear_gaussian", "math:sqrt"):
        assert ContenderConfig(kind=quiet, network="plain").calls == 0


def test_clipping_is_refused_where_nothing_would_be_clipped() -> None:
    network = {"network": "any", "clip": True}
    for given in (
        {"kind": "least_squares", "clip": True},
        {"kind": "linear_gaussian", **network},
        {"kind": "package.module:name", **network},
        {"kind": "mmps", "prior": "package.module:name", "clip": [False, True], "calls": 3},
    ):
        with pytest.raises(ValidationError, match="clip is for what a network"):
            ContenderConfig.model_validate(given)
    with pytest.raises(ValidationError, match="clip is true, false or"):
        ContenderConfig.model_validate({"kind": "mmps", "network": "any", "clip": [], "calls": 3})


def test_whether_to_clip_is_a_choice() -> None:
    means, spread = torch.full((1, 4), 3.0).double(), torch.eye(4)[None].double()
    mixture = GaussianMixture(torch.zeros(1).double(), means, spread, (1, 2, 2))
    prior = ExactDenoiser(mixture, VP())
    config = SimpleNamespace(data=SimpleNamespace(value_range=(-1.0, 1.0)))
    model = cast(Model, SimpleNamespace(prior=prior, config=config))
    bright = torch.full((2, 1, 2, 2), 3.0).double()
    measurement = Measurement.simulate(bright, PixelMask(torch.ones(2, 2).double()), 0.1, seed=0)
    for kind in ("mmps", "ddrm", "diffpir", "dps"):
        given = {"kind": kind, "network": "any", "calls": 3, "clip": [False, True]}
        free, clipped = expand_grid(ContenderConfig.model_validate(given), {"any": model})
        assert "means" in clipped.describe()
        assert "means" not in free.describe()
        drawn = [one.draw(measurement, range(2), 1, 0).samples for one in (free, clipped)]
        assert not torch.equal(*drawn)
        # The last mean of these is the sample; DDRM brings the data in after the prior's mean.
        assert kind == "ddrm" or drawn[1].abs().max() <= 1
    known = {"kind": "mmps", "network": "any", "calls": 3}
    alone = ContenderConfig.model_validate(known | {"clip": True})
    assert alone.model_dump()["clip"] is True
    assert alone.model_dump()["iterations"] == 5
    # So are products with the Jacobian.
    config = ContenderConfig(kind="mmps", network="any", calls=3, iterations=(1, 2))
    rows = list(expand_grid(config, {"any": model}))
    assert [one.describe()["iterations a call"] for one in rows] == [1, 2]
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        ContenderConfig.model_validate(known | {"iterations": [2, 0]})
