"""NCSN++, the backbone of the paper (Song et al. 2021), as a plain image-to-image network."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bcdm.networks.backbone import Backbone, NCSNppConfig
from bcdm.networks.layers import (
    SKIP_SCALE,
    Attention,
    Head,
    ResidualBlock,
    conv,
    downsample,
    upsample,
)

__all__ = ["NCSNpp"]


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


class NCSNpp(Backbone):
    """The paper's backbone.

    >>> network = NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2)))
    >>> network(torch.ones(2, 1, 5, 6), torch.zeros(1)).shape
    torch.Size([2, 1, 5, 6])
    """

    def _build(self) -> None:
        config, levels = self.config, range(len(self.config.multipliers))
        width, deepest = config.width, config.channels(levels[-1])
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

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Variance 1 / (mean of fan-in and fan-out); the last ones are zero."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                pixels = module.weight[0, 0].numel()
                fans = pixels * (module.weight.shape[0] + module.weight.shape[1])
                bound = math.sqrt(6 / fans)
                module.weight.uniform_(-bound, bound, generator=generator)
                assert module.bias is not None
                module.bias.zero_()
        for module in self.modules():
            # Every block then starts as its shortcut, and the network as zero.
            if isinstance(module, ResidualBlock):
                module.conv2.weight.zero_()
            elif isinstance(module, Attention):
                module.out.weight.zero_()
            elif isinstance(module, Head):
                module.conv.weight.zero_()

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


def _run(block: nn.Module, x: Tensor, embedding: Tensor, checkpointing: bool) -> Tensor:
    """Applies a block, and forgets its activations if they are to be recomputed."""
    if checkpointing and torch.is_grad_enabled():
        # The reentrant kind gives wrong gradients for weights that are used more than once.
        h: Tensor = checkpoint(block, x, embedding, use_reentrant=False)
    else:
        h = block(x, embedding)
    return h
