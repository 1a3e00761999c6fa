"""Operators that are diagonal in the Fourier domain."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fft import fft2, fftshift, ifft2, ifftshift, irfft2, rfft2

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators.base import LinearOperator, Spectral, check_channels, check_trailing
from bcdm.tensors import check_tensors, real_dtype

__all__ = ["CircularBlur", "FourierMask"]

_AXES = (-2, -1)


class _FourierDiagonal(LinearOperator):
    """A^T A is a filter: `_eigenvalues` are laid out as torch.fft.fft2 lays out frequencies."""

    _eigenvalues: Tensor
    _half: Tensor

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""Filters: $F^H f(\Lambda) F x$."""
        spectrum, eigenvalues = self._analyse(x)
        gain = f(eigenvalues)
        # In place where it can be: another pass over memory costs a good part of an FFT.
        if len(gain) in (1, len(spectrum)):
            return self._synthesise(spectrum.mul_(gain), x)
        return self._synthesise(spectrum * gain, x)

    def _check(self, x: Tensor) -> None:
        check_trailing(type(self).__name__, x, tuple(self._eigenvalues.shape[-2:]))
        if x.ndim != 4:
            raise ShapeError(
                f"{type(self).__name__} acts on (batch, channels, rows, columns), got "
                f"{tuple(x.shape)}: add the missing axes"
            )

    def _analyse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self._check(x)
        if x.is_complex():
            spectrum, eigenvalues = fft2(x, norm="ortho"), self._eigenvalues
        else:
            # The filter of a real image is symmetric, so half of the plane holds all of it.
            spectrum, eigenvalues = rfft2(x, norm="ortho"), self._half
        return spectrum, eigenvalues.to(x.device, real_dtype(x.dtype))

    def _synthesise(self, spectrum: Tensor, like: Tensor) -> Tensor:
        if like.is_complex():
            return ifft2(spectrum, norm="ortho")
        return irfft2(spectrum, s=like.shape[-2:], norm="ortho")

    def _store(self, eigenvalues: Tensor) -> None:
        while eigenvalues.ndim < 4:
            eigenvalues = eigenvalues[None]
        half = eigenvalues[..., : eigenvalues.shape[-1] // 2 + 1].contiguous()
        object.__setattr__(self, "_eigenvalues", eigenvalues)
        object.__setattr__(self, "_half", half)


@dataclass(frozen=True, eq=False)
class FourierMask(_FourierDiagonal):
    r"""Measures some spatial frequencies: single-coil Cartesian MRI. $A = M F$, $F$ unitary.

    Measurements are complex k-space of the image's size, zero where the mask is. The noise level is
    that of the real and of the imaginary part each.

    For a real image only the part of each frequency pair that both signs share is one number:
    $A^\top A x = F^H \tfrac12 (|M|^2 + |M|^2_{-k}) F x$, for any mask, symmetric or not.

    Args:
        mask: Boolean, or real weights where zero means "not measured"; (H, W), or with channel and
            batch axes (B or 1, C or 1, H, W).
        real: The images are real. Complex images otherwise.
        centered: k-space and images have their origin in the middle, as scanners and fastMRI store
            them; torch.fft's own layout otherwise.
    """

    mask: Tensor
    real: bool = False
    centered: bool = True
    _eigenvalues: Tensor = field(init=False, repr=False)
    _half: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_tensors(mask=self.mask)
        if self.mask.ndim not in (2, 4) or self.mask.is_complex():
            raise InputError(
                "the mask of FourierMask is boolean or real with axes (H, W) or (B, C, H, W), got "
                f"{self.mask.dtype} {tuple(self.mask.shape)}"
            )
        weights = self.mask if self.mask.is_floating_point() else self.mask.to(torch.float32)
        power = weights.square()
        if self.centered:
            power = ifftshift(power, _AXES)
        if self.real:
            opposite = power.flip(_AXES).roll((1, 1), _AXES)
            power = (power + opposite) / 2
        self._store(power)

    def forward(self, x: Tensor) -> Tensor:
        r"""$M F x$."""
        self._check(x)
        check_channels("FourierMask", x, self.mask)
        if not self.centered:
            return fft2(x, norm="ortho") * self._weights(x)
        return fftshift(fft2(ifftshift(x, _AXES), norm="ortho"), _AXES) * self._weights(x)

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$F^H M y$, its real part for real images."""
        super()._check(y)
        if not y.is_complex():
            raise DtypeError(f"FourierMask measures complex k-space, got {y.dtype}")
        y = y * self._weights(y)
        if self.centered:
            x = fftshift(ifft2(ifftshift(y, _AXES), norm="ortho"), _AXES)
        else:
            x = ifft2(y, norm="ortho")
        return x.real.contiguous() if self.real else x

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.mask.shape[-2], self.mask.shape[-1]

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's own shape."""
        return measured

    def find_data(self, y: Tensor) -> Tensor:
        """Where the mask is not zero."""
        return self.mask != 0

    def weigh(self, weights: Tensor) -> "FourierMask":
        """A weighted mask."""
        return FourierMask(self.mask * weights, self.real, self.centered)

    def _check(self, x: Tensor) -> None:
        super()._check(x)
        if x.is_complex() == self.real:
            kind, fix = ("complex", "real=False") if self.real else ("real", "real=True")
            raise DtypeError(f"got a {kind} image: build FourierMask with {fix}, or convert it")

    def _weights(self, x: Tensor) -> Tensor:
        if self.mask.is_floating_point():
            self._check_precision(x, self.mask)
        return self.mask.to(x.device, real_dtype(x.dtype))

    def batched(self) -> dict[str, Tensor]:
        """The mask, if it has a batch axis."""
        return {"mask": self.mask} if self.mask.ndim == 4 else {}


@dataclass(frozen=True, eq=False)
class CircularBlur(_FourierDiagonal):
    r"""Blurs with a kernel and periodic borders: deblurring. $A = F^H H F$.

    Args:
        kernel: Real (rows, columns), or with batch and channel axes first, (B or 1, C or 1, rows,
            columns); odd or even, its origin at index (rows // 2, columns // 2); a kernel larger
            than the image wraps around.
        size: (H, W) of the images.

    >>> blur = CircularBlur(torch.tensor([[0.25, 0.5, 0.25]]), (1, 4))
    >>> blur.forward(torch.tensor([[[[0.0, 0.0, 4.0, 0.0]]]]))
    tensor([[[[0., 1., 2., 1.]]]])
    """

    kernel: Tensor
    size: tuple[int, int]
    _eigenvalues: Tensor = field(init=False, repr=False)
    _half: Tensor = field(init=False, repr=False)
    _transfer: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", tuple(self.size))
        check_tensors(kernel=self.kernel)
        if self.kernel.ndim not in (2, 4) or not self.kernel.is_floating_point():
            raise InputError(
                "the kernel of CircularBlur is real with axes (rows, columns) or (B, C, rows, "
                f"columns), got {self.kernel.dtype} {tuple(self.kernel.shape)}"
            )
        transfer = fft2(_wrap(self.kernel.double(), self.size))
        self._store(transfer.abs().square().to(self.kernel.dtype))
        object.__setattr__(self, "_transfer", transfer.to(self.kernel.dtype.to_complex()))

    def forward(self, x: Tensor) -> Tensor:
        r"""$F^H H F x$."""
        return self._filter(x, self._transfer)

    def adjoint(self, y: Tensor) -> Tensor:
        r"""$F^H \bar H F y$."""
        return self._filter(y, self._transfer.conj())

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The measurement's own shape."""
        return measured

    def _check(self, x: Tensor) -> None:
        super()._check(x)
        self._check_precision(x, self.kernel)

    def _filter(self, x: Tensor, transfer: Tensor) -> Tensor:
        spectrum, eigenvalues = self._analyse(x)
        return self._synthesise(spectrum * transfer[..., : eigenvalues.shape[-1]], x)

    def batched(self) -> dict[str, Tensor]:
        """The kernel, if it has a batch axis."""
        return {"kernel": self.kernel} if self.kernel.ndim == 4 else {}


def _wrap(kernel: Tensor, size: tuple[int, int]) -> Tensor:
    """Lays the kernel on a periodic image of `size`, its origin at pixel (0, 0)."""
    rows, columns = kernel.shape[-2:]
    row = (torch.arange(rows, device=kernel.device) - rows // 2) % size[0]
    column = (torch.arange(columns, device=kernel.device) - columns // 2) % size[1]
    canvas = kernel.new_zeros(*kernel.shape[:-2], size[0] * size[1])
    where = (row[:, None] * size[1] + column).flatten()
    canvas.index_add_(-1, where, kernel.flatten(-2))
    return canvas.unflatten(-1, size)
