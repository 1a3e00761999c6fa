"""A measurement: data, the operator that made it, and its noise level."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators import Composed, Dense, Diagonal, LinearOperator
from bcdm.tensors import ImageSpec, SeededNoise, check_tensors, fit, inner, real_dtype

__all__ = ["NEGLIGIBLE", "Measurement"]

NEGLIGIBLE = 0.01
"""Of a standard deviation: errors of that size are not seen in what is uncertain by so much."""

_NUMBERS = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Counter of the measurement noise, far from the steps of any sampler with the same seed.
_NOISE_STEP = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    r"""$y = A x_0 + \sigma_0 n$ for a batch of images.

    Args:
        y: Data (B, ...) as `operator.forward` gives it. Entries that the operator does not measure
            are set to zero, whatever they are.
        operator: The linear map $A$.
        noise_std: $\sigma_0$ in the units of `y`, one number or one per measurement (B,); for
            complex data, of the real and of the imaginary part each.

    >>> from bcdm.operators import PixelMask
    >>> m = Measurement(torch.tensor([[3.0, 9.0]]), PixelMask(torch.tensor([True, False])), 0.1)
    >>> m.y, m.degrees_of_freedom
    (tensor([[3., 0.]]), 1)
    """

    y: Tensor
    operator: LinearOperator
    noise_std: float | Tensor

    def __post_init__(self) -> None:
        _check_type(self.y)
        std = torch.as_tensor(self.noise_std, dtype=torch.float64, device="cpu").reshape(-1)
        if not bool(((std > 0) & std.isfinite()).all()):
            raise InputError(
                f"noise_std must be > 0 and finite, got {std.tolist()}: state the noise in the "
                "units of y"
            )
        object.__setattr__(self, "noise_std", std)
        for name, size in (("noise_std", len(std)), ("operator", self.operator.batch)):
            if size not in (None, 1, len(self.y)):
                raise ShapeError(f"{name} is for {size} measurements but y holds {len(self.y)}")
        object.__setattr__(self, "y", _check_data(self.y, self.operator))
        # Maps back once: it is part of every statistic, and it checks shapes and number types.
        self.back_projection  # noqa: B018

    def __repr__(self) -> str:
        kind, levels = type(self.operator).__name__, self.std.unique()
        low, high = float(levels[0]), float(levels[-1])
        told = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"Measurement(y {tuple(self.y.shape)} by {kind}, noise_std {told})"

    @cached_property
    def back_projection(self) -> Tensor:
        r"""$A^\top y$, images (B, *shape)."""
        back = self.operator.adjoint(self.y)
        if tuple(back.shape[1:]) != self.operator.image_shape(tuple(self.y.shape[1:])):
            raise ShapeError(
                f"A^T y has shape {tuple(back.shape)}, not that of an image: check y's axes "
                "(batch, channels, rows, columns)"
            )
        return back

    @property
    def image(self) -> ImageSpec:
        """What the images behind the data are."""
        return ImageSpec.of(self.back_projection)

    @property
    def std(self) -> Tensor:
        """The noise level as a float64 tensor (1,) or (B,)."""
        assert isinstance(self.noise_std, Tensor)
        return self.noise_std

    @cached_property
    def data_mask(self) -> Tensor | None:
        """Which entries of `y` carry data (broadcastable); None: all of them."""
        found = self.operator.find_data(self.y)
        return None if found is None else found.to(self.y.device)

    @property
    def degrees_of_freedom(self) -> int:
        """Real numbers measured per image (a complex one counts twice)."""
        each = 2 if self.y.is_complex() else 1
        mask = self.data_mask
        if mask is None:
            return each * self.y[0].numel()
        counts = mask.expand_as(self.y).flatten(1).sum(1)
        if int(counts.min()) != int(counts.max()):
            raise InputError("the measurements differ in size: use measurement.select for each")
        return each * int(counts[0])

    def residual(self, x: Tensor) -> Tensor:
        r"""$(y - A x) / \sigma_0$: standard normal where data was taken if $x$ is the truth."""
        (std,) = fit(self.y, self.std)
        return (self.y - self.operator.forward(x)) / std

    def estimate_linearly(self, prior_std: float, known_std: float = 0.0) -> Tensor:
        r"""The Wiener estimate from y alone, under a Gaussian prior around zero.

        $$ z = (\sigma_0^2 s(A^\top A)^{-2} + A^\top A)^{-1} A^\top y $$

        The prior's standard deviation $s$ may depend on the direction. Operators mostly measure
        where images have most of their power, and what they leave out is small:
        $s(a)^2 = s^2 + S^2 a / (a + \sigma_0^2 / s^2)$, for an eigenvalue $a$ of $A^\top A$, is
        $s^2$ for what y says nothing about and $s^2 + S^2$ for what it fixes.

        Args:
            prior_std: $s$.
            known_std: $S$; 0 for a white prior.
        """
        if prior_std <= 0 or known_std < 0:
            raise InputError(
                f"prior_std must be > 0 and known_std >= 0, got {prior_std} and {known_std}"
            )
        key = (prior_std, known_std)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(*key)
        return self._estimates[key]

    @cached_property
    def _estimates(self) -> dict[tuple[float, float], Tensor]:
        return {}

    def _estimate(self, prior_std: float, known_std: float) -> Tensor:
        operator, back = self.operator, self.back_projection
        ratio, share = (self.std / prior_std) ** 2, (known_std / prior_std) ** 2
        if not (operator.closed_form or known_std):
            # Where nothing is measured a residual r becomes an error r s^2 / noise_std^2, and s is
            # left unknown there.
            size = inner(back, back).sqrt().cpu().double().clamp_min(1e-30)
            count = back[0].numel() * (2 if back.is_complex() else 1)
            enough = NEGLIGIBLE * self.std**2 / prior_std * count**0.5 / size
            return operator.solve(ratio, torch.ones_like(ratio), back, tolerance=enough)
        (doubt,) = fit(back, ratio)

        def prior(a: Tensor) -> Tensor:
            return doubt * (a + doubt) / (a + doubt + share * a)

        def gain(a: Tensor) -> Tensor:
            # Of A^T y only rounding lies where nothing is measured; that must not grow.
            return (a > 0) / (a + prior(a))

        # A hundredth of the noise, for images of the prior's size.
        first = operator.approximate(gain, back, NEGLIGIBLE * self.std / prior_std)
        if not operator.closed_form:
            return first
        # Elsewhere rounding is divided by small eigenvalues: one step of refinement.
        missing = operator.adjoint(self.y - operator.forward(first))
        missing = missing - operator.gram_function(prior, first)
        return first + operator.gram_function(gain, missing)

    def select(self, rows: Tensor) -> "Measurement":
        """The chosen measurements of the batch, in that order, repeats allowed."""
        std = self.std[rows] if len(self.std) > 1 else self.std
        return Measurement(self.y[rows], self.operator.select(rows), std)

    def repeat(self, count: int) -> "Measurement":
        """Each measurement `count` times in a row, for `count` samples of each."""
        return self.select(torch.arange(len(self.y)).repeat_interleave(count))

    def to(self, device: torch.device | str) -> "Measurement":
        """On another device."""
        return Measurement(self.y.to(device), self.operator.to(device), self.std)

    @classmethod
    def simulate(
        cls,
        x: Tensor,
        operator: LinearOperator,
        noise_std: float | Tensor,
        *,
        seed: int,
        indices: Iterable[int] | None = None,
    ) -> "Measurement":
        """Measures clean images (B, *shape) with seeded noise.

        Args:
            x: Clean images.
            operator: What to measure with.
            noise_std: Noise level, in the units of the images.
            seed: Fixes the noise together with each image's index.
            indices: The images' indices; 0, 1, ... when left out.
        """
        clean = operator.forward(x)
        rows = list(indices) if indices is not None else list(range(len(x)))
        if len(rows) != len(x):
            raise ShapeError(f"{len(rows)} indices for {len(x)} images: give one each")
        noise = SeededNoise(seed, rows).normal(ImageSpec.of(clean), step=_NOISE_STEP)
        std = torch.as_tensor(noise_std, dtype=torch.float64)
        return cls(clean + fit(clean, std)[0] * noise, operator, std)

    @classmethod
    def with_covariance(
        cls,
        y: Tensor,
        operator: LinearOperator,
        *,
        variance: Tensor | None = None,
        covariance: Tensor | None = None,
    ) -> "Measurement":
        r"""Whitens noise of known covariance into operator and data, exactly.

        With $\Sigma = L L^H$ the measurement $L^{-1} y = (L^{-1} A) x_0 + n$ has unit noise.

        Args:
            y: Data (B, ...).
            operator: What the data was measured with.
            variance: Of each entry, of the shape of `y` with or without the batch.
            covariance: The full matrix (m, m) over the measured entries of `y`, flattened; the
                same for all. For complex data, half of $E[n n^H]$, so that unit covariance is unit
                noise in each part.
        """
        _check_type(y)
        y = _check_data(y, operator)
        if (variance is None) == (covariance is None):
            raise InputError("give either variance or covariance")
        if covariance is not None:
            return _whiten_fully(y, operator, covariance)
        assert variance is not None
        if tuple(variance.shape) not in (tuple(y.shape), tuple(y.shape[1:]), (1, *y.shape[1:])):
            raise ShapeError(
                f"variance has shape {tuple(variance.shape)}, the data {tuple(y.shape)}: give one "
                "number per entry"
            )
        if not bool((variance > 0).all()):
            raise InputError("variances must be > 0: drop entries that were not measured")
        weights = variance.rsqrt().to(y.device, real_dtype(y.dtype))
        weights = weights[None] if weights.ndim < y.ndim else weights
        weighed = operator.weigh(weights) or Composed(Diagonal(weights), operator)
        return cls(weights * y, weighed, 1.0)


def _apply_mask(y: Tensor, mask: Tensor) -> Tensor:
    """Sets what was not measured to zero; refuses a mask that is not of the data's size."""
    try:
        masked = torch.where(mask.to(y.device), y, torch.zeros((), dtype=y.dtype, device=y.device))
    except RuntimeError:
        masked = None
    if masked is None or masked.shape != y.shape:
        raise ShapeError(
            f"y has shape {tuple(y.shape)} but the operator's mask {tuple(mask.shape)}: use the "
            "mask the data was taken with"
        )
    return masked


def _check_type(y: Tensor) -> None:
    check_tensors(y=y)
    if y.ndim < 2:
        raise ShapeError(f"y needs a batch axis first, got shape {tuple(y.shape)}: use y[None]")
    if y.dtype not in _NUMBERS:
        raise DtypeError(f"y holds {y.dtype}: convert it to float32 or complex64")


def _check_data(y: Tensor, operator: LinearOperator) -> Tensor:
    """Data with what was not measured set to zero, once the rest is known to be finite."""
    mask = operator.find_data(y)
    if mask is not None:
        y = _apply_mask(y, mask)
    # A finite sum has finite terms, and takes one pass where the full check takes several.
    if bool(y.sum().isfinite()):
        return y
    bad = int((~y.isfinite()).sum())
    if bad:
        raise InputError(f"y holds {bad} non-finite values: mask them out of the operator")
    return y


def _whiten_fully(y: Tensor, operator: LinearOperator, covariance: Tensor) -> Measurement:
    if operator.batch is not None:
        raise InputError("one covariance needs one operator: use measurement by measurement")
    entries = y[0].numel()
    taken = torch.arange(entries)
    mask = operator.find_data(y)
    if mask is not None:
        taken = mask.expand_as(y)[0].flatten().nonzero()[:, 0].cpu()
    size = len(taken)
    if tuple(covariance.shape) != (size, size):
        raise ShapeError(
            f"covariance has shape {tuple(covariance.shape)}; give the matrix ({size}, {size}) "
            "over the measured entries"
        )
    precise = torch.complex128 if covariance.is_complex() else torch.float64
    factor, failed = torch.linalg.cholesky_ex(covariance.cpu().to(precise))
    if int(failed):
        raise InputError("covariance is not positive definite: check its order and units")
    eye = torch.eye(size, dtype=precise)
    whitening = torch.zeros(size, entries, dtype=precise)
    whitening[:, taken] = torch.linalg.solve_triangular(factor, eye, upper=False)
    whitening = whitening.to(y.device, y.dtype if precise.is_complex else real_dtype(y.dtype))
    outer = Dense(whitening, tuple(y.shape[1:]))
    white = outer.forward(y)
    if isinstance(operator, Dense):
        return Measurement(white, Dense(whitening @ operator.matrix, operator.shape), 1.0)
    return Measurement(white, Composed(outer, operator), 1.0)
