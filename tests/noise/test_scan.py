"""Noise scans: covariance, its root, and the conventions of `Measurement`."""

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.noise import estimate_from_noise_scan

COUNT = 20_000
MIXING = np.array([[1, 0, 0], [0.5 + 0.3j, 0.8, 0], [-0.2j, 0.4, 2.0]])
COVARIANCE = MIXING @ MIXING.conj().T


def draw(seed: int, count: int = COUNT) -> np.ndarray:
    """Noise whose parts have the covariance each."""
    rng = np.random.default_rng(seed)
    return MIXING @ (rng.normal(size=(3, count)) + 1j * rng.normal(size=(3, count)))


def test_covariance_and_levels_are_found() -> None:
    scan = estimate_from_noise_scan(draw(0) + 5)
    std = np.sqrt(COVARIANCE.diagonal().real)
    # Entries of a sample covariance have the error sqrt(v_i v_j / n), up to a factor of one.
    error = np.outer(std, std) / np.sqrt(COUNT)
    assert (abs(scan.covariance - COVARIANCE) < 4 * error).all()
    assert (abs(scan.std - std) < 4 * scan.standard_error).all()
    np.testing.assert_allclose(scan.standard_error, std / np.sqrt(4 * COUNT), rtol=0.05)


def test_standard_errors_are_those_seen() -> None:
    scans = [estimate_from_noise_scan(draw(seed, 200)) for seed in range(200)]
    seen = np.std([scan.std for scan in scans], axis=0)
    # A standard deviation of 200 draws is known to 5 %.
    np.testing.assert_allclose(scans[0].standard_error, seen, rtol=0.25)
    seen = np.std([scan.estimate.std for scan in scans])
    assert scans[0].estimate.standard_error == pytest.approx(seen, rel=0.25)


def test_whitened_noise_is_white_and_of_unit_level() -> None:
    white = estimate_from_noise_scan(estimate_from_noise_scan(draw(0)).whitening @ draw(1))
    # Both scans have the error 1 / sqrt(n).
    np.testing.assert_allclose(white.covariance, np.eye(3), atol=5 * np.sqrt(2 / COUNT))


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (np.zeros(8, complex), "axes"),
        (np.ones((2, 100)), "complex"),
        (np.ones((4, 8), complex), "too few"),
        (np.full((1, 100), np.nan * 1j), "non-finite"),
        (np.zeros((2, 100), complex), "silent"),
    ],
)
def test_unfit_scans_are_refused(noise: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        estimate_from_noise_scan(noise)
