"""Many cards as one."""

import pytest

from bcdm.errors import InputError
from bcdm.trust.card import Check, Trust, join


def test_the_worst_slice_speaks_for_a_volume() -> None:
    green, amber, red = (
        Trust(light, light, (Check(light, "", "none", ""),)) for light in ("green", "amber", "red")
    )
    assert join([amber]) is amber
    whole = join([green, amber, red, green, red])
    assert whole.light == "red"
    assert whole.summary == "Slices: 2 green, 1 amber, 2 red. Slice 2: red"
    assert whole.checks == red.checks
    assert join([green, amber, green]).light == "amber"
    assert join([green, amber, green]).summary == "Slices: 2 green, 1 amber, 0 red. Slice 1: amber"
    assert join([green, green]).light == "green"


def test_lights_and_judgements_are_of_the_few_there_are() -> None:
    with pytest.raises(InputError, match="light is one of"):
        Trust("blue", "", ())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="judgement is one of"):
        Check("residual", "", "fine", "")  # type: ignore[arg-type]


def test_a_card_is_told_in_one_line() -> None:
    check = Check("residual", "1.3", "doubtful", "the data say more than the images " * 9)
    text = repr(Trust("amber", f"Look twice: {check.reason}.", (check,) * 8))
    assert text.startswith("Trust(amber, 8 checks: 'Look twice: the data say")
    assert len(text) <= 120
