"""Several coils and complex images, from k-space to samples, intervals, cards and files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint import Model, load
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.reconstruction.amplification import estimate_linear_std
from bcdm.reconstruction.items import Plan, reconstruct_items
from bcdm.reconstruction.posterior import Posterior, reconstruct
from bcdm.trust.matching import UnfitError, check_size, find_unfamiliar

pytestmark = pytest.mark.filterwarnings("ignore::bcdm.problems.familiarity.UnfamiliarWarning")
SIZE, PRIOR = (18, 14), 0.3


@pytest.fixture
def model(receivers: Path) -> Model:
    return load(receivers)


def make_measurement(
    noise_std: float = 0.02, size: tuple[int, int] = SIZE, coils: int = 3
) -> Measurement:
    maps = draw_birdcage(size, coils, rng=np.random.default_rng(1))
    mask = torch.zeros(size, dtype=torch.bool)
    mask[:, ::2] = True
    mask[:, size[1] // 2 - 2 : size[1] // 2 + 2] = True
    generator = torch.Generator().manual_seed(3)
    parts = PRIOR * torch.randn(2, 1, 1, *size, generator=generator)
    return Measurement.simulate(torch.complex(*parts), Sense(maps, mask), noise_std, seed=0)


def solve_densely(measurement: Measurement) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation (of each part) of pixels that are normal beforehand."""
    size = measurement.image.shape[-2:]
    count = size[0] * size[1]
    units = torch.eye(count, dtype=torch.complex64).reshape(count, 1, *size)
    matrix = measurement.operator.forward(units).flatten(1).T.to(torch.complex128)
    precision = matrix.mH @ matrix / float(measurement.std) ** 2
    covariance = torch.linalg.inv(precision + torch.eye(count) / PRIOR**2)
    y = measurement.y.flatten().to(torch.complex128)
    mean = covariance @ (matrix.mH @ y) / float(measurement.std) ** 2
    return mean.reshape(1, 1, *size), covariance.diagonal().real.sqrt().reshape(1, 1, *size)


def test_a_network_of_zeros_gives_the_wiener_estimate_and_its_spread(model: Model) -> None:
    measurement = make_measurement()
    mean, std = solve_densely(measurement)
    found = reconstruct(
        model, measurement, samples=64, calls=20, batch=64, progress=False, force=True
    )
    assert found.samples.dtype == torch.complex64
    torch.testing.assert_close(found.preview.to(mean), mean, rtol=0, atol=2e-3)
    torch.testing.assert_close(found.linear.to(mean), mean, rtol=0, atol=2e-3)
    away = (found.mean - mean).abs() / (std * 2**0.5 / 8)
    # Of a complex normal number of unit power: the mean square is 1, and 4 is never seen here.
    assert float(away.square().mean()) == pytest.approx(1, abs=0.25)
    assert float(away.max()) < 4
    spread = (found.samples - mean).abs().square().mean(0) / (2 * std**2)
    assert float(spread.mean()) == pytest.approx(1, abs=0.05)
    # chi-square counts the real and the imaginary part of every sample of every coil.
    (card,) = found.trust
    check = next(one for one in card.checks if one.name == "chi-square of a sample")
    assert float(check.value.split()[0]) == pytest.approx(1, abs=0.15)


def test_noise_amplification_is_the_spread_of_the_linear_estimate() -> None:
    measurement = make_measurement()
    _, std = solve_densely(measurement)
    found = estimate_linear_std(measurement, PRIOR, replicas=64)
    smooth = torch.nn.functional.avg_pool2d(std**2, 3, 1, 1, count_include_pad=False).sqrt()
    assert float((found / smooth - 1).abs().mean()) < 0.05


def test_what_is_said_of_pixels_is_said_of_magnitudes(model: Model) -> None:
    measurement = make_measurement()
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(2, 19, 1, 1, *SIZE, generator=generator)
    posterior = Posterior(model, measurement, torch.zeros(1, 1, *SIZE), torch.complex(*parts))
    sizes = posterior.samples.abs()
    torch.testing.assert_close(posterior.image, sizes.mean(0))
    torch.testing.assert_close(posterior.std, sizes.std(0))
    torch.testing.assert_close(posterior.quantiles([0.5])[0], sizes.median(0).values)
    low, high = posterior.interval(0.9, calibrated=False)
    torch.testing.assert_close(low, sizes.min(0).values)
    torch.testing.assert_close(high, sizes.max(0).values)
    wide, _ = posterior.interval(0.8)
    assert float(wide.min()) >= 0
    region = torch.zeros(SIZE, dtype=torch.bool)
    region[6:9, 6:9] = True
    assert posterior.support(region).samples == 19


def test_items_of_several_sizes_are_given_as_magnitudes(model: Model) -> None:
    plan = Plan(samples=9, calls=2, batch=4, force=True, keep=True)
    sizes = (SIZE, (16, 16), (50, 16))
    items = [(str(size), make_measurement(size=size)) for size in sizes]
    outcomes = list(reconstruct_items(model, items, plan))
    for size, one in zip(sizes, outcomes, strict=True):
        assert one.status == "done", one.reason
        for image in (one.mean, one.std, one.low, one.high, one.preview):
            assert image is not None
            assert image.dtype == torch.float32
            assert image.shape == (1, *size)
        assert one.samples is not None
        assert one.samples.is_complex()
    # Sides of 12 to 40 are what the model is for; beyond them a card is red.
    reason = "images of 50 x 16 pixels, and it is for sides of 12 to 40"
    assert [reason in [c.reason for c in one.trust.checks] for one in outcomes] == [0, 0, 1]
    assert outcomes[2].trust.light == "red"
    (refused,) = reconstruct_items(model, items[2:], Plan(samples=9, calls=2))
    assert refused.status == "refused"
    assert reason in refused.reason


@pytest.mark.parametrize(("coils", "told"), [(4, False), (5, True)])
def test_more_coils_than_the_model_is_for_are_told(model: Model, coils: int, told: bool) -> None:
    (reason,) = find_unfamiliar(model, make_measurement(coils=coils))
    assert (reason == f"{coils} coils, and it is for 1 to 4: compress them") == told


def test_models_of_one_size_take_no_other(model: Model, masked_model: Model) -> None:
    check_size(model, (1, 99, 7))
    with pytest.raises(UnfitError, match="makes 1 x 12 to 40 pixels a side"):
        check_size(model, (3, 16, 16))
    with pytest.raises(UnfitError, match=r"x.npz is of images 1x17x16.*makes 1x16x16"):
        check_size(masked_model, (1, 17, 16), "x.npz")
