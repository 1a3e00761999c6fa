"""A stored cloud gives the verdicts of the one that was drawn, and is not used for others."""

from dataclasses import replace

import pytest
import torch

from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.problems import Cloud, DrawnProblems, Familiarity
from bcdm.problems.families import Blocks, Holes

SIZE = (16, 16)
PROBLEMS = DrawnProblems((Holes(),), SIZE, (0.01, 0.1), 0)
DRAWN = Familiarity(PROBLEMS, 0.2, draws=60)


@pytest.fixture(scope="module")
def stored() -> Cloud:
    return Cloud.from_tensors(DRAWN.cloud.to_tensors())


def test_verdicts_of_a_stored_cloud_are_the_same(
    stored: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, std = PROBLEMS.draw(range(6))
    foreign, _ = DrawnProblems((Blocks((2, 4)),), SIZE, (0.01, 0.1), 0).draw(range(6))
    measured = [Measurement(torch.zeros(6, 1, *SIZE), one, std) for one in (own, foreign)]
    expected = [DRAWN.judge(one) for one in measured]

    def refuse(self: Familiarity) -> Cloud:
        raise AssertionError("it is stored: nothing is drawn")

    monkeypatch.setattr(Familiarity, "draw_cloud", refuse)
    kept = replace(DRAWN, stored=stored)
    assert [kept.judge(one) for one in measured] == expected


@pytest.mark.parametrize(
    "other",
    [
        replace(DRAWN, problems=replace(PROBLEMS, families=(Blocks((2, 4)),))),
        replace(DRAWN, problems=replace(PROBLEMS, seed=1)),
        replace(DRAWN, problems=replace(PROBLEMS, size=(24, 24))),
        replace(DRAWN, prior_std=2.0),
        replace(DRAWN, draws=50),
    ],
    ids=["family", "seed", "size", "prior", "draws"],
)
def test_a_cloud_of_other_problems_is_drawn_anew(stored: Cloud, other: Familiarity) -> None:
    assert replace(other, stored=stored).cloud is not stored
    assert replace(DRAWN, stored=stored).cloud is stored


@pytest.mark.parametrize(
    ("places", "parts", "threshold"),
    [((2, 15), (2,), 1.0), ((9,), (9,), 1.0), ((9, 15), (8,), 1.0), ((9, 15), (9,), 0.0)],
)
def test_what_is_no_cloud(
    places: tuple[int, ...], parts: tuple[int, ...], threshold: float
) -> None:
    with pytest.raises(InputError, match="make a cloud"):
        Cloud(torch.ones(places), torch.ones(parts), threshold)
