"""Is a measurement one of those that a model was trained for?"""

import torch

from bcdm.checkpoint import Guest, Model, describe_operator
from bcdm.checkpoint.kinds import CustomConfig, FamilyConfig
from bcdm.checkpoint.operators import agree
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator, Sense
from bcdm.problems.receivers import Receivers

__all__ = [
    "NOISE_FACTOR",
    "UnfitError",
    "check_operator",
    "check_size",
    "explain_noise",
    "find_unfamiliar",
    "fits_size",
    "is_near",
]

NOISE_FACTOR = 1.5  # between noise levels that count as the same
_ROUNDING = 1e-4


class UnfitError(InputError):
    """A measurement that a model was not made for; the message says why."""


def find_unfamiliar(model: Model | Guest, measurement: Measurement) -> list[str]:
    """Why each measurement is none of those that a model was trained for; "" if it is one.

    The size of its images where a model names sizes; operator and noise level of a model of a
    family, the operator of any other. A guest was trained for none.
    """
    if isinstance(model, Guest):
        return [""] * len(measurement.y)
    unfit = _explain_size(model, measurement.image.shape)
    unfit = unfit or _explain_coils(model, measurement.operator)
    if unfit:
        return [unfit] * len(measurement.y)
    if model.familiarity is not None:
        return [verdict.reason for verdict in model.familiarity.judge(measurement)]
    reasons = []
    for k in range(len(measurement.y)):
        try:
            one = measurement.select(torch.tensor([k]))
            check_operator(one.operator, model, one.y.device)
            reasons.append("")
        except UnfitError as error:
            reasons.append(str(error))
    return reasons


def check_size(model: Model, shape: tuple[int, ...], name: str = "the measurement") -> None:
    """Refuses images of another size than a model makes, unless it makes any.

    Args:
        model: The model.
        shape: Channels, rows and columns.
        name: Of what has the shape.
    """
    if fits_size(model, shape):
        return
    made, scope = "x".join(map(str, model.shape)), model.config.scope
    if scope is not None:
        made = f"{model.shape[0]} x {scope.sides[0]} to {scope.sides[1]} pixels a side"
    raise UnfitError(
        f"{name} is of images {'x'.join(map(str, shape))} and {model.config.name} makes {made}: "
        "crop or resample, or choose another model"
    )


def fits_size(model: Model, shape: tuple[int, ...]) -> bool:
    """Whether a model makes images (C, H, W); one with a scope makes other sizes, too.

    Whether they are in its scope is another question: see `find_unfamiliar`.
    """
    own = tuple(model.shape)
    other = model.config.scope is not None and len(shape) == len(own) and shape[:1] == own[:1]
    return tuple(shape) == own or other


def _explain_size(model: Model, shape: tuple[int, ...]) -> str:
    """Why images (C, H, W) are outside of a model's scope; "" if they are not."""
    if model.config.scope is None:
        return ""
    (low, high), (rows, columns) = model.config.scope.sides, shape[-2:]
    if low <= min(rows, columns) <= max(rows, columns) <= high:
        return ""
    return f"images of {rows} x {columns} pixels, and it is for sides of {low} to {high}"


def _explain_coils(model: Model, operator: LinearOperator) -> str:
    """Why so many coils are outside of a model's family; "" if they are not."""
    family = model.config.operator
    if not (isinstance(operator, Sense) and isinstance(family, FamilyConfig)):
        return ""
    known = [member.coils for member in family.members if isinstance(member, Receivers)]
    count, most = operator.maps.shape[-3], max((high for _, high in known), default=0)
    if not known or count <= most:
        return ""
    low = min(low for low, _ in known)
    return f"{count} coils, and it is for {low} to {most}: compress them"


def explain_noise(trained: float | tuple[float, float], std: float) -> str:
    """How far a noise level is from the only one of training; "" if near, or of a range."""
    if isinstance(trained, tuple) or is_near(std, trained):
        return ""
    return f"{std:.3g} instead of {trained:.3g}, in the model's units"


def check_operator(
    operator: LinearOperator, model: Model, device: torch.device | str = "cpu"
) -> None:
    """Refuses an operator that a model of one was not made for, give or take rounding.

    Args:
        operator: What measures.
        model: What is to reconstruct.
        device: Where the operator takes images.
    """
    trained, stated = model.trained_operator, model.config.operator
    if trained is None and isinstance(stated, CustomConfig):
        # The model was loaded without its operator: what the settings say of it is left.
        found = describe_operator(operator.to("cpu"), model.shape, model.config.data.dtype)
        if agree(found.model_copy(update={"name": stated.name}), stated):
            return
        raise _refuse(model, stated.name)
    if trained is None or operator is trained:
        return
    seeded = torch.Generator().manual_seed(0)
    probe = torch.randn(1, *model.shape, dtype=model.config.data.dtype, generator=seeded)
    own = trained.forward(probe)
    other = operator.forward(probe.to(device)).cpu()
    if own.shape == other.shape and own.is_complex() == other.is_complex():
        away = float((own - other).abs().square().sum().sqrt())
        if away <= _ROUNDING * float(own.abs().square().sum().sqrt()):
            return
    if model.is_prior:
        raise UnfitError(f"{model.config.name} is a prior, trained without measurements")
    raise _refuse(model, type(trained).__name__)


def _refuse(model: Model, name: str) -> UnfitError:
    return UnfitError(
        f"{model.config.name} is made for one operator, {name}, and the one given measures "
        "something else: choose a model of a family"
    )


def is_near(one: float, other: float) -> bool:
    """Whether two noise levels count as the same."""
    return other / NOISE_FACTOR <= one <= other * NOISE_FACTOR
