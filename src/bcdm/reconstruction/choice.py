"""What reconstructs a measurement that a model was not made for: nothing, the model, or a guest."""

from typing import Literal

from bcdm.checkpoint import Guest, Model
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import MMPS
from bcdm.trust import UnfitError, find_unfamiliar

__all__ = ["Choice", "choose_method", "make_fallback"]

Choice = Literal["model", "auto"]


def choose_method(
    model: Model, measurement: Measurement, choice: Choice = "model", *, force: bool = False
) -> Model | Guest:
    """The model where it was made for the measurements; what else, where it was not.

    Args:
        model: A trained one.
        measurement: In its units; one that is outside decides for all of them.
        choice: "auto" takes a guided method with the model's network as its prior there.
        force: Whether to take the model all the same.

    Raises:
        UnfitError: The model was not made for them, and nothing else was asked for.
    """
    if choice not in ("model", "auto"):
        raise InputError(f'method is "model" or "auto", not {choice!r}')
    reason = "" if force else next(filter(None, find_unfamiliar(model, measurement)), "")
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
            "another method could take: it never saw images without a measurement"
        )
    prior = model.make_prior(measurement.image.shape)
    return Guest(
        MMPS(prior, value_range=model.value_range),
        name=f"MMPS, prior {model.name}",
        value_range=model.value_range,
        scales=model.scales,
        remark=(
            f"outside of what {model.name} was made for ({reason}), so MMPS drew the samples with "
            "its network as prior; they are slower, and their intervals were never calibrated"
        ),
    )
