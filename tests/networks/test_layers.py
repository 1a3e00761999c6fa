"""Parts of the network: resampling, blocks, attention, norms."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.networks import NCSNpp, NCSNppConfig
from bcdm.networks.layers import Attention, Norm, ResidualBlock, downsample, upsample


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def build_upfirdn(length: int, up: int, down: int, start: int) -> np.ndarray:
    """One axis of insert zeros, convolve, keep every `down`-th value from `start`: a matrix."""
    columns = []
    for index in range(length):
        spread = np.zeros(length * up)
        spread[index * up] = up
        convolved = np.convolve(spread, np.array([1.0, 3.0, 3.0, 1.0]) / 8)
        columns.append(convolved[start::down][: length * up // down])
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("size", [(8, 8), (6, 10), (2, 4)])
def test_fir_resampling_matches_upfirdn(size: tuple[int, int]) -> None:
    x = draw(2, 3, *size).double()
    for function, up, down, start in ((downsample, 1, 2, 2), (upsample, 2, 1, 1)):
        rows, columns = (build_upfirdn(length, up, down, start) for length in size)
        expected = rows @ x.numpy() @ columns.T
        np.testing.assert_allclose(function(x, fir=True), expected, atol=1e-13)


def test_resampling_keeps_constants_inside() -> None:
    x = torch.full((1, 2, 12, 12), 3.0)
    assert (downsample(x, fir=True)[:, :, 1:-1, 1:-1] == 3).all()
    assert (upsample(x, fir=True)[:, :, 1:-1, 1:-1] == 3).all()
    assert (downsample(x, fir=False) == 3).all()
    assert (upsample(x, fir=False) == 3).all()


def test_fir_upsampling_is_the_transpose_of_downsampling() -> None:
    x, y = draw(1, 2, 8, 12).double(), draw(1, 2, 4, 6, seed=1).double()
    inner = (downsample(x, fir=True) * y).sum()
    assert torch.allclose(inner, (x * upsample(y, fir=True)).sum() / 4, rtol=1e-12)


def test_resampling_without_fir_is_block_mean_and_repeat() -> None:
    x = draw(1, 2, 4, 6)
    assert torch.allclose(downsample(x, fir=False), x.reshape(1, 2, 2, 2, 3, 2).mean((3, 5)))
    repeated = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(upsample(x, fir=False), repeated)


@pytest.mark.parametrize("fir", [True, False])
def test_resampling_moves_with_the_image(fir: bool) -> None:
    x = torch.zeros(1, 1, 16, 16)
    x[:, :, 4:10, 4:10] = draw(6, 6)
    moved = downsample(x.roll((2, 4), (2, 3)), fir)
    assert torch.equal(moved, downsample(x, fir).roll((1, 2), (2, 3)))
    moved = upsample(x.roll((2, 3), (2, 3)), fir)
    assert torch.equal(moved, upsample(x, fir).roll((4, 6), (2, 3)))


def test_fresh_blocks_only_rescale() -> None:
    network = NCSNpp(NCSNppConfig(width=8, multipliers=(1, 2), blocks=1, attention=()))
    x, embedding = draw(2, 8, 16, 16), draw(2, 32)
    block = network.down[0].blocks[0]
    assert isinstance(block, ResidualBlock)
    assert torch.allclose(block(x, embedding), x / 2**0.5)
    features = draw(2, 16, 4, 4)
    assert torch.allclose(network.middle_attention(features), features / 2**0.5)


def test_attention_matches_the_written_out_softmax() -> None:
    attention = Attention(8)
    x = draw(2, 8, 4, 6)
    weight, bias = attention.qkv.weight[:, :, 0, 0], attention.qkv.bias
    pixels = torch.einsum("oc,bcn->bon", weight, attention.norm(x).flatten(2)) + bias[:, None]
    query, key, value = pixels.chunk(3, dim=1)
    scores = torch.einsum("bcn,bcm->bnm", query, key) / 8**0.5
    mixed = torch.einsum("bnm,bcm->bcn", scores.softmax(-1), value).reshape(x.shape)
    assert torch.allclose(attention(x), (x + attention.out(mixed)) / 2**0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "groups"), [(1, 1), (4, 1), (8, 2), (96, 24), (128, 32), (192, 32), (144, 24)]
)
def test_norm_groups(channels: int, groups: int) -> None:
    assert Norm(channels).num_groups == groups
