"""The network of the learned mixture benchmark."""

import pytest
import torch

from bcdm.benchmark.instances import SCALE, load_instances, make_prior
from bcdm.benchmark.learned import FamilyNetwork, place_points
from bcdm.diffusion import VP
from bcdm.methods import Bayesian, Parameterisation


@pytest.mark.parametrize("dimension", [8, 80])
@pytest.mark.parametrize("log_snr", [-8.0, -1.0, 4.0])
def test_holds_the_exact_posterior(dimension: int, log_snr: float) -> None:
    """With a point at each mode of the prior and its blur, attention alone is exact."""
    prior, schedule = make_prior(dimension), VP(spread=1.0)
    blur = 1 / (SCALE**2 - 1)  # of the prior over N(0, 1): the precision of a mode less one
    network = FamilyNetwork(prior.means * (1 + blur)).double()
    network.log_blur.data.fill_(torch.tensor(blur).log().item() / 2)
    method = Bayesian(network, schedule, Parameterisation(prior_std=1.0))
    level = schedule.level(torch.tensor([log_snr], dtype=torch.float64))
    for instance in load_instances(dimension, 2)[:3]:
        posterior = prior.condition(instance.measurement)
        x_0 = posterior.sample(4, seed=0)
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(x_0.shape, generator=generator, dtype=torch.float64)
        x_t = level.alpha * x_0 + level.sigma * noise
        with torch.no_grad():
            found = method.condition(instance.measurement)(x_t, level)
        assert (found - posterior.denoise(x_t, level)).abs().max() < 1e-6


def test_points_are_placed_at_clusters() -> None:
    """Two of two far clusters are at their centres; a point that nothing is near stays."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.tensor([[0.0, 0.0], [10.0, 10.0]]).repeat(50, 1)
    seen = ends + 0.1 * torch.randn(100, 2, generator=generator)
    points = place_points(seen, 2)
    assert (points - torch.tensor([[0.0, 0.0], [10.0, 10.0]])).abs().max() < 0.05
    twice = torch.cat([seen[:1], seen[:1], seen[1:]])
    assert place_points(twice, 2).isfinite().all()
