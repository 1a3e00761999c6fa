"""Ways from a measurement to a denoiser of its posterior."""

from bcdm.methods.base import BoundDenoiser, Method
from bcdm.methods.bayesian import Bayesian, BayesianDenoiser
from bcdm.methods.classical import LeastSquares, PointEstimate, TotalVariation
from bcdm.methods.denoising import Denoising
from bcdm.methods.exact import ExactDenoiser, ExactPosterior, GaussianMixture
from bcdm.methods.guidance import DMPS, DPS, PiGDM, PostConditioned
from bcdm.methods.linear import CONTROL, LinearGaussian
from bcdm.methods.parameterisation import Parameterisation
from bcdm.methods.restoration import DDRM, MMPS, DiffPIR, Renewal, Restoration
from bcdm.methods.sparse import RootSumOfSquares, SparseGradients, SparseWavelets

__all__ = [
    "CONTROL",
    "DDRM",
    "DMPS",
    "DPS",
    "MMPS",
    "Bayesian",
    "BayesianDenoiser",
    "BoundDenoiser",
    "Denoising",
    "DiffPIR",
    "ExactDenoiser",
    "ExactPosterior",
    "GaussianMixture",
    "LeastSquares",
    "LinearGaussian",
    "Method",
    "Parameterisation",
    "PiGDM",
    "PointEstimate",
    "PostConditioned",
    "Renewal",
    "Restoration",
    "RootSumOfSquares",
    "SparseGradients",
    "SparseWavelets",
    "TotalVariation",
]
