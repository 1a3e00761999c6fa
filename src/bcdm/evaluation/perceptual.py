"""LPIPS from a local weights file: no download, no torchvision."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = ["LPIPS"]


@dataclass(frozen=True)
class _Stage:
    """Convolutions (by their index in the feature stack) up to one tap; each is followed by ReLU.

    A max-pool of width `pool` and stride 2 precedes the stage when `pool` is positive.
    """

    convolutions: tuple[int, ...]
    pool: int = 0
    stride: int = 1
    padding: int = 1


@dataclass(frozen=True)
class _Network:
    """A feature stack: its stages and the smallest image side that leaves every tap a pixel."""

    name: str
    stages: tuple[_Stage, ...]
    smallest_side: int

    def indices(self) -> tuple[int, ...]:
        """Lists every convolution in order."""
        return tuple(index for stage in self.stages for index in stage.convolutions)

    def keys(self) -> set[str]:
        """Lists the names a weights file of this network holds."""
        layers = {f"features.{i}.{part}" for i in self.indices() for part in ("weight", "bias")}
        return layers | {f"lin{k}" for k in range(len(self.stages))}


_ALEXNET = _Network(
    "alexnet",
    (
        _Stage((0,), stride=4, padding=2),
        _Stage((3,), pool=3, padding=2),
        _Stage((6,), pool=3),
        _Stage((8,)),
        _Stage((10,)),
    ),
    smallest_side=31,
)
_VGG16 = _Network(
    "vgg16",
    (
        _Stage((0, 2)),
        _Stage((5, 7), pool=2),
        _Stage((10, 12, 14), pool=2),
        _Stage((17, 19, 21), pool=2),
        _Stage((24, 26, 28), pool=2),
    ),
    smallest_side=16,
)


class LPIPS(nn.Module):
    r"""Learned perceptual distance, version 0.1 (Zhang et al. 2018), with frozen weights.

    With $\phi_k$ the features at tap $k$, scaled to unit length over channels at every pixel, and
    $w_k \ge 0$ the learned head,

    $$ d(a, b) = \sum_k \operatorname{mean}_{h,w} \sum_c w_{kc}
       \left( \phi_{k}(a) - \phi_{k}(b) \right)_{chw}^2 . $$

    Images lie in $[-1, 1]$; values outside are neither clipped nor refused. The distance is
    differentiable with respect to the images.

    Args:
        weights: `features.{i}.weight` (O, I, K, K) and `features.{i}.bias` (O,) with the layer
            numbers of torchvision's `alexnet` or `vgg16`, which also tell the two apart, and the
            heads `lin0` ... `lin4` (O,). Cast to float32.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._network = _recognise(set(weights))
        indices = self._network.indices()
        self.kernels = _freeze([weights[f"features.{i}.weight"] for i in indices])
        self.biases = _freeze([weights[f"features.{i}.bias"] for i in indices])
        self.heads = _freeze([weights[f"lin{k}"] for k in range(len(self._network.stages))])
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1))
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LPIPS:
        """Reads an `.npz` of weights; float16 arrays are cast to float32."""
        try:
            # NumPy leaves a file open that it opened itself and cannot read.
            with Path(path).open("rb") as stream, numpy.load(stream, allow_pickle=False) as file:
                arrays = {name: torch.from_numpy(file[name]) for name in file.files}
        except FileNotFoundError:
            raise InputError(f"LPIPS weights {path} do not exist: check the path") from None
        except (OSError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"LPIPS weights {path} cannot be read ({reason}): give an .npz file"
            ) from None
        return cls(arrays)

    @property
    def name(self) -> str:
        """The feature network, "alexnet" or "vgg16"; print it beside the number."""
        return self._network.name

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Computes the distance between two batches of images.

        Args:
            a: Images in [-1, 1], (B, 3, H, W), or (B, 1, H, W) which is repeated to 3 channels.
            b: Images of the same shape.

        Returns:
            Distances, (B,).
        """
        self._check(a, b)
        distance = a.new_zeros(len(a))
        for head, features in zip(self.heads, self.features(torch.cat([a, b])), strict=True):
            length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
            one, other = (features / (length + 1e-10)).chunk(2)
            distance = distance + ((one - other).square() * head.view(-1, 1, 1)).sum(1).mean((1, 2))
        return distance

    def features(self, images: Tensor) -> list[Tensor]:
        """What the network sees in images as `forward` takes them: (B, O, H', W') at each tap."""
        x = (images.expand(-1, 3, -1, -1) - self.shift) / self.scale
        layers = iter(zip(self.kernels, self.biases, strict=True))
        taps = []
        for stage in self._network.stages:
            if stage.pool:
                x = functional.max_pool2d(x, stage.pool, stride=2)
            for _ in stage.convolutions:
                kernel, bias = next(layers)
                x = functional.conv2d(x, kernel, bias, stride=stage.stride, padding=stage.padding)
                x = functional.relu(x)
            taps.append(x)
        return taps

    def _check(self, a: Tensor, b: Tensor) -> None:
        if a.dtype != self.shift.dtype or b.dtype != self.shift.dtype:
            raise DtypeError(
                f"LPIPS needs {self.shift.dtype} images in [-1, 1], got {a.dtype} and {b.dtype}: "
                "convert them (magnitude first if complex)"
            )
        if a.shape != b.shape or a.ndim != 4 or a.shape[1] not in (1, 3):
            raise ShapeError(
                "LPIPS needs two batches of one shape (B, 3, H, W) or (B, 1, H, W), "
                f"got {tuple(a.shape)} and {tuple(b.shape)}"
            )
        if min(a.shape[-2:]) < self._network.smallest_side:
            raise ShapeError(
                f"LPIPS by {self.name} needs sides of {self._network.smallest_side} pixels or "
                f"more, got {tuple(a.shape[-2:])}: enlarge the images"
            )


def _recognise(keys: set[str]) -> _Network:
    for network in (_ALEXNET, _VGG16):
        if keys == network.keys():
            return network
    raise InputError(
        "these are no LPIPS weights: need features.{i}.weight, features.{i}.bias of torchvision's "
        f"alexnet or vgg16 and lin0..lin4, got {len(keys)} names such as {sorted(keys)[:3]}"
    )


def _freeze(tensors: list[Tensor]) -> nn.ParameterList:
    copies = [tensor.detach().to(torch.float32, copy=True) for tensor in tensors]
    return nn.ParameterList([nn.Parameter(copy, requires_grad=False) for copy in copies])
