"""Images from measurements: posterior samples, how sure each pixel is, what speaks against it.

The names below are imported when first used, so that the command line's help needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcdm import archive as archive
    from bcdm import assessment as assessment
    from bcdm import benchmark as benchmark
    from bcdm import checkpoint as checkpoint
    from bcdm import coils as coils
    from bcdm import comparison as comparison
    from bcdm import conditioning as conditioning
    from bcdm import data as data
    from bcdm import diffusion as diffusion
    from bcdm import errors as errors
    from bcdm import evaluation as evaluation
    from bcdm import machine as machine
    from bcdm import measurement as measurement
    from bcdm import methods as methods
    from bcdm import networks as networks
    from bcdm import noise as noise
    from bcdm import operators as operators
    from bcdm import problems as problems
    from bcdm import reconstruction as reconstruction
    from bcdm import report as report
    from bcdm import scans as scans
    from bcdm import service as service
    from bcdm import tensors as tensors
    from bcdm import training as training
    from bcdm import trust as trust
    from bcdm.checkpoint import Guest as Guest
    from bcdm.checkpoint import load as load
    from bcdm.conditioning import Conditioning as Conditioning
    from bcdm.diffusion import VE as VE
    from bcdm.diffusion import VP as VP
    from bcdm.diffusion import DPMSolver as DPMSolver
    from bcdm.diffusion import posterior_mean as posterior_mean
    from bcdm.diffusion import sample as sample
    from bcdm.measurement import Measurement as Measurement
    from bcdm.operators import check_operator as check_operator
    from bcdm.reconstruction import reconstruct as reconstruct
    from bcdm.report.posteriors import plot_posterior as plot_posterior
    from bcdm.report.posteriors import report_posterior as report_posterior
    from bcdm.training.run import train as train

__version__ = "0.1.0"

_HOME = {
    "Conditioning": "bcdm.conditioning",
    "DPMSolver": "bcdm.diffusion",
    "Guest": "bcdm.checkpoint",
    "Measurement": "bcdm.measurement",
    "VE": "bcdm.diffusion",
    "VP": "bcdm.diffusion",
    "check_operator": "bcdm.operators",
    "plot_posterior": "bcdm.report.posteriors",
    "load": "bcdm.checkpoint",
    "posterior_mean": "bcdm.diffusion",
    "reconstruct": "bcdm.reconstruction",
    "report_posterior": "bcdm.report.posteriors",
    "sample": "bcdm.diffusion",
    "train": "bcdm.training.run",
}

_ROOMS = (
    "archive",
    "assessment",
    "benchmark",
    "checkpoint",
    "coils",
    "comparison",
    "conditioning",
    "data",
    "diffusion",
    "errors",
    "evaluation",
    "machine",
    "measurement",
    "methods",
    "networks",
    "noise",
    "operators",
    "problems",
    "reconstruction",
    "report",
    "scans",
    "service",
    "tensors",
    "training",
    "trust",
)

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"bcdm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bcdm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
