"""What is known of a measurement and its reconstruction, as names and values."""

from bcdm.checkpoint import Guest
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.lesions import describe_lesions
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.posterior import Posterior
from bcdm.text import printable

__all__ = ["Facts", "describe_posterior", "describe_scan"]

Facts = tuple[tuple[str, str], ...]


def describe_scan(fitted: Fitted) -> Facts:
    """What is known of a scan."""
    scan, noise, units = fitted.scan, fitted.noise, fitted.units
    error = f" +- {noise.standard_error:.2g}" if noise.standard_error else ""
    level = f"{noise.std:.4g}{error} {units.name or 'in the units of the file'}, {noise.source}"
    return (
        ("file", printable(scan.path.name)),
        ("format", f"{scan.format}, {scan.kind}"),
        ("shape", " x ".join(str(side) for side in scan.data.shape)),
        *([("image", str(scan.facts["changed"]))] if "changed" in scan.facts else []),
        *([("read as", str(scan.facts["read as"]))] if "read as" in scan.facts else []),
        ("noise level", level),
        ("units", f"model = {units.gain:.4g} x file {units.offset:+.4g}, {units.source}"),
    )


_NOWHERE = "nothing: intervals are those of the samples alone"
_INSIDE = (
    "validation images, by the operators that the model was made for; intervals of pixels only"
)


def describe_posterior(posterior: Posterior) -> Facts:
    """By which model and how it was reconstructed."""
    model, level = posterior.model, float(posterior.measurement.std[0])
    drawn = (
        ("samples", f"{len(posterior.samples)}; the posterior mean is their average"),
        ("error of the std map", f"{posterior.std_error:.0%}, from so many samples"),
    )
    if isinstance(model, Guest):
        return (
            ("method", printable(model.name)),
            *([("about it", printable(model.remark))] if model.remark else []),
            ("noise level", f"{level:.4g}, in the units of the data"),
            *drawn,
            ("calibrated on", _NOWHERE if model.widths is None else _INSIDE),
        )
    calibration = Calibration.of(model)
    operator = model.config.operator
    kinds = [one.kind for one in operator.members] if operator.kind == "family" else [operator.kind]
    lesions = describe_lesions(model.facts, kinds)
    return (
        ("model", f"{model.config.name}, trained on {model.config.data.path}"),
        ("noise level for the model", f"{level:.4g} on {list(model.value_range)}"),
        *drawn,
        ("calibrated on", calibration.on if calibration is not None else "nothing yet"),
        *([("small lesions", lesions)] if lesions is not None else []),
    )
