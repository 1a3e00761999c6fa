"""Schedules by numbers that were worked out elsewhere: defaults, ends, times and grids."""

import math

import pytest
import torch

from bcdm.diffusion import VE, VP, Bridge, paper_grid
from bcdm.errors import InputError


def at(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_vp_is_the_linear_table_in_time() -> None:
    """abar(t) = exp(-.1 t - 9.95 t^2)."""
    times = [1e-4, 0.1, 0.5, 1.0]
    levels = VP().level(VP().log_snr(at(times)))
    expected = [math.exp(-0.1 * t - 9.95 * t**2) for t in times]
    assert levels.alpha.square().tolist() == pytest.approx(expected, rel=1e-9)
    assert levels.sigma.square().tolist() == pytest.approx([1 - v for v in expected], rel=1e-9)
    assert VP().time(VP().log_snr(at(times))).tolist() == pytest.approx(times)
    other = VP(beta_min=0.5, beta_max=3.5)
    assert float(other.level(other.log_snr(at([0.4]))).alpha) ** 2 == pytest.approx(
        math.exp(-0.5 * 0.4 - 1.5 * 0.16)
    )
    low, high = VP().log_snr_range
    assert low == pytest.approx(-math.log(math.exp(10.05) - 1), rel=1e-12)
    assert high == pytest.approx(math.log(1 / 0.002**2 - 1))
    assert VP(sigma_min=0.1).log_snr_range[1] == pytest.approx(math.log(99))


def test_ve_is_geometric_in_time() -> None:
    times = [0.0, 0.25, 1.0]
    schedule = VE(0.01, 50.0)
    levels = schedule.level(schedule.log_snr(at(times)))
    assert levels.alpha.tolist() == [1.0, 1.0, 1.0]
    assert levels.sigma.tolist() == pytest.approx([0.01 * 5000**t for t in times])
    assert schedule.time(schedule.log_snr(at(times))).tolist() == pytest.approx(times)
    assert VE().log_snr_range == pytest.approx((-2 * math.log(100), -2 * math.log(0.002)))


@pytest.mark.parametrize("log_snr", [-40.0, 40.0])
def test_vp_keeps_its_digits_at_both_ends(log_snr: float) -> None:
    level = VP().level(at([log_snr]))
    small = math.exp(-20)
    pair = (small, 1.0) if log_snr < 0 else (1.0, small)
    assert (float(level.alpha), float(level.sigma)) == pytest.approx(pair, rel=1e-9)


def test_bridges_end_where_the_noise_is_as_stated() -> None:
    for bridge in (Bridge(), Bridge(1e-3, 0.02, 1.0)):
        low, high = bridge.level(at([*bridge.log_snr_range])).sigma.tolist()
        assert (low, high) == pytest.approx((bridge.sigma_min, bridge.sigma_min))
        assert float(bridge.log_snr(at([0.0]))) == pytest.approx(bridge.log_snr_range[1])
        assert float(bridge.log_snr(at([1.0]))) == pytest.approx(bridge.log_snr_range[0])
        middle = bridge.level(bridge.log_snr(at([0.5])))
        assert float(middle.alpha) == pytest.approx(0.5)
        assert float(middle.sigma) == pytest.approx(bridge.variance**0.5 / 2)
        first, last = math.sqrt(bridge.beta_min), math.sqrt(bridge.beta_max)
        # Twice the integral of (first + (last - first) t)^2 to one half.
        half = (first + last) / 2
        assert bridge.variance == pytest.approx(2 * (half**3 - first**3) / 3 / (last - first))
        assert bridge.time(bridge.log_snr(at([0.2, 0.9]))).tolist() == pytest.approx([0.2, 0.9])
    limit = Bridge().variance ** 0.5 / 2
    assert Bridge(sigma_min=0.999 * limit).sigma_min < limit
    for settings in ({"sigma_min": limit}, {"sigma_min": 0.0}, {"beta_min": 0.0}):
        with pytest.raises(InputError, match="a bridge needs"):
            Bridge(**settings)
    with pytest.raises(InputError, match="beta_min"):
        Bridge(beta_min=0.3)


def test_grids() -> None:
    """Uniform in log-SNR, or from where the unknown is a two-hundredth of the noise on."""
    for schedule in (VP(), VE(), Bridge()):
        low, high = schedule.log_snr_range
        even = [low + k * (high - low) / 4 for k in range(5)]
        assert schedule.grid(5).tolist() == pytest.approx(even)
    low, high = VP().log_snr_range
    start = math.log(0.005 / 0.3**2)
    expected = [low, *(start + k * (high - start) / 8 for k in range(9))]
    assert VP(spread=0.3).grid(10).tolist() == pytest.approx(expected)
    # Never less than an even step at the start, nor at the end.
    assert VP(spread=1e3).grid(10).tolist() == pytest.approx(VP().grid(10).tolist())
    last = VP(spread=1e-6).grid(10)
    assert float(last[1]) == pytest.approx(high - (high - low) / 9)
    times = VP().time(VP().time_grid(4)).tolist()
    assert times == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_the_papers_table_needs_more_than_twenty_steps() -> None:
    beta = torch.linspace(0.1 / 21, 20 / 21, 21, dtype=torch.float64)
    abar = torch.sigmoid(paper_grid(21)).flip(0)
    torch.testing.assert_close(abar, torch.cumprod(1 - beta, 0))
    assert len(paper_grid()) == 1000
    with pytest.raises(InputError, match="more than 20 steps"):
        paper_grid(20)
