"""Which noise levels training draws."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from bcdm.diffusion import VP, NoiseLevel
from bcdm.problems import Levels


@pytest.mark.parametrize(
    ("mean", "std", "end"), [(0.0, 4.0, 0.1), (3.0, 1.0, 0.25), (-2.0, 2.0, 0.0), (2.0, 8.0, 0.1)]
)
def test_levels_follow_their_law(mean: float, std: float, end: float) -> None:
    """By quantiles of the normal law, truncated to the schedule's range."""
    schedule = VP()
    low, high = schedule.log_snr_range
    drawn = Levels(mean, std, end).draw(schedule, 1, torch.arange(20000)).log_snr
    assert float((drawn < low + 1e-9).double().mean()) == pytest.approx(end, abs=1e-3)
    law = torch.distributions.Normal(mean, std)
    bottom, top = (law.cdf(torch.tensor(edge).double()) for edge in (low, high))
    inner = drawn[drawn >= low + 1e-9].sort().values
    for share in (0.05, 0.3, 0.5, 0.9):
        expected = float(law.icdf(bottom + share * (top - bottom)))
        assert float(inner[int(share * len(inner))]) == pytest.approx(expected, abs=0.02 * std)


@pytest.mark.parametrize("wrong", [{"mean": float("nan")}, {"end": 1.5}, {"middle": 0.0}])
def test_as_settings_they_are_strict(wrong: dict[str, float]) -> None:
    settings = TypeAdapter(Levels)
    assert settings.validate_python({"std": 2.0}) == Levels(std=2.0)
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        settings.validate_python(wrong)


def test_levels_of_another_seed_are_others() -> None:
    drawn = [Levels().draw(VP(), seed, torch.arange(8)).log_snr for seed in (0, 1)]
    assert float((drawn[0] - drawn[1]).abs().max()) > 0.1
    assert isinstance(Levels().draw(VP(), 0, torch.arange(3)), NoiseLevel)


def test_levels_are_those_of_earlier_versions() -> None:
    """So that a run goes on as it was begun; late counters are spread as the first ones are."""
    drawn = Levels().draw(VP(), 0, torch.arange(4)).log_snr.tolist()
    assert drawn == pytest.approx([-0.131875, -6.044207, 2.664415, -1.805435], abs=1e-5)
    late = Levels(end=0.0).draw(VP(), 7, torch.arange(10**9, 10**9 + 32)).log_snr
    assert len(late.unique()) == 32
    assert float(Levels().draw(VP(), 7, torch.tensor([10**9])).log_snr) == pytest.approx(
        3.063405, abs=1e-5
    )


def test_levels_uniform_in_time() -> None:
    schedule = VP()
    levels = Levels(end=0.0, uniform_time=True).draw(schedule, 0, torch.arange(4000))
    times = schedule.time(levels.log_snr)
    # Nearly all of the table's time; what lies below sigma_min is drawn at sigma_min.
    inside = times[times > float(schedule.time(torch.tensor([12.0]).double()))]
    edges = torch.linspace(float(inside.min()), 1, 11).double()
    counts = torch.histc(inside, 10, float(edges[0]), 1.0)
    assert float((counts / counts.mean() - 1).abs().max()) < 0.02


def test_levels_cover_the_range() -> None:
    levels = Levels(mean=0.0, std=4.0, end=0.1)
    counters = torch.arange(20000)
    log_snr = levels.draw(VP(), 3, counters).log_snr
    low, high = VP().log_snr_range
    at_end = (log_snr < low + 1e-6).double().mean()
    assert float(at_end) == pytest.approx(0.1, abs=0.002)
    rest = log_snr[log_snr >= low + 1e-6]
    assert float(rest.max()) <= high + 1e-6
    # The truncated normal's own median.
    edges = torch.special.ndtr(torch.tensor([low / 4, high / 4]).double())
    median = 4 * float(torch.special.ndtri(edges.mean()))
    assert float(rest.median()) == pytest.approx(median, abs=0.02)
    # A pure function of (seed, counter), whatever batch it stands in.
    assert torch.equal(levels.draw(VP(), 3, counters[7:9]).log_snr, log_snr[7:9])
    # Each batch covers the range evenly: its mean hardly varies.
    means = log_snr.reshape(-1, 32).mean(1)
    assert float(means.std()) < 0.25 * float(log_snr.std()) / 32**0.5 * 2


def test_levels_of_the_earliest_times_are_at_the_clean_end() -> None:
    drawn = Levels(end=0.0, uniform_time=True).draw(VP(), 0, torch.arange(200000)).log_snr
    assert float(drawn.max()) == pytest.approx(VP().log_snr_range[1], abs=1e-6)
