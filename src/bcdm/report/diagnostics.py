"""Diagrams about a reconstruction and its model."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from bcdm.checkpoint import Guest, Model
from bcdm.reconstruction.posterior import Posterior
from bcdm.report.content import Curve

__all__ = ["make_coverage", "make_residuals"]


def make_residuals(posteriors: Sequence[Posterior]) -> tuple[Curve, ...]:
    """The residual of a sample in units of the noise, beside the normal law it should have."""
    edges = np.linspace(-5, 5, 41)
    counts = np.zeros(len(edges) - 1)
    for one in posteriors:
        if not bool(one.samples.isfinite().all()):
            continue
        residual = one.measurement.residual(one.samples[0])[0]
        mask = one.measurement.data_mask
        kept = residual[mask.expand(1, *residual.shape)[0]] if mask is not None else residual
        flat = torch.view_as_real(kept) if kept.is_complex() else kept
        counts += np.histogram(np.clip(flat.flatten().cpu().numpy(), -5, 5), edges)[0]
    if not counts.any():
        return ()
    density = counts / (counts.sum() * np.diff(edges))
    middle = (edges[1:] + edges[:-1]) / 2
    normal = np.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi)
    series = {"this scan": (edges, density), "noise alone": (middle, normal)}
    across = "(data \N{MINUS SIGN} predicted data) / noise level"
    return (Curve("Residual of a sample", across, "density", series),)


def make_coverage(model: Model | Guest) -> tuple[Curve, ...]:
    """How often intervals by samples alone held the truth on held-out images, from its card.

    Those that a report shows are made wider or narrower after it, by the model's calibration.
    """
    if isinstance(model, Guest):
        return ()
    rows = (model.facts.get("metrics") or {}).get("rows", {})
    found = []
    for level in (0.5, 0.8, 0.9, 0.95):
        text = rows.get(f"coverage {level:.0%}, all pixels")
        if text is not None:
            found.append((level, float(text.split()[0])))
    if not found:
        return ()
    x, y = (np.array(part) for part in zip(*found, strict=True))
    series = {model.config.name: (x, y)}
    name = "Coverage on held-out images by samples alone, uncalibrated, air included"
    return (Curve(name, "promised", "held", series, diagonal=True),)
