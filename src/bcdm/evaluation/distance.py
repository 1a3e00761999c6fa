"""Distances between two sets of samples."""

import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = ["frechet_distance", "sliced_wasserstein", "wasserstein_1d"]


def wasserstein_1d(a: Tensor, b: Tensor) -> Tensor:
    r"""Computes the Wasserstein-1 distance of two empirical distributions on the line, exactly.

    $$ W_1(a, b) = \int | F_a(v) - F_b(v) | \, dv $$

    The distribution functions are steps, so the integral is a sum over the merged values; the
    sets may differ in size.

    Args:
        a: Values, (..., n); the leading axes are separate problems.
        b: Values, (..., m).

    Returns:
        Distances, (...), in the unit of the values.

    >>> wasserstein_1d(torch.tensor([0.0, 1.0]), torch.tensor([3.0]))
    tensor(2.5000)
    """
    _check_real(a, b)
    if a.shape[:-1] != b.shape[:-1] or a.ndim == 0 or not (a.shape[-1] and b.shape[-1]):
        raise ShapeError(
            "need values (..., n) and (..., m) with equal leading axes, n and m positive, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    merged = torch.cat([a, b], -1).sort(-1).values
    left = merged[..., :-1].contiguous()
    difference = _distribution(a, left) - _distribution(b, left)
    return (difference.abs() * merged.diff(dim=-1)).sum(-1)


def sliced_wasserstein(a: Tensor, b: Tensor, directions: int = 100, seed: int = 0) -> Tensor:
    r"""Computes the mean Wasserstein-1 distance over random projections.

    $$ \mathrm{SW}_1 = \operatorname{mean}_k W_1(a u_k, b u_k), \quad u_k \text{ uniform on the
       unit sphere} $$

    A shift by $v$ in $d$ dimensions gives $\| v \| \, \Gamma(d/2) / (\sqrt\pi\,\Gamma((d+1)/2))$ on
    average, which falls like $d^{-1/2}$: compare values of one dimension only.

    Args:
        a: Samples, (n, d).
        b: Samples, (m, d).
        directions: Number of projections.
        seed: Seed of the projections; the same seed gives the same projections on any device.

    Returns:
        Distance, a scalar.
    """
    _check_samples(a, b)
    if directions < 1:
        raise InputError(f"directions must be at least 1, got {directions}")
    generator = torch.Generator().manual_seed(seed)
    axes = torch.randn(directions, a.shape[1], generator=generator, dtype=torch.float64)
    axes = (axes / torch.linalg.vector_norm(axes, dim=1, keepdim=True)).to(a)
    return wasserstein_1d(axes @ a.T, axes @ b.to(a).T).mean()


def frechet_distance(features_a: Tensor, features_b: Tensor) -> Tensor:
    r"""Computes the squared Fréchet (Wasserstein-2) distance of two Gaussians fitted to features.

    $$ d^2 = \| m_a - m_b \|^2 + \operatorname{tr} \left( C_a + C_b
       - 2 (C_a^{1/2} C_b C_a^{1/2})^{1/2} \right) $$

    with sample covariances ($n - 1$), in float64. It is the formula of FID, but may carry that
    name only with the Inception features FID is defined on. It is biased upwards for few samples:
    compare values of one sample size only.

    Args:
        features_a: Features, (n, d).
        features_b: Features, (m, d).

    Returns:
        Squared distance, a float64 scalar.
    """
    _check_samples(features_a, features_b)
    if min(len(features_a), len(features_b)) < 2:
        raise ShapeError("a covariance needs at least two feature vectors on each side")
    a, b = features_a.double(), features_b.double()
    root_a, root_b = _covariance_root(a), _covariance_root(b)
    # tr (Ca^1/2 Cb Ca^1/2)^1/2 is the sum of singular values of Ca^1/2 Cb^1/2; taking it so never
    # squares small eigenvalues below rounding.
    cross = torch.linalg.svdvals(root_a @ root_b).sum()
    shift = (a.mean(0) - b.mean(0)).square().sum()
    return (shift + root_a.square().sum() + root_b.square().sum() - 2 * cross).clamp(min=0)


def _covariance_root(features: Tensor) -> Tensor:
    """Gives the symmetric root of the sample covariance, (d, d)."""
    centred = features - features.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / (len(features) - 1))
    floor = values[-1] * len(values) * torch.finfo(values.dtype).eps
    # Fewer samples than dimensions leave zero eigenvalues; their rounding must not enter a root.
    values = torch.where(values > floor, values, torch.zeros_like(values))
    return (vectors * values.sqrt()) @ vectors.T


def _distribution(values: Tensor, points: Tensor) -> Tensor:
    """Evaluates the empirical distribution function of (..., n) values at (..., p) points."""
    rank = torch.searchsorted(values.sort(-1).values, points, right=True)
    return rank.to(points.dtype) / values.shape[-1]


def _check_real(a: Tensor, b: Tensor) -> None:
    if not (a.is_floating_point() and b.is_floating_point()) or a.dtype != b.dtype:
        raise DtypeError(f"need real floats of one type on both sides, got {a.dtype}, {b.dtype}")


def _check_samples(a: Tensor, b: Tensor) -> None:
    _check_real(a, b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ShapeError(
            "need samples (n, d) and (m, d): flatten each to a vector, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
