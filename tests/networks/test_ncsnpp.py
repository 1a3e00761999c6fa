"""The backbone: size, shapes, start values, precision, and resampling against written-out sums."""

import itertools
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.networks import NCSNpp, NCSNppConfig
from bcdm.networks.layers import Attention

TINY = NCSNppConfig(image_size=16, width=8, multipliers=(1, 2, 2), blocks=1, attention=(8,))
PROGRESSIVE = list(
    itertools.product(["none", "input_skip", "residual"], ["none", "output_skip", "residual"])
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def perturb(network: torch.nn.Module, seed: int = 1) -> None:
    """Leaves no weight at zero, as after some training."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def build(config: NCSNppConfig) -> NCSNpp:
    network = NCSNpp(config)
    perturb(network)
    return network


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize(
    ("progressive_input", "progressive_output", "millions"),
    [("input_skip", "output_skip", 7.80), ("residual", "none", 7.92)],
)
def test_parameter_counts_are_those_of_score_sde(
    progressive_input: str, progressive_output: str, millions: float
) -> None:
    config = NCSNppConfig(
        channels_in=3,
        channels_out=3,
        image_size=256,
        width=32,
        multipliers=(1, 1, 2, 2, 4, 4),
        blocks=2,
        attention=(16,),
        progressive_input=progressive_input,
        progressive_output=progressive_output,
    )
    count = sum(parameter.numel() for parameter in NCSNpp(config).parameters())
    assert count / 1e6 == pytest.approx(millions, rel=0.005)


@pytest.mark.parametrize(("progressive_input", "progressive_output"), PROGRESSIVE)
@pytest.mark.parametrize("fir", [True, False])
def test_every_parameter_gets_a_gradient(
    progressive_input: str, progressive_output: str, fir: bool
) -> None:
    config = replace(
        TINY,
        fir=fir,
        progressive_input=progressive_input,
        progressive_output=progressive_output,
    )
    network = build(config)
    network(draw(2, 1, 16, 16), torch.tensor([0.0, 3.0])).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize(("progressive_input", "progressive_output"), PROGRESSIVE)
def test_output_is_zero_before_training(progressive_input: str, progressive_output: str) -> None:
    config = replace(
        TINY, progressive_input=progressive_input, progressive_output=progressive_output
    )
    assert NCSNpp(config)(draw(2, 1, 16, 16), torch.zeros(2)).abs().max() < 1e-6


@pytest.mark.parametrize("size", [(16, 16), (37, 50), (8, 40), (3, 1)])
@pytest.mark.parametrize(("channels_in", "channels_out"), [(1, 1), (2, 2), (3, 3), (5, 2)])
def test_any_size_and_channel_count(
    size: tuple[int, int], channels_in: int, channels_out: int
) -> None:
    network = build(replace(TINY, channels_in=channels_in, channels_out=channels_out))
    out = network(draw(2, channels_in, *size), torch.zeros(2))
    assert out.shape == (2, channels_out, *size)
    assert out.isfinite().all()


def test_odd_sizes_are_reflected_inside() -> None:
    network = build(TINY)
    x = draw(1, 1, 13, 15)
    padded = torch.from_numpy(np.pad(x.numpy(), [(0, 0), (0, 0), (1, 2), (0, 1)], mode="reflect"))
    expected = network(padded, torch.zeros(1))[:, :, 1:14, :15]
    assert relative_error(network(x, torch.zeros(1)), expected) < 1e-6


def test_nominal_size_only_moves_attention() -> None:
    def count(config: NCSNppConfig) -> int:
        return sum(isinstance(module, Attention) for module in NCSNpp(config).modules())

    assert count(replace(TINY, attention=())) == 1
    assert count(replace(TINY, blocks=2, attention=(8,))) == 1 + 2 + 1
    assert count(replace(TINY, blocks=2, attention=(8,), image_size=64)) == 1
    assert count(replace(TINY, blocks=2, attention=(16, 8))) == 1 + 2 * (2 + 1)
    plain = build(replace(TINY, attention=()))
    larger = build(replace(TINY, attention=(), image_size=512))
    x = draw(1, 1, 16, 16)
    assert torch.equal(plain(x, torch.zeros(1)), larger(x, torch.zeros(1)))


def test_weights_depend_on_the_seed_alone() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = NCSNpp(TINY, seed=5).state_dict()
        torch.manual_seed(2)
        second = NCSNpp(TINY, seed=5).state_dict()
        other = NCSNpp(TINY, seed=6).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["stem.weight"], other["stem.weight"])
    assert not torch.equal(first["embedding.0.frequencies"], other["embedding.0.frequencies"])


def test_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    network = NCSNpp(TINY)
    network(draw(1, 1, 16, 16), torch.zeros(1)).sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("size", [(16, 16), (13, 15)])
def test_autocast_stays_near_float32(size: tuple[int, int]) -> None:
    network = build(TINY)
    x, log_snr = draw(2, 1, *size), torch.tensor([-2.0, 4.0])
    expected = network(x, log_snr)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(x, log_snr)
    assert found.dtype == torch.float32
    assert 0 < relative_error(found, expected) < 0.03
    found.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_float64_agrees_with_float32() -> None:
    network = build(TINY)
    x, log_snr = draw(2, 1, 16, 16), torch.tensor([-2.0, 4.0])
    single = network(x, log_snr)
    double = network.double()(x.double(), log_snr.double())
    assert double.dtype == torch.float64
    assert relative_error(single.double(), double) < 1e-5


def test_layout_does_not_change_the_result() -> None:
    x, log_snr = draw(2, 1, 16, 16).double(), torch.zeros(2).double()
    outs = [build(replace(TINY, channels_last=flag)).double()(x, log_snr) for flag in (True, False)]
    assert relative_error(outs[0], outs[1]) < 1e-12


def test_checkpointing_does_not_change_gradients() -> None:
    x, log_snr = draw(2, 1, 16, 16), torch.zeros(2)
    plain = build(replace(TINY, dropout=0.1))
    saving = build(replace(TINY, dropout=0.1, checkpointing=True))
    gradients = []
    for network in (plain, saving):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network(x, log_snr).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))
    assert relative_error(gradients[1], gradients[0]) < 1e-6


def test_dropout_acts_in_training_only() -> None:
    network = build(replace(TINY, dropout=0.5))
    x = draw(1, 1, 16, 16)
    with torch.random.fork_rng(devices=[]):
        assert not torch.equal(network(x, torch.zeros(1)), network(x, torch.zeros(1)))
        network.eval()
        assert torch.equal(network(x, torch.zeros(1)), network(x, torch.zeros(1)))


def test_noise_level_matters_and_one_level_serves_the_batch() -> None:
    network = build(TINY)
    x = draw(1, 1, 16, 16).expand(3, -1, -1, -1)
    out = network(x, torch.tensor([-5.0, 0.0, 5.0]))
    assert relative_error(out[0], out[1]) > 0.01
    assert relative_error(out[2], out[1]) > 0.01
    shared = network(x, torch.tensor([5.0]))
    assert relative_error(shared, out[2].expand(3, -1, -1, -1)) < 1e-5


def test_embedding_is_finite_and_written_out_right() -> None:
    embedding = NCSNpp(TINY).embedding[0]
    levels = torch.cat([torch.linspace(-20, 20, 401), torch.tensor([-torch.inf, torch.inf])])
    features = embedding(levels)
    assert features.shape == (403, 16)
    assert features.isfinite().all()
    assert torch.equal(features[-2], features[0])
    turns = np.exp(2j * np.pi * embedding.frequencies.double().numpy() * 7.0 / 2)
    expected = np.concatenate([turns.imag, turns.real])
    np.testing.assert_allclose(embedding(torch.tensor([7.0]))[0], expected, atol=1e-5)


def test_samples_of_a_batch_do_not_meet() -> None:
    network = build(TINY)
    x, log_snr = draw(3, 1, 16, 16), torch.tensor([-5.0, 0.0, 5.0])
    alone = torch.cat([network(x[k : k + 1], log_snr[k : k + 1]) for k in range(3)])
    assert relative_error(network(x, log_snr), alone) < 1e-5


def test_a_shifted_object_gives_a_shifted_output() -> None:
    network = build(replace(TINY, attention=()))
    window = torch.hann_window(24, periodic=False)
    spot = draw(1, 1, 24, 24) * torch.outer(window, window)
    images = torch.zeros(2, 1, 96, 96)
    images[0, :, 32:56, 32:56] = spot
    images[1, :, 40:64, 36:60] = spot
    out = network(images, torch.zeros(2))
    # Borders reach the inside only through the means of the norms.
    assert relative_error(out[1, :, 40:64, 36:60], out[0, :, 32:56, 32:56]) < 0.02


def test_config_goes_through_json() -> None:
    text = json.dumps(asdict(TINY))
    assert NCSNppConfig(**json.loads(text)) == TINY


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"multipliers": ()},
        {"progressive_input": "output_skip"},
        {"progressive_output": "input_skip"},
        {"dropout": 1.0},
    ],
)
def test_wrong_config_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replace(TINY, **wrong)


def test_wrong_inputs_are_refused() -> None:
    network = NCSNpp(TINY)
    with pytest.raises(ShapeError, match="channels_in"):
        network(draw(1, 2, 16, 16), torch.zeros(1))
    with pytest.raises(ShapeError, match="log_snr"):
        network(draw(3, 1, 16, 16), torch.zeros(2))
    with pytest.raises(DtypeError, match="log_snr"):
        network(draw(1, 1, 16, 16), torch.zeros(1, dtype=torch.long))
    with pytest.raises(DtypeError, match="real"):
        network(draw(1, 1, 16, 16) + 0j, torch.zeros(1))


def test_weights_go_through_safetensors() -> None:
    network = build(TINY)
    other = NCSNpp(TINY, seed=9)
    other.load_state_dict(load(save(network.state_dict())))
    x = draw(1, 1, 16, 16)
    assert torch.equal(network(x, torch.ones(1)), other(x, torch.ones(1)))


def test_a_few_steps_learn_to_denoise() -> None:
    network = NCSNpp(replace(TINY, attention=()))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    smooth = torch.linspace(0, 2 * torch.pi, 16).sin()
    losses = []
    for step in range(60):
        clean = torch.outer(smooth, smooth) * draw(8, 1, 1, 1, seed=step)
        noisy = clean + 0.3 * draw(8, 1, 16, 16, seed=1000 + step)
        loss = (network(noisy, torch.zeros(1)) - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # The noise alone is 0.09, and the zero start 0.25 on average.
    assert sum(losses[-10:]) / 10 < 0.03


def test_patches_keep_shape_and_range_of_sizes() -> None:
    """Squares of pixels become channels and pixels again, for any size."""
    config = NCSNppConfig(channels_in=1, channels_out=2, width=4, multipliers=(1, 2), patch=2)
    network = NCSNpp(config)
    for size in ((8, 8), (7, 10), (5, 5)):
        out = network(torch.ones(2, 1, *size), torch.zeros(2))
        assert out.shape == (2, 2, *size)


def test_without_attention_the_middle_of_an_image_does_not_know_its_size() -> None:
    """What is far away is seen by norms alone, and those see more of the same texture."""
    config = NCSNppConfig(
        width=8,
        multipliers=(1, 1, 2),
        blocks=1,
        attention=(),
        bottleneck_attention=False,
        patch=2,
        channels_in=4,
        channels_out=2,
        progressive_input="none",
        progressive_output="none",
    )
    network = build(config)
    assert not any(isinstance(module, Attention) for module in network.modules())
    tile = torch.randn(1, 4, 32, 32, generator=torch.Generator().manual_seed(0))
    small, large = tile.repeat(1, 1, 6, 6), tile.repeat(1, 1, 8, 8)
    with torch.no_grad():
        both = [network(x, torch.zeros(1)) for x in (small, large)]
    assert relative_error(both[0][..., 80:112, 80:112], both[1][..., 112:144, 112:144]) < 0.05
    assert network(torch.zeros(1, 4, 45, 37), torch.zeros(1)).shape == (1, 2, 45, 37)
