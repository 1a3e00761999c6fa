"""A trained method with all it was trained for."""

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from bcdm.checkpoint.building import build_familiarity
from bcdm.checkpoint.settings import RunConfig
from bcdm.data import Preparation
from bcdm.errors import InputError
from bcdm.machine import find_device
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, BayesianDenoiser
from bcdm.methods.view import Scales
from bcdm.operators import LinearOperator, PixelMask
from bcdm.problems import Cloud
from bcdm.problems.familiarity import Familiarity, UnfamiliarWarning, Verdict
from bcdm.shelf import read_calls

__all__ = ["Model"]


@dataclass(frozen=True, repr=False)
class Model:
    """A trained method with all it was trained for.

    Attributes:
        method: The learned posterior.
        config: The settings of its training.
        trained_operator: What its training measured with; None if that was a family, or Python code
            that was not given to `load`.
        preparation: How images become the network's, and back.
        shape: Image shape (C, H, W) of its training.
        facts: What is known of it: data, hashes, metrics.
        cloud: What operators of its family look like, if that is stored.
    """

    method: Bayesian
    config: RunConfig
    trained_operator: LinearOperator | None
    preparation: Preparation
    shape: tuple[int, ...]
    facts: dict[str, Any]
    cloud: Cloud | None = None

    def __repr__(self) -> str:
        operator = self.config.operator
        members = operator.members if operator.kind == "family" else [operator]
        kinds = ", ".join(dict.fromkeys(one.kind for one in members))
        numbers = sum(weight.numel() for weight in self.method.network.parameters())
        size = "x".join(map(str, self.shape))
        return f"Model({self.name!r}: {size}, {kinds}, {numbers / 1e6:.2f} M parameters)"

    @property
    def device(self) -> torch.device:
        """Where its network is."""
        return self.method.device or torch.device("cpu")

    def to(self, device: torch.device | str) -> "Model":
        """A copy whose network is on another device; itself if it is there already.

        Measurements and samples stay where they are: each call brings them to the network and back.
        """
        place = find_device(device)
        if place.type == self.device.type and place.index in (None, self.device.index):
            return self
        return replace(
            self, method=replace(self.method, network=deepcopy(self.method.network).to(place))
        )

    @property
    def name(self) -> str:
        """What it is called."""
        return self.config.name

    @property
    def calls(self) -> int:
        """Network calls per sample, as it was calibrated."""
        return read_calls(self.facts)

    @property
    def value_range(self) -> tuple[float, float]:
        """Black and white of its images."""
        return self.config.data.value_range

    @property
    def scales(self) -> Scales:
        """The prior that its linear estimates are made with."""
        return self.method.parameterisation.scales

    @property
    def operator(self) -> LinearOperator:
        """The only operator it was trained for."""
        if self.trained_operator is not None:
            return self.trained_operator
        if self.config.operator.kind == "family":
            raise InputError(f"{self.name} serves a family of operators: give yours (--operator)")
        raise InputError(
            f"{self.config.name} was trained with an operator made of Python code, which no file "
            "holds: in Python, bcdm.reconstruct(bcdm.load(FOLDER, operator), measurement)"
        )

    @property
    def noise_std(self) -> float:
        """The only noise level it was trained for."""
        if isinstance(self.config.noise_std, tuple):
            raise InputError(
                f"{self.name} serves a range of noise levels: give yours (--noise-std)"
            )
        return self.config.noise_std

    @cached_property
    def familiarity(self) -> Familiarity | None:
        """Judges whether measurements are of the trained family; None for a single operator."""
        return build_familiarity(self.config, self.shape, self.cloud)

    @property
    def is_prior(self) -> bool:
        """Whether it was trained, also or only, without a measurement."""
        operator = self.config.operator
        return operator.kind == "nothing" or (operator.kind == "family" and operator.nothing > 0)

    @property
    def prior(self) -> BayesianDenoiser:
        """The unconditional denoiser: nothing is measured. Guided methods take it."""
        return self.make_prior(self.shape)

    def make_prior(self, shape: tuple[int, ...]) -> BayesianDenoiser:
        """The unconditional denoiser of images of another shape (C, H, W)."""
        if not self.is_prior:
            raise InputError(
                f"{self.config.name} was trained with measurements: guided methods take a network "
                'that was trained with operator "nothing", or a family with "nothing" above 0'
            )
        nothing = PixelMask(torch.zeros(shape[-2:], dtype=torch.bool))
        blank = torch.zeros(1, *shape, dtype=self.config.data.dtype)
        return self.method.condition(Measurement(blank, nothing, 1.0))

    def condition(self, measurement: Measurement) -> BayesianDenoiser:
        """Binds measurements: the posterior of the images behind them.

        A model of a family warns where operator or noise level lie outside. Because warnings can
        be switched off by anybody, what is returned says the same as `unfamiliar`.
        """
        reasons = tuple(verdict.reason for verdict in self.judge(measurement))
        for reason in dict.fromkeys(filter(None, reasons)):
            warnings.warn(reason, UnfamiliarWarning, stacklevel=2)
        return replace(self.method.condition(measurement), unfamiliar=reasons)

    def judge(self, measurement: Measurement) -> list[Verdict]:
        """Whether each measurement is one of the trained family; empty for a single operator."""
        return [] if self.familiarity is None else self.familiarity.judge(measurement)
