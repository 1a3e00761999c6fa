"""Single steps of every sampler against its formula, written out with plain numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from bcdm.diffusion import (
    DDIM,
    VE,
    VP,
    Ancestral,
    DPMSolver,
    EulerMaruyama,
    Heun,
    Memory,
    NoiseLevel,
    PredictorCorrector,
    Sampler,
    Schedule,
    Step,
)
from bcdm.errors import InputError
from bcdm.tensors import ImageSpec

X, LAST, LAST_STEP = 0.7, -0.4, 0.8
NOISE = (0.3, -1.1, 0.6)
PAIRS = [(-3.0, -2.2), (0.5, 1.1), (4.0, 7.0)]


@dataclass(frozen=True)
class Curve:
    """A mean that is not linear in x_t and knows its level."""

    schedule: Schedule

    @property
    def image(self) -> ImageSpec:
        return ImageSpec((1,), torch.float64)

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        return 0.2 + 0.5 * x_t.tanh() + 0.1 * level.log_snr[:, None]


def number(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64)


def mean(x: float, log_snr: float) -> float:
    return 0.2 + 0.5 * math.tanh(x) + 0.1 * log_snr


@dataclass(frozen=True)
class Place:
    """Both levels of a step in plain numbers."""

    growth: float
    a: float
    sigma: float
    a_s: float
    sigma_s: float
    t: float
    s: float

    @property
    def h(self) -> float:
        return self.s - self.t

    def score(self, x: float) -> float:
        return (self.a * mean(x, self.t) - x) / self.sigma**2

    def noise(self, x: float) -> float:
        return (x - self.a * mean(x, self.t)) / self.sigma


def ancestral(p: Place) -> float:
    ratio = p.a / p.a_s
    variance = p.sigma**2 - ratio**2 * p.sigma_s**2
    return (X + variance * p.score(X)) / ratio + variance**0.5 * NOISE[0]


def corrected(p: Place) -> float:
    x, size = ancestral(p), 2 * (0.16 * p.sigma_s) ** 2
    for n in NOISE[1:]:
        score = (p.a_s * mean(x, p.s) - x) / p.sigma_s**2
        x = x + size * score + (2 * size) ** 0.5 * n
    return x


def euler(p: Place) -> float:
    drift = p.growth * X + p.sigma**2 * p.score(X)
    return X + p.h * drift + p.sigma * p.h**0.5 * NOISE[0]


def ddim(eta: float) -> Callable[[Place], float]:
    def step(p: Place) -> float:
        fresh = eta**2 * p.sigma_s**2 * (1 - math.exp(-p.h))
        kept = (p.sigma_s**2 - fresh) ** 0.5
        return p.a_s * mean(X, p.t) + kept * p.noise(X) + fresh**0.5 * NOISE[0]

    return step


def solver(churn: float, published: bool, memory: bool) -> Callable[[Place], float]:
    def step(p: Place) -> float:
        ahead = mean(X, p.t)
        if memory:
            reach = 0.5
            if not published:
                curb = (1 + churn) / (8 * (2 + churn)) * p.h
                reach -= curb * math.exp(-(2 + churn) / 6 * p.h)
            ahead += reach * p.h / LAST_STEP * (ahead - LAST)
        return (
            p.sigma_s / p.sigma * math.exp(-churn * p.h / 2) * X
            + p.a_s * (1 - math.exp(-(1 + churn) * p.h / 2)) * ahead
            + p.sigma_s * (1 - math.exp(-churn * p.h)) ** 0.5 * NOISE[0]
        )

    return step


def heun(p: Place) -> float:
    u, before, after = X / p.a, p.sigma / p.a, p.sigma_s / p.a_s
    first = (u - mean(X, p.t)) / before
    guess = u + (after - before) * first
    second = (guess - mean(guess * p.a_s, p.s)) / after
    return p.a_s * (u + (after - before) * (first + second) / 2)


CASES: dict[str, tuple[Sampler, bool, Callable[[Place], float]]] = {
    "ancestral": (Ancestral(), False, ancestral),
    "corrected": (PredictorCorrector(corrections=2), False, corrected),
    "euler": (EulerMaruyama(), False, euler),
    "ddim": (DDIM(), False, ddim(0.0)),
    "ddim 0.4": (DDIM(0.4), False, ddim(0.4)),
    "ddim 1": (DDIM(1.0), False, ddim(1.0)),
    "solver, first": (DPMSolver(), False, solver(0.0, False, False)),
    "solver": (DPMSolver(), True, solver(0.0, False, True)),
    "solver, churn": (DPMSolver(1.0), True, solver(1.0, False, True)),
    "solver, published": (DPMSolver(3.0, published=True), True, solver(3.0, True, True)),
    "heun": (Heun(), False, heun),
}


@pytest.mark.parametrize("schedule", [VP(), VE()], ids=["VP", "VE"])
@pytest.mark.parametrize(("sampler", "remembers", "formula"), CASES.values(), ids=CASES)
def test_step_is_its_formula(sampler, remembers, formula, schedule) -> None:
    for t, s in PAIRS:
        levels = [schedule.level(number(value)) for value in (t, s)]
        numbers = [float(c) for level in levels for c in level]
        growth = numbers[1] ** 2 / 2 if isinstance(schedule, VP) else 0.0
        memory = Memory(number(LAST)[None], number(LAST_STEP))
        step = Step(*levels, lambda k: number(NOISE[k])[None], memory if remembers else None)
        x, kept = sampler.advance(Curve(schedule), number(X)[None], step)
        place = Place(growth, *numbers, t, s)
        assert float(x) == pytest.approx(formula(place), rel=1e-9)
        if isinstance(sampler, DPMSolver):
            assert float(kept.mean) == pytest.approx(mean(X, t))
            assert float(kept.h) == pytest.approx(s - t)
        else:
            assert kept is None


@pytest.mark.parametrize(
    ("sampler", "calls"),
    [
        (Ancestral(), 9),
        (EulerMaruyama(), 9),
        (DDIM(), 9),
        (DPMSolver(), 9),
        (Heun(), 17),
        (PredictorCorrector(), 17),
        (PredictorCorrector(corrections=3), 33),
    ],
)
def test_calls_of_nine_levels(sampler: Sampler, calls: int) -> None:
    assert sampler.calls(9) == calls


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DDIM(-0.01), "eta"),
        (lambda: DDIM(1.01), "eta"),
        (lambda: DPMSolver(-0.01), "churn"),
        (lambda: DPMSolver(float("nan")), "churn"),
        (lambda: VP(sigma_min=0.0), "sigma_min"),
        (lambda: VP(sigma_min=1.0), "sigma_min"),
        (lambda: VP(beta_min=0.0), "beta_min"),
        (lambda: VP(beta_min=20.0), "beta_min"),
        (lambda: VE(sigma_min=0.0), "sigma_min"),
        (lambda: VE(sigma_min=1.0, sigma_max=1.0), "sigma_min"),
        (lambda: VP().grid(0), "at least one step"),
        (lambda: VP().time_grid(0), "at least one step"),
        (lambda: VP(spread=0.0).grid(3), "spread"),
    ],
)
def test_what_has_no_meaning_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_what_has_a_meaning_is_taken() -> None:
    assert DDIM(0.0) == DDIM()
    assert DPMSolver(0.0) == DPMSolver()
    assert len(VP().grid(1)) == len(VP().time_grid(1)) == 1
    # Too few levels to leave any out.
    assert torch.equal(VP(spread=0.1).grid(2), VP().grid(2))
    assert not torch.equal(VP(spread=0.1).grid(4), VP().grid(4))
