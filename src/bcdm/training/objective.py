r"""From clean images to the loss: $E |s_\theta(\text{statistic}, t) - x_0|^2$ (paper, Thm. 1)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel, Schedule
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.problems import Problems
from bcdm.tensors import ImageSpec, SeededNoise, fit

__all__ = ["LevelSampling", "Objective"]

_GOLDEN = 0.6180339887498949
# Streams of the noise that belongs to one training sample.
_DIFFUSION, _MEASUREMENT = 0, 1


@dataclass(frozen=True)
class LevelSampling:
    """Draws log-SNR: a law truncated to the schedule's range, and a part at its noise end.

    Args:
        schedule: Gives the range.
        mean: Of the normal law.
        std: Of the normal law.
        end: The fraction of samples at the noise end, where one call gives the posterior mean.
        uniform_time: Uniform over the schedule's time, as in the paper, instead of the normal law.
    """

    schedule: Schedule
    mean: float = 0.0
    std: float = 4.0
    end: float = 0.1
    uniform_time: bool = False

    def draw(self, seed: int, counters: Tensor) -> NoiseLevel:
        """Levels of the samples with these counters, (B,) float64.

        Successive counters give a Kronecker sequence, so every batch covers the range evenly.
        """
        low, high = self.schedule.log_snr_range
        offset = SeededNoise(seed, [0]).normal(ImageSpec((1,), torch.float64), step=1 << 61)
        u = torch.frac(counters.double() * _GOLDEN + torch.special.ndtr(offset[0]))
        inner = ((u - self.end) / (1 - self.end)).clamp_min(0)
        log_snr = torch.where(u < self.end, low, self._spread(inner).clamp(low, high))
        return self.schedule.level(log_snr)

    def _spread(self, u: Tensor) -> Tensor:
        """From uniform numbers to log-SNR."""
        if self.uniform_time:
            return self.schedule.log_snr(u.clamp_min(1e-9))
        edges = torch.tensor(self.schedule.log_snr_range, dtype=torch.float64)
        bottom, top = torch.special.ndtr((edges - self.mean) / self.std)
        return self.mean + self.std * torch.special.ndtri(bottom + u * (top - bottom))


class Objective(nn.Module):
    """The training loss of a method, as the module that is trained.

    Every random number is a function of (seed, sample counter): which process computes a sample,
    and with which others, changes nothing.

    Args:
        method: What is trained; its network is this module's only child.
        problems: What the training images are measured with.
        levels: How noise levels are drawn.
        seed: Of all noise.
    """

    def __init__(
        self,
        method: Bayesian,
        problems: Problems,
        levels: LevelSampling,
        seed: int,
    ) -> None:
        super().__init__()
        self.network = method.network
        self.method = method
        self.problems = problems
        self.levels = levels
        self.seed = seed

    def forward(self, x_0: Tensor, counters: Tensor) -> Tensor:
        """The weighted squared error of each image, (B,)."""
        return self.error(x_0, counters, self.levels.draw(self.seed, counters))

    def error(self, x_0: Tensor, counters: Tensor, level: NoiseLevel) -> Tensor:
        """The same at given levels."""
        mean = self.method.estimate(*self._measure(x_0, counters, level))
        squared = (mean - x_0).abs().square().flatten(1).mean(1)
        return squared * self.method.parameterisation.weigh(level).to(squared)

    def _measure(
        self, x_0: Tensor, counters: Tensor, level: NoiseLevel
    ) -> tuple[Conditioning, Tensor]:
        """Measures and diffuses images."""
        noise = SeededNoise(self.seed, counters.tolist())
        image = ImageSpec.of(x_0)
        alpha, sigma = fit(x_0, *level)
        x_t = alpha * x_0 + sigma * noise.normal(image, step=_DIFFUSION)
        operator, noise_std = self.problems.draw(counters.tolist())
        clean = operator.forward(x_0)
        static = noise.normal(ImageSpec.of(clean), step=_MEASUREMENT)
        data = clean + fit(clean, noise_std)[0] * static
        measurement = Measurement(data, operator, noise_std)
        return Conditioning(measurement, level), x_t
