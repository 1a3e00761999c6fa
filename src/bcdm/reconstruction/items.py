"""Many measurements to outcomes: the seam that command, archive and service share."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.errors import (
    Cancelled,
    Fault,
    InputError,
    MachineError,
    ModelError,
    ShapeError,
    blames_machine,
)
from bcdm.measurement import Measurement
from bcdm.reconstruction.drawing import (
    Drawer,
    Drawn,
    Item,
    Progress,
    Sampling,
    draw_preview,
    is_memory,
)
from bcdm.reconstruction.posterior import Posterior, as_shown
from bcdm.reconstruction.provenance import NOISE
from bcdm.trust import Light, Trust, UnfitError, find_unfamiliar
from bcdm.trust.matching import fits_size

__all__ = ["LEVEL", "Given", "Outcome", "Plan", "RefusedError", "Status", "reconstruct_items"]

LEVEL = 0.8
Status = Literal["done", "refused", "failed"]

_log = logging.getLogger(__name__)


class RefusedError(InputError):
    """A measurement that the model was not made for, or a reconstruction whose card is red."""


@dataclass(frozen=True)
class Plan(Sampling):
    """How to reconstruct.

    Attributes:
        batch: Images at once.
        force: Whether to give results although the card is red.
        keep: Whether outcomes hold their samples.
    """

    batch: int = 8
    force: bool = False
    keep: bool = False

    def __post_init__(self) -> None:
        least = round((1 + LEVEL) / (1 - LEVEL))
        if self.samples < least:
            raise InputError(
                f"intervals of {LEVEL:.0%} need {least} samples or more, not {self.samples}"
            )
        super().__post_init__()

    def to_plain(self) -> dict[str, Any]:
        """What fixes the samples."""
        plain = {
            "samples": self.samples,
            "calls": self.calls,
            "churn": self.churn,
            "seed": self.seed,
            "batch": self.batch,
            "noise": NOISE,
        }
        return plain if self.sampler is None else plain | {"sampler": repr(self.sampler)}


@dataclass(frozen=True, eq=False)
class Given:
    """One measurement in the model's units, and how these were found.

    Attributes:
        measurement: The measurement.
        scale_taken: Whether its scale was taken from the data, because nobody stated one.
    """

    measurement: Measurement
    scale_taken: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of an item. Images are (C, H, W) in the model's units, magnitudes if complex.

    Attributes:
        id: That of the item.
        status: "done"; "refused" where the model was not made for it; "failed".
        reason: Why it is not done, in one line.
        fault: Whether input or model is to blame if it is not done. Faults of the machine are
            raised: they are no property of an item.
        trust: The trust card, where samples were drawn.
        mean: The average of the samples.
        std: The standard deviation of each pixel.
        low: The lower end of each pixel's interval of `LEVEL`.
        high: The upper end.
        preview: The mean by one network call.
        samples: (S, C, H, W), if the plan keeps them; complex where images are.
    """

    id: str
    status: Status
    reason: str = ""
    fault: Fault | None = None
    trust: Trust | None = None
    mean: Tensor | None = None
    std: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    preview: Tensor | None = None
    samples: Tensor | None = None

    @property
    def light(self) -> Light | None:
        """Of the trust card."""
        return None if self.trust is None else self.trust.light


def reconstruct_items(
    model: Model,
    items: Iterable[tuple[str, Measurement | Given | Callable[[], Measurement | Given]]],
    plan: Plan,
    on_step: Callable[[Progress], None] | None = None,
) -> Iterator[Outcome]:
    """Reconstructs items one after the other, in batches that they share.

    Items are taken and outcomes given one by one: of an archive, only a batch and the items in it
    are in memory. A bad item gets a status and stops nothing. The samples of an item are those of
    `bcdm.reconstruct` and of the command for the same id, plan and measurement.

    Args:
        model: A trained one.
        items: Ids, which noise belongs to, and measurements in the model's units, one each, as
            they are or as `Given`; or a function that makes the measurement, so that an error in
            it counts for the item.
        plan: How.
        on_step: Called after every network call. It may raise `Cancelled`, or anything else, to
            stop; nothing is half given then.

    Raises:
        MachineError: Where memory or disk does not last.
    """
    drawer = Drawer(model.method, plan, on_step)
    begun: dict[Item, list[Tensor]] = {}
    lost: set[Item] = set()

    def finish(drawn: Iterable[Drawn]) -> Iterator[Outcome]:
        for one in drawn:
            if one.item in lost:
                continue
            if one.error is not None:
                lost.add(one.item)
                begun.pop(one.item, None)
                yield _fail(one.item.id, one.error, "model")
                continue
            assert one.image is not None
            begun.setdefault(one.item, []).append(one.image)
            if len(begun[one.item]) == plan.samples:
                yield _conclude(model, one.item, begun.pop(one.item), plan)

    for name, given in items:
        # Of an item that failed nothing waits any more: it must not stay in memory.
        lost.clear()
        try:
            item = _prepare(model, name, given, plan)
        except Exception as error:
            yield _fail(name, error, "input")
            continue
        for number in range(plan.samples):
            yield from finish(drawer.add(item, number))
            if item in lost:
                break
    yield from finish(drawer.flush())


def _prepare(
    model: Model,
    name: str,
    given: Measurement | Given | Callable[[], Measurement | Given],
    plan: Plan,
) -> Item:
    """An item that can be drawn, or the error that says why not."""
    made = given if isinstance(given, Measurement | Given) else given()
    whole = made if isinstance(made, Given) else Given(made)
    measurement = whole.measurement
    if len(measurement.y) != 1:
        raise ShapeError(f"an item is one measurement, not {len(measurement.y)}")
    if not fits_size(model, measurement.image.shape):
        raise ShapeError(
            f"images of {measurement.image.shape}, but {model.config.name} is for those of "
            f"{tuple(model.shape)}"
        )
    (reason,) = [""] if plan.force else find_unfamiliar(model, measurement)
    if reason:
        raise RefusedError(f"Not a measurement that {model.config.name} was made for: {reason}")
    return Item(name, measurement, scale_taken=whole.scale_taken)


def _conclude(model: Model, item: Item, images: Sequence[Tensor], plan: Plan) -> Outcome:
    """Judges the samples of an item, and sums them up."""
    try:
        samples = torch.stack(list(images))
        if not bool(samples.isfinite().all()):
            raise ModelError(f"{model.config.name} gave values that are not finite")
        preview = draw_preview(model.method, item, plan.seed)
        posterior = Posterior(model, item.measurement, preview, samples[:, None], item.scale_taken)
        (card,) = posterior.trust
        if card.light == "red" and not plan.force:
            return Outcome(item.id, "refused", card.summary, "input", card)
        low, high = posterior.interval(LEVEL)
        return Outcome(
            item.id,
            "done",
            trust=card,
            mean=posterior.image[0],
            std=posterior.std[0],
            low=low[0],
            high=high[0],
            preview=as_shown(preview[0]),
            samples=samples if plan.keep else None,
        )
    except Exception as error:
        return _fail(item.id, error, "model")


def _fail(name: str, error: Exception, blamed: Fault) -> Outcome:
    """The outcome of an item that ended in an error; raises what is no fault of the item."""
    if isinstance(error, Cancelled | MachineError):
        raise error
    if is_memory(error) or (isinstance(error, OSError) and blames_machine(error)):
        raise MachineError(f"{name}: {error}") from error
    if isinstance(error, InputError):
        status: Status = "refused" if isinstance(error, RefusedError | UnfitError) else "failed"
        return Outcome(name, status, str(error), error.fault)
    _log.warning("%s failed", name, exc_info=error)
    line = " ".join(str(error).split())[:200]
    return Outcome(name, "failed", f"{type(error).__name__}: {line}", blamed)
