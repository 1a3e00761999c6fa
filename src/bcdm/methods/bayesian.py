r"""Learned Bayesian conditioning: a network fed with a sufficient statistic of $x_t$ and $y$."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from bcdm.conditioning import Conditioning
from bcdm.diffusion import NoiseLevel, Schedule
from bcdm.errors import DtypeError
from bcdm.machine import run_network
from bcdm.measurement import Measurement
from bcdm.methods.base import check_batch
from bcdm.methods.parameterisation import Parameterisation
from bcdm.tensors import ImageSpec, real_dtype

__all__ = ["Bayesian", "BayesianDenoiser"]


@dataclass(frozen=True, eq=False, repr=False)
class Bayesian:
    r"""A network that gives $E[x_0 \mid \text{statistic}]$ for every noise level.

    Args:
        network: Called as network(statistic, log_snr, project) with images (B, C, H, W), and with
            extra channels as a fourth argument where the parameterisation has some, and what
            compares its image with the data as a fifth.
        schedule: The noise levels it was trained on.
        parameterisation: What the network sees and gives.
    """

    network: nn.Module
    schedule: Schedule
    parameterisation: Parameterisation

    @property
    def device(self) -> torch.device | None:
        """Where the network is; None where it has no weights."""
        weight = next(self.network.parameters(), None)
        return None if weight is None else weight.device

    def __repr__(self) -> str:
        name = type(self.network).__name__
        return f"Bayesian({name}, {self.schedule}, {self.parameterisation})"

    def condition(self, measurement: Measurement) -> "BayesianDenoiser":
        """Binds measurements; one network call then gives their posterior means.

        They may lie on another device than the network: images are brought to it and back.
        """
        self._check_precision(measurement)
        return BayesianDenoiser(self, measurement)

    def estimate(self, conditioning: Conditioning, x_t: Tensor) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$, differentiable: the same code trains and samples."""
        return self.estimate_weighted(conditioning, x_t)[0]

    def estimate_weighted(self, conditioning: Conditioning, x_t: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and what the squared error of each image counts in training, (B,)."""
        self._check_precision(conditioning.measurement)
        check_batch(conditioning.measurement, x_t)
        # The statistic is exact arithmetic, whatever precision the network runs in.
        with torch.autocast(x_t.device.type, enabled=False):
            given = self.parameterisation.prepare(conditioning, x_t)
        log_snr = given.log_snr.to(x_t.device, torch.float32)
        with run_network(x_t.device):
            out: Tensor = self.network(given.seen, log_snr, given.project, *given.more)
        return given.unit * out, given.weight

    def _check_precision(self, measurement: Measurement) -> None:
        """Refuses data of another precision than the network's."""
        weight = next(self.network.parameters(), None)
        precision = real_dtype(measurement.back_projection.dtype)
        if weight is not None and weight.dtype != precision:
            raise DtypeError(
                f"y is {measurement.y.dtype} but the network {weight.dtype}: convert y (and the "
                "operator) to the network's precision"
            )


@dataclass(frozen=True, eq=False)
class BayesianDenoiser:
    """A learned posterior with its measurements bound.

    Attributes:
        method: The posterior.
        measurement: What it is conditioned on.
        unfamiliar: For each measurement, why it is none of those that the method was trained for;
            an empty text if it is one, and no texts at all if nobody judged.
    """

    method: Bayesian
    measurement: Measurement
    unfamiliar: tuple[str, ...] = ()

    @property
    def schedule(self) -> Schedule:
        """That of the method."""
        return self.method.schedule

    @property
    def image(self) -> ImageSpec:
        """What the measurement gives."""
        return self.measurement.image

    @cached_property
    def _placed(self) -> Measurement:
        """The measurements where the network is."""
        device = self.method.device
        if device is None or device == self.measurement.y.device:
            return self.measurement
        return self.measurement.to(device)

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t, y]$ by one pass of the network, where x_t is."""
        placed = self._placed
        mean = self.method.estimate(Conditioning(placed, level), x_t.to(placed.y.device))
        return mean.to(x_t.device)
