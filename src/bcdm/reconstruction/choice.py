"""What reconstructs a measurement: the model, or a guest over its network as a prior."""

from collections.abc import Callable
from typing import Any

from bcdm.checkpoint import Guest, Model, welcome
from bcdm.checkpoint.calibration import Calibration
from bcdm.errors import InputError
from bcdm.imports import find_object, hash_source, is_import_path, name_object
from bcdm.measurement import Measurement
from bcdm.methods import MMPS
from bcdm.methods.restoration import LEARNED_ITERATIONS
from bcdm.trust import UnfitError, find_unfamiliar

__all__ = ["FALLBACK", "Choice", "choose_method", "describe_choice", "make_fallback", "make_guest"]

Choice = str | Callable[..., Any]
"""What to take: "model", "auto", or who makes a method of a prior (or its import path)."""

FALLBACK = "MMPS"
"""What "auto" takes outside of what a model was made for."""


def choose_method(
    model: Model, measurement: Measurement, choice: Choice = "model", *, force: bool = False
) -> Model | Guest:
    """The model where it was made for the measurements; what else, where it was not.

    Args:
        model: A trained one.
        measurement: In its units; one that is outside decides for all of them.
        choice: "auto" takes a guided method with the model's network as its prior there. What is
            called with that prior and gives a method, or its import path "package.module:name",
            is taken in any case.
        force: Whether to take the model all the same, where nothing else is asked for.

    Raises:
        UnfitError: The model was not made for them, and nothing else was asked for.
    """
    if callable(choice) or is_import_path(choice):
        return make_guest(model, measurement, choice)
    if choice not in ("model", "auto"):
        raise InputError(
            f'method is "model", "auto" or an import path "package.module:name", not {choice!r}'
        )
    if force and choice == "model":
        return model
    reason = next(filter(None, find_unfamiliar(model, measurement)), "")
    if not reason:
        return model
    if choice == "auto":
        return make_fallback(model, measurement, reason)
    other = ', method="auto" takes MMPS with its network as prior' if model.is_prior else ""
    raise UnfitError(
        f"Not a measurement that {model.name} was made for: {reason}. force=True goes on all the "
        f"same{other}"
    )


def make_fallback(model: Model, measurement: Measurement, reason: str) -> Guest:
    """Guarded MMPS over the model's own network as an unconditional prior.

    Args:
        model: One that was also trained on nothing.
        measurement: What is to be reconstructed.
        reason: Why the model itself was not made for it.
    """
    if not model.is_prior:
        raise UnfitError(
            f"Not a measurement that {model.name} was made for: {reason}. Nor is it a prior that "
            "another method could take: it never saw images without a measurement (`bcdm doctor` "
            "says which models did)"
        )
    prior = model.make_prior(measurement.image.shape)
    calibration = Calibration.of(model)
    widths = None if calibration is None else calibration.fallback
    told = "were never calibrated"
    if widths is not None:
        told = "were calibrated inside of it only, and for single pixels only"
    return Guest(
        MMPS(prior, LEARNED_ITERATIONS, model.value_range),
        name=f"MMPS, prior {model.name}",
        value_range=model.value_range,
        scales=model.scales,
        remark=(
            f"outside of what {model.name} was made for ({reason}), so MMPS drew the samples with "
            f"its network as prior; they are slower, and their intervals {told}"
        ),
        widths=widths,
    )


def make_guest(model: Model, measurement: Measurement, choice: Choice) -> Guest:
    """A method from elsewhere over the model's own network as an unconditional prior.

    Args:
        model: One that was also trained on nothing.
        measurement: What is to be reconstructed.
        choice: Called with the prior it gives a method; or its import path.
    """
    made_by = find_object(choice) if isinstance(choice, str) else choice
    made = welcome(made_by(model.make_prior(measurement.image.shape)))
    if isinstance(made, Model):
        raise InputError(f"{name_object(made_by)} gives a trained model: name it as the model")
    return Guest(
        made.method,
        name=f"{made.name}, prior {model.name}",
        value_range=made.value_range or model.value_range,
        scales=made.scales or model.scales,
        remark=(made.remark and f"{made.remark}; ")
        + (
            f"{name_object(made_by)} drew the samples with the network of {model.name} as prior; "
            "their intervals were never calibrated"
        ),
    )


def describe_choice(choice: Choice, made: Model | Guest) -> dict[str, str]:
    """What fixes the samples beside the model, for provenance; empty where the model drew them."""
    if isinstance(made, Model):
        return {}
    if choice == "auto":
        return {"method": FALLBACK}
    found = find_object(choice) if isinstance(choice, str) else choice
    return {"method": name_object(found), "method_sha256": hash_source(found)}
