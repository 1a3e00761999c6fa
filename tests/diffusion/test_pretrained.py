"""Networks of other libraries as priors: by their calling conventions, and by diffusers itself."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bcdm.diffusion import (
    VE,
    DPMSolver,
    NoiseLevel,
    Pretrained,
    Tabled,
    from_diffusers,
    from_edm,
    from_table,
    sample,
)
from bcdm.errors import InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods import MMPS, ExactDenoiser, GaussianMixture
from bcdm.operators import PixelMask

SHAPE = (1, 4, 4)
BETAS = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
TABLE = torch.cumprod(1 - BETAS, 0)


def make_prior() -> GaussianMixture:
    places = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0)).double()
    return GaussianMixture.gaussian(
        torch.full((16,), 0.2).double(), 0.3 * torch.exp(-torch.cdist(places, places) / 2), SHAPE
    )


class Network(nn.Module):
    """The exact mean of a Gaussian prior, dressed as a network over a table."""

    def __init__(self, predicts: str) -> None:
        super().__init__()
        self.prior, self.predicts = ExactDenoiser(make_prior(), Tabled(TABLE)), predicts
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        log_snrs = (TABLE / (1 - TABLE)).log().numpy()
        found = np.interp(place.double().numpy(), np.arange(1000), log_snrs)
        level = self.prior.schedule.level(torch.from_numpy(found))
        mean = self.prior(x.double(), level).to(x.dtype)
        alpha, sigma = (part.to(x.dtype)[:, None, None, None] for part in level)
        noise = (x - alpha * mean) / sigma
        out = {"noise": noise, "v": alpha * noise - sigma * mean, "image": mean}[self.predicts]
        return self.scale * out


class UNet(nn.Module):
    """As diffusers calls its networks."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.config = SimpleNamespace(sample_size=4, in_channels=1)

    def forward(self, x: Tensor, timestep: Tensor) -> Any:
        return SimpleNamespace(sample=self.network(x, timestep))


class Guided(nn.Module):
    """As guided-diffusion does: twice the channels, the second half for variances."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, timesteps: Tensor, y: Tensor | None = None) -> Tensor:
        return torch.cat([self.network(x, timesteps), torch.full_like(x, 9.0)], 1)


class Preconditioned(nn.Module):
    """As EDM does: x_0 + sigma n and sigma in, the mean out."""

    img_resolution, img_channels = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.prior = ExactDenoiser(make_prior(), VE())
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, sigma: Tensor, class_labels: Tensor | None = None) -> Tensor:
        level = NoiseLevel(torch.ones_like(sigma).double(), sigma.double())
        return self.scale * self.prior(x.double(), level).to(x.dtype)


def scheduler(kind: str) -> Any:
    return SimpleNamespace(
        alphas_cumprod=TABLE.float(), config=SimpleNamespace(prediction_type=kind)
    )


PRIORS = {
    "noise": lambda: from_table(Network("noise").eval(), TABLE, SHAPE),
    "v": lambda: from_table(Network("v").eval(), TABLE, SHAPE, predicts="v"),
    "image": lambda: from_table(Network("image").eval(), TABLE, SHAPE, predicts="image"),
    "diffusers": lambda: from_diffusers(UNet(Network("noise")).eval(), scheduler("epsilon")),
    "diffusers, v": lambda: from_diffusers(UNet(Network("v")).eval(), scheduler("v_prediction")),
    "diffusers, image": lambda: from_diffusers(UNet(Network("image")).eval(), scheduler("sample")),
    "guided-diffusion": lambda: from_table(Guided(Network("noise")).eval(), TABLE, SHAPE),
    "EDM": lambda: from_edm(Preconditioned().eval()),
}


@pytest.mark.parametrize("name", PRIORS)
def test_means_are_those_of_the_prior(name: str) -> None:
    denoiser = PRIORS[name]()
    assert denoiser.image.shape == SHAPE
    exact = ExactDenoiser(make_prior(), denoiser.schedule)
    seeded = torch.Generator().manual_seed(0)
    low, high = denoiser.schedule.log_snr_range
    for log_snr in torch.linspace(max(low, -8), min(high, 6), 5, dtype=torch.float64):
        # One level for all, and one for each.
        for level in (log_snr[None], torch.stack([log_snr, log_snr - 0.3, log_snr - 0.6])):
            at = denoiser.schedule.level(level)
            x_t = torch.randn(3, *SHAPE, generator=seeded)
            expected = exact(x_t.double(), at).float()
            # The table of diffusers is in single precision; noise is divided by alpha.
            torch.testing.assert_close(denoiser(x_t, at), expected, rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("name", ["noise", "diffusers, v", "EDM"])
def test_guided_methods_take_them(name: str) -> None:
    """MMPS is exact for a Gaussian prior: mean and width are those of the posterior."""
    prior, known = PRIORS[name](), torch.arange(16).reshape(4, 4) % 3 > 0
    measurement = Measurement.simulate(
        make_prior().sample(1, seed=3).float(), PixelMask(known), 0.1, seed=1
    )
    exact = make_prior().condition(
        Measurement(measurement.y.double(), PixelMask(known), measurement.std)
    )
    drawn = sample(
        MMPS(prior, iterations=8).condition(measurement), DPMSolver(), steps=30,
        indices=range(200), progress=False,
    )  # fmt: skip
    spread = exact.covariance.diagonal().reshape(4, 4).sqrt()
    away = (drawn.mean(0)[0] - exact.mean.reshape(4, 4)) / spread
    assert float(away.abs().mean()) < 0.2
    assert abs(float((drawn.std(0)[0] / spread).mean()) - 1) < 0.1


def test_the_table_is_a_schedule() -> None:
    schedule = Tabled(TABLE)
    places = torch.tensor([0.0, 1.0, 499.5, 999.0]).double()
    log_snr = schedule.log_snr((places + 1) / 1000)
    torch.testing.assert_close(schedule.find_position(log_snr), places)
    torch.testing.assert_close(schedule.time(log_snr), (places + 1) / 1000)
    level = schedule.level(log_snr[[0, 3]])
    torch.testing.assert_close(level.alpha**2, TABLE[[0, 999]])
    assert schedule.log_snr_range == (float(log_snr[-1]), float(log_snr[0]))
    assert repr(schedule) == "Tabled(1000 steps)"
    # Zero terminal SNR.
    low, _ = Tabled(torch.tensor([0.9, 0.5, 0.0])).log_snr_range
    assert low == pytest.approx(np.log(1e-6), abs=1e-3)
    for wrong in (TABLE.flip(0), torch.ones(3), TABLE[None], torch.tensor([1.0, 0.5])):
        with pytest.raises(InputError, match="a table of abar falls"):
            Tabled(wrong)


def test_means_are_clipped_on_request() -> None:
    denoiser = from_table(Network("noise").eval(), TABLE, SHAPE, value_range=(-0.1, 0.1))
    level = denoiser.schedule.level(torch.tensor([3.0]).double())
    mean = denoiser(torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0)), level)
    assert float(mean.detach().abs().max()) <= 0.1 + 1e-6


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(InputError, match=r"network\.eval\(\)"):
        from_table(Network("noise"), TABLE, SHAPE)
    with pytest.raises(InputError, match="prediction_type 'flow' is not known"):
        from_diffusers(UNet(Network("noise")).eval(), scheduler("flow"))
    with pytest.raises(InputError, match="predicts is one of"):
        from_table(Network("noise").eval(), TABLE, SHAPE, predicts="score")  # type: ignore[arg-type]
    denoiser = PRIORS["noise"]()
    level = denoiser.schedule.level(torch.zeros(1).double())
    with pytest.raises(ShapeError, match="the network makes"):
        denoiser(torch.zeros(1, 1, 8, 8), level)
    wrong = Pretrained(
        lambda x, t: x[..., :2], denoiser.schedule, denoiser.image, "noise", denoiser.find_time
    )
    with pytest.raises(ShapeError, match="the network made"):
        wrong(torch.zeros(1, *SHAPE), level)


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_with_diffusers(kind: str) -> None:
    """At whole steps the mean is the one that diffusers' own scheduler finds."""
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=16, in_channels=1, out_channels=1, block_out_channels=(8, 16),
        layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval().requires_grad_(False)  # fmt: skip
    theirs = diffusers.DDPMScheduler(prediction_type=kind, clip_sample=False)
    prior = from_diffusers(unet, theirs)
    assert prior.image.shape == (1, 16, 16)
    x = torch.randn(2, 1, 16, 16)
    for step in (5, 300, 700):
        log_snr = prior.schedule.log_snr(torch.tensor([(step + 1) / 1000]).double())
        level = prior.schedule.level(log_snr)
        out = unet(x, torch.tensor(step)).sample
        expected = theirs.step(out, step, x).pred_original_sample
        torch.testing.assert_close(prior(x, level), expected, rtol=1e-3, atol=2e-3)
    known = torch.rand(16, 16) < 0.5
    measurement = Measurement.simulate(0.5 * x[:1].tanh(), PixelMask(known), 0.1, seed=0)
    method = MMPS(prior, value_range=(-1.0, 1.0))
    drawn = sample(method.condition(measurement), steps=4, progress=False)
    assert bool(drawn.isfinite().all())
