"""The trust card: checks, and the light that sums them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bcdm.errors import InputError

__all__ = ["Check", "Judgement", "Light", "Trust", "join"]

Judgement = Literal["good", "doubtful", "bad", "none"]
Light = Literal["green", "amber", "red"]


@dataclass(frozen=True)
class Check:
    """One row of the trust card.

    Attributes:
        name: What was checked.
        value: What was found, with its unit.
        judgement: What follows; "none" if nothing could be judged.
        reason: Why, in words.
    """

    name: str
    value: str
    judgement: Judgement
    reason: str

    def __post_init__(self) -> None:
        if self.judgement not in get_args(Judgement):
            raise InputError(
                f"judgement is one of {get_args(Judgement)}, not {self.judgement!r}: {self.name}"
            )


@dataclass(frozen=True)
class Trust:
    """The trust card.

    Attributes:
        light: The verdict on the whole.
        summary: The verdict in one sentence.
        checks: What it rests on.
    """

    light: Light
    summary: str
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        if self.light not in get_args(Light):
            raise InputError(f"light is one of {get_args(Light)}, not {self.light!r}")


def join(cards: Sequence[Trust]) -> Trust:
    """The card of a volume: its worst slice's, and how many there are of each light."""
    order: tuple[Light, ...] = ("red", "amber", "green")
    worst = min(cards, key=lambda card: order.index(card.light))
    if len(cards) == 1:
        return worst
    counts = ", ".join(
        f"{sum(card.light == light for card in cards)} {light}" for light in order[::-1]
    )
    number = cards.index(worst)
    return Trust(worst.light, f"Slices: {counts}. Slice {number}: {worst.summary}", worst.checks)
