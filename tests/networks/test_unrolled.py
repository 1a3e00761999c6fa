"""Unrolled networks and experts against loops and formulas written out by hand."""

import pytest
import torch
from torch import Tensor, nn

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.networks import (
    Experts,
    NCSNpp,
    NCSNppConfig,
    UnrolledNetwork,
    channels_to_complex,
    complex_to_channels,
)

TINY = NCSNppConfig(image_size=16, width=8, multipliers=(1, 2), blocks=1, attention=())


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def build(channels_in: int, channels_out: int, seed: int = 0, patch: int = 1) -> NCSNpp:
    """A backbone without zero weights, as after some training."""
    channels = {"channels_in": channels_in, "channels_out": channels_out}
    settings = {**vars(TINY), **channels, "patch": patch}
    network = NCSNpp(NCSNppConfig(**settings), seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return network


class Affine(nn.Module):
    """Scales the image and adds the noise level: simple enough to unroll on paper."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        return self.factor * x + log_snr[:, None, None, None]


class FourierConsistency:
    """Puts measured frequencies in place of the image's own, and notes what it was given."""

    def __init__(self, reference: Tensor) -> None:
        columns = torch.arange(reference.shape[-1])
        self.mask = (columns % 3 == 0).expand(reference.shape)
        self.data = torch.fft.fft2(reference)
        self.seen: list[torch.dtype] = []
        self.autocast: list[bool] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.seen.append(x.dtype)
        self.autocast.append(torch.is_autocast_enabled("cpu"))
        out = torch.fft.ifft2(torch.where(self.mask, self.data, torch.fft.fft2(x)))
        return out if x.is_complex() else out.real


def test_iterations_follow_the_formula() -> None:
    network = UnrolledNetwork(Affine(0.5), iterations=3)
    x, log_snr = draw(2, 1, 4, 4), torch.tensor([1.0, -2.0])
    out = network(x, log_snr, lambda image: 2 * image + 1)
    expected = x
    for _ in range(3):
        expected = 2 * (0.5 * expected + log_snr[:, None, None, None]) + 1
    assert torch.allclose(out, expected)
    assert torch.allclose(out, x + 6 * log_snr[:, None, None, None] + 3)


def test_without_projection_the_backbone_is_iterated() -> None:
    network = UnrolledNetwork(Affine(0.5), iterations=2)
    x = draw(2, 1, 4, 4)
    assert torch.allclose(network(x, torch.zeros(1), None), x / 4)


def test_last_step_is_data_consistency() -> None:
    reference = draw(2, 1, 16, 16, seed=3) + 1j * draw(2, 1, 16, 16, seed=4)
    project = FourierConsistency(reference)
    network = UnrolledNetwork(build(2, 2), iterations=2)
    out = network(draw(2, 1, 16, 16) + 0j, torch.zeros(2), project)
    measured = project.mask
    assert torch.allclose(torch.fft.fft2(out)[measured], project.data[measured], atol=1e-4)
    assert not torch.allclose(torch.fft.fft2(out)[~measured], project.data[~measured], atol=1)


def test_complex_images_match_a_written_out_loop() -> None:
    backbone = build(4, 4)
    reference = torch.complex(draw(2, 2, 8, 8, seed=3), draw(2, 2, 8, 8, seed=4))
    project = FourierConsistency(reference)
    x = torch.complex(draw(2, 2, 8, 8, seed=5), draw(2, 2, 8, 8, seed=6))
    out = UnrolledNetwork(backbone, iterations=2)(x, torch.zeros(2), project)
    assert project.seen == [torch.complex64] * 2
    expected = x
    for _ in range(2):
        parts = backbone(torch.cat([expected.real, expected.imag], 1), torch.zeros(2))
        expected = project(torch.complex(parts[:, :2], parts[:, 2:]))
    assert torch.allclose(out, expected, atol=1e-5)


def test_complex_and_channels_are_inverse() -> None:
    x = torch.complex(draw(2, 3, 4, 5), draw(2, 3, 4, 5, seed=1))
    channels = complex_to_channels(x)
    assert channels.shape == (2, 6, 4, 5)
    assert torch.equal(channels[:, 1], x[:, 1].real)
    assert torch.equal(channels[:, 4], x[:, 1].imag)
    assert torch.equal(channels_to_complex(channels), x)
    assert channels_to_complex(channels.to(torch.bfloat16)).dtype == torch.complex64
    with pytest.raises(ShapeError, match="even"):
        channels_to_complex(draw(1, 3, 4, 4))


class Recorder(nn.Module):
    """Returns the first channel and keeps what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Tensor] = []

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        self.inputs.append(x)
        return x[:, :1] + 1


def test_extra_channels_are_seen_in_every_iteration() -> None:
    recorder = Recorder()
    x, extra = draw(3, 1, 4, 4), torch.complex(draw(1, 1, 4, 4, seed=1), draw(1, 1, 4, 4, seed=2))
    out = UnrolledNetwork(recorder, iterations=2)(x, torch.zeros(1), None, extra)
    assert torch.allclose(out, x + 2)
    for index, seen in enumerate(recorder.inputs):
        assert torch.allclose(seen[:, :1], x + index)
        assert torch.equal(seen[:, 1:], complex_to_channels(extra).expand(3, -1, -1, -1))


def test_first_input_is_recalled() -> None:
    """The backbone sees [x_i, x_0]; both differ from the second iteration on."""
    recorder = Recorder()
    x = draw(2, 1, 8, 8)
    UnrolledNetwork(recorder, 2, recall=True)(x, torch.zeros(1), lambda image: image + 1)
    first, second = recorder.inputs
    assert torch.equal(first, torch.cat([x, x], 1))
    assert torch.equal(second[:, 1:], x)
    assert not torch.equal(second[:, :1], x)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_checkpointing_keeps_the_gradients_of_shared_weights(
    is_complex: bool, autocast: bool
) -> None:
    channels = 2 if is_complex else 1
    x = draw(2, 1, 8, 8, seed=5)
    if is_complex:
        x = torch.complex(x, draw(2, 1, 8, 8, seed=6))
    gradients = []
    for checkpointing in (False, True):
        backbone = build(channels, channels)
        network = UnrolledNetwork(backbone, iterations=4, checkpointing=checkpointing)
        leaf = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = network(leaf, torch.zeros(2), FourierConsistency(x * 2))
        out.abs().square().sum().backward()
        assert leaf.grad is not None
        flat = [parameter.grad.flatten() for parameter in backbone.parameters()]
        gradients.append(torch.cat([*flat, torch.view_as_real(leaf.grad + 0j).flatten()]))
    assert gradients[0].norm() > 1
    assert (gradients[1] - gradients[0]).norm() <= 1e-6 * gradients[0].norm()


def test_shared_weights_sum_their_gradients() -> None:
    backbone = Affine(0.5)
    x = draw(2, 1, 4, 4).double()
    network = UnrolledNetwork(backbone.double(), iterations=4, checkpointing=True)
    network(x, torch.zeros(1).double(), lambda image: image).sum().backward()
    assert torch.allclose(backbone.factor.grad, 4 * 0.5**3 * x.sum())


@pytest.mark.parametrize("is_complex", [False, True])
def test_projection_is_an_island_of_float32(is_complex: bool) -> None:
    channels = 2 if is_complex else 1
    x = draw(2, 1, 8, 8) + (0j if is_complex else 0)
    project = FourierConsistency(x)
    network = UnrolledNetwork(build(channels, channels), iterations=2)
    with torch.autocast("cpu", torch.bfloat16):
        out = network(x, torch.zeros(2), project)
        assert torch.is_autocast_enabled("cpu")
    assert project.seen == [x.dtype] * 2
    assert project.autocast == [False] * 2
    assert out.dtype == x.dtype
    out.abs().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_half_precision_of_a_foreign_backbone_is_lifted() -> None:
    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
            return self.inner(x)

    project = FourierConsistency(draw(1, 1, 8, 8))
    with torch.autocast("cpu", torch.bfloat16):
        UnrolledNetwork(Convolution(), 1)(draw(1, 1, 8, 8), torch.zeros(1), project)
    assert project.seen == [torch.float32]


def test_float64_is_kept() -> None:
    project = FourierConsistency(draw(1, 1, 8, 8).double())
    network = UnrolledNetwork(build(1, 1).double(), iterations=2)
    out = network(draw(1, 1, 8, 8).double(), torch.zeros(1), project)
    assert out.dtype == torch.float64
    assert project.seen == [torch.float64] * 2


def test_wrong_use_is_refused() -> None:
    with pytest.raises(InputError, match="iterations"):
        UnrolledNetwork(Affine(1.0), iterations=0)
    with pytest.raises(ShapeError, match="output channels"):
        UnrolledNetwork(build(2, 1), iterations=1)(draw(1, 2, 8, 8), torch.zeros(1), None)
    with pytest.raises(ShapeError, match="extra"):
        UnrolledNetwork(Recorder(), 1)(
            draw(2, 1, 8, 8), torch.zeros(1), None, extra=draw(2, 1, 8, 4)
        )


def test_each_sample_goes_to_its_expert() -> None:
    experts = Experts([Affine(1.0), Affine(10.0), Affine(100.0)], [-1.0, 2.0])
    log_snr = torch.tensor([5.0, -3.0, -1.0, 2.0, 0.0, -9.0, 1.999])
    factors = torch.tensor([100.0, 1.0, 10.0, 100.0, 10.0, 1.0, 10.0])
    x = draw(7, 2, 3, 4)
    expected = factors[:, None, None, None] * x + log_snr[:, None, None, None]
    assert torch.allclose(experts(x, log_snr), expected)
    for level, factor in ((-2.0, 1.0), (0.0, 10.0), (7.0, 100.0)):
        assert torch.allclose(experts(x, torch.tensor([level])), factor * x + level)
    assert torch.allclose(experts(x, torch.tensor([7.0]).expand(7)), 100 * x + 7)


def test_gradients_are_zero_for_an_expert_without_samples() -> None:
    experts = Experts([Affine(1.0), Affine(10.0), Affine(100.0)], [-1.0, 2.0])
    x = draw(3, 1, 4, 4).requires_grad_()
    experts(x, torch.tensor([5.0, -5.0, 6.0])).sum().backward()
    sums = x.detach().sum((1, 2, 3))
    assert torch.allclose(experts.networks[0].factor.grad, sums[1])
    assert experts.networks[1].factor.grad == 0
    assert torch.allclose(experts.networks[2].factor.grad, sums[0] + sums[2])
    factors = torch.tensor([100.0, 1.0, 100.0])[:, None, None, None]
    assert torch.equal(x.grad, factors.expand(x.shape))


def test_experts_serve_as_an_unrolled_backbone() -> None:
    networks = [build(1, 1, seed=0), build(1, 1, seed=7)]
    experts = UnrolledNetwork(Experts(networks, [0.0]), iterations=2)
    x, log_snr = draw(4, 1, 8, 8), torch.tensor([3.0, -3.0, -1.0, 8.0])
    project = FourierConsistency(draw(4, 1, 8, 8, seed=2))
    out = experts(x, log_snr, project)
    for index, which in enumerate([1, 0, 0, 1]):
        alone = UnrolledNetwork(networks[which], iterations=2)(x, log_snr, project)
        assert torch.allclose(out[index], alone[index], atol=1e-5)
    assert not torch.allclose(out[0], UnrolledNetwork(networks[0], 2)(x, log_snr, project)[0])


@pytest.mark.parametrize("patch", [1, 2])
def test_every_weight_of_an_idle_expert_gets_a_zero_gradient(patch: int) -> None:
    experts = Experts([build(1, 1, seed=0, patch=patch), build(1, 1, seed=7, patch=patch)], [0.0])
    experts(draw(2, 1, 7, 9), torch.tensor([3.0])).square().sum().backward()
    for parameter in experts.networks[0].parameters():
        assert parameter.grad is not None
        assert (parameter.grad == 0).all()
    assert all((parameter.grad != 0).any() for parameter in experts.networks[1].parameters())


def test_idle_experts_do_not_run_without_gradients() -> None:
    recorder = Recorder()
    experts = Experts([recorder, Affine(2.0)], [0.0])
    x = draw(2, 1, 4, 4)
    with torch.no_grad():
        assert torch.allclose(experts(x, torch.ones(1)), 2 * x + 1)
    assert recorder.inputs == []


def test_experts_have_one_state() -> None:
    first = Experts([build(1, 1, seed=0), build(1, 1, seed=7)], [0.5])
    second = Experts([build(1, 1, seed=1), build(1, 1, seed=2)], [-4.0])
    second.load_state_dict(first.state_dict())
    x, log_snr = draw(2, 1, 8, 8), torch.tensor([0.4, 0.6])
    assert torch.equal(first(x, log_snr), second(x, log_snr))


def test_wrong_experts_are_refused() -> None:
    for edges in ([], [1.0, 2.0]):
        with pytest.raises(InputError, match="edges"):
            Experts([Affine(1.0), Affine(2.0)], edges)
    with pytest.raises(InputError, match="ascending"):
        Experts([Affine(1.0), Affine(2.0), Affine(3.0)], [2.0, 1.0])
    experts = Experts([Affine(1.0), Affine(2.0)], [0.0])
    with pytest.raises(ShapeError, match="log_snr"):
        experts(draw(3, 1, 4, 4), torch.zeros(2))
    with pytest.raises(DtypeError, match="log_snr"):
        experts(draw(3, 1, 4, 4), torch.zeros(3, dtype=torch.int64))
