"""Line integrals beside closed forms; the laws of test_laws.py hold for Radon, too."""

import math

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint.given import read_operator
from bcdm.conditioning import Conditioning
from bcdm.diffusion import VP
from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods import ExactPosterior, GaussianMixture
from bcdm.operators import FourierMask, Radon, check_operator, space_angles, to_matrix

PRECISE = torch.float64


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = PRECISE) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def draw_disc(side: int, radius: float, centre: tuple[float, float], finer: int = 8) -> Tensor:
    """The share of each pixel that a disc covers, its centre as (column, row) from the middle."""
    at = (torch.arange(side * finer, dtype=PRECISE) + 0.5) / finer - side / 2
    inside = (at[None] - centre[0]) ** 2 + (at[:, None] - centre[1]) ** 2 <= radius**2
    return inside.double().reshape(side, finer, side, finer).mean((1, 3))[None, None]


def measure_chords(distance: Tensor, radius: float) -> Tensor:
    """Lengths of chords of a disc at distances from its centre."""
    return 2 * (radius**2 - distance**2).clamp_min(0).sqrt()


def test_a_disc_off_the_middle_has_the_chords_of_a_circle() -> None:
    """To 1 % of the longest one in the mean square, 8 % at the edge, which pixels round off."""
    radius, centre = 17.0, (6.3, -4.1)
    operator = Radon(space_angles(24).double(), (64, 64), scaling="length")
    seen = operator.forward(draw_disc(64, radius, centre))[0, 0]
    angle = torch.deg2rad(operator.angles)[:, None]
    within = torch.tensor([-0.25, 0.25])[:, None, None]
    offset = torch.arange(operator.count) - (operator.count - 1) / 2 + within
    away = offset - centre[0] * angle.cos() - centre[1] * angle.sin()
    expected = measure_chords(away, radius).mean(0)
    assert float((seen - expected).square().mean().sqrt()) < 0.01 * 2 * radius
    assert float((seen - expected).abs().max()) < 0.08 * 2 * radius


def test_a_fan_sees_the_chords_of_a_disc_and_casts_a_larger_shadow() -> None:
    radius, source, detector = 12.0, 80.0, 40.0
    operator = Radon(
        space_angles(5, 360).double(), (48, 48), source_distance=source,
        detector_distance=detector, rays=1, scaling="length",
    )  # fmt: skip
    seen = operator.forward(draw_disc(48, radius, (0.0, 0.0)))[0, 0]
    offset = torch.arange(operator.count) - (operator.count - 1) / 2
    away = source * torch.sin(torch.atan(offset / (source + detector)))
    expected = measure_chords(away, radius)
    assert float((seen - expected).square().mean().sqrt()) < 0.015 * 2 * radius
    half = (source + detector) * math.tan(math.asin(radius / source))
    assert abs(float((seen[0] > 0).sum()) - 2 * half) <= 3


def test_a_fan_from_far_away_is_parallel() -> None:
    x = normal(1, 1, 20, 26)
    angles = torch.tensor([7.0, 61.0, 133.0], dtype=PRECISE)
    settings = {"detectors": 30, "centre": 13.2, "scaling": "length"}
    far = Radon(angles, (20, 26), source_distance=1e7, **settings).forward(x)
    near = Radon(angles, (20, 26), source_distance=40.0, **settings).forward(x)
    parallel = Radon(angles, (20, 26), **settings).forward(x)
    assert float((far - parallel).norm() / parallel.norm()) < 1e-4
    assert float((near - parallel).norm() / parallel.norm()) > 1e-2


def test_rays_along_the_axes_sum_columns_and_rows() -> None:
    x = normal(1, 2, 6, 6)
    seen = Radon(torch.tensor([0.0, 90.0, 180.0], dtype=PRECISE), (6, 6), detectors=6,
                 scaling="length").forward(x)  # fmt: skip
    torch.testing.assert_close(seen[:, :, 0], x.sum(-2))
    torch.testing.assert_close(seen[:, :, 1], x.sum(-1))
    torch.testing.assert_close(seen[:, :, 2], x.sum(-2).flip(-1))


def test_the_centre_moves_the_sinogram() -> None:
    x, angles = normal(1, 1, 12, 12), space_angles(7).double()
    settings = {"detectors": 41, "scaling": "length"}
    middle = Radon(angles, (12, 12), **settings).forward(x)
    moved = Radon(angles, (12, 12), centre=14.0, **settings).forward(x)
    torch.testing.assert_close(moved, middle.roll(-6, -1))


def test_detectors_see_all_of_the_image() -> None:
    for settings in ({}, {"spacing": 0.7}, {"source_distance": 30.0, "detector_distance": 20.0}):
        spacing = settings.get("spacing", 1.0)
        angles = torch.tensor([0.0, 45.0], dtype=PRECISE)
        own = Radon(angles, (16, 16), scaling="length", **settings)
        wider = Radon(angles, (16, 16), own.count + 10, scaling="length", **settings)
        ones = torch.ones(1, 1, 16, 16, dtype=PRECISE)
        torch.testing.assert_close(own.forward(ones).sum(-1), wider.forward(ones).sum(-1))
        if not settings.get("source_distance"):
            mass = own.forward(ones).sum(-1) * spacing
            torch.testing.assert_close(mass, torch.full_like(mass, 256.0), rtol=0.02, atol=0)


@pytest.mark.parametrize("settings", [{}, {"source_distance": 60.0}], ids=["parallel", "fan"])
def test_the_largest_singular_value_is_one(settings: dict[str, float]) -> None:
    operator = Radon(space_angles(9).double(), (16, 12), **settings)
    largest = torch.linalg.matrix_norm(to_matrix(operator, (1, 16, 12), PRECISE), 2)
    assert abs(float(largest) - 1) < 1e-5
    plain = Radon(space_angles(9).double(), (16, 12), scaling="length", **settings)
    x = normal(1, 1, 16, 12)
    torch.testing.assert_close(operator.scale * plain.forward(x), operator.forward(x))


def test_float32_has_its_adjoint_and_functions_of_the_matrix() -> None:
    """In the precision of training, wide (few angles) and tall (many)."""
    for count in (8, 40):
        operator = Radon(space_angles(count), (24, 24))
        x, y = normal(2, 1, 24, 24), normal(2, 1, count, operator.count, seed=1)
        left = (operator.forward(x.float()).double() * y).flatten(1).sum(1)
        right = (x * operator.adjoint(y.float()).double()).flatten(1).sum(1)
        assert float((left - right).abs().max() / x.norm()) < 1e-6
        matrix = to_matrix(operator.to(PRECISE), (1, 24, 24), PRECISE)
        values, vectors = torch.linalg.eigh(matrix.mT @ matrix)
        for f in (torch.sqrt, lambda e: 1 / (1e-3 + e), lambda e: (0.01 + e).rsqrt()):
            weights = f(values.clamp_min(0))
            expected = ((x.flatten(1) @ vectors) * weights) @ vectors.mT
            got = operator.gram_function(f, x.float()).double().flatten(1)
            assert float((got - expected).norm() / expected.norm()) < 1e-5


def test_the_posterior_of_a_gaussian_prior() -> None:
    """Mean and covariance by the package beside those by matrices in float64."""
    shape, std = (1, 9, 9), 0.05
    place = torch.cartesian_prod(*[torch.arange(9.0)] * 2).double()
    prior = GaussianMixture.gaussian(
        torch.zeros(81, dtype=PRECISE), torch.exp(-torch.cdist(place, place) / 3), shape
    )
    operator = Radon(space_angles(6).double(), (9, 9))
    measurement = Measurement.simulate(prior.sample(1, seed=1), operator, std, seed=2)
    A, C = to_matrix(operator, shape, PRECISE), prior.covariances[0]
    gain = C @ A.mT @ torch.linalg.inv(A @ C @ A.mT + std**2 * torch.eye(len(A)).double())
    posterior = prior.condition(measurement)
    torch.testing.assert_close(posterior.mean.flatten(), gain @ measurement.y.flatten())
    torch.testing.assert_close(posterior.covariances[0], C - gain @ A @ C)


def test_statistics_of_the_paper_by_decomposition_and_by_iteration() -> None:
    """At every level E[x_0 | x_t, y] of the exact posterior, and the same Wiener statistic."""
    x = normal(1, 1, 10, 10)
    exact = Radon(space_angles(5).double(), (10, 10))
    iterated = Radon(space_angles(5).double(), (10, 10), exact=False, tolerance=1e-10)
    prior = GaussianMixture.gaussian(
        torch.zeros(100, dtype=PRECISE), torch.eye(100, dtype=PRECISE), (1, 10, 10)
    )
    first, second = (Measurement.simulate(x, one, 0.1, seed=3) for one in (exact, iterated))
    denoiser = ExactPosterior(prior, VP()).condition(first)
    for log_snr in (-6.0, 0.0, 6.0):
        level = VP().level(torch.tensor([log_snr], dtype=PRECISE))
        x_t = level.alpha * x + level.sigma * normal(1, 1, 10, 10, seed=4)
        one = Conditioning(first, level).wiener_statistic(x_t, 1.0)
        torch.testing.assert_close(one, denoiser(x_t, level))
        # An iteration stops where what is left unknown hides the rest.
        other = Conditioning(second, level).wiener_statistic(x_t, 1.0)
        assert float((one - other).norm() / one.norm()) < 0.02


def test_large_images_are_iterated_with_a_filter_in_place() -> None:
    """The filter is nearer to the operator than taking no measurement into account is."""
    small = Radon(space_angles(45), (48, 48))
    large = Radon(space_angles(45), (48, 48), exact=False)
    assert small.closed_form
    assert small.stand_in is small
    assert not large.closed_form
    assert not Radon(space_angles(30), (128, 128)).closed_form
    assert isinstance(large.stand_in, FourierMask)
    x = normal(4, 1, 48, 48).float()

    def left(e: Tensor) -> Tensor:
        return (1 + e / 0.01).rsqrt()

    true = large.approximate(left, x, 1e-3)
    found = large.stand_in.gram_function(left, x)
    assert float((found - true).norm()) < 0.5 * float((x - true).norm())


def test_what_was_computed_moves_along() -> None:
    operator = Radon(space_angles(3), (8, 8))
    operator.solve(1.0, 1.0, torch.ones(1, 1, 8, 8))
    moved = operator.to("cpu")
    assert torch.equal(moved._basis[0], operator._basis[0])
    assert "_basis" not in operator.to(PRECISE).__dict__


def test_a_doubtful_geometry_is_refused() -> None:
    angles = space_angles(3)
    for settings, said in (
        ({"source_distance": 5.0}, "inside of the image"),
        ({"spacing": 0.0}, "spacing > 0"),
        ({"rays": 0}, "rays >= 1"),
        ({"detectors": 0}, "needs detectors"),
        ({"detectors": 1 << 40}, "and not"),
        ({"scaling": "other"}, "'unit' or 'length'"),
        ({"angles": torch.zeros(2, 2)}, "degrees"),
        ({"angles": torch.tensor([0.0, torch.nan])}, "not finite"),
    ):
        with pytest.raises(InputError, match=said):
            Radon(**{"angles": angles, "size": (8, 8)} | settings)
    with pytest.raises(InputError, match="no ray"):
        Radon(angles, (8, 8), 4, centre=300.0).forward(torch.ones(1, 1, 8, 8))
    operator = Radon(angles, (8, 8))
    with pytest.raises(ShapeError, match="end in"):
        operator.forward(torch.ones(1, 1, 8, 9))
    with pytest.raises(ShapeError, match="missing axes"):
        operator.forward(torch.ones(2, 8, 8))
    with pytest.raises(DtypeError, match="real images"):
        operator.forward(torch.ones(1, 1, 8, 8, dtype=torch.complex64))
    assert check_operator(operator, (1, 8, 8)).right


def test_settings_name_a_geometry() -> None:
    parallel = read_operator("{kind: radon, angles: 30, detectors: 20, centre: 8.5}", (16, 16))
    assert isinstance(parallel, Radon)
    torch.testing.assert_close(parallel.angles, torch.arange(0.0, 180.0, 6.0))
    assert (parallel.size, parallel.count, parallel.centre) == ((16, 16), 20, 8.5)
    fan = read_operator("{kind: radon, angles: 4, source_distance: 40, spacing: 2}", (16, 16))
    assert isinstance(fan, Radon)
    assert fan.angles.tolist() == [0.0, 90.0, 180.0, 270.0]
    assert (fan.source_distance, fan.spacing) == (40.0, 2.0)
    part = read_operator("{kind: radon, angles: 4, arc: 60}", (16, 16))
    assert isinstance(part, Radon)
    assert part.angles.tolist() == [0.0, 15.0, 30.0, 45.0]
