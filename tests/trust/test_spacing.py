import pytest

from bcdm.checkpoint.settings import ScopeConfig
from bcdm.trust import Trust, judge_spacing

SCOPE = ScopeConfig(sides=(96, 192), spacing=(1.6, 2.5))
GREEN = Trust("green", "Nothing speaks against this reconstruction.")


@pytest.mark.parametrize(
    ("spacing", "judgement", "light"),
    [
        ([2.0, 2.0, 5.0], "good", "green"),
        ([1.58, 2.54], "good", "green"),
        ([1.0, 2.0], "doubtful", "amber"),
        ([2.0, 3.0], "doubtful", "amber"),
        (None, "none", "green"),
    ],
)
def test_pixels_are_as_far_apart_as_in_training(
    spacing: list[float] | None, judgement: str, light: str
) -> None:
    found = judge_spacing(GREEN, SCOPE, spacing)
    (check,) = found.checks
    assert (check.name, check.judgement, found.light) == ("pixel spacing", judgement, light)
    assert "1.6 to 2.5 mm" in check.reason
    assert (found.summary == GREEN.summary) == (light == "green")


def test_what_was_worse_before_stays() -> None:
    red = Trust("red", "It is red.")
    assert judge_spacing(red, SCOPE, [9.0, 9.0]).summary == "It is red."
    assert judge_spacing(GREEN, None, [9.0, 9.0]) is GREEN
