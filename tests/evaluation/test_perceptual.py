"""LPIPS against published distances and, without data, against its formula layer by layer."""

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import LPIPS

# The feature stacks as torchvision numbers them: (kernel, stride, padding), "R" ReLU, pool width.
Layer = tuple[int, int, int] | str | int
C3 = (3, 1, 1)
ALEXNET: list[Layer] = [(11, 4, 2), "R", 3, (5, 1, 2), "R", 3, C3, "R", C3, "R", C3, "R"]
VGG16: list[Layer] = [
    *(C3, "R", C3, "R", 2),
    *(C3, "R", C3, "R", 2),
    *(C3, "R", C3, "R", C3, "R", 2),
    *(C3, "R", C3, "R", C3, "R", 2),
    *(C3, "R", C3, "R", C3, "R"),
]
STACKS = {"alexnet": (ALEXNET, (1, 4, 7, 9, 11)), "vgg16": (VGG16, (3, 8, 15, 22, 29))}


def tiny_weights(name: str) -> dict[str, Tensor]:
    """Random weights in the layout of the real ones, a few channels wide."""
    generator = torch.Generator().manual_seed(3)
    stack, taps = STACKS[name]
    weights, channels = {}, 3
    for index, layer in enumerate(stack):
        if isinstance(layer, tuple):
            width, size = 4 + index % 3, layer[0]
            kernel = torch.randn(width, channels, size, size, generator=generator)
            weights[f"features.{index}.weight"] = kernel / (channels * size**2) ** 0.5
            weights[f"features.{index}.bias"] = 0.1 * torch.randn(width, generator=generator)
            channels = width
        if index in taps:
            weights[f"lin{taps.index(index)}"] = torch.rand(channels, generator=generator)
    return weights


def direct_distance(name: str, weights: dict[str, Tensor], a: Tensor, b: Tensor) -> float:
    """The distance of one pair, written out from the numbered layers."""
    stack, taps = STACKS[name]
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    x, y = (((image - shift[:, None, None]) / scale[:, None, None])[None] for image in (a, b))
    total = 0.0
    for index, layer in enumerate(stack):
        for image in (0, 1):
            z = (x, y)[image]
            if isinstance(layer, str):
                z = z.clamp(min=0)
            elif isinstance(layer, int):
                z = functional.max_pool2d(z, layer, 2)
            else:
                kernel, bias = (weights[f"features.{index}.{part}"] for part in ("weight", "bias"))
                z = functional.conv2d(z, kernel, bias, layer[1], layer[2])
            x, y = (z, y) if image == 0 else (x, z)
        if index in taps:
            head = weights[f"lin{taps.index(index)}"]
            unit_x, unit_y = (z / (z.square().sum(1, keepdim=True).sqrt() + 1e-10) for z in (x, y))
            difference = (unit_x - unit_y).square()[0]
            total += torch.einsum("c,chw->hw", head, difference).mean().item()
    return total


def images(channels: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shape = (2, 3, channels, 45, 38)
    a, b = torch.rand(shape, generator=generator) * 2 - 1
    return a, b


@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_distance_equals_the_formula(name: str, tmp_path: Path) -> None:
    weights = tiny_weights(name)
    path = tmp_path / "weights.npz"
    arrays: dict[str, Any] = {key: value.numpy() for key, value in weights.items()}
    numpy.savez(path, **arrays)
    metric = LPIPS.load(path)
    assert metric.name == name
    a, b = images()
    with torch.no_grad():
        ours = metric(a, b)
    expected = [direct_distance(name, weights, p, q) for p, q in zip(a, b, strict=True)]
    assert ours.shape == (3,)
    assert min(expected) > 1e-3
    torch.testing.assert_close(ours, torch.tensor(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_distance_laws(name: str) -> None:
    metric = LPIPS(tiny_weights(name))
    a, b = images(channels=1)
    torch.testing.assert_close(metric(a, b), metric(b, a))
    assert metric(a, a).abs().max() == 0
    colour = [image.repeat(1, 3, 1, 1) for image in (a, b)]
    torch.testing.assert_close(metric(a, b), metric(*colour))
    side = {"alexnet": 31, "vgg16": 16}[name]
    assert metric(a[..., :side, :side], b[..., :side, :side]).isfinite().all()


def test_half_precision_files_are_cast() -> None:
    weights = {key: value.half() for key, value in tiny_weights("vgg16").items()}
    metric = LPIPS(weights)
    assert all(parameter.dtype == torch.float32 for parameter in metric.parameters())
    assert not any(parameter.requires_grad for parameter in metric.parameters())


def test_gradient_reaches_the_image_and_is_finite_where_features_vanish() -> None:
    weights = tiny_weights("alexnet")
    # A bias far below zero silences every feature, so that unit vectors are 0 / 0.
    weights["features.6.bias"] = torch.full_like(weights["features.6.bias"], -1e3)
    a, b = images()
    a.requires_grad_()
    (gradient,) = torch.autograd.grad(LPIPS(weights)(a, b).sum(), a)
    assert gradient.isfinite().all()
    assert gradient.abs().max() > 0


def test_building_draws_no_random_numbers() -> None:
    state = torch.get_rng_state()
    LPIPS(tiny_weights("alexnet"))
    assert torch.equal(state, torch.get_rng_state())


def test_weights_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz do not exist: check the path$"):
        LPIPS.load(tmp_path / "none.npz")
    for content in (b"", b"text", b"PK\x03\x04 cut short"):
        (tmp_path / "broken.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"broken\.npz cannot be read .*give an \.npz file$"):
            LPIPS.load(tmp_path / "broken.npz")


def test_bad_input_is_refused() -> None:
    weights = tiny_weights("alexnet")
    metric = LPIPS(weights)
    a, b = images()
    with pytest.raises(InputError, match="no LPIPS weights"):
        LPIPS({key: value for key, value in weights.items() if key != "lin3"})
    with pytest.raises(ShapeError, match="one shape"):
        metric(a, b[:1])
    with pytest.raises(ShapeError, match="one shape"):
        metric(a[:, :2], b[:, :2])
    with pytest.raises(ShapeError, match="31 pixels"):
        metric(a[..., :30], b[..., :30])
    with pytest.raises(DtypeError, match="float32"):
        metric(a.byte(), b.byte())


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "key", "rounded"),
    [
        ("lpips_alexnet_fp32.npz", "alex_expected", (0.7219, 0.1376)),
        ("lpips_vgg16_fp16.npz", "vgg_expected", (0.5686, 0.4217)),
    ],
)
def test_published_distances(file: str, key: str, rounded: tuple[float, float]) -> None:
    folder = Path(os.environ.get("BCDM_DATA", "")) / "weights_lpips"
    if "BCDM_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("BCDM_DATA names no folder with weights_lpips in it")
    pairs = numpy.load(folder / "lpips_reference_pairs.npz")
    reference, *others = (
        torch.from_numpy(pairs[name]).permute(2, 0, 1).float() / 127.5 - 1
        for name in ("ex_ref", "ex_p0", "ex_p1")
    )
    metric = LPIPS.load(folder / file)
    with torch.no_grad():
        ours = metric(reference.expand(2, -1, -1, -1), torch.stack(others))
    # 2e-5 is what storing VGG16 in half precision costs.
    numpy.testing.assert_allclose(ours.numpy(), pairs[key], rtol=0, atol=3e-5)
    numpy.testing.assert_allclose(ours.numpy(), rounded, rtol=0, atol=1e-4)
