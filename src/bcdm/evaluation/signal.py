"""How bright an image is, as a whole and from place to place: where its object is."""

from torch import Tensor
from torch.nn.functional import avg_pool2d

__all__ = ["OBJECT", "find_brightness", "find_object", "find_signal"]

OBJECT = 0.1  # of the brightness: where the signal is below there is nothing but air
_REACH = 2  # pixels to each side


def find_brightness(image: Tensor, black: float) -> Tensor:
    """The 99 % quantile of images above black, (B,)."""
    away = image.abs() if image.is_complex() else image - black
    return away.mean(1).flatten(1).quantile(0.99, 1).clamp_min(1e-6)


def find_signal(image: Tensor, black: float) -> Tensor:
    """The mean of a few pixels around each over the brightness of the image, (B, 1, H, W).

    >>> import torch
    >>> find_signal(torch.tensor([[[[-1.0] * 8 + [1.0] * 8] * 16]]), -1.0)[0, 0, 8, ::5]
    tensor([0.0000, 0.0000, 1.0000, 1.0000])
    """
    away = image.abs() if image.is_complex() else image - black
    grey = away.mean(1, keepdim=True)
    local = avg_pool2d(grey, 2 * _REACH + 1, 1, _REACH, count_include_pad=False)
    return local / find_brightness(image, black)[:, None, None, None]


def find_object(image: Tensor, black: float) -> Tensor:
    """Which pixels show more than air, (B, 1, H, W); all of an image that is black.

    >>> import torch
    >>> find_object(torch.tensor([[[[-1.0] * 8 + [1.0] * 8] * 16]]), -1.0)[0, 0, 8, ::5]
    tensor([False, False,  True,  True])
    """
    inside = find_signal(image, black) > OBJECT
    return inside | ~inside.flatten(1).any(1)[:, None, None, None]
