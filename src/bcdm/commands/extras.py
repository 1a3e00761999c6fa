"""Packages that not every installation has, and how to get them."""

from importlib import import_module

from bcdm.errors import InputError

__all__ = ["explain_missing", "require"]

_EXTRAS = {
    "PIL": "data",
    "h5py": "data",
    "highdicom": "formats",
    "huggingface_hub": "hub",
    "ismrmrd": "formats",
    "matplotlib": "figures",
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
    "zarr": "formats",
}


def require(*modules: str) -> None:
    """Refuses at once what would fail for a missing package after hours of work."""
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise InputError(explain_missing(error)) from None


def explain_missing(error: ModuleNotFoundError) -> str:
    """One line that says which package is missing, and how to install it."""
    module = (error.name or str(error)).partition(".")[0]
    extra = _EXTRAS.get(module)
    install = f"'bcdm[{extra}]'" if extra else module
    return f"this needs the package {module}, which is not installed: pip install {install}"
