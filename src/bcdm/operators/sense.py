"""MRI with several receive coils (SENSE)."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.fft import fft2, fftn, fftshift, ifft2, ifftn, ifftshift

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators.base import LinearOperator
from bcdm.operators.fourier import FourierMask
from bcdm.operators.iteration import Found
from bcdm.operators.krylov import Iterative
from bcdm.tensors import check_tensors, real_dtype

__all__ = ["Sense", "whiten_coils"]

_AXES = (-2, -1)


@dataclass(frozen=True, eq=False)
class Sense(Iterative):
    r"""Measures some spatial frequencies of an image as each coil sees it: $A = M F S$.

    Images are complex, (B, 1, H, W); measurements are complex k-space of every coil,
    (B, coils, H, W), zero where the mask is. The noise of the coils is independent and of one
    level, that of the real and of the imaginary part each: `whiten_coils` brings it there.

    $A^\top A$ has no closed form: solves are conjugate gradients, a Fourier transform pair per coil
    and iteration, and stop where the caller's noise hides the rest. The mask alone stands in for it
    where that need not be exact.

    Args:
        maps: Sensitivities of the coils, complex, (coils, H, W), or with a batch axis
            (B or 1, coils, H, W).
        mask: Boolean, (H, W) or (B or 1, 1, H, W).
        centered: k-space and images have their origin in the middle, as scanners store them.
    """

    maps: Tensor
    mask: Tensor
    centered: bool = True
    adaptive: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensors(maps=self.maps, mask=self.mask)
        if self.maps.ndim not in (3, 4) or not self.maps.is_complex():
            raise InputError(
                "the maps of Sense are complex with axes (coils, H, W) or (B, coils, H, W), got "
                f"{self.maps.dtype} {tuple(self.maps.shape)}"
            )
        if self.mask.dtype != torch.bool or self.mask.ndim not in (2, 4):
            raise InputError(
                "the mask of Sense is boolean with axes (H, W) or (B, 1, H, W), got "
                f"{self.mask.dtype} {tuple(self.mask.shape)}"
            )
        if self.mask.shape[-2:] != self.maps.shape[-2:]:
            raise ShapeError(
                f"maps are of {tuple(self.maps.shape[-2:])} pixels and the mask of "
                f"{tuple(self.mask.shape[-2:])}: resize the maps to the size of the k-space"
            )

    def forward(self, x: Tensor) -> Tensor:
        r"""$M F S x$."""
        self._check(x, 1)
        seen = self._maps * x
        if self.centered:
            return fftshift(fft2(ifftshift(seen, _AXES), norm="ortho"), _AXES) * self.mask
        return fft2(seen, norm="ortho") * self.mask

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$S^H F^H M y$."""
        self._check(y, self.maps.shape[-3])
        y = y * self.mask
        if self.centered:
            seen = fftshift(ifft2(ifftshift(y, _AXES), norm="ortho"), _AXES)
        else:
            seen = ifft2(y, norm="ortho")
        return (self._maps.conj() * seen).sum(1, keepdim=True)

    def gram(self, x: Tensor) -> Tensor:
        r"""$S^H F^H M F S x$, without shifting the origin: a filter does not feel where it is.

        Nor does it along an axis that is sampled wholly or not at all: no transform there.
        """
        self._check(x, 1)
        spectrum = fftn(self._maps * x, dim=self._sampled, norm="ortho").mul_(self._filter)
        seen = ifftn(spectrum, dim=self._sampled, norm="ortho")
        return (self._maps.conj() * seen).sum(1, keepdim=True)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.maps.shape[-2], self.maps.shape[-1]

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """One channel of the coils' size."""
        return (1, *measured[-2:])

    def find_data(self, y: Tensor) -> Tensor:
        """Where the mask is, in every coil that sees something."""
        seen = self._maps.abs().amax(_AXES, keepdim=True) > 0
        return self.mask & seen

    def batched(self) -> dict[str, Tensor]:
        """Maps and mask, where they have a batch axis."""
        both = {"maps": self.maps, "mask": self.mask}
        return {name: tensor for name, tensor in both.items() if tensor.ndim == 4}

    @property
    def closed_form(self) -> bool:
        """No: solves are iterations."""
        return False

    @cached_property
    def stand_in(self) -> LinearOperator:
        """The mask alone, as a single coil that sees everything alike measures."""
        return FourierMask(self.mask, centered=self.centered)

    def _invert(self, a: Tensor, b: Tensor, x: Tensor, tolerance: float | Tensor) -> Found:
        """Images with maps of their own one by one: none waits for another's iterations.

        Coils that are dark, as where batches hold different numbers of coils, then cost nothing.
        """
        if len(x) < 2 or self.maps.ndim == 3:
            return super()._invert(a, b, x, tolerance)
        found = []
        for row in range(len(x)):
            here = slice(row, row + 1)
            maps, mask = (t[here] if len(t) > 1 else t for t in (self.maps, self._masks))
            lit = maps[0].abs().amax(_AXES) > 0
            lit[0] = True
            own = replace(self, maps=maps[:, lit], mask=mask)
            shift, scale = (t[here] if len(t) > 1 else t for t in (a, b))
            each = tolerance
            if isinstance(tolerance, Tensor) and len(tolerance) > 1:
                each = tolerance[here]
            found.append(own._invert(shift, scale, x[here], each))
        return Found(
            torch.cat([one.x for one in found]),
            max(one.taken for one in found),
            max(one.error for one in found),
            all(one.converged for one in found),
        )

    @property
    def _masks(self) -> Tensor:
        return self.mask if self.mask.ndim == 4 else self.mask[None, None]

    @cached_property
    def _sampled(self) -> tuple[int, ...]:
        """The axes along which some frequencies are measured and others not."""
        whole = self.mask
        for axis, other in ((-1, -2), (-2, -1)):
            if bool((whole == whole.select(other, 0).unsqueeze(other)).all()):
                return (axis,)
        return _AXES

    @property
    def _maps(self) -> Tensor:
        return self.maps if self.maps.ndim == 4 else self.maps[None]

    @cached_property
    def _filter(self) -> Tensor:
        """The mask as torch.fft lays out frequencies, of the maps' precision."""
        laid = ifftshift(self.mask, _AXES) if self.centered else self.mask
        return laid.to(real_dtype(self.maps.dtype))

    def _check(self, x: Tensor, channels: int) -> None:
        size = (channels, *self.maps.shape[-2:])
        if x.ndim != 4 or tuple(x.shape[1:]) != size:
            raise ShapeError(f"Sense acts on (B, *{size}), got {tuple(x.shape)}")
        if not x.is_complex():
            raise DtypeError(f"Sense acts on complex images and k-space, got {x.dtype}")
        self._check_precision(x, self.maps)


def whiten_coils(y: Tensor, maps: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    r"""Data and maps of virtual coils whose noise is independent and of unit level.

    With $\Sigma = L L^H$ both are multiplied by $L^{-1}$ along the coils; nothing is lost.

    Args:
        y: k-space, (B, coils, H, W).
        maps: (coils, H, W) or (B, coils, H, W).
        covariance: $\Sigma$ of the coils' noise, (coils, coils): half of $E[n n^H]$, so that unit
            covariance is unit noise in the real and in the imaginary part each.
    """
    coils = y.shape[1]
    if tuple(covariance.shape) != (coils, coils):
        raise ShapeError(
            f"covariance has shape {tuple(covariance.shape)}: give one of ({coils}, {coils})"
        )
    factor, failed = torch.linalg.cholesky_ex(covariance.to(torch.complex128))
    if int(failed):
        raise InputError("covariance is not positive definite: take it from more noise samples")
    eye = torch.eye(coils, dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False).to(y.device)
    white = torch.einsum("kc,...chw->...khw", inverse.to(y.dtype), y)
    return white, torch.einsum("kc,...chw->...khw", inverse.to(maps.dtype), maps)
