"""Which noise levels training draws."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor

from bcdm.diffusion import NoiseLevel, Schedule
from bcdm.tensors import ImageSpec, SeededNoise

__all__ = ["Levels"]

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Levels:
    """Draws log-SNR: a law truncated to a schedule's range, and a part at its noise end.

    Args:
        mean: Of the normal law.
        std: Of the normal law.
        end: The fraction of samples at the noise end, where one call gives the posterior mean.
        uniform_time: Uniform over the schedule's time, as in the paper, instead of the normal law.
    """

    # Files of settings hold it as it is, strictly.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    mean: float = 0.0
    std: float = 4.0
    end: Annotated[float, Field(ge=0, le=1)] = 0.1
    uniform_time: bool = False

    def draw(self, schedule: Schedule, seed: int, counters: Tensor) -> NoiseLevel:
        """Levels of the samples with these counters, (B,) float64.

        Successive counters give a Kronecker sequence, so every batch covers the range evenly.
        """
        low, high = schedule.log_snr_range
        offset = SeededNoise(seed, [0]).normal(ImageSpec((1,), torch.float64), step=1 << 61)
        u = torch.frac(counters.double() * _GOLDEN + torch.special.ndtr(offset[0]))
        inner = ((u - self.end) / (1 - self.end)).clamp_min(0)
        log_snr = torch.where(u < self.end, low, self._spread(schedule, inner).clamp(low, high))
        return schedule.level(log_snr)

    def _spread(self, schedule: Schedule, u: Tensor) -> Tensor:
        """From uniform numbers to log-SNR."""
        if self.uniform_time:
            return schedule.log_snr(u.clamp_min(1e-9))
        edges = torch.tensor(schedule.log_snr_range, dtype=torch.float64)
        bottom, top = torch.special.ndtr((edges - self.mean) / self.std)
        return self.mean + self.std * torch.special.ndtri(bottom + u * (top - bottom))
