"""Numbers per image: quality of estimates, calibration of samples, consistency with the data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from bcdm.checkpoint.settings import resolve_data_path
from bcdm.errors import ShapeError
from bcdm.evaluation import (
    LPIPS,
    Inception,
    chi_square,
    compare_spread,
    coverage,
    crps,
    psnr,
    ssim,
)
from bcdm.evaluation.signal import find_object
from bcdm.measurement import Measurement

__all__ = [
    "FEATURES",
    "FID",
    "FRECHET",
    "LEVELS",
    "Metric",
    "Scores",
    "open_features",
    "open_lpips",
]

Metric = Callable[[Tensor, Tensor], Tensor]
"""Maps estimates and the truth, (B, C, H, W) each, to one number for each image, (B,)."""

LEVELS = (0.5, 0.8, 0.9, 0.95)
FRECHET, FID = "Frechet distance", "FID"
FEATURES = {FRECHET: "AlexNet conv5, channel means", FID: "Inception of FID, 2048 pooled"}


@dataclass
class Scores:
    """Per-image numbers by (metric, estimate), and what a figure shows."""

    rows: dict[tuple[str, str], list[Tensor]] = field(default_factory=dict)
    shown: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, metric: str, estimate: str, values: Tensor) -> None:
        """Adds the numbers of a batch, (B,)."""
        self.rows.setdefault((metric, estimate), []).append(values.detach().double().cpu())

    def get(self, metric: str, estimate: str) -> Tensor:
        """The numbers of all images."""
        return torch.cat(self.rows[metric, estimate])

    def judge_images(
        self,
        x: Tensor,
        estimates: dict[str, Tensor],
        value_range: tuple[float, float],
        lpips: LPIPS | None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        """PSNR and SSIM over the value range, LPIPS and a user's metrics, of estimates by name."""
        low, high = value_range
        span = high - low
        for name, estimate in estimates.items():
            self.add("PSNR", name, psnr(estimate, x, data_range=span))
            self.add("SSIM", name, ssim(estimate, x, data_range=span, convention="wang"))
            if lpips is not None:
                # LPIPS takes [-1, 1].
                unit = [2 * (image - low) / span - 1 for image in (estimate, x)]
                self.add("LPIPS", name, lpips(*unit))
            for metric, judge in (metrics or {}).items():
                values = judge(estimate, x)
                if tuple(values.shape) != (len(x),):
                    raise ShapeError(
                        f"the metric {metric} gives {tuple(values.shape)} for {len(x)} images: one "
                        "number each is needed"
                    )
                self.add(metric, name, values)

    def judge_samples(
        self,
        x: Tensor,
        drawn: Tensor,
        measurement: Measurement,
        levels: Sequence[float] = LEVELS,
        black: float | None = None,
    ) -> None:
        """CRPS, coverage, spread, skill and chi-square of samples (S, B, ...).

        Where black is given, pixels of the object are also counted apart: most of an image may be
        air, whose intervals hold more than they promise.
        """
        self.add("CRPS", "samples", crps(drawn, x))
        masks = {
            "all pixels": None,
            "hidden pixels": _find_hidden(measurement, x),
            "pixels of the object": None if black is None else find_object(x, black),
        }
        for name, mask in masks.items():
            if mask is not None or name == "all pixels":
                observed = coverage(drawn, x, levels, mask=mask).observed
                for k, level in enumerate(levels):
                    self.add(f"coverage {level:.0%}", name, observed[:, k])
        spread, skill = compare_spread(drawn, None, x)
        self.add("spread", "", spread.flatten(1).mean(1))
        self.add("skill", "", skill.flatten(1).mean(1))
        mask = measurement.data_mask
        squares = [
            chi_square(measurement.residual(drawn[k]), 1.0, mask=mask).reduced for k in range(2)
        ]
        name = "chi-square per degree of freedom"
        self.add(name, "single sample", torch.stack(squares).mean(0))
        self.add(name, "truth", chi_square(measurement.residual(x), 1.0, mask=mask).reduced)


def _find_hidden(measurement: Measurement, x: Tensor) -> Tensor | None:
    """Pixels that a pixel mask does not show; None where the data are no pixels, or are all."""
    mask = measurement.data_mask
    if mask is None or measurement.y.is_complex() or measurement.y.shape != x.shape:
        return None
    hidden = (~mask).expand(x.shape)
    return hidden if bool(hidden.flatten(1).any(1).all()) else None


def open_lpips(path: Path | None, data: Path | None) -> LPIPS | None:
    """LPIPS by a file of weights, or a folder that holds AlexNet's; None for none."""
    if path is None:
        return None
    path = resolve_data_path(path, data)
    return LPIPS.load(path / "lpips_alexnet_fp32.npz" if path.is_dir() else path)


def open_features(
    lpips: LPIPS | None, fid: Path | None, data: Path | None, value_range: tuple[float, float]
) -> dict[str, Callable[[Tensor], Tensor]]:
    """What makes features (B, d) of images, by the name of the distance that is taken on them."""
    low, high = value_range

    def scale(images: Tensor) -> Tensor:
        return 2 * (images - low) / (high - low) - 1

    makers: dict[str, Callable[[Tensor], Tensor]] = {}
    if lpips is not None:
        makers[FRECHET] = lambda images: lpips.features(scale(images))[-1].mean((2, 3))
    if fid is not None:
        inception = Inception.load(resolve_data_path(fid, data))
        makers[FID] = lambda images: inception.features(scale(images))
    return makers
