"""Packages that not every installation has, and how to get them."""

from importlib import import_module
from importlib.util import find_spec

from bcdm.errors import InputError

__all__ = ["explain_missing", "list_extras", "require"]

_EXTRAS = {
    "PIL": "data",
    "fastapi": "service",
    "h5py": "data",
    "highdicom": "formats",
    "huggingface_hub": "hub",
    "ismrmrd": "formats",
    "matplotlib": "figures",
    "mrinufft": "nufft",
    "nibabel": "formats",
    "obstore": "archive",
    "pydicom": "formats",
    "ray": "ray",
    "scipy": "baselines",
    "sigpy": "mri",
    "skimage": "baselines",
    "tensorboard": "training",
    "tifffile": "data",
    "torch_fidelity": "fid",
    "uvicorn": "service",
    "zarr": "formats",
}


def require(*modules: str) -> None:
    """Refuses at once what would fail for a missing package after hours of work."""
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise InputError(explain_missing(error)) from None


def list_extras() -> dict[str, list[str]]:
    """Which packages of each extra are missing."""
    missing: dict[str, list[str]] = {extra: [] for extra in sorted(set(_EXTRAS.values()))}
    for module, extra in _EXTRAS.items():
        if find_spec(module) is None:
            missing[extra].append(module)
    return missing


def explain_missing(error: ModuleNotFoundError) -> str:
    """One line that says which package is missing, and how to install it."""
    module = (error.name or str(error)).partition(".")[0]
    extra = _EXTRAS.get(module)
    install = f"'bcdm[{extra}]'" if extra else module
    return f"this needs the package {module}, which is not installed: pip install {install}"
