"""Cards and reports of MRI models say what small lesions are worth, from what was measured."""

from typing import Any

from bcdm.checkpoint.lesions import describe_lesions

FOUND: dict[str, Any] = {
    "regions": 120,
    "subjects": 40,
    "direction": 0.99,
    "kept": 0.71,
    "held": 0.3,
    "outside": 0.88,
    "command": "bcdm benchmark lesions mine",
}


def test_numbers_are_those_of_the_record() -> None:
    told = describe_lesions({"lesions": FOUND}, ["k_space"])
    assert told is not None
    assert "Of 120 small discs put into images of 40 new subjects the mean showed 99%" in told
    assert "with 0.71 of their contrast" in told
    assert "held 30%, and 88% lay outside of all samples: do not read" in told
    better = describe_lesions({"lesions": FOUND | {"held": 0.78}}, ["k_space"])
    assert better is not None
    assert "ask for the interval" in better


def test_what_was_not_measured_is_said() -> None:
    assert "was not measured" in str(describe_lesions({}, ["fourier_mask"]))
    assert "was not measured" in str(describe_lesions({"lesions": {"kept": 1}}, ["k_space"]))
    assert describe_lesions({"lesions": FOUND}, ["centre_box", "blurs"]) is None
