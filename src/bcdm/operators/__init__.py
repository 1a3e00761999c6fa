"""Linear operators: A, A^T and functions of A^T A. They know no noise and no diffusion."""

from bcdm.operators.adapters import Physics, from_deepinv
from bcdm.operators.base import Coefficient, LinearOperator, Spectral
from bcdm.operators.checking import OperatorCheck, check_operator
from bcdm.operators.dense import Dense, to_matrix
from bcdm.operators.factored import Factored, Outer
from bcdm.operators.fourier import CircularBlur, FourierMask
from bcdm.operators.krylov import Composed, ConvergenceReport, ConvergenceWarning, MatrixFree
from bcdm.operators.pixel import BlockMean, Diagonal, Identity, PixelMask
from bcdm.operators.root import Root
from bcdm.operators.sense import Sense, whiten_coils
from bcdm.operators.tomography import Radon, space_angles
from bcdm.operators.trajectories import Trajectory, from_mri_nufft

__all__ = [
    "BlockMean",
    "CircularBlur",
    "Coefficient",
    "Composed",
    "ConvergenceReport",
    "ConvergenceWarning",
    "Dense",
    "Diagonal",
    "Factored",
    "FourierMask",
    "Identity",
    "LinearOperator",
    "MatrixFree",
    "OperatorCheck",
    "Outer",
    "Physics",
    "PixelMask",
    "Radon",
    "Root",
    "Sense",
    "Spectral",
    "Trajectory",
    "check_operator",
    "from_deepinv",
    "from_mri_nufft",
    "space_angles",
    "to_matrix",
    "whiten_coils",
]
