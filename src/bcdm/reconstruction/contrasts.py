"""Images as training has them, with another contrast: what a trust card must notice."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bcdm.evaluation.signal import OBJECT

__all__ = ["change_contrast", "change_gain"]

# Grey levels whose new values are drawn, over the brightness; black stays black.
_KNOTS = (0.0, 0.3, 0.65, 1.0)
# What is more like the image than that is no other contrast.
_ALIKE = 0.6
_TRIES = 30
GAINS = (0.7, 1.4)


def change_contrast(images: Tensor, value_range: tuple[float, float], seed: int) -> Tensor:
    """Images (N, C, H, W) whose grey levels are mapped by a drawn curve, another one for each.

    The curve is drawn until the old and the new grey levels of the object are hardly correlated;
    the brightness stays. Complex images keep their phase.
    """
    if images.is_complex():
        return torch.polar(change_contrast(images.abs(), value_range, seed), images.angle())
    low, high = value_range
    changed = [
        _map_greys((image.double().numpy() - low) / (high - low), np.random.default_rng([seed, k]))
        for k, image in enumerate(images)
    ]
    return low + (high - low) * torch.from_numpy(np.stack(changed)).to(images.dtype)


def change_gain(images: Tensor, black: float, seed: int) -> Tensor:
    """Images (N, C, H, W) that are brighter or darker: k-space has no unit of its own."""
    rng = np.random.default_rng([seed, len(images)])
    low, high = np.log(GAINS)
    gains = torch.from_numpy(np.exp(rng.uniform(low, high, len(images)))).to(images.dtype)
    return black + gains[:, None, None, None] * (images - black)


def _map_greys(image: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """One image, black at 0 and white at 1."""
    bright = max(float(np.quantile(image, 0.99)), 1e-6)
    inside = image > OBJECT * bright
    best, least = image, np.inf
    for _ in range(_TRIES):
        mapped = np.interp(image / bright, _KNOTS, [0.0, *rng.uniform(0, 1, len(_KNOTS) - 1)])
        alike = _correlate(image[inside], mapped[inside])
        if alike < least:
            best, least = mapped, alike
        if least < _ALIKE:
            break
    scaled: NDArray[np.float64] = best * (bright / max(float(np.quantile(best, 0.99)), 1e-3))
    return scaled.clip(0, 1.2)


def _correlate(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's; 1 where one of them is constant: nothing to tell apart."""
    if one.size < 2 or one.std() == 0 or other.std() == 0:
        return 1.0
    return float(np.corrcoef(one, other)[0, 1])
