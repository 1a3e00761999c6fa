"""The floor of energies: found where signal lies on top, with an error that is true."""

import numpy as np
import pytest

from bcdm.noise.floor import fit_decaying_floor, fit_floor

DOF = 20


def draw(variances: np.ndarray, seed: int) -> np.ndarray:
    return variances * np.random.default_rng(seed).chisquare(DOF, len(variances)) / DOF


def spread(count: int, flat: float, seed: int) -> np.ndarray:
    """Variances, some of them 1, the others with signal of all sizes."""
    rng = np.random.default_rng(seed)
    signal = np.exp(rng.normal(1, 2, count))
    return 1 + np.where(rng.random(count) < flat, 0, signal)


@pytest.mark.parametrize("flat", [0.3, 0.6, 1.0])
def test_the_floor_and_its_error_are_true(flat: float) -> None:
    pulls = []
    for seed in range(12):
        floor = fit_floor(draw(spread(800, flat, seed), seed + 100), DOF, np.arange(800) % 20)
        assert floor.error < 0.15
        pulls.append(np.log(floor.variance) / floor.error)
    # 12 pulls: their root mean square is known to 20 %, and the model may be off by as much.
    assert np.sqrt(np.mean(np.square(pulls))) < 1.7


def test_energies_that_come_in_copies_count_once() -> None:
    energies = draw(spread(400, 0.5, 0), 1)
    groups = np.arange(400)
    once = fit_floor(energies, DOF, groups)
    copied = fit_floor(np.tile(energies, 9), DOF, np.tile(groups, 9))
    assert copied.variance == pytest.approx(once.variance, rel=0.02)
    assert copied.error == pytest.approx(once.error, rel=0.5)


@pytest.mark.parametrize("amount", [0.01, 0.1, 0.5])
def test_a_floor_under_a_decaying_spectrum(amount: float) -> None:
    radii = np.linspace(0.12, 0.7, 600)
    for seed in range(4):
        scatter = np.exp(np.random.default_rng(seed).normal(0, 0.7, 600))
        signal = amount * (radii / 0.7) ** -3 * scatter
        floor = fit_decaying_floor(draw(1 + signal, seed), DOF, radii)
        assert abs(np.log(floor.variance)) < 2 * floor.error
        assert floor.error < 0.1 + 2 * amount
