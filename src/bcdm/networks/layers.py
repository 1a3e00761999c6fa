r"""Building blocks of the backbone: embedding, norm, FIR resampling, residual block, attention.

All blocks take real tensors of shape `(B, C, H, W)`. Mixed precision is decided here: convolutions
follow the surrounding autocast, norms, resampling and output heads stay in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from bcdm.errors import ShapeError

__all__ = [
    "Attention",
    "FourierEmbedding",
    "Head",
    "Norm",
    "ResidualBlock",
    "channels_to_complex",
    "complex_to_channels",
    "conv",
    "downsample",
    "resize",
    "to_full_precision",
    "upsample",
]

SKIP_SCALE = 1 / math.sqrt(2)
LOG_SNR_LIMIT = 20.0
FIR_TAPS = (1.0, 3.0, 3.0, 1.0)


def to_full_precision(x: Tensor) -> Tensor:
    """Casts bfloat16 and float16 to float32; leaves every other type as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def complex_to_channels(x: Tensor) -> Tensor:
    """Writes a complex image as a real one: all real parts first, then all imaginary parts.

    Args:
        x: Complex tensor of shape `(B, C, H, W)`.

    Returns:
        Real tensor of shape `(B, 2 C, H, W)`.

    >>> complex_to_channels(torch.tensor([[[[1 + 2j]]]])).flatten().tolist()
    [1.0, 2.0]
    """
    return torch.cat([x.real, x.imag], dim=1)


def channels_to_complex(x: Tensor) -> Tensor:
    """Undoes `complex_to_channels`.

    Args:
        x: Real tensor of shape `(B, 2 C, H, W)`.

    Returns:
        Complex tensor of shape `(B, C, H, W)`.
    """
    if x.shape[1] % 2:
        raise ShapeError(f"a complex image needs an even number of channels, not {x.shape[1]}")
    real, imaginary = to_full_precision(x).chunk(2, dim=1)
    return torch.complex(real.contiguous(), imaginary.contiguous())


def conv(channels_in: int, channels_out: int, size: int = 3) -> nn.Conv2d:
    """Builds a convolution that keeps height and width; `size` is odd."""
    return nn.Conv2d(channels_in, channels_out, size, padding=size // 2)


def _fir_weight(x: Tensor) -> Tensor:
    """The FIR kernel with unit sum, once per channel of `x`: shape `(C, 1, 4, 4)`."""
    taps = torch.tensor(FIR_TAPS, dtype=x.dtype, device=x.device)
    kernel = torch.outer(taps, taps) / taps.sum() ** 2
    return kernel.expand(x.shape[1], 1, len(FIR_TAPS), len(FIR_TAPS)).contiguous()


def downsample(x: Tensor, fir: bool) -> Tensor:
    r"""Halves height and width, either by the FIR filter or by the mean over 2x2 blocks.

    $$ v[i, j] = \sum_{a, b = 0}^{3} h_a h_b\, u[2 i + a - 1, 2 j + b - 1], \quad
       h = (1, 3, 3, 1) / 8, \quad u = 0 \text{ outside the image} $$

    Args:
        x: Tensor of shape `(B, C, H, W)` with even `H` and `W`.
        fir: Whether to use the FIR filter.

    Returns:
        Tensor of shape `(B, C, H / 2, W / 2)`.
    """
    if not fir:
        return functional.avg_pool2d(x, 2)
    # Half precision would be slower here: CPUs have no fast depthwise backward pass for it.
    with torch.autocast(x.device.type, enabled=False):
        full = to_full_precision(x)
        weight = _fir_weight(full)
        return functional.conv2d(full, weight, stride=2, padding=1, groups=x.shape[1]).to(x.dtype)


def upsample(x: Tensor, fir: bool) -> Tensor:
    r"""Doubles height and width, either by the FIR filter or by repeating pixels.

    The filter is four times the transpose of `downsample`, so that constants stay constants.

    Args:
        x: Tensor of shape `(B, C, H, W)`.
        fir: Whether to use the FIR filter.

    Returns:
        Tensor of shape `(B, C, 2 H, 2 W)`.
    """
    if not fir:
        return functional.interpolate(x, scale_factor=2.0, mode="nearest")
    with torch.autocast(x.device.type, enabled=False):
        full = to_full_precision(x)
        weight = 4 * _fir_weight(full)
        out = functional.conv_transpose2d(full, weight, stride=2, padding=1, groups=x.shape[1])
        return out.to(x.dtype)


def resize(x: Tensor, scale: int, fir: bool) -> Tensor:
    """Doubles the image (`scale` 1), halves it (-1) or leaves it (0)."""
    if scale == 0:
        return x
    return upsample(x, fir) if scale > 0 else downsample(x, fir)


class Norm(nn.GroupNorm):
    """Group norm with at least four channels in a group and at most 32 groups, in float32."""

    def __init__(self, channels: int) -> None:
        """Takes `min(C // 4, 32)` groups, or the next smaller number that divides `C`."""
        most = max(1, min(channels // 4, 32))
        groups = next(count for count in range(most, 0, -1) if channels % count == 0)
        super().__init__(groups, channels, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """Normalises `(B, C, H, W)`; half precision comes back as float32."""
        return super().forward(to_full_precision(x))


class FourierEmbedding(nn.Module):
    r"""Random Fourier features of the noise level.

    $$ e = (\sin 2 \pi w \ell, \cos 2 \pi w \ell), \quad \ell = \tfrac12 \log\mathrm{SNR}
       = \log(\alpha / \sigma), \quad w_i \sim N(0, \text{scale}^2) $$
    """

    frequencies: Tensor

    def __init__(self, count: int, scale: float, generator: torch.Generator) -> None:
        """Draws `count` frequencies; they are a buffer, so the state dict carries them."""
        super().__init__()
        self.register_buffer("frequencies", scale * torch.randn(count, generator=generator))

    def forward(self, log_snr: Tensor) -> Tensor:
        """Maps `(B,)` to `(B, 2 * count)`; log-SNR beyond ±20 is taken as ±20, so always finite."""
        frequencies = to_full_precision(self.frequencies)
        level = log_snr.to(frequencies.dtype).clamp(-LOG_SNR_LIMIT, LOG_SNR_LIMIT) / 2
        phase = 2 * math.pi * level[:, None] * frequencies
        return torch.cat([phase.sin(), phase.cos()], dim=1)


class ResidualBlock(nn.Module):
    r"""BigGAN-type residual block, with the resolution changed inside if asked.

    $$ v = \bigl(S(R u) + C_2\, a(N_2(C_1 R\, a(N_1 u) + E e))\bigr) / \sqrt 2 $$

    with $a$ SiLU, $N$ group norm, $R$ resampling, $C$ 3x3 convolutions, $E$ linear and $S$ a 1x1
    convolution (or nothing, where neither size nor channel count change).
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        embedding: int,
        *,
        scale: int = 0,
        fir: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """Builds the block.

        Args:
            channels_in: Channels of the input.
            channels_out: Channels of the output.
            embedding: Length of the embedding vector.
            scale: 1 doubles height and width, -1 halves them, 0 keeps them.
            fir: Whether resampling uses the FIR filter.
            dropout: Probability of dropping a value before the second convolution.
        """
        super().__init__()
        self.scale, self.fir = scale, fir
        self.norm1 = Norm(channels_in)
        self.conv1 = conv(channels_in, channels_out)
        self.project = nn.Linear(embedding, channels_out)
        self.norm2 = Norm(channels_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = conv(channels_out, channels_out)
        changed = scale != 0 or channels_in != channels_out
        self.shortcut = conv(channels_in, channels_out, 1) if changed else nn.Identity()

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Maps `(B, C_in, H, W)` to `(B, C_out, H', W')` given the embedding `(B or 1, E)`."""
        h: Tensor = resize(functional.silu(self.norm1(x)), self.scale, self.fir)
        h = self.conv1(h) + self.project(embedding)[:, :, None, None]
        h = self.conv2(self.dropout(functional.silu(self.norm2(h))))
        # A 1x1 convolution and resampling commute: it runs where there are fewer pixels.
        if self.scale > 0:
            x = resize(self.shortcut(x), self.scale, self.fir)
        else:
            x = self.shortcut(resize(x, self.scale, self.fir))
        return (x + h) * SKIP_SCALE


class Attention(nn.Module):
    """Self-attention over all pixels with one head, added to its input and rescaled."""

    def __init__(self, channels: int) -> None:
        """Builds query, key and value as one 1x1 convolution, and the output as another."""
        super().__init__()
        self.norm = Norm(channels)
        self.qkv = conv(channels, 3 * channels, 1)
        self.out = conv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `(B, C, H, W)` to the same shape."""
        pixels = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1)
        query, key, value = pixels.chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        h: Tensor = self.out(mixed.squeeze(1).transpose(1, 2).reshape(x.shape))
        return (x + h) * SKIP_SCALE


class Head(nn.Module):
    """Norm, SiLU and a 3x3 convolution, in float32 even under autocast.

    An image rounded to bfloat16 would carry an error of 0.4 %, more than the smallest noise levels.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        """Builds the head."""
        super().__init__()
        self.norm = Norm(channels_in)
        self.conv = conv(channels_in, channels_out)

    def forward(self, x: Tensor) -> Tensor:
        """Maps `(B, C_in, H, W)` to `(B, C_out, H, W)`."""
        with torch.autocast(x.device.type, enabled=False):
            h: Tensor = self.conv(functional.silu(self.norm(to_full_precision(x))))
            return h
