r"""The variance that energies share when each may hold signal on top: a floor by likelihood.

An energy $e$ is the mean of $d$ squares of centred normal numbers of variance $v + t$: the noise
has the variance $v$ everywhere, the signal adds some $t \ge 0$ that differs from place to place. So
$e / (v + t)$ follows $\chi^2_d / d$, and with $z = \log e - \log(v + t)$

$$ p(\log e) \propto \exp\bigl(\tfrac d2 (z - \mathrm e^z)\bigr). $$

Taking the smallest energies would bias $v$ down, taking all would bias it up. Here both are
modelled: $\log t$ is normal with a fitted centre and width, which has no lower edge of its own, so
that what stands out as an edge is the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Floor", "fit_decaying_floor", "fit_floor"]

Array = NDArray[np.float64]

_NODES: Array = np.array([NormalDist().inv_cdf((place + 0.5) / 16) for place in range(16)])
_TINY = 1e-300
_REACH = 3.0  # energies above this many floors tell of the signal, not of the floor
_WIDTHS = (0.3, 3.0)  # of log t
_DECAY = (3.0, 0.7)  # power spectra of pictures fall by about this power of the frequency
_SCATTER = (0.7, 0.4)  # and differ by this much, in log, at one frequency


@dataclass(frozen=True)
class Floor:
    """What was fitted.

    Attributes:
        variance: The floor.
        error: Relative standard error of the variance.
    """

    variance: float
    error: float

    @property
    def estimate(self) -> tuple[float, float, int]:
        """Standard deviation, its standard error, and the count of numbers with that error."""
        std = sqrt(self.variance)
        return std, std * self.error / 2, max(1, round(2 / self.error**2))


def fit_floor(
    energies: Array, dof: float, groups: NDArray[np.int64], overlap: float = 1.0
) -> Floor:
    r"""Fits a floor where a part $a$ of the places has no signal at all.

    $$ p(\log e) = a \, p_v(\log e) + (1 - a) \int p_{v + t}(\log e) \,
       \mathcal N(\log t; m, s^2) \, \mathrm d \log t $$

    over $v, s, m, a$; the second time over energies below $3 v$ alone, with all above as one count,
    because the shape of the strong signal's law is no concern of the floor's.

    Args:
        energies: Above zero, (n,).
        dof: $d$, the squares in each.
        groups: A number for each energy (n,); energies of one group may depend on each other.
        overlap: How many times each number is used: so much fewer energies are independent.
    """
    width = min(0.1, 0.3 * sqrt(2 / dof))
    logs = np.log(energies)
    centres = np.arange(logs.min(), logs.max() + 2 * width, width)
    place = np.round((logs - centres[0]) / width).astype(np.int64)
    rows = np.unique(groups, return_inverse=True)[1]
    counts = np.bincount(rows * len(centres) + place, minlength=(rows.max() + 1) * len(centres))
    table = counts.reshape(-1, len(centres)).astype(np.float64)
    total = table.sum(0)

    # A fifth of the places lies below the start: the search then moves to where the edge is.
    low = float(centres[np.searchsorted(np.cumsum(total), 0.2 * total.sum())])
    found, _ = _search(_Law(centres, dof), total, np.array([low, 1.2, low + 1.5]))
    inside = centres < found[0] + log(_REACH)
    law = _Law(centres[inside], dof)
    table = np.column_stack([table[:, inside], table[:, ~inside].sum(1)])
    found, part = _search(law, table.sum(0), found)
    inner = min(max(part, 0.05), 0.95)  # a part cannot be moved beyond none and all
    slopes = _differentiate(lambda x: _mix(law.masses(x[:3]), x[3]), np.append(found, inner))
    return Floor(exp(found[0]), _find_error(slopes, table, overlap))


@dataclass(frozen=True)
class _Law:
    """Probabilities of bins, and of all above the last of them."""

    centres: Array
    dof: float

    def masses(self, place: Array) -> Array:
        """Of noise alone and of noise with signal, (2, bins + 1), at (log v, s, m)."""
        log_v, width, middle = place
        variances = np.logaddexp(log_v, middle + width * _NODES)
        bins = self.centres[:, None]
        step = self.centres[1] - self.centres[0] if len(self.centres) > 1 else 1.0
        parts = (np.full(1, log_v), variances)
        mass = np.stack([_density(bins, part, self.dof) * step for part in parts])
        return np.column_stack([mass, np.maximum(1 - mass.sum(1), _TINY)])


def _search(law: _Law, counts: Array, start: Array) -> tuple[Array, float]:
    """The likeliest (log v, s, m), and the part of noise alone that goes with it."""
    counts = counts if len(counts) > len(law.centres) else np.append(counts, 0)

    def likelihood(place: Array) -> float:
        if not _WIDTHS[0] <= place[1] <= _WIDTHS[1]:
            return -inf
        masses = law.masses(place)
        return float(counts @ _mix(masses, _weigh(masses, counts)))

    place = _climb(likelihood, start, np.diag([0.4, 0.5, 1.5]))
    return place, _weigh(law.masses(place), counts)


def _mix(masses: Array, part: float) -> Array:
    """Log probabilities with a part of the first of two laws."""
    return np.log(part * masses[0] + (1 - part) * masses[1] + _TINY)


def _weigh(masses: Array, counts: Array) -> float:
    """The likeliest part of the first of two laws, by expectation maximisation."""
    part = 0.3
    for _ in range(12):
        of_first = part * masses[0] / (part * masses[0] + (1 - part) * masses[1] + _TINY)
        part = float(counts @ of_first / counts.sum())
    return part


def fit_decaying_floor(energies: Array, dof: float, radii: Array) -> Floor:
    r"""Fits a floor under a spectrum that falls as a power of the frequency.

    $$ \log t \sim \mathcal N(m - p \log r, s^2) $$

    over $v, m, p, s$, where $p$ and $s$ are held near those of pictures by normal priors: floor and
    spectrum cannot be told apart by the data alone where the floor is not reached. The error has a
    part for it: the signal below the floor is taken to be known to its own size.

    Args:
        energies: Above zero, (n,).
        dof: The squares in each.
        radii: Frequency of each, (n,).
    """
    logs, slope = np.log(energies), np.log(radii / radii.max())

    def law(place: Array) -> Array:
        log_v, middle, power, scatter = place
        signal = (middle - power * slope)[:, None] + scatter * _NODES
        return np.log(_density(logs[:, None], np.logaddexp(log_v, signal), dof) + _TINY)

    def posterior(place: Array) -> float:
        if not 0.1 <= place[3] <= 2:
            return -inf
        offset = (place[2] - _DECAY[0]) / _DECAY[1], (place[3] - _SCATTER[0]) / _SCATTER[1]
        return float(law(place).sum() - (offset[0] ** 2 + offset[1] ** 2) / 2)

    low = float(np.quantile(logs, 0.2))
    starts = [
        np.array([low + up, low + above, _DECAY[0], _SCATTER[0]])
        for up in (-2.0, -1.0, -0.3, 0.1)
        for above in (-3.0, -1.5, 0.0, 1.5)
    ]
    moves = np.diag([0.2, 0.4, 0.4, 0.2])
    ridges = [moves[1] - moves[0], moves[1] + moves[2], moves[1] - moves[2], moves[1] - moves[3]]
    place = _climb(posterior, max(starts, key=posterior), np.vstack([moves, *ridges]))
    slopes = _differentiate(law, place)
    prior = np.diag([0, 0, _DECAY[1] ** -2, _SCATTER[1] ** -2])
    statistical = sqrt(_invert(slopes.T @ slopes + prior)[0, 0])
    signal = np.exp(place[1] - place[2] * slope - place[0])
    # Each energy tells of the floor by the square of the floor's share in it.
    share = float(np.average(signal / (1 + signal), weights=(1 + signal) ** -2))
    return Floor(exp(place[0]), sqrt(statistical**2 + share**2))


def _density(log_e: Array, log_w: Array, dof: float) -> Array:
    """The law of log e (n, 1), averaged over variances w, (k,) or (n, k)."""
    z = log_e - log_w
    scale = exp(dof / 2 * log(dof / 2) - lgamma(dof / 2) - dof / 2)
    return scale * np.exp(dof / 2 * (z - np.expm1(z))).mean(1)


def _climb(objective: Callable[[Array], float], start: Array, moves: Array) -> Array:
    """Goes to the top by moves (k, n) that halve when none goes up."""
    place, best = start, objective(start)
    for _ in range(7):
        for _ in range(20):
            before = best
            for move in (*moves, *-moves):
                value = objective(place + move)
                if value > best:
                    place, best = place + move, value
            # Along a ridge without end the last steps change nothing that matters.
            if best < before + 1e-3:
                break
        moves = moves / 2
    return place


def _differentiate(law: Callable[[Array], Array], place: Array) -> Array:
    """Slopes (n, k) of n log probabilities along k parameters."""
    steps = 0.02 * np.eye(len(place))
    return np.column_stack([(law(place + s) - law(place - s)) / 0.04 for s in steps])


def _find_error(slopes: Array, table: Array, overlap: float) -> float:
    """Standard error of the first parameter when counts depend on each other within a row."""
    inverse = _invert((slopes * table.sum(0)[:, None]).T @ slopes)
    scores = table @ slopes
    between = inverse @ scores.T @ scores @ inverse
    # Few rows show little of their spread: the error of as many independent counts is the least.
    return sqrt(max(float(between[0, 0]), overlap * float(inverse[0, 0])))


def _invert(information: Array) -> Array:
    """The inverse, where a parameter that the data says nothing of stays as it is."""
    return np.asarray(np.linalg.inv(information + 1e-3 * np.eye(len(information))))
