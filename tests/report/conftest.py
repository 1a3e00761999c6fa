"""A small report that has everything, and ways to change it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcdm.report.content import Interval
from bcdm.report.html import Check, Curve, Report, Slice, Trust


def draw_slice(seed: int = 0, shape: tuple[int, ...] = (24, 20), count: int = 5) -> dict[str, Any]:
    """A smooth image, noisy samples of it, and all that can accompany them."""
    rng = np.random.default_rng(seed)
    rows, columns = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape[:2]), indexing="ij")
    image = np.exp(-2 * (rows**2 + columns**2))
    image = image[..., None] * np.array([1.0, 0.8, 0.6]) if len(shape) == 3 else image
    samples = image + (0.02 + 0.05 * image) * rng.standard_normal((count, *shape))
    return {
        "name": f"slice {seed}",
        "linear": image + 0.1 * rng.standard_normal(shape),
        "mean": samples.mean(0),
        "std": samples.std(0) if count > 1 else np.full(shape, 0.05),
        "samples": samples,
        "operator": (rng.random(shape[:2]) < 0.4).astype(float),
        "operator_label": "k-space mask",
        "reference": image,
        "interval": Interval(samples.min(0), samples.max(0), 0.8),
    }


@pytest.fixture
def make_slice() -> Callable[..., Slice]:
    def make(
        seed: int = 0, shape: tuple[int, ...] = (24, 20), count: int = 5, **changes: Any
    ) -> Slice:
        return Slice(**(draw_slice(seed, shape, count) | changes))

    return make


@pytest.fixture
def make_report() -> Callable[..., Report]:
    def make(**changes: Any) -> Report:
        levels = np.linspace(0.1, 0.9, 5)
        observed = np.append(levels[:-1] - 0.02, np.nan)
        density, edges = np.histogram(np.random.default_rng(3).standard_normal(500), 11)
        settings: dict[str, Any] = {
            "title": "Brain",
            "subtitle": "two slices",
            "simulated": True,
            "window": (0.0, 1.0),
            "unit": "a.u.",
            "slices": (Slice(**draw_slice(0)), Slice(**draw_slice(1))),
            "trust": Trust(
                "amber",
                "Read the uncertainty to one digit.",
                (
                    Check("Data fit", "1.02", "good", "The residual is as large as the noise."),
                    Check("Samples", "5", "doubtful", "Few."),
                    Check("Operator", "distance 9", "bad", "Unlike training."),
                    Check("Scanner", "no data", "none", "Nothing to compare with."),
                ),
            ),
            "curves": (
                Curve("Coverage", "level", "inside", {"here": (levels, observed)}, True),
                Curve("Residual", "z", "count", {"residual": (edges, density)}),
            ),
            "facts": (("Model", (("name", "brain64"), ("parameters", "3.4 M"))),),
            "provenance": {"sha256": "9f86d081", "seed": 7},
        }
        return Report(**(settings | changes))

    return make
