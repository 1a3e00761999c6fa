"""The trust card: checks, and the light that sums them up."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bcdm.errors import InputError

__all__ = ["LIGHTS", "Check", "Judgement", "Light", "Trust", "add_check", "find_light", "join"]

Judgement = Literal["good", "doubtful", "bad", "none"]
"""What a check says; "none" where nothing could be judged."""

Light = Literal["green", "amber", "red"]
"""What a card says: nothing speaks against it, look twice, do not rely on it."""

LIGHTS: tuple[Light, ...] = get_args(Light)
"""From good to bad."""


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


@dataclass(frozen=True, repr=False)
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
        if self.light not in LIGHTS:
            raise InputError(f"light is one of {LIGHTS}, not {self.light!r}")

    def __repr__(self) -> str:
        summary = textwrap.shorten(self.summary, 80, placeholder=" ...")
        return f"Trust({self.light}, {len(self.checks)} checks: {summary!r})"


def find_light(checks: Sequence[Check]) -> Light:
    """What checks come to: the worst of them decides."""
    judgements = {check.judgement for check in checks}
    return "red" if "bad" in judgements else "amber" if "doubtful" in judgements else "green"


def add_check(card: Trust, check: Check) -> Trust:
    """A card with one more row; a doubt makes a green light amber, what is bad makes it red."""
    light, summary = card.light, card.summary
    if check.judgement == "bad" and light != "red":
        light, summary = "red", f"Not to be relied on: {check.reason}."
    elif check.judgement == "doubtful" and light == "green":
        light, summary = "amber", f"Look twice: {check.reason}."
    return Trust(light, summary, (*card.checks, check))


def join(cards: Sequence[Trust]) -> Trust:
    """The card of a volume: its worst slice's, and how many there are of each light."""
    worst = max(cards, key=lambda card: LIGHTS.index(card.light))
    if len(cards) == 1:
        return worst
    counts = ", ".join(f"{sum(card.light == light for card in cards)} {light}" for light in LIGHTS)
    number = cards.index(worst)
    return Trust(worst.light, f"Slices: {counts}. Slice {number}: {worst.summary}", worst.checks)
