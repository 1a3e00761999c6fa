"""Noise of a receiver with several coils, from a scan without signal."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.noise.estimate import NoiseEstimate
from bcdm.noise.floor import Array

__all__ = ["NoiseScan", "estimate_from_noise_scan"]


@dataclass(frozen=True, eq=False)
class NoiseScan:
    r"""What a noise scan tells of the coils.

    Attributes:
        covariance: $\Psi = \tfrac12 E[n n^H]$, (coils, coils): its diagonal is the variance of the
            real and of the imaginary part each, as `Measurement.with_covariance` takes it.
        samples: Complex numbers per coil.
        source: What it was measured on, in words.
    """

    covariance: NDArray[np.complex128]
    samples: int
    source: str = "noise scan"

    @property
    def std(self) -> Array:
        """Of the real and of the imaginary part each, (coils,)."""
        return np.sqrt(self.covariance.diagonal().real)

    @property
    def standard_error(self) -> Array:
        """Of `std`, (coils,)."""
        return self.std / np.sqrt(4 * (self.samples - 1))

    @property
    def whitening(self) -> NDArray[np.complex128]:
        r"""$W = L^{-1}$ with $\Psi = L L^H$, (coils, coils).

        $W y$ has noise of unit variance in each part of each coil, and none in common.
        """
        inverse = np.linalg.inv(np.linalg.cholesky(self.covariance))
        return np.asarray(inverse, np.complex128)

    @property
    def estimate(self) -> NoiseEstimate:
        """One number for all coils, their root mean square: for coils of like noise."""
        std = float(np.sqrt(np.mean(self.std**2)))
        # Coils share noise: what they tell is counted by the spread of the eigenvalues.
        power = np.linalg.eigvalsh(self.covariance)
        coils = float(power.sum() ** 2 / (power**2).sum())
        numbers = 2 * self.samples * len(power)
        error = std / np.sqrt(4 * coils * (self.samples - 1))
        return NoiseEstimate(std, float(error), self.source, numbers)


def estimate_from_noise_scan(noise: ArrayLike) -> NoiseScan:
    r"""Estimates the noise of each coil and between coils.

    $$ \Psi = \frac{1}{2 (n - 1)} \sum_k (n_k - \bar n) (n_k - \bar n)^H $$

    The scan must be taken with the bandwidth of the measurement: noise grows with its root.

    Args:
        noise: Complex (coils, n), without signal. A constant offset is removed.

    >>> parts = np.random.default_rng(0).normal(size=(2, 1, 5000))
    >>> estimate_from_noise_scan(parts[0] + 1j * parts[1]).std.round(1)
    array([1.])
    """
    data = np.asarray(noise)
    if data.ndim != 2:
        raise ShapeError(f"a noise scan has axes (coils, n), got {data.shape}: reshape it")
    if not np.iscomplexobj(data):
        raise DtypeError(f"a noise scan is complex, got {data.dtype}: join real and imaginary part")
    coils, count = data.shape
    if count < 4 * coils:
        raise InputError(
            f"{count} samples are too few for {coils} coils: scan at least {4 * coils}"
        )
    if not np.isfinite(data).all():
        raise InputError("the noise scan holds non-finite values: drop them")
    data = data.astype(np.complex128)
    data = data - data.mean(1, keepdims=True)
    covariance = data @ data.conj().T / (2 * (count - 1))
    power = np.linalg.eigvalsh(covariance)
    if power[0] <= 1e-12 * power[-1]:
        raise InputError("a coil is silent or a copy of others: leave it out")
    return NoiseScan(covariance, count)
