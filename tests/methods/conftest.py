"""A small network over the plane, trained in seconds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn


class Vectors(nn.Module):
    """With the interface of an unrolled network; as many hidden layers as `depth` says."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers: list[nn.Module] = [nn.Linear(2 + 16, width), nn.SiLU()]
            for _ in range(depth - 1):
                layers += [nn.Linear(width, width), nn.SiLU()]
            self.layers = nn.Sequential(*layers, nn.Linear(width, 2))

    def forward(self, x: Tensor, log_snr: Tensor, project) -> Tensor:
        angles = log_snr[:, None] * 0.15 * 1.6 ** torch.arange(8) / 2
        features = torch.cat([angles.sin(), angles.cos()], 1).expand(len(x), -1)
        return project(self.layers(torch.cat([x, features], 1)))


@pytest.fixture
def make_vectors() -> Callable[[int, int], nn.Module]:
    return Vectors
