"""Every judgement of the trust card, at its borders: lights that users act on."""

import math
from dataclasses import replace
from math import inf, nan

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.trend import Trend
from bcdm.checkpoint.usual import Usual
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.trust.card import Check, Judgement
from bcdm.trust.comparing import _judge, _judge_residual, _name_missing, compare
from bcdm.trust.verdict import _excuse, _judge_noise, _sum_up, assess

TABLE = [float(k) for k in range(1, 40)]  # its median is 20, its reach beyond that 19


@pytest.mark.parametrize(
    ("reduced", "p_value", "expected"),
    [
        # What noise alone may well give is good, however far from 1: few data.
        (0.1, 0.5, "good"),
        (3.0, 1e-3, "good"),
        (3.0, 0.99e-3, "bad"),
        # Where chance is ruled out the size of the misfit decides.
        (1.0, 0.0, "good"),
        (0.81, 0.0, "good"),
        (0.8, 0.0, "doubtful"),
        (0.51, 0.0, "doubtful"),
        (0.5, 0.0, "bad"),
        (1.19, 0.0, "good"),
        (1.2, 0.0, "doubtful"),
        (1.99, 0.0, "doubtful"),
        (2.0, 0.0, "bad"),
        # A number that is none explains nothing.
        (nan, nan, "bad"),
        (nan, 0.5, "bad"),
        (1.0, nan, "bad"),
        (inf, 0.0, "bad"),
    ],
)
def test_the_residual_of_a_sample(reduced: float, p_value: float, expected: Judgement) -> None:
    found = _judge_residual(reduced, p_value)
    assert found.judgement == expected
    explained = "the samples explain the data within their noise"
    assert found.reason.startswith(explained) == (expected == "good")
    if expected != "good" and reduced < 1:
        assert "nearer to the data than the stated noise" in found.reason
    assert found.value == f"{reduced:.2f} per degree of freedom, p = {p_value:.2g}"


@pytest.mark.parametrize(
    ("reduced", "expected"),
    [
        (0.49, "bad"),
        (0.51, "none"),
        (0.81, "good"),
        (1.19, "good"),
        (1.35, "none"),
        (1.99, "none"),
        (2.01, "bad"),
        (nan, "bad"),
    ],
)
def test_a_residual_as_large_as_usual_is_no_finding(reduced: float, expected: Judgement) -> None:
    """Where it is known how far samples of a model are off, the rank among them decides."""
    table = [0.02 * k for k in range(1, 40)]  # logarithms, their median is .4
    usual = Usual({"residual": table}, 3 / 40)
    square, rank, _ = compare(usual, {"residual": 0.3}, reduced, 0.0)
    assert (square.judgement, rank.judgement) == (expected, "good")
    told = "samples of this model are usually off by 49%, and the next line tells"
    assert (told in square.reason) == (expected == "none")
    # A model that has no such table is judged by theory alone.
    empty = Usual({}, 3 / 40)
    for without in (None, empty):
        alone = compare(without, {}, reduced, 0.0)[0].judgement
        assert alone == ("doubtful" if expected == "none" else expected)


def test_what_is_usual_for_mask_and_noise_is_told() -> None:
    """Of a family: chi-square is 1.5 where the noise is e^0, and 1 at e^1."""
    where = torch.tensor([[0.0, 0.0], [1.0, 0.0]] * 50, dtype=torch.float64)
    scatter = torch.tensor([-0.05, -0.05, 0.05, 0.05] * 25, dtype=torch.float64)
    trend = Trend.fit(where, math.log(1.5) * (1 - where[:, 0]) + scatter)
    table = [0.05 * k for k in range(1, 40)]
    usual = Usual({"residual": table}, 3 / 40, {"residual": trend})
    for std, expected in ((1.0, "good"), (math.e, "bad")):
        scores = {"residual": math.log(1.5), "noise_std": std, "share": 1.0}
        square, rank, _ = compare(usual, scores, 1.5, 0.0)
        assert (square.judgement, rank.judgement) == ("none", expected)
        told = "1.50" if expected == "good" else "1.00"
        assert f"are usually at {told}" in square.reason


@pytest.mark.parametrize(
    ("score", "expected", "share"),
    [
        (0.0, "good", 0),
        (35.5, "good", 88),  # four of 39 are worse, tail 5 / 40
        (37.5, "good", 92),  # the tail is the threshold: 3 / 40
        (38.5, "doubtful", 95),
        (40.0, "doubtful", 98),  # beyond the table
        (48.5, "doubtful", 98),  # half its reach beyond the table
        (48.6, "bad", 98),
    ],
)
def test_a_score_beside_those_of_right_measurements(
    score: float, expected: Judgement, share: int
) -> None:
    usual = Usual({"typicality": TABLE}, 3 / 40)
    (found,) = _judge(usual, {"typicality": score, "of another version": 7.0})
    assert found.name == "typicality"
    assert found.judgement == expected
    assert ("what training images show" in found.reason) == (expected == "good")
    assert found.value == f"worse than {share}% of 39 right measurements"


@pytest.mark.parametrize(
    ("reduced", "p_value", "why"),
    [
        (1.0, 0.1, "noise"),
        (1.13, 0.0051, "noise; chance gives such a p now and then, only below 0.001 it counts"),
        (1.13, 0.001, "noise; chance gives such a p now and then, only below 0.001 it counts"),
        (1.13, 0.00099, "noise; the misfit is no chance, but smaller than 20 %"),
    ],
)
def test_a_good_residual_that_looks_bad_has_a_word_why(
    reduced: float, p_value: float, why: str
) -> None:
    reason = _judge_residual(reduced, p_value).reason
    assert reason == f"the samples explain the data within their {why}"


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (35.5, ""),
        (37.5, "; of several checks one is often this far out, only beyond 92.5% it counts"),
    ],
)
def test_a_good_score_that_looks_bad_has_a_word_why(score: float, why: str) -> None:
    usual = Usual({"typicality": TABLE}, 3 / 40)
    (found,) = _judge(usual, {"typicality": score})
    assert found.reason == f"a linear look at the data shows what training images show{why}"


@pytest.mark.parametrize("score", [nan, inf, -inf])
def test_a_score_that_is_no_number_is_bad(score: float) -> None:
    usual = Usual({"typicality": TABLE}, 3 / 40)
    (found,) = _judge(usual, {"typicality": score})
    assert found.judgement == "bad"
    assert "something that training images do not" in found.reason
    assert found.value == f"{score}, which is no score"


def test_a_table_too_short_for_its_limit_flags_what_lies_far_beyond() -> None:
    """Its least tail is above the threshold: by ranks alone no score would ever be flagged."""
    usual = Usual({"residual": TABLE}, 1 / 41)
    reach = TABLE[-1] - TABLE[len(TABLE) // 2]
    near, far = TABLE[-1] + 0.4 * reach, TABLE[-1] + 0.6 * reach
    assert [one.judgement for one in _judge(usual, {"residual": near})] == ["good"]
    assert [one.judgement for one in _judge(usual, {"residual": far})] == ["bad"]
    assert [one.judgement for one in _judge(usual, {"residual": nan})] == ["bad"]


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        (0.1, []),
        (0.15, []),
        (0.1501, ["doubtful"]),
        (0.0667, []),
        (0.0666, ["doubtful"]),
        (nan, ["bad"]),
        (inf, ["bad"]),
    ],
)
def test_noise_that_training_did_not_have(std: float, expected: list[Judgement]) -> None:
    assert [one.judgement for one in _judge_noise(0.1, std)] == expected
    # Of a range, the family judges.
    assert _judge_noise((0.01, 0.2), 0.1) == []


def test_a_red_card_names_a_noise_level_that_training_did_not_have() -> None:
    bad = Check("e", "1", "bad", "wrong")
    said = _sum_up([bad, *_judge_noise(0.1, 0.01)], "m", calibrated=True).summary
    assert said == (
        "Not a measurement that m was made for: wrong. "
        "Its noise is 0.01 instead of 0.1, in the model's units."
    )


GOOD, NONE = Check("a", "1", "good", "fine"), Check("b", "1", "none", "unknown")
DOUBT, WORSE = Check("c", "1", "doubtful", "odd"), Check("d", "1", "doubtful", "odder")
BAD, LAST = Check("e", "1", "bad", "wrong"), Check("f", "1", "bad", "worse")


@pytest.mark.parametrize(
    ("checks", "calibrated", "light", "summary"),
    [
        ([GOOD, NONE], True, "green", "Nothing speaks against this reconstruction."),
        (
            [GOOD],
            False,
            "amber",
            "The samples explain the data, but this model was never calibrated.",
        ),
        ([GOOD, DOUBT, WORSE], True, "amber", "Look twice: odd."),
        ([DOUBT], False, "amber", "Look twice: odd."),
        ([DOUBT, BAD, LAST], True, "red", "Not a measurement that m was made for: wrong."),
        ([LAST, BAD], False, "red", "Not a measurement that m was made for: worse."),
    ],
)
def test_the_light(checks: list[Check], calibrated: bool, light: str, summary: str) -> None:
    card = _sum_up(checks, "m", calibrated=calibrated)
    assert (card.light, card.summary, card.checks) == (light, summary, tuple(checks))


@pytest.fixture
def measurement(masked_model: Model, images: Tensor) -> Measurement:
    return Measurement.simulate(images[:2], masked_model.operator, 0.05, seed=1)


def test_the_truth_as_a_sample_explains_the_data(
    masked_model: Model, measurement: Measurement, images: Tensor
) -> None:
    """So that what is red below is so for its one fault."""
    cards = assess(masked_model, measurement, images[:2], images[None, :2])
    assert [card.checks[0].judgement for card in cards] == ["good", "good"]


@pytest.mark.parametrize(("scale_taken", "light"), [(False, "green"), (True, "red")])
def test_a_card_compares_with_scales_found_alike(
    masked_model: Model,
    measurement: Measurement,
    images: Tensor,
    scale_taken: bool,
    light: str,
) -> None:
    """Where the scale was taken from the data, with right measurements whose scale was, too."""
    calibration = Calibration.of(masked_model)
    assert calibration is not None
    easy, hard = (Usual({"residual": [at - 1.0, at, at + 1.0]}, 0.3) for at in (0.0, -9.0))
    told = replace(calibration, usual=easy, taken=hard).to_plain()
    model = replace(masked_model, facts=masked_model.facts | {"calibration": told})
    cards = assess(model, measurement, images[:2], images[None, :2], scale_taken=scale_taken)
    assert [card.light for card in cards] == [light, light]


def test_a_model_that_was_never_calibrated_is_amber(
    masked_model: Model, measurement: Measurement, images: Tensor
) -> None:
    facts = {name: fact for name, fact in masked_model.facts.items() if name != "calibration"}
    model = replace(masked_model, facts=facts)
    cards = assess(model, measurement, images[:2], images[None, :2])
    assert [card.light for card in cards] == ["amber", "amber"]
    assert all("was never calibrated" in card.summary for card in cards)


@pytest.mark.parametrize(
    ("pattern", "coils", "name", "excused"),
    [
        ("points", 4, "residual", True),
        ("points", 4, "held-out data", False),  # another check
        ("points", 1, "residual", False),  # one coil's noise is found otherwise
        ("columns", 4, "residual", False),  # full lines tell noise from signal
    ],
)
def test_noise_that_counts_signal_makes_a_small_residual_doubtful(
    pattern: str, coils: int, name: str, excused: bool
) -> None:
    size = (32, 32)
    lines = torch.arange(32) % 2 == 0
    points = torch.rand(size, generator=torch.Generator().manual_seed(0)) < 0.4
    mask = points if pattern == "points" else lines.expand(size)
    maps = torch.full((coils, *size), coils**-0.5, dtype=torch.complex64)
    image = torch.ones(1, 1, *size, dtype=torch.complex64)
    measurement = Measurement.simulate(image, Sense(maps, mask), 0.05, seed=1)
    found = _excuse(Check(name, "99 %", "bad", "as usual"), measurement)
    assert (found.judgement == "doubtful") == excused
    assert ("state the noise level" in found.reason) == excused


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("value", [nan, inf])
@pytest.mark.parametrize("part", ["samples", "preview"])
def test_numbers_that_are_none_are_red(
    masked_model: Model,
    measurement: Measurement,
    images: Tensor,
    part: str,
    value: float,
    calibrated: bool,
) -> None:
    """One pixel of one image is enough, in any of its samples; the other image is judged alone."""
    facts = dict(masked_model.facts)
    if not calibrated:
        del facts["calibration"]
    model, preview = replace(masked_model, facts=facts), images[:2].clone()
    samples = preview.expand(3, -1, -1, -1, -1).clone()
    before = assess(model, measurement, preview, samples)
    (samples[2] if part == "samples" else preview)[0, 0, 3, 4] = value
    first, second = assess(model, measurement, preview, samples)
    assert first.light == "red"
    assert "not finite" in first.summary
    assert second == before[1]


def test_a_posterior_of_nan_is_red(masked_model: Model, measurement: Measurement) -> None:
    nothing = torch.full((3, 2, 1, 16, 16), nan)
    cards = assess(masked_model, measurement, nothing[0], nothing)
    assert [card.light for card in cards] == ["red", "red"]
    bad = {check.name for check in cards[0].checks if check.judgement == "bad"}
    assert {"pixels", "chi-square of a sample", "residual", "reconstruction"} <= bad


def test_a_calibration_that_knows_no_grey_levels_says_so() -> None:
    """Not compared is not good; the light rests on what was."""
    earlier = Usual({"typicality": TABLE}, 3 / 40)
    (found,) = _name_missing(earlier)
    assert (found.name, found.judgement) == ("grey levels", "none")
    assert "another contrast may stay unnoticed" in found.reason
    assert _sum_up([found], "a model", calibrated=True).light == "green"
    assert not _name_missing(replace(earlier, tables={"grey levels": TABLE}))


def test_grey_levels_are_named_in_words() -> None:
    tables = {"grey levels": TABLE}
    usual = Usual(tables, 3 / 40)
    good, doubtful, bad = (_judge(usual, {"grey levels": score})[0] for score in (0.0, 40.0, 50.0))
    assert [one.judgement for one in (good, doubtful, bad)] == ["good", "doubtful", "bad"]
    assert good.reason == "grey levels inside the object are those of training images"
    assert "unlike those of training images: another contrast" in doubtful.reason
    assert bad.reason == doubtful.reason


def test_a_model_of_an_earlier_calibration_still_gets_a_card(
    masked_model: Model, images: Tensor
) -> None:
    calibration = Calibration.of(masked_model)
    assert calibration is not None
    plain = calibration.to_plain()
    del plain["discriminants"], plain["tables"]["grey levels"]
    earlier = replace(masked_model, facts=masked_model.facts | {"calibration": plain})
    measured = Measurement.simulate(images[:1], earlier.operator, 0.05, seed=1)
    for model, expected in ((earlier, "none"), (masked_model, None)):
        (card,) = assess(model, measured, images[:1], images[None, :1])
        (found,) = [check for check in card.checks if check.name == "grey levels"]
        assert (found.judgement == "none") == (expected == "none")
