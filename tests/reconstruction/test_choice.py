"""Outside of what a model was made for: refused, forced, or by MMPS with its network as prior."""

from pathlib import Path

import pytest
import torch

from bcdm.checkpoint import Guest, Model, load, save_model
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.settings import parse_config
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, PixelMask
from bcdm.problems.familiarity import UnfamiliarWarning
from bcdm.reconstruction import reconstruct
from bcdm.trust import UnfitError

SHAPE, PRIOR_STD = (1, 16, 16), 0.3


def make_model(folder: Path, nothing: float) -> Model:
    """A family of holes, whose untrained network gives zero: the prior is white and Gaussian."""
    config = parse_config(
        {
            "name": "family",
            "data": {"path": "nothing", "size": [16, 16], "channels": 1, "source_range": [0, 255]},
            "operator": {"kind": "family", "members": [{"kind": "holes"}], "nothing": nothing},
            "noise_std": [0.02, 0.2],
            "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "parameterisation": {"prior_std": PRIOR_STD},
            "training": {"steps": 1},
        }
    )
    network = build_method(config, SHAPE).network
    for weight in network.parameters():
        weight.data.zero_()
    save_model(folder, config, network, None, SHAPE, {})
    return load(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return make_model(tmp_path_factory.mktemp("model"), 0.1)


@pytest.fixture(scope="module")
def outside() -> Measurement:
    """Half of k-space, which is no hole."""
    seeded = torch.Generator().manual_seed(0)
    x = PRIOR_STD * torch.randn(1, *SHAPE, generator=seeded)
    mask = torch.rand(16, 16, generator=seeded) < 0.5
    return Measurement.simulate(x, FourierMask(mask.float(), real=True), 0.1, seed=1)


def test_a_measurement_outside_of_the_family_is_refused(model: Model, outside: Measurement) -> None:
    with pytest.raises(UnfitError, match=r"Not a measurement that family .* method=\"auto\""):
        reconstruct(model, outside, samples=2, calls=2, progress=False)
    with pytest.raises(InputError, match="not 'any'"):
        reconstruct(model, outside, samples=2, calls=2, progress=False, method="any")


def test_it_can_be_forced(model: Model, outside: Measurement) -> None:
    with pytest.warns(UnfamiliarWarning):
        posterior = reconstruct(model, outside, samples=2, calls=2, progress=False, force=True)
    assert posterior.model is model
    assert posterior.trust[0].light == "red"


def test_the_fallback_is_exact_where_the_prior_is_gaussian(
    model: Model, outside: Measurement, tmp_path: Path
) -> None:
    """Of a white Gaussian prior MMPS draws from the posterior; its mean is the Wiener estimate."""
    posterior = reconstruct(model, outside, samples=16, calls=10, progress=False, method="auto")
    assert isinstance(posterior.model, Guest)
    torch.testing.assert_close(
        posterior.linear, outside.estimate_linearly(PRIOR_STD), rtol=1e-5, atol=1e-5
    )
    # Pixels are uncertain by up to the prior's deviation, their average by a quarter of it.
    away = (posterior.mean - posterior.linear).square().mean().sqrt()
    assert float(away) < 1.1 * PRIOR_STD / 4
    measured = float(outside.operator.mask.float().mean())
    assert abs(float(posterior.std.mean()) / PRIOR_STD - (1 - measured) ** 0.5) < 0.15


def test_card_and_report_say_what_drew(model: Model, outside: Measurement, tmp_path: Path) -> None:
    posterior = reconstruct(model, outside, samples=9, calls=10, progress=False, method="auto")
    (card,) = posterior.trust
    assert card.light == "amber"
    said = {check.name: check.reason for check in card.checks}["method"]
    assert "MMPS drew the samples" in said
    assert "outside of what family was made for" in said
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "reconstructed by MMPS, prior family" in page
    assert "MMPS drew the samples" in page


def test_inside_of_the_family_the_model_itself_is_taken(model: Model) -> None:
    mask = torch.ones(16, 16)
    mask[5:10, 5:10] = 0
    x = torch.zeros(1, *SHAPE)
    measurement = Measurement.simulate(x, PixelMask(mask), 0.1, seed=1)
    posterior = reconstruct(model, measurement, samples=2, calls=2, progress=False, method="auto")
    assert posterior.model is model


def test_what_is_no_prior_cannot_fall_back(tmp_path: Path, outside: Measurement) -> None:
    other = make_model(tmp_path / "model", 0.0)
    with pytest.raises(UnfitError, match=r"force=True goes on all the same$"):
        reconstruct(other, outside, samples=2, calls=2, progress=False)
    with pytest.raises(UnfitError, match="Nor is it a prior"):
        reconstruct(other, outside, samples=2, calls=2, progress=False, method="auto")
