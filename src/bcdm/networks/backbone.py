"""What backbones share: their settings, sizes of any kind, squares of pixels as channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, get_args

import torch
from pydantic import ConfigDict
from torch import Tensor, nn
from torch.nn import functional

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.networks.layers import FourierEmbedding, ResidualBlock

__all__ = ["Backbone", "NCSNppConfig", "Structure"]

ProgressiveInput = Literal["none", "input_skip", "residual"]
ProgressiveOutput = Literal["none", "output_skip", "residual"]


@dataclass(frozen=True)
class Structure:
    """Plain values that fix the inside of `NCSNpp`; files of settings hold them as they are.

    Attributes:
        width: Channels of the first level; the noise-level embedding has four times as many.
        multipliers: Channels of each level, in units of `width`; each level halves the size.
        blocks: Residual blocks per level on the way down (one more on the way up).
        attention: Nominal sizes at which attention follows the blocks.
        bottleneck_attention: Whether the bottleneck has attention, too. Without any, each output
            pixel sees a neighbourhood alone, and images of other sizes are nothing new.
        fir: Whether resampling uses the FIR filter (1, 3, 3, 1).
        progressive_input: How the downsampled input enters each level.
        progressive_output: How each level contributes to the output.
        dropout: Dropout in the residual blocks. It draws from torch's global generator.
        fourier_scale: Standard deviation of the embedding's frequencies, in cycles per unit of
            log(alpha / sigma). score_sde has 16, for which levels 1 % apart look unrelated.
        checkpointing: Whether blocks are recomputed in the backward pass to save memory.
        channels_last: Whether activations have the channels innermost, the faster layout on CPUs.
        patch: Side of the squares of pixels that become channels at the input and pixels again at
            the output; 2 saves more than half of the time at full size. The paper has 1.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    width: int = 32
    multipliers: tuple[int, ...] = (1, 1, 2, 2, 4, 4)
    blocks: int = 2
    attention: tuple[int, ...] = (16,)
    fir: bool = True
    progressive_input: ProgressiveInput = "input_skip"
    progressive_output: ProgressiveOutput = "output_skip"
    dropout: float = 0.0
    fourier_scale: float = 0.25
    checkpointing: bool = False
    channels_last: bool = True
    patch: int = 1
    bottleneck_attention: bool = True

    def __post_init__(self) -> None:
        """Checks the values; lists, as JSON gives them, become tuples."""
        object.__setattr__(self, "multipliers", tuple(self.multipliers))
        object.__setattr__(self, "attention", tuple(self.attention))
        sizes = (self.width, self.blocks, self.patch, *self.multipliers)
        if min(sizes) < 1 or not self.multipliers:
            raise InputError("width, blocks, patch and multipliers must be 1 or more")
        if self.progressive_input not in get_args(ProgressiveInput):
            raise InputError(f"progressive_input must be one of {get_args(ProgressiveInput)}")
        if self.progressive_output not in get_args(ProgressiveOutput):
            raise InputError(f"progressive_output must be one of {get_args(ProgressiveOutput)}")
        if not 0 <= self.dropout < 1:
            raise InputError("dropout must be in [0, 1)")


@dataclass(frozen=True)
class NCSNppConfig(Structure):
    """The structure, and what it is for.

    Attributes:
        channels_in: Channels of the input image, with all conditioning channels.
        channels_out: Channels of the output image.
        image_size: Nominal size; only says at which level attention sits.
    """

    channels_in: int = field(default=1, kw_only=True)
    channels_out: int = field(default=1, kw_only=True)
    image_size: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        """Checks the values."""
        super().__post_init__()
        if min(self.channels_in, self.channels_out, self.image_size) < 1:
            raise InputError("channels and image_size must be 1 or more")

    @classmethod
    def of(
        cls, structure: Structure, *, channels_in: int, channels_out: int, image_size: int
    ) -> NCSNppConfig:
        """A structure for some images."""
        inside = {f.name: getattr(structure, f.name) for f in fields(Structure)}
        return cls(
            **inside, channels_in=channels_in, channels_out=channels_out, image_size=image_size
        )

    def channels(self, level: int) -> int:
        """Channels of a level; level 0 has the full size."""
        return self.width * self.multipliers[level]

    def attends(self, level: int) -> bool:
        """Whether the level has attention."""
        return self.image_size // self.patch // 2**level in self.attention

    def build_block(self, channels_in: int, channels_out: int, scale: int = 0) -> ResidualBlock:
        """Builds a residual block with the settings all blocks share."""
        return ResidualBlock(
            channels_in,
            channels_out,
            4 * self.width,
            scale=scale,
            fir=self.fir,
            dropout=self.dropout,
        )


class Backbone(nn.Module, ABC):
    """Maps an image and its noise level to an image.

    The output is the raw network output: it is not divided by sigma, and it is zero before
    training. Height and width are free; the image is padded inside to a multiple of
    `2 ** (levels - 1)` patches and cropped at the end.
    """

    embedding: nn.Module

    def __init__(self, config: NCSNppConfig, seed: int = 0) -> None:
        """Builds the network; the initial weights depend on `seed` alone.

        Args:
            config: The structure.
            seed: Seed of the initial weights and of the embedding's frequencies.
        """
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        # torch's constructors draw weights from the global generator; its state is put back.
        with torch.random.fork_rng(devices=[]):
            self.embedding = _build_embedding(config, generator)
            self._build()
        self._initialise(generator)

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        r"""Applies the network.

        Args:
            x: Real image of shape `(B, channels_in, H, W)`.
            log_snr: $\log(\alpha^2 / \sigma^2)$ of shape `(B,)` or `(1,)`, floating point.

        Returns:
            Image of shape `(B, channels_out, H, W)` and the type of `x`.
        """
        self._check(x, log_snr)
        patch = self.config.patch
        padded, (top, left) = _pad(x, patch * 2 ** (len(self.config.multipliers) - 1))
        padded = _gather_patches(padded, patch)
        if self.config.channels_last:
            padded = padded.contiguous(memory_format=torch.channels_last)
        out = self._apply_levels(padded, self.embedding(log_snr))
        out = _spread_patches(out, patch)
        out = out[:, :, top : top + x.shape[2], left : left + x.shape[3]]
        return out.to(x.dtype).contiguous()

    @abstractmethod
    def _build(self) -> None:
        """Makes the layers."""

    @abstractmethod
    def _initialise(self, generator: torch.Generator) -> None:
        """Draws all weights."""

    @abstractmethod
    def _apply_levels(self, x: Tensor, embedding: Tensor) -> Tensor:
        """From squares of pixels as channels to such, of sides that the levels can halve."""

    def _check(self, x: Tensor, log_snr: Tensor) -> None:
        if x.ndim != 4 or x.shape[1] != self.config.channels_in:
            raise ShapeError(
                f"the network takes (B, {self.config.channels_in}, H, W), not {tuple(x.shape)}; "
                "set channels_in to the number of channels"
            )
        if x.is_complex() or not log_snr.is_floating_point():
            raise DtypeError("the network takes a real image and a floating-point log_snr")
        if log_snr.ndim != 1 or log_snr.shape[0] not in (1, x.shape[0]):
            raise ShapeError(f"log_snr must have shape ({x.shape[0]},) or (1,)")


def _build_embedding(config: NCSNppConfig, generator: torch.Generator) -> nn.Module:
    """From log-SNR (B,) to four times as many numbers as the first level has channels."""
    width = config.width
    return nn.Sequential(
        FourierEmbedding(width, config.fourier_scale, generator),
        nn.Linear(2 * width, 4 * width),
        nn.SiLU(),
        nn.Linear(4 * width, 4 * width),
        nn.SiLU(),
    )


def _gather_patches(x: Tensor, patch: int) -> Tensor:
    """Makes squares of pixels channels. torch's own gives an empty batch the wrong shape."""
    batch, channels, height, width = x.shape
    rows, columns = height // patch, width // patch
    cut = x.reshape(batch, channels, rows, patch, columns, patch).permute(0, 1, 3, 5, 2, 4)
    return cut.reshape(batch, channels * patch**2, rows, columns)


def _spread_patches(x: Tensor, patch: int) -> Tensor:
    """Makes channels squares of pixels again; torch's own has no gradient for an empty batch."""
    batch, channels, rows, columns = x.shape
    cut = x.reshape(batch, channels // patch**2, patch, patch, rows, columns)
    cut = cut.permute(0, 1, 4, 2, 5, 3)
    return cut.reshape(batch, channels // patch**2, rows * patch, columns * patch)


def _pad(x: Tensor, multiple: int) -> tuple[Tensor, tuple[int, int]]:
    """Pads height and width to a multiple, and returns the offset of the image in the result."""
    rows, columns = (-x.shape[2] % multiple, -x.shape[3] % multiple)
    if not rows and not columns:
        return x, (0, 0)
    top, left = rows // 2, columns // 2
    # A reflection cannot be longer than the image.
    fits = rows - top < x.shape[2] and columns - left < x.shape[3]
    pads = (left, columns - left, top, rows - top)
    return functional.pad(x, pads, mode="reflect" if fits else "replicate"), (top, left)
