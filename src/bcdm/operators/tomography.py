"""Tomography: line integrals of an image along parallel or fan beams."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, Self

import torch
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.operators.base import Coefficient, LinearOperator, Spectral, check_trailing
from bcdm.operators.factored import Factored
from bcdm.operators.fourier import FourierMask
from bcdm.operators.krylov import Iterative
from bcdm.operators.rays import Beam, to_rows, trace_beam

__all__ = ["Radon", "space_angles"]

# Numbers of the right singular vectors: those of any geometry for 64x64 pixels, 64 MB.
_MOST = 1 << 24
_LARGEST = 1 << 28  # rays in all
# Of the largest eigenvalue: what is below it is lost in float64, and counts as not measured.
_NULL = 1e-10
_POWERS = 50  # of the power iteration; entries are >= 0, so it converges fast
_POINTS = 4  # pixels along each axis whose responses are averaged for the stand-in


@dataclass(frozen=True, eq=False)
class Radon(Iterative):
    r"""Integrates an image along straight rays: tomography with parallel or fan beams.

    Images are real, (B, C, H, W); measurements are sinograms (B, C, angles, detectors), each
    channel on its own. $A$ is a sparse matrix of the lengths that rays have in pixels, so the
    adjoint is exact.

    At angle 0 rays run along columns, and detectors are numbered as columns are. Angles turn from
    the columns' axis towards the rows' axis. All lengths are in pixels.

    Of small images (up to 64x64, or larger ones with few data) functions of $A^\top A$ are exact,
    by a decomposition that is made at the first use: seconds at 64x64 with 30 angles. Of others
    solves are conjugate gradients, and a periodic filter stands in where that need not be exact.

    Args:
        angles: Of the projections in degrees, (K,); its precision is that of the images.
        size: (H, W) of the images.
        detectors: How many there are; left out: so many that they see all of the image.
        spacing: Distance of neighbouring detectors.
        centre: The detector, counted from 0, that the axis of rotation is projected on, which need
            not be a whole number; left out: the middle.
        source_distance: From the source to the axis of rotation; left out: parallel beams.
        detector_distance: From that axis to the flat detector of a fan beam.
        rays: So many rays, evenly spaced over its width, are averaged by a detector.
        scaling: "unit" divides by the largest singular value, so that noise levels mean what they
            mean for other operators; "length" gives integrals over pixels. See `scale`.
        exact: Whether functions of $A^\top A$ are by a decomposition; left out: of small images.

    >>> across = Radon(torch.tensor([0.0, 90.0]), (2, 2), detectors=2, scaling="length")
    >>> across.forward(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    tensor([[[[4., 6.],
              [3., 7.]]]])
    """

    angles: Tensor
    size: tuple[int, int]
    detectors: int | None = None
    spacing: float = 1.0
    centre: float | None = None
    source_distance: float | None = None
    detector_distance: float = 0.0
    rays: int = 2
    scaling: Literal["unit", "length"] = "unit"
    exact: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", tuple(self.size))
        if self.angles.ndim != 1 or not self.angles.is_floating_point() or not len(self.angles):
            raise InputError(
                f"the angles of Radon are degrees (K,) in floating point, got {self.angles.dtype} "
                f"{tuple(self.angles.shape)}"
            )
        if self.scaling not in ("unit", "length"):
            raise InputError(f"scaling is 'unit' or 'length', got {self.scaling!r}")
        if self.spacing <= 0 or self.rays < 1 or self.detector_distance < 0:
            raise InputError("Radon needs spacing > 0, rays >= 1 and detector_distance >= 0")
        reach = math.hypot(*self.size) / 2
        if self.source_distance is not None and self.source_distance <= reach:
            raise InputError(
                f"the source is {self.source_distance:g} pixels from the axis, inside of the image "
                f"as it turns: it has to be more than {reach:.1f} away"
            )
        if self.detectors is None:
            object.__setattr__(self, "detectors", self._cover(reach))
        if not 1 <= self.count * len(self.angles) * self.rays <= _LARGEST:
            raise InputError(f"Radon needs detectors, and not {self.count}")
        if not bool(self.angles.isfinite().all()):
            raise InputError("some angles of Radon are not finite")

    def forward(self, x: Tensor) -> Tensor:
        """Projects."""
        check_trailing("Radon", x, self.size)
        self._check(x)
        seen = _Product.apply(x.flatten(-2), *self._matrices[:2])  # type: ignore[no-untyped-call]
        found: Tensor = seen.unflatten(-1, (len(self.angles), self.count))
        return found

    def adjoint(self, y: Tensor) -> Tensor:
        """Projects back, without a filter."""
        check_trailing("the adjoint of Radon", y, (len(self.angles), self.count))
        self._check(y)
        lines, back, _ = self._matrices
        image = _Product.apply(y.flatten(-2), back, lines)  # type: ignore[no-untyped-call]
        found: Tensor = image.unflatten(-1, self.size)
        return found

    def gram_function(self, f: Spectral, x: Tensor) -> Tensor:
        r"""$f(A^\top A) x$: exact where there is a closed form, by Lanczos otherwise."""
        if not self.closed_form:
            return super().gram_function(f, x)
        self._check(x)
        return self._factors.gram_function(f, x)

    def approximate(self, f: Spectral, x: Tensor, tolerance: Coefficient) -> Tensor:
        """As `gram_function`, by no more iterations than the tolerance asks for."""
        if not self.closed_form:
            return super().approximate(f, x, tolerance)
        return self.gram_function(f, x)

    def solve(
        self, a: Coefficient, b: Coefficient, x: Tensor, *, tolerance: Coefficient | None = None
    ) -> Tensor:
        r"""Solves $(a I + b A^\top A) z = x$: exactly where there is a closed form."""
        if not self.closed_form:
            return super().solve(a, b, x, tolerance=tolerance)
        return LinearOperator.solve(self, a, b, x)

    def image_shape(self, measured: tuple[int, ...]) -> tuple[int, ...]:
        """The channels of the measurement, of the size given at construction."""
        return (*measured[:-2], *self.size)

    def find_data(self, y: Tensor) -> Tensor:
        """Where a ray meets the image."""
        met = self._matrices[0].crow_indices().diff() > 0
        return met.reshape(len(self.angles), self.count)

    def batched(self) -> dict[str, Tensor]:
        """None: all samples share it."""
        return {}

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """A copy elsewhere, which keeps what was computed; another precision computes it anew."""
        moved = super().to(target)
        if moved.angles.dtype == self.angles.dtype:
            for name in ("_matrices", "_basis"):
                if name in self.__dict__:
                    kept = tuple(_move(part, moved.angles.device) for part in self.__dict__[name])
                    moved.__dict__[name] = kept
        return moved

    @property
    def count(self) -> int:
        """How many detectors there are."""
        assert self.detectors is not None
        return self.detectors

    @property
    def scale(self) -> float:
        """What integrals over pixels are multiplied by to be measurements of this operator."""
        return self._matrices[2]

    @property
    def closed_form(self) -> bool:
        r"""Whether functions of $A^\top A$ are by a decomposition: for small images."""
        if self.exact is not None:
            return self.exact
        pixels = self.size[0] * self.size[1]
        return pixels * min(pixels, len(self.angles) * self.count) <= _MOST

    @cached_property
    def stand_in(self) -> LinearOperator:
        r"""Itself in closed form, else the periodic filter that is like $A^\top A$ on average.

        Its response to a pixel is the mean of responses to pixels all over the image, each moved
        to the origin: about 1 / |k| at a frequency k, with the spokes of few angles.
        """
        if self.closed_form:
            return self
        total = self.angles.new_zeros(self.size)
        for place in product(range(_POINTS), repeat=2):
            row, column = (
                side * (2 * k + 1) // (2 * _POINTS)
                for k, side in zip(place, self.size, strict=True)
            )
            point = self.angles.new_zeros(1, 1, *self.size)
            point[..., row, column] = 1
            total += self.gram(point)[0, 0].roll((-row, -column), (0, 1))
        power = torch.fft.fft2(total / _POINTS**2).real.clamp_min(0)
        return FourierMask(power.sqrt(), real=True, centered=False)

    def _cover(self, reach: float) -> int:
        """How many detectors see a disc of that radius."""
        if self.source_distance is not None:
            far = self.source_distance + self.detector_distance
            reach = far * math.tan(math.asin(reach / self.source_distance))
        return math.ceil(2 * reach / self.spacing)

    def _trace(self) -> tuple[Tensor, float]:
        """The matrix in float64, scaled, and by what; on the processor."""
        middle = (self.count - 1) / 2 if self.centre is None else self.centre
        within = (torch.arange(self.rays, dtype=torch.float64) + 0.5) / self.rays - 0.5
        detector = torch.arange(self.count, dtype=torch.float64) - middle
        offsets = self.spacing * (detector[:, None] + within)
        if self.source_distance is None:
            beam = Beam.parallel(offsets)
        else:
            beam = Beam.fan(offsets, self.source_distance, self.detector_distance)
        lines = trace_beam(beam, self.angles.double().tolist(), self.size)
        if not lines.values().numel():
            raise InputError("no ray of Radon meets the image: check centre, spacing and distances")
        scale = 1 / _find_norm(lines) if self.scaling == "unit" else 1.0
        return _scale_rows(lines, scale), scale

    @cached_property
    def _matrices(self) -> tuple[Tensor, Tensor, float]:
        """The matrix and its transpose, in the precision of the angles, and their scale."""
        precise, scale = self._trace()
        lines = precise.to(self.angles)
        return lines, _transpose(lines), scale

    @cached_property
    def _basis(self) -> tuple[Tensor, Tensor]:
        """Right singular vectors (pixels, r) and singular values (r,), found in float64."""
        vectors, singular = _decompose(self._trace()[0])
        return vectors.to(self.angles), singular.to(self.angles)

    @cached_property
    def _factors(self) -> Factored:
        right, singular = self._basis
        size = self.size

        def synthesise(parts: Tensor) -> Tensor:
            return (parts @ right.mT).unflatten(-1, size)

        def analyse(x: Tensor) -> Tensor:
            return x.flatten(-2) @ right

        return Factored(
            left=lambda parts: self.forward(synthesise(parts / singular)),
            left_adjoint=lambda y: analyse(self.adjoint(y)) / singular,
            right=synthesise,
            right_adjoint=analyse,
            singular=singular[None, None],
            shape=size,
        )

    def _check(self, x: Tensor) -> None:
        if x.ndim != 4:
            raise ShapeError(
                "Radon acts on (batch, channels, rows, columns) and sinograms (batch, channels, "
                f"angles, detectors), got {tuple(x.shape)}: add the missing axes"
            )
        if x.is_complex():
            raise DtypeError(f"Radon acts on real images and sinograms, got {x.dtype}")
        self._check_precision(x, self.angles)


def space_angles(count: int, arc: float = 180.0, start: float = 0.0) -> Tensor:
    """Evenly spaced angles in degrees; the end of the arc is not among them.

    >>> space_angles(4)
    tensor([  0.,  45.,  90., 135.])
    """
    if count < 1:
        raise InputError(f"there has to be an angle, got {count}")
    return start + arc * torch.arange(count, dtype=torch.float32) / count


class _Product(torch.autograd.Function):
    """A sparse matrix on the last axis; its gradient is the product with the transpose."""

    @staticmethod
    def forward(x: Tensor, matrix: Tensor, transpose: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        return (matrix @ flat.mT).mT.reshape(*x.shape[:-1], -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Sequence[Tensor], output: Tensor) -> None:
        ctx.matrices = inputs[1:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        matrix, transpose = ctx.matrices
        return _Product.apply(grads[0], transpose, matrix), None, None  # type: ignore[no-untyped-call]


def _transpose(matrix: Tensor) -> Tensor:
    entries = matrix.to_sparse_coo()
    rows, columns = matrix.shape
    return to_rows(entries.indices().flip(0), entries.values(), (columns, rows))


def _scale_rows(matrix: Tensor, scale: float) -> Tensor:
    entries = matrix.to_sparse_coo()
    rows, columns = matrix.shape
    return to_rows(entries.indices(), scale * entries.values(), (rows, columns))


def _find_norm(lines: Tensor) -> float:
    """The largest singular value, by powers of $A^T A$ on a flat image."""
    back = _transpose(lines)
    x = torch.ones(lines.shape[1], 1, dtype=lines.dtype)
    for _ in range(_POWERS):
        x = back @ (lines @ (x / x.norm()))
    return float(x.norm().sqrt())


def _decompose(lines: Tensor) -> tuple[Tensor, Tensor]:
    r"""Right singular vectors and singular values, from the smaller of $A^T A$ and $A A^T$."""
    dense = lines.to_dense()
    dense = dense[dense.any(1)]
    wide = dense.shape[0] < dense.shape[1]
    values, vectors = torch.linalg.eigh(dense @ dense.mT if wide else dense.mT @ dense)
    kept = values > _NULL * values[-1]
    singular = values[kept].sqrt()
    vectors = vectors[:, kept]
    return (dense.mT @ vectors / singular if wide else vectors), singular


def _move(part: Any, device: torch.device) -> Any:
    return part.to(device) if isinstance(part, Tensor) else part
