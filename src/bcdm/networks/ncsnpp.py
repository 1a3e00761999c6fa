"""NCSN++, the backbone of the paper (Song et al. 2021), as a plain image-to-image network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, get_args

import torch
from pydantic import ConfigDict
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.networks.layers import (
    SKIP_SCALE,
    Attention,
    FourierEmbedding,
    Head,
    ResidualBlock,
    conv,
    downsample,
    upsample,
)

__all__ = ["NCSNpp", "NCSNppConfig", "Structure"]

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


class _DownLevel(nn.Module):
    """Blocks of one level, each with attention if the level attends, and the way to the next."""

    def __init__(self, config: NCSNppConfig, level: int, channels_in: int, pyramid: int) -> None:
        """Builds the level; `pyramid` is the number of channels of the input pyramid."""
        super().__init__()
        self.config = config
        channels = config.channels(level)
        inputs = [channels_in] + [channels] * (config.blocks - 1)
        self.blocks = nn.ModuleList(config.build_block(count, channels) for count in inputs)
        self.attentions = nn.ModuleList(
            Attention(channels) if config.attends(level) else nn.Identity() for _ in inputs
        )
        last = level == len(config.multipliers) - 1
        self.down = None if last else config.build_block(channels, channels, scale=-1)
        size = {"none": 0, "input_skip": 1, "residual": 3}[config.progressive_input]
        self.merge = conv(pyramid, channels, size) if size and not last else None

    def forward(self, h: Tensor, pyramid: Tensor, embedding: Tensor) -> tuple[list[Tensor], Tensor]:
        """Returns the features to be skipped to the way up, the deepest last, and the pyramid."""
        skips = []
        for block, attention in zip(self.blocks, self.attentions, strict=True):
            h = attention(_run(block, h, embedding, self.config.checkpointing))
            skips.append(h)
        if self.down is None:
            return skips, pyramid
        h = _run(self.down, h, embedding, self.config.checkpointing)
        if self.merge is not None:
            pyramid = downsample(pyramid, self.config.fir)
            h = h + self.merge(pyramid)
        if self.config.progressive_input == "residual":
            h = pyramid = h * SKIP_SCALE
        return [*skips, h], pyramid


class _UpLevel(nn.Module):
    """Blocks of one level that take the skipped features, and the level's share of the output."""

    def __init__(self, config: NCSNppConfig, level: int, inputs: list[int], pyramid: int) -> None:
        """Builds the level; `inputs` are the channel counts that its blocks see."""
        super().__init__()
        self.config = config
        channels = config.channels(level)
        self.blocks = nn.ModuleList(config.build_block(count, channels) for count in inputs)
        self.attention = Attention(channels) if config.attends(level) else nn.Identity()
        self.up = config.build_block(channels, channels, scale=1) if level else None
        deepest = level == len(config.multipliers) - 1
        self.share: nn.Module | None = None
        if config.progressive_output == "output_skip":
            self.share = Head(channels, config.channels_out * config.patch**2)
        elif config.progressive_output == "residual":
            self.share = Head(channels, channels) if deepest else conv(pyramid, channels)

    def forward(
        self, h: Tensor, skips: list[Tensor], pyramid: Tensor | None, embedding: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the features for the next finer level and the output pyramid."""
        for block, skip in zip(self.blocks, skips, strict=True):
            h = _run(block, torch.cat([h, skip], dim=1), embedding, self.config.checkpointing)
        h = self.attention(h)
        h, pyramid = self._contribute(h, pyramid)
        if self.up is not None:
            h = _run(self.up, h, embedding, self.config.checkpointing)
        return h, pyramid

    def _contribute(self, h: Tensor, pyramid: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Adds the level's share to the output pyramid, or to the features ("residual")."""
        if self.share is None:
            return h, None
        if pyramid is None:
            return h, self.share(h)
        pyramid = upsample(pyramid, self.config.fir)
        if self.config.progressive_output == "output_skip":
            return h, pyramid + self.share(h)
        h = (self.share(pyramid) + h) * SKIP_SCALE
        return h, h


class NCSNpp(nn.Module):
    """Maps an image and its noise level to an image.

    The output is the raw network output: it is not divided by sigma, and it is zero before
    training. Height and width are free; the image is padded inside to a multiple of
    `2 ** (levels - 1)` and cropped at the end.

    >>> network = NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2)))
    >>> network(torch.ones(2, 1, 5, 6), torch.zeros(1)).shape
    torch.Size([2, 1, 5, 6])
    """

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
            self._build(generator)
        _initialise(self, generator)

    def _build(self, generator: torch.Generator) -> None:
        config, levels = self.config, range(len(self.config.multipliers))
        width, deepest = config.width, config.channels(levels[-1])
        self.embedding = nn.Sequential(
            FourierEmbedding(width, config.fourier_scale, generator),
            nn.Linear(2 * width, 4 * width),
            nn.SiLU(),
            nn.Linear(4 * width, 4 * width),
            nn.SiLU(),
        )
        channels_in, channels_out = (
            count * config.patch**2 for count in (config.channels_in, config.channels_out)
        )
        self.stem = conv(channels_in, width)
        self.down = nn.ModuleList()
        skips = [width]
        for level in levels:
            residual = config.progressive_input == "residual" and level > 0
            pyramid = skips[-1] if residual else channels_in
            self.down.append(_DownLevel(config, level, skips[-1], pyramid))
            skips += [config.channels(level)] * (config.blocks + (level != levels[-1]))
        self.middle = nn.ModuleList(config.build_block(deepest, deepest) for _ in range(2))
        # Set to nothing, not left out: weights have the same names with and without.
        self.middle_attention = Attention(deepest) if config.bottleneck_attention else nn.Identity()
        self.up = nn.ModuleList()
        before = deepest
        for level in reversed(levels):
            channels = config.channels(level)
            given = [before] + [channels] * config.blocks
            inputs = [count + skips.pop() for count in given]
            self.up.append(_UpLevel(config, level, inputs, before))
            before = channels
        skipped = config.progressive_output == "output_skip"
        self.head = None if skipped else Head(width * config.multipliers[0], channels_out)

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

    def _apply_levels(self, x: Tensor, embedding: Tensor) -> Tensor:
        h, pyramid = self.stem(x), x
        skips = [h]
        for down in self.down:
            features, pyramid = down(skips[-1], pyramid, embedding)
            skips += features
        h = _run(self.middle[0], skips[-1], embedding, self.config.checkpointing)
        h = self.middle_attention(h)
        h = _run(self.middle[1], h, embedding, self.config.checkpointing)
        share: Tensor | None = None
        for up in self.up:
            taken = [skips.pop() for _ in range(self.config.blocks + 1)]
            h, share = up(h, taken, share, embedding)
        out: Tensor | None = share if self.head is None else self.head(h)
        assert out is not None
        return out

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


def _run(block: nn.Module, x: Tensor, embedding: Tensor, checkpointing: bool) -> Tensor:
    """Applies a block, and forgets its activations if they are to be recomputed."""
    if checkpointing and torch.is_grad_enabled():
        # The reentrant kind gives wrong gradients for weights that are used more than once.
        h: Tensor = checkpoint(block, x, embedding, use_reentrant=False)
    else:
        h = block(x, embedding)
    return h


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


@torch.no_grad()
def _initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Draws all weights with variance 1 / (mean of fan-in and fan-out); the last ones are zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            pixels = module.weight[0, 0].numel()
            fans = pixels * (module.weight.shape[0] + module.weight.shape[1])
            bound = math.sqrt(6 / fans)
            module.weight.uniform_(-bound, bound, generator=generator)
            assert module.bias is not None
            module.bias.zero_()
    for module in network.modules():
        # Every block then starts as its shortcut, and the network as zero.
        if isinstance(module, ResidualBlock):
            module.conv2.weight.zero_()
        elif isinstance(module, Attention):
            module.out.weight.zero_()
        elif isinstance(module, Head):
            module.conv.weight.zero_()
