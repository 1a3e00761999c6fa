r"""From clean images to the loss: $E |s_\theta(\text{statistic}, t) - x_0|^2$ (paper, Thm. 1)."""

from collections.abc import Sequence

from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.operators import LinearOperator
from bcdm.problems import Levels, Problems
from bcdm.problems.strips import cut_strips
from bcdm.tensors import ImageSpec, SeededNoise, fit

__all__ = ["Objective", "Objectives"]

# Streams of the noise that belongs to one training sample.
_DIFFUSION, _MEASUREMENT = 0, 1


class Objective(nn.Module):
    """The training loss of a method, as the module that is trained.

    Every random number is a function of (seed, sample counter): which process computes a sample,
    and with which others, changes nothing.

    Args:
        method: What is trained; its network is this module's only child.
        problems: What the training images are measured with.
        levels: How noise levels are drawn.
        seed: Of all noise.
        strip: Images are cut to strips of so many lines (see `cut_strips`); None: they are whole.
    """

    def __init__(
        self,
        method: Bayesian,
        problems: Problems,
        levels: Levels,
        seed: int,
        strip: int | None = None,
    ) -> None:
        super().__init__()
        self.network = method.network
        self.method = method
        self.problems = problems
        self.levels = levels
        self.seed = seed
        self.strip = strip

    def forward(self, x_0: Tensor, counters: Tensor) -> Tensor:
        """The weighted squared error of each image, (B,)."""
        level = self.levels.draw(self.method.schedule, self.seed, counters)
        return self.error(x_0, counters, level)

    def error(self, x_0: Tensor, counters: Tensor, level: NoiseLevel) -> Tensor:
        """The same at given levels."""
        squared, weight = self.measure(x_0, counters, level)
        return squared * weight.to(squared)

    def measure(self, x_0: Tensor, counters: Tensor, level: NoiseLevel) -> tuple[Tensor, Tensor]:
        """The mean squared error of each image, and what it counts, (B,) both."""
        operator, noise_std = self.problems.draw(counters.tolist())
        if self.strip is not None:
            x_0, operator = cut_strips(
                x_0, operator, self.strip, seed=self.seed, counters=counters.tolist()
            )
        given = self._simulate(x_0, operator, noise_std, counters, level)
        mean, weight = self.method.estimate_weighted(*given)
        return (mean - x_0).abs().square().flatten(1).mean(1), weight

    def _simulate(
        self,
        x_0: Tensor,
        operator: LinearOperator,
        noise_std: Tensor,
        counters: Tensor,
        level: NoiseLevel,
    ) -> tuple[Conditioning, Tensor]:
        """Measures and diffuses images."""
        noise = SeededNoise(self.seed, counters.tolist())
        image = ImageSpec.of(x_0)
        alpha, sigma = fit(x_0, *level)
        x_t = alpha * x_0 + sigma * noise.normal(image, step=_DIFFUSION)
        clean = operator.forward(x_0)
        static = noise.normal(ImageSpec.of(clean), step=_MEASUREMENT)
        data = clean + fit(clean, noise_std)[0] * static
        measurement = Measurement(data, operator, noise_std)
        # The truth is where the solve ends, up to the noise: nothing is nearer to start from.
        return Conditioning(measurement, level, near=x_0), x_t


class Objectives(nn.Module):
    """Several objectives of one network, as the one module that is trained.

    Args:
        parts: Each for images of a kind of its own.
    """

    def __init__(self, parts: Sequence[Objective]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x_0: Tensor, counters: Tensor, part: int) -> Tensor:
        """The weighted squared error of each image by one of them, (B,)."""
        errors: Tensor = self.parts[part](x_0, counters)
        return errors
