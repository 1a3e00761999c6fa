r"""Priors whose posteriors have a closed form: the oracle of every statistical test.

One class serves Gaussian, Gaussian-mixture and discrete priors. A mixture stays a mixture when it
is conditioned on a linear Gaussian measurement, so $E[x_0 \mid x_t]$ and
$E[x_0 \mid x_t, y]$ are the same code with other parameters.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from bcdm.diffusion import Denoiser, NoiseLevel, Schedule
from bcdm.errors import DtypeError, ShapeError
from bcdm.measurement import Measurement
from bcdm.methods.base import check_image
from bcdm.operators import to_matrix
from bcdm.tensors import ImageSpec, expand

__all__ = ["ExactDenoiser", "ExactPosterior", "GaussianMixture"]


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A mixture of Gaussians over flattened real images.

    Args:
        log_weights: (K,), normalised or not.
        means: (K, n).
        covariances: (K, n, n), or (1, n, n) shared by all components; zero for points.
        shape: Image shape without the batch; (n,) when left out.
    """

    log_weights: Tensor
    means: Tensor
    covariances: Tensor
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.means.is_complex():
            raise DtypeError("exact priors are over real images: stack real and imaginary parts")
        count, size = self.means.shape
        shape = tuple(self.shape) if self.shape is not None else (size,)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "log_weights", self.log_weights.log_softmax(0))
        if len(self.log_weights) != count or prod(shape) != size:
            raise ShapeError("log_weights (K,), means (K, n) and the image shape do not fit")
        if self.covariances.shape[1:] != (size, size) or len(self.covariances) not in (1, count):
            raise ShapeError(f"covariances must be (1 or {count}, {size}, {size})")

    @classmethod
    def gaussian(
        cls, mean: Tensor, covariance: Tensor, shape: tuple[int, ...] | None = None
    ) -> "GaussianMixture":
        """A Gaussian of mean (n,) and covariance (n, n)."""
        return cls(mean.new_zeros(1), mean[None], covariance[None], shape)

    @classmethod
    def points(cls, points: Tensor, shape: tuple[int, ...] | None = None) -> "GaussianMixture":
        """Equally likely points (K, n)."""
        size = points.shape[1]
        return cls(points.new_zeros(len(points)), points, points.new_zeros(1, size, size), shape)

    @property
    def image(self) -> ImageSpec:
        """What one image is."""
        assert self.shape is not None
        return ImageSpec(self.shape, self.means.dtype, self.means.device)

    @cached_property
    def mean(self) -> Tensor:
        """The mean, an image (*shape)."""
        return (self.log_weights.exp() @ self.means).reshape(self.image.shape)

    @cached_property
    def covariance(self) -> Tensor:
        """The covariance (n, n) of the flattened image."""
        weights = self.log_weights.exp()
        away = self.means - self.mean.flatten()
        within = (weights[:, None, None] * self.covariances).sum(0)
        return within + away.mT @ (weights[:, None] * away)

    def condition(self, measurement: Measurement) -> "GaussianMixture":
        r"""The exact posterior $q(x_0 \mid y)$ given ONE measurement."""
        if len(measurement.y) != 1:
            raise ShapeError("an exact posterior takes one measurement: use measurement.select")
        A = to_matrix(measurement.operator, self.image.shape, self.means.dtype)
        y = measurement.y.flatten()
        if y.is_complex():
            y = torch.cat([y.real, y.imag])
        variance = float(measurement.std) ** 2
        cross = self.covariances @ A.mT
        spread = A @ cross + variance * torch.eye(len(y), dtype=A.dtype)
        gain = torch.linalg.solve(spread, cross.mT).mT
        away = y - self.means @ A.mT
        keep = torch.eye(A.shape[1], dtype=A.dtype) - gain @ A
        evidence = torch.distributions.MultivariateNormal(away.new_zeros(len(y)), spread)
        return GaussianMixture(
            self.log_weights + evidence.log_prob(away),
            self.means + (gain @ away[..., None])[..., 0],
            # Joseph's form: symmetric and positive whatever the rounding.
            keep @ self.covariances @ keep.mT + variance * gain @ gain.mT,
            self.shape,
        )

    def denoise(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t]$ for a batch (B, *shape)."""
        shared = len(self.covariances) == 1
        mean = self._denoise_shared if shared else self._denoise_separate
        return mean(x_t.flatten(1), level).reshape(x_t.shape)

    def _denoise_separate(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        values, vectors = self._spectrum
        alpha, sigma = (expand(c.to(x_t), 3) for c in level)
        centres = torch.einsum("ki,kij->kj", self.means, vectors)
        away = torch.einsum("bi,kij->bkj", x_t, vectors) - alpha * centres
        variance = alpha**2 * values + sigma**2
        fit = -0.5 * (away.square() / variance + variance.log()).sum(-1)
        weights = (fit + self.log_weights).softmax(-1)[..., None]
        inside = weights * (centres + alpha * values / variance * away)
        return torch.einsum("bkj,kij->bi", inside, vectors)

    def _denoise_shared(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """One covariance for all components: the distances to all of them are matrix products."""
        values, vectors = (part[0] for part in self._spectrum)
        # Expanded squares cancel, so they are taken in float64 whatever the image's precision.
        alpha, sigma = (expand(c.to(x_t.device, torch.float64), 2) for c in level)
        z, centres = x_t.double() @ vectors.double(), self.means.double() @ vectors.double()
        variance = alpha**2 * values + sigma**2
        gain = alpha / variance
        fit = (gain * z) @ centres.mT - 0.5 * (alpha * gain) @ centres.square().mT
        centre = (fit + self.log_weights).softmax(-1) @ centres
        inside = centre + values * gain * (z - alpha * centre)
        return (inside @ vectors.double().mT).to(x_t.dtype)

    def sample(self, count: int, seed: int) -> Tensor:
        """Exact samples (count, *shape)."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.multinomial(
            self.log_weights.exp(), count, replacement=True, generator=generator
        )
        values, vectors = self._spectrum
        noise = torch.randn(count, self.means.shape[1], generator=generator, dtype=self.means.dtype)
        component = chosen if len(vectors) > 1 else torch.zeros_like(chosen)
        scaled = values.sqrt()[component] * noise
        out = torch.empty_like(scaled)
        for k in component.unique():
            rows = component == k
            out[rows] = scaled[rows] @ vectors[k].mT
        return (self.means[chosen] + out).reshape(count, *self.image.shape)

    @cached_property
    def _spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (K or 1, n) and eigenvectors of the covariances."""
        values, vectors = torch.linalg.eigh(self.covariances)
        return values.clamp_min(0), vectors


@dataclass(frozen=True)
class ExactDenoiser:
    """The denoiser of a mixture under a schedule."""

    prior: GaussianMixture
    schedule: Schedule

    @property
    def image(self) -> ImageSpec:
        """What one image is."""
        return self.prior.image

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        r"""$E[x_0 \mid x_t]$."""
        return self.prior.denoise(x_t, level)


@dataclass(frozen=True)
class ExactPosterior:
    """Bayesian conditioning with a prior in closed form: what a perfect network would compute."""

    prior: GaussianMixture
    schedule: Schedule

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds one measurement."""
        check_image(self.prior.image, measurement)
        return ExactDenoiser(self.prior.condition(measurement), self.schedule)
