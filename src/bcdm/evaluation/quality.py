"""Fidelity of an estimate to a reference: PSNR, NRMSE and SSIM, one value per image.

One pair of images scores very differently by convention alone, so nothing is guessed: the data
range is a required argument, and SSIM takes a named convention whose one-line description is
meant to be printed beside the number. Complex images are refused: take the magnitude first.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = ["SSIMConvention", "describe_ssim", "nrmse", "psnr", "ssim"]

SSIMConvention = Literal["skimage", "wang"]
"""Whose SSIM: that of scikit-image with a uniform window of 7, or that of Wang et al. (2004)."""


@dataclass(frozen=True)
class _Window:
    """A separable window, the factor on its (co)variances, and words for a reader."""

    size: int
    gaussian_std: float | None
    covariance_factor: float
    description: str

    def weights(self) -> Tensor:
        """Gives the window along one axis, summing to 1, shape (size,), float64."""
        offset = torch.arange(self.size, dtype=torch.float64) - self.size // 2
        if self.gaussian_std is None:
            return torch.full_like(offset, 1 / self.size)
        bell = torch.exp(-0.5 * (offset / self.gaussian_std) ** 2)
        return bell / bell.sum()


_WINDOWS: dict[SSIMConvention, _Window] = {
    "skimage": _Window(
        size=7,
        gaussian_std=None,
        covariance_factor=49 / 48,
        description="SSIM, scikit-image defaults: 7x7 uniform window, sample covariance, "
        "K1=0.01, K2=0.03, border of 3 pixels cropped, mean over channels",
    ),
    "wang": _Window(
        size=11,
        gaussian_std=1.5,
        covariance_factor=1.0,
        description="SSIM, Wang et al. 2004: 11x11 Gaussian window of std 1.5, population "
        "covariance, K1=0.01, K2=0.03, border of 5 pixels cropped, mean over channels",
    ),
}


def describe_ssim(convention: SSIMConvention) -> str:
    """Describes a convention in one line, to be printed beside the number.

    >>> describe_ssim("skimage").split(":")[0]
    'SSIM, scikit-image defaults'
    """
    return _window(convention).description


def psnr(estimate: Tensor, reference: Tensor, *, data_range: float | Tensor) -> Tensor:
    r"""Computes the peak signal-to-noise ratio in dB, per image.

    $$ \mathrm{PSNR} = 10 \log_{10} \frac{R^2}{\mathrm{mean}\,(\hat x - x)^2} $$

    The mean runs over all axes but the first. Identical images give infinity.

    Args:
        estimate: Real images, (B, ...).
        reference: Real images, (B, ...).
        data_range: $R$, one number or one per image (B,); fastMRI takes the volume's maximum.

    Returns:
        PSNR in dB, (B,).
    """
    _check_pair(estimate, reference)
    peak = _expand_range(data_range, reference)
    error = (estimate - reference).flatten(1).square().mean(1)
    return 10 * torch.log10(peak.square() / error)


def nrmse(estimate: Tensor, reference: Tensor) -> Tensor:
    r"""Computes the root-mean-square error relative to the reference's norm, per image.

    $$ \mathrm{NRMSE} = \| \hat x - x \|_2 \, / \, \| x \|_2 $$

    This is scikit-image's "euclidean" rule and the square root of fastMRI's NMSE. A reference
    that is zero everywhere gives infinity (or nan, when the estimate is zero as well).

    Args:
        estimate: Real images, (B, ...).
        reference: Real images, (B, ...).

    Returns:
        NRMSE, (B,).
    """
    _check_pair(estimate, reference)
    error = torch.linalg.vector_norm((estimate - reference).flatten(1), dim=1)
    return error / torch.linalg.vector_norm(reference.flatten(1), dim=1)


def ssim(
    estimate: Tensor,
    reference: Tensor,
    *,
    data_range: float | Tensor,
    convention: SSIMConvention,
    inside: Tensor | None = None,
) -> Tensor:
    r"""Computes the mean structural similarity, per image.

    $$ \mathrm{SSIM} = \frac{(2 \mu_x \mu_y + c_1)(2 \sigma_{xy} + c_2)}
       {(\mu_x^2 + \mu_y^2 + c_1)(\sigma_x^2 + \sigma_y^2 + c_2)},
       \quad c_1 = (0.01 R)^2,\; c_2 = (0.03 R)^2 $$

    with local moments under the convention's window, averaged over the pixels whose window lies
    inside the image and over channels.

    Args:
        estimate: Real images, (B, C, H, W), any C.
        reference: Real images, (B, C, H, W).
        data_range: $R$, one number or one per image (B,).
        convention: "skimage" or "wang"; see `describe_ssim`.
        inside: Boolean, broadcastable to (B, C, H, W): the average is over these pixels alone,
            with all of their windows.

    Returns:
        SSIM, (B,).
    """
    _check_pair(estimate, reference)
    window = _window(convention)
    if reference.ndim != 4 or min(reference.shape[-2:]) < window.size:
        raise ShapeError(
            f"SSIM needs images (B, C, H, W) of at least {window.size}x{window.size} pixels, "
            f"got {tuple(reference.shape)}: reshape them or pick a smaller window"
        )
    peak = _expand_range(data_range, reference).view(-1, 1, 1, 1)
    c1, c2 = (0.01 * peak).square(), (0.03 * peak).square()

    # Moments about each plane's mean: E[x^2] - E[x]^2 of raw values cancels badly in float32.
    shift_x = estimate.mean((-2, -1), keepdim=True)
    shift_y = reference.mean((-2, -1), keepdim=True)
    x, y = estimate - shift_x, reference - shift_y
    mean_x, mean_y, xx, yy, xy = _smooth(torch.stack([x, y, x * x, y * y, x * y]), window)
    factor = window.covariance_factor
    variances = factor * (xx - mean_x.square() + yy - mean_y.square())
    covariance = factor * (xy - mean_x * mean_y)
    mean_x, mean_y = mean_x + shift_x, mean_y + shift_y

    luminance = (2 * mean_x * mean_y + c1) / (mean_x.square() + mean_y.square() + c1)
    structure = (2 * covariance + c2) / (variances + c2)
    similar = luminance * structure
    if inside is None:
        return similar.mean((1, 2, 3))
    edge = window.size // 2
    chosen = inside.expand_as(reference)[..., edge:-edge, edge:-edge].to(similar)
    return (similar * chosen).sum((1, 2, 3)) / chosen.sum((1, 2, 3))


def _smooth(planes: Tensor, window: _Window) -> Tensor:
    """Averages (..., H, W) under the window, where it fits: (..., H - size + 1, W - size + 1)."""
    weights = window.weights().to(planes)
    flat = planes.reshape(-1, 1, *planes.shape[-2:])
    flat = functional.conv2d(flat, weights.view(1, 1, -1, 1))
    flat = functional.conv2d(flat, weights.view(1, 1, 1, -1))
    return flat.view(*planes.shape[:-2], *flat.shape[-2:])


def _window(convention: SSIMConvention) -> _Window:
    if convention not in _WINDOWS:
        raise InputError(f"unknown SSIM convention {convention!r}: use one of {list(_WINDOWS)}")
    return _WINDOWS[convention]


def _check_pair(estimate: Tensor, reference: Tensor) -> None:
    for image in (estimate, reference):
        if image.is_complex():
            raise DtypeError("image measures are for real images: take the magnitude first, .abs()")
        if image.dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"images must be float32 or float64, got {image.dtype}: use .float()")
    if estimate.shape != reference.shape or reference.ndim < 2:
        raise ShapeError(
            "estimate and reference need one shape (B, ...), "
            f"got {tuple(estimate.shape)} and {tuple(reference.shape)}"
        )


def _expand_range(data_range: float | Tensor, reference: Tensor) -> Tensor:
    """Gives the data range per image, (B,), once it is known to be positive."""
    peak = torch.as_tensor(data_range, dtype=reference.dtype, device=reference.device)
    if peak.ndim > 1 or peak.numel() not in (1, len(reference)):
        raise ShapeError(f"data_range must be a number or (B,), got shape {tuple(peak.shape)}")
    if not bool((peak > 0).all() and peak.isfinite().all()):
        raise InputError("data_range must be positive and finite: pass the image's full range")
    return peak.expand(len(reference))
