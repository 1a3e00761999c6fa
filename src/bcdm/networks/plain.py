"""A U-Net without norms, attention or filters: what learns most in little time on a processor."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from bcdm.networks.backbone import Backbone, NCSNppConfig
from bcdm.networks.layers import conv, to_full_precision

__all__ = ["PlainUNet"]


class _Block(nn.Module):
    r"""$u + C_2\, a\bigl((1 + G e)\, C_1 u + E e\bigr)$: the level says what passes."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.conv1 = conv(channels, channels)
        self.project = nn.Linear(embedding, 2 * channels)
        self.conv2 = conv(channels, channels)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        gain, offset = self.project(embedding)[:, :, None, None].chunk(2, dim=1)
        h: Tensor = self.conv2(functional.silu((1 + gain) * self.conv1(x) + offset))
        return x + h


class _Level(nn.ModuleList):
    """Blocks of one size."""

    def __init__(self, config: NCSNppConfig, level: int) -> None:
        blocks = (_Block(config.channels(level), 4 * config.width) for _ in range(config.blocks))
        super().__init__(blocks)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        for block in self:
            x = block(x, embedding)
        return x


class PlainUNet(Backbone):
    """A U-Net whose levels add up: before training each passes its input on as it is.

    Of the structure it has width, multipliers, blocks, fourier_scale, patch and channels_last.

    >>> network = PlainUNet(NCSNppConfig(width=4, multipliers=(1, 2)))
    >>> network(torch.ones(2, 1, 5, 6), torch.zeros(1)).shape
    torch.Size([2, 1, 5, 6])
    """

    def _build(self) -> None:
        config = self.config
        levels, squares = range(len(config.multipliers)), config.patch**2
        widths = [config.channels(level) for level in levels]
        pairs = list(pairwise(widths))
        self.stem = conv(config.channels_in * squares, widths[0])
        self.down = nn.ModuleList(_Level(config, level) for level in levels)
        self.coarser = nn.ModuleList(nn.Conv2d(fine, rough, 2, 2) for fine, rough in pairs)
        self.finer = nn.ModuleList(nn.ConvTranspose2d(rough, fine, 2, 2) for fine, rough in pairs)
        self.up = nn.ModuleList(_Level(config, level) for level in levels[:-1])
        self.head = conv(widths[0], config.channels_out * squares)

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """Uniform up to the inverse root of the fan-in; what ends a block or all is zero."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                bound = 1 / math.sqrt(module.weight[0].numel())
                module.weight.uniform_(-bound, bound, generator=generator)
                assert module.bias is not None
                module.bias.zero_()
        for module in self.modules():
            if isinstance(module, _Block):
                module.conv2.weight.zero_()
                module.project.weight.zero_()
        self.head.weight.zero_()

    def _apply_levels(self, x: Tensor, embedding: Tensor) -> Tensor:
        h: Tensor = self.stem(x)
        skips = []
        for level, coarser in zip(self.down, self.coarser, strict=False):
            h = level(h, embedding)
            skips.append(h)
            h = coarser(h)
        h = self.down[-1](h, embedding)
        for level, finer in zip(reversed(self.up), reversed(self.finer), strict=True):
            h = level(finer(h) + skips.pop(), embedding)
        # In full precision: an image rounded to bfloat16 would carry an error of 0.4 %.
        with torch.autocast(h.device.type, enabled=False):
            out: Tensor = self.head(to_full_precision(h))
        return out
