"""Calibration measures against closed forms, exhaustive ranks and binomial error."""

import math

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import (
    chi_square,
    compare_spread,
    count_samples_needed,
    coverage,
    crps,
    ks_uniformity,
    rank_uniformity,
    sbc_ranks,
    spread_skill,
    tarp,
)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


# CRPS


def test_crps_equals_the_double_sum() -> None:
    samples, truth = normal(5, 2, 3, seed=0), normal(2, 3, seed=1)
    distance = (samples[:, None] - samples[None]).abs().sum((0, 1)) / (2 * 5 * 4)
    expected = ((samples - truth).abs().mean(0) - distance).mean(1)
    torch.testing.assert_close(crps(samples, truth), expected)


@pytest.mark.parametrize("count", [2, 16])
def test_crps_is_unbiased_for_a_gaussian(count: int) -> None:
    truth, std, pixels = 0.7, 2.0, 60000
    z = torch.tensor(truth / std, dtype=torch.float64)
    bell = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    expected = std * (z * (2 * torch.special.ndtr(z) - 1) + 2 * bell - 1 / math.sqrt(math.pi))
    values = crps(std * normal(count, pixels, seed=2), torch.full((pixels,), truth).double())
    assert values.shape == (pixels,)
    error = 4 * values.std().item() / math.sqrt(pixels)
    assert error < 0.03 * expected
    assert values.mean().item() == pytest.approx(expected.item(), abs=error)


# Coverage


@pytest.mark.parametrize("count", [2, 3, 4, 5, 16, 17, 100])
def test_coverage_over_all_ranks_is_the_level_exactly(count: int) -> None:
    samples = torch.arange(1.0, count + 1).double()[:, None].expand(count, count + 1)
    truth = torch.arange(count + 1).double() + 0.5
    limit = (count - 1) / (count + 1)
    levels = [fraction * limit for fraction in (0.01, 0.2, 0.5, 0.77, 1.0)]
    observed = coverage(samples, truth, levels).observed
    expected = torch.tensor(levels, dtype=torch.float64)
    torch.testing.assert_close(observed.mean(0), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [4, 16, 100])
@pytest.mark.parametrize("law", ["normal", "exponential"])
def test_coverage_of_exchangeable_truth_is_nominal(count: int, law: str) -> None:
    cases = 40000
    centre, scale = 3 * normal(cases, seed=1), normal(cases, seed=2).exp()
    draws = normal(count + 1, cases, seed=3)
    draws = draws if law == "normal" else -torch.special.ndtr(draws).log()
    *samples, truth = (centre + scale * draws).unbind()
    levels = [level for level in (0.3, 0.5, 0.8, 0.9, 0.95) if count >= count_samples_needed(level)]
    result = coverage(torch.stack(samples), truth, levels)
    for level, observed in zip(levels, result.observed.mean(0).tolist(), strict=True):
        assert observed == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / cases))


def test_plain_quantiles_would_cover_too_little() -> None:
    cases, samples, truth = 40000, normal(16, 40000, seed=4), normal(40000, seed=5)
    low, high = samples.quantile(torch.tensor([0.1, 0.9]).double(), dim=0)
    plain = ((low <= truth) & (truth <= high)).double().mean().item()
    ours = coverage(samples, truth, [0.8]).observed.mean().item()
    error = 4 * math.sqrt(0.16 / cases)
    assert plain == pytest.approx(0.71, abs=0.01)
    assert ours == pytest.approx(0.8, abs=error)


def test_levels_beyond_the_samples_are_nan() -> None:
    samples, truth = normal(16, 3, 50, seed=6), normal(3, 50, seed=7)
    levels, observed = coverage(samples, truth)
    assert observed.shape == (3, 4)
    torch.testing.assert_close(levels, torch.tensor([0.5, 0.8, 0.9, 0.95], dtype=torch.float64))
    assert observed.isnan().tolist() == [[False, False, True, True]] * 3
    for level in (0.5, 0.8, 0.9, 0.95):
        needed = count_samples_needed(level)
        enough = coverage(normal(needed, 4, seed=8), normal(4, seed=9), [level])
        short = coverage(normal(needed - 1, 4, seed=8), normal(4, seed=9), [level])
        assert not enough.observed.isnan().any()
        assert short.observed.isnan().all()


def test_coverage_tells_wide_from_narrow() -> None:
    samples, truth = normal(40, 5000, seed=10), normal(5000, seed=11)
    wide, narrow = (coverage(f * samples, truth).observed.mean(0) for f in (2.0, 0.5))
    # Central interval of level c of N(0, f^2): coverage 2 Phi(f z_c) - 1, up to O(1/S) and noise.
    level = torch.tensor([0.5, 0.8, 0.9, 0.95]).double()
    z = torch.special.ndtri((1 + level) / 2)
    for factor, observed in ((2.0, wide), (0.5, narrow)):
        expected = 2 * torch.special.ndtr(factor * z) - 1
        torch.testing.assert_close(observed, expected, rtol=0, atol=0.04)


def test_coverage_with_ties_stays_nominal() -> None:
    cases, levels = 40000, [0.5, 0.8]
    generator = Generator().manual_seed(12)
    draws = torch.randint(3, (17, cases), generator=generator).double()
    observed = coverage(draws[:16], draws[16], levels).observed.mean(0)
    for level, value in zip(levels, observed.tolist(), strict=True):
        assert value == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / cases))
    constant = coverage(torch.ones(16, 2, 5), torch.ones(2, 5), levels).observed
    torch.testing.assert_close(constant, torch.tensor([levels, levels], dtype=torch.float64))


def test_coverage_counts_masked_pixels_only() -> None:
    samples, truth = normal(20, 2, 6, 6, seed=13), normal(2, 6, 6, seed=14)
    mask = torch.zeros(6, 6, dtype=torch.bool)
    mask[1:4, 2:] = True
    ours = coverage(samples, truth, [0.5], mask).observed
    cropped = coverage(samples[..., 1:4, 2:], truth[..., 1:4, 2:], [0.5]).observed
    torch.testing.assert_close(ours, cropped)
    with pytest.raises(InputError, match="without pixels"):
        coverage(samples, truth, [0.5], torch.zeros(6, 6, dtype=torch.bool))


# Spread and skill


@pytest.mark.parametrize("count", [2, 4, 50])
def test_spread_skill_ratio_is_one_for_calibrated_samples(count: int) -> None:
    cases = 50000
    centre = normal(cases, seed=1)
    samples, truth = centre + normal(count, cases, seed=2), centre + normal(cases, seed=3)
    # The rms error has a relative error of 1 / sqrt(2 n); four of them, and as much for the spread.
    tolerance = 8 / math.sqrt(2 * cases)
    assert spread_skill(samples, None, truth).ratio.item() == pytest.approx(1, abs=tolerance)
    assert spread_skill(samples, centre, truth).ratio.item() == pytest.approx(1, abs=tolerance)
    narrow = centre + 0.5 * (samples - centre)
    assert spread_skill(narrow, centre, truth).ratio.item() == pytest.approx(0.5, abs=tolerance)


def test_spread_and_error_of_each_pixel_give_the_ratio() -> None:
    generator = Generator().manual_seed(0)
    samples, truth = torch.randn(5, 3, 4, generator=generator), torch.zeros(3, 4)
    spread, error = compare_spread(samples, None, truth)
    torch.testing.assert_close(spread, 6 / 5 * samples.var(0))
    torch.testing.assert_close(error, samples.mean(0).square())
    ratio = spread_skill(samples, None, truth, bins=2).ratio
    torch.testing.assert_close(ratio, (spread.mean() / error.mean()).sqrt())


def test_spread_skill_curve_follows_the_diagonal() -> None:
    scale = (normal(40000, seed=4) / 2).exp()
    samples, truth = scale * normal(100, 40000, seed=5), scale * normal(40000, seed=6)
    _, spread, skill = spread_skill(samples, None, truth, bins=8)
    assert spread.shape == skill.shape == (8,)
    assert (spread.diff() > 0).all()
    # 5000 pixels per bin: 4 / sqrt(10000) = 4 %, and about 1 % from the noise of the spread.
    torch.testing.assert_close(skill, spread, rtol=0.05, atol=0)


# Ranks


def uniformity_p_values(bias: float, experiments: int = 300) -> tuple[Tensor, Tensor]:
    samples = normal(19, experiments, 400, seed=20)
    truth = normal(experiments, 400, seed=21) + bias
    ranks = sbc_ranks(samples, truth)
    noise = torch.rand(ranks.shape, generator=Generator().manual_seed(22))
    chi = [rank_uniformity(row, 19) for row in ranks]
    ks = [ks_uniformity(row) for row in (ranks + noise) / 20]
    return torch.tensor(chi), torch.tensor(ks)


def test_rank_p_values_are_uniform_when_calibrated() -> None:
    for p_values in uniformity_p_values(bias=0.0):
        assert stats.kstest(p_values.numpy(), "uniform").pvalue > 0.01


def test_rank_p_values_are_small_when_biased() -> None:
    for p_values in uniformity_p_values(bias=0.5, experiments=20):
        assert p_values.max() < 1e-6


def test_ranks_count_the_samples_below() -> None:
    samples = torch.tensor([[3.0, 1.0], [1.0, 2.0], [2.0, 3.0]])
    assert sbc_ranks(samples, torch.tensor([2.5, 0.0])).tolist() == [2, 0]


def test_ties_are_broken_at_random_or_refused() -> None:
    draws = torch.randint(3, (10, 5000), generator=Generator().manual_seed(23)).double()
    with pytest.raises(InputError, match="generator"):
        sbc_ranks(draws[:9], draws[9])
    ranks = sbc_ranks(draws[:9], draws[9], generator=Generator().manual_seed(24))
    assert rank_uniformity(ranks, 9) > 0.01
    assert rank_uniformity((draws[:9] < draws[9]).sum(0), 9) < 1e-6


# TARP

LEVELS = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]


def conjugate(cases: int, count: int, dimension: int) -> tuple[Tensor, Tensor, Tensor]:
    """Truth N(0, I), y = truth + N(0, I): posterior N(y / 2, I / 2). Gives samples, truth, y."""
    truth = normal(cases, dimension, seed=30)
    y = truth + normal(cases, dimension, seed=31)
    return y / 2 + math.sqrt(0.5) * normal(count, cases, dimension, seed=32), truth, y


def binomial_error(cases: int, sigmas: float = 4) -> Tensor:
    level = torch.tensor(LEVELS, dtype=torch.float64)
    return sigmas * (level * (1 - level) / cases).sqrt()


@pytest.mark.parametrize("count", [4, 60])
def test_tarp_of_the_posterior_is_the_diagonal(count: int) -> None:
    samples, truth, y = conjugate(4000, count, 3)
    references = y + normal(4000, 3, seed=33)
    curve = tarp(samples, truth, references, LEVELS, generator=Generator().manual_seed(0))
    assert ((curve.coverage - curve.levels).abs() < binomial_error(4000)).all()
    assert ((curve.lower < curve.coverage) & (curve.coverage < curve.upper)).all()


def test_tarp_band_has_binomial_width_and_repeats() -> None:
    samples, truth, y = conjugate(1000, 100, 2)
    first, again, other = (
        tarp(samples, truth, y, LEVELS, bootstraps=1000, generator=Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    width = first.upper - first.lower
    torch.testing.assert_close(width, 2 * binomial_error(1000, 1.96), rtol=0.2, atol=0)
    assert torch.equal(first.lower, again.lower)
    assert not torch.equal(first.lower, other.lower)


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.6])
def test_tarp_of_a_wrong_spread_follows_its_closed_form(factor: float) -> None:
    # Around the posterior mean in two dimensions squared distances are exponential: samples
    # wider by f hold the truth inside the share c with probability 1 - (1 - c)^(f^2).
    samples, truth, y = conjugate(4000, 400, 2)
    wrong = y / 2 + factor * (samples - y / 2)
    curve = tarp(wrong, truth, y / 2, LEVELS, generator=Generator().manual_seed(0))
    expected = 1 - (1 - curve.levels) ** (factor**2)
    # 0.5 / sqrt(4000) x 4 = 0.032 of noise, and O(1/400) from the finite samples.
    torch.testing.assert_close(curve.coverage, expected, rtol=0, atol=0.035)
    if factor != 1.0:
        outside = (curve.levels < curve.lower) | (curve.levels > curve.upper)
        assert outside.sum() >= 5


def test_tarp_sees_a_bias() -> None:
    samples, truth, y = conjugate(2000, 100, 3)
    curve = tarp(samples + 0.4, truth, y + 3, LEVELS, generator=Generator().manual_seed(0))
    assert (curve.coverage - curve.levels).abs().max() > 0.1


def test_tarp_needs_references_that_depend_on_the_measurement() -> None:
    _, truth, y = conjugate(3000, 100, 3)
    prior = normal(100, 3000, 3, seed=34)
    blind = tarp(
        prior, truth, torch.full_like(y, 0.5), LEVELS, generator=Generator().manual_seed(0)
    )
    seeing = tarp(prior, truth, y, LEVELS, generator=Generator().manual_seed(0))
    assert ((blind.coverage - blind.levels).abs() < binomial_error(3000)).all()
    assert (seeing.coverage - seeing.levels).abs().max() > 0.1


# Chi-square


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("noise_std", [0.03, 5.0])
def test_chi_square_p_values_are_uniform(kind: str, noise_std: float) -> None:
    residual = noise_std * normal(3000, 5, 4, 2, seed=40)
    residual = torch.view_as_complex(residual) if kind == "complex" else residual
    result = chi_square(residual, noise_std)
    assert result.dof.tolist() == [40.0] * 3000
    assert result.reduced.mean().item() == pytest.approx(1, abs=4 * math.sqrt(2 / 40 / 3000))
    assert ks_uniformity(result.p_value) > 0.01


@pytest.mark.parametrize("entries", [1, 50, 20000, 1000000])
@pytest.mark.parametrize("deviation", [-3.0, -0.5, 0.0, 1.0, 6.0])
def test_chi_square_equals_scipy(entries: int, deviation: float) -> None:
    reduced = max(1e-3, 1 + deviation * math.sqrt(2 / entries))
    residual = torch.full((1, entries), math.sqrt(reduced), dtype=torch.float64)
    law = stats.chi2(entries)
    expected = min(1, 2 * min(law.cdf(reduced * entries), law.sf(reduced * entries)))
    result = chi_square(residual, 1.0)
    assert result.reduced.item() == pytest.approx(reduced, rel=1e-9)
    assert result.p_value.item() == pytest.approx(expected, rel=1e-5)


def test_chi_square_with_mask_and_noise_per_entry() -> None:
    residual = normal(4, 3, 6, seed=41)
    std = torch.rand(4, 1, 6, generator=Generator().manual_seed(42)) + 0.5
    mask = torch.arange(6) % 2 == 0
    result = chi_square(residual, std, mask)
    expected = ((residual / std.double())[..., ::2] ** 2).sum((1, 2)) / 9
    torch.testing.assert_close(result.reduced, expected)
    assert result.dof.tolist() == [9.0] * 4
    unmeasured = torch.where(mask, residual, torch.nan)
    torch.testing.assert_close(chi_square(unmeasured, std, mask).reduced, expected)


def test_chi_square_noise_per_measurement() -> None:
    residual, std = normal(4, 4, seed=43), torch.tensor([0.5, 1.0, 2.0, 4.0])
    expected = (residual / std.double()[:, None]).square().mean(1)
    torch.testing.assert_close(chi_square(residual, std).reduced, expected)


# Refusals


def test_bad_input_is_refused() -> None:
    samples, truth = normal(5, 2, 3, seed=50), normal(2, 3, seed=51)
    with pytest.raises(ShapeError, match="need samples"):
        crps(samples, truth[:1])
    with pytest.raises(ShapeError, match="two samples"):
        crps(samples[:1], truth)
    with pytest.raises(DtypeError, match="real floats"):
        coverage(samples.to(torch.complex128), truth)
    with pytest.raises(InputError, match="nan"):
        crps(torch.where(samples > 0, samples, torch.nan), truth)
    with pytest.raises(InputError, match="strictly between"):
        coverage(samples, truth, [1.0])
    with pytest.raises(DtypeError, match="boolean"):
        coverage(samples, truth, [0.5], torch.ones(2, 3))
    with pytest.raises(ShapeError, match="broadcast"):
        coverage(samples, truth, [0.5], torch.ones(4, dtype=torch.bool))
    with pytest.raises(ShapeError, match="mean"):
        spread_skill(samples, truth[:1], truth)
    with pytest.raises(InputError, match="bins"):
        spread_skill(samples, None, truth, bins=7)
    with pytest.raises(InputError, match="ranks"):
        rank_uniformity(torch.tensor([0, 6]), 5)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        ks_uniformity(torch.tensor([0.5, 2.0]))
    with pytest.raises(ShapeError, match="references"):
        tarp(samples, truth, truth[:1], LEVELS, generator=Generator())
    with pytest.raises(InputError, match="positive"):
        chi_square(truth, 0.0)
    with pytest.raises(ShapeError, match="broadcast"):
        chi_square(truth, torch.ones(3))
    with pytest.raises(DtypeError, match="residual"):
        chi_square(truth.long(), 1.0)


def test_ties_are_broken_by_the_generator_alone() -> None:
    samples, truth = torch.zeros(40, 30), torch.zeros(30)
    torch.manual_seed(1)
    one = sbc_ranks(samples, truth, generator=Generator().manual_seed(3))
    torch.manual_seed(2)
    assert torch.equal(sbc_ranks(samples, truth, generator=Generator().manual_seed(3)), one)
    other = sbc_ranks(samples, truth, generator=Generator().manual_seed(4))
    assert not torch.equal(other, one)
    assert 0 <= int(one.min()) < int(one.max()) <= 40


@pytest.mark.parametrize(("bins", "allowed"), [(0, False), (1, True), (12, True), (13, False)])
def test_bins_hold_a_pixel_at_least(bins: int, allowed: bool) -> None:
    samples, truth = normal(5, 3, 4, seed=1), normal(3, 4, seed=2)
    if allowed:
        assert len(spread_skill(samples, None, truth, bins=bins).spread) == bins
    else:
        with pytest.raises(InputError, match="bins must lie between 1 and 12"):
            spread_skill(samples, None, truth, bins=bins)


def test_one_bootstrap_is_a_band_without_width() -> None:
    samples, truth = normal(5, 3, 4, seed=1), normal(3, 4, seed=2)
    given = (samples, truth, torch.zeros(3, 4).double(), [0.3, 0.6])
    once = tarp(*given, generator=Generator().manual_seed(0), bootstraps=1)
    assert torch.equal(once.lower, once.upper)
    with pytest.raises(ShapeError, match="bootstraps >= 1"):
        tarp(*given, generator=Generator().manual_seed(0), bootstraps=0)
