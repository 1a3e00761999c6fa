"""A simulated fleet: where its course is known by heart, and what chance may change."""

import numpy as np
import pytest

from bcdm.archive.simulation import Fleet, simulate


def test_nothing_fails() -> None:
    course = simulate(Fleet(workers=4, shards=40, shard=10.0, start=3.0))
    assert (course.seconds, course.deaths, course.lost, course.useful) == (103.0, 0, 0.0, 400.0)
    assert Fleet(4, 40, 10.0, start=3.0).least == 103.0


def test_one_death_costs_what_was_begun_a_start_and_the_wait_for_it() -> None:
    """A worker of two dies at 14: four seconds of a shard are lost, which the other one does."""
    fleet = Fleet(workers=2, shards=4, shard=10.0, start=0.0, replace=5.0)
    course = simulate(fleet, draw_lifetime=lambda w, k: 14.0 if (w, k) == (1, 0) else np.inf)
    assert (course.deaths, course.lost, course.useful) == (1, 4.0, 40.0)
    # The new process begins at 19, with the shard that was lost.
    assert course.seconds == 29.0


def test_with_the_driver_all_that_is_in_work_is_lost() -> None:
    fleet = Fleet(8, 400, 10.0, driver_lifetime=100.0, driver_start=7.0)
    course = simulate(fleet, seed=1)
    assert course.driver_deaths > 1
    assert course.deaths == 0
    assert 0 < course.lost <= 8 * 10.0 * course.driver_deaths
    assert course.useful == pytest.approx(4000.0)


def test_a_driver_hands_out_one_shard_after_the_other() -> None:
    """A thousand workers ask for a hundred a second; it manages ten."""
    course = simulate(Fleet(1000, 5000, 10.0, hand_out=0.1))
    assert course.seconds == pytest.approx(5000 * 0.1 + 10.0)


def test_lost_work_is_what_theory_says() -> None:
    """Deaths at rate r during shards of length T: (e^(rT) - 1 - rT) / rT of the work is lost."""
    rate, length = 1 / 400, 100.0
    found = [simulate(Fleet(20, 2000, length, lifetime=1 / rate), seed=k).redone for k in range(5)]
    expected = (np.exp(rate * length) - 1 - rate * length) / (rate * length)
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_a_seed_is_a_course() -> None:
    fleet = Fleet(50, 500, 100.0, spread=0.3, start=5.0, lifetime=2000.0, driver_lifetime=9000.0)
    assert simulate(fleet, seed=3) == simulate(fleet, seed=3)
    assert simulate(fleet, seed=3) != simulate(fleet, seed=4)
