"""What a calibration is fitted on."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
import torch

from bcdm.checkpoint import Model, load
from bcdm.checkpoint.building import build_method
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.checkpoint.usual import Usual
from bcdm.data import Preparation
from bcdm.errors import ModelError
from bcdm.operators import BlockMean, FourierMask, PixelMask
from bcdm.reconstruction.calibrating import (
    _choose_threshold,
    _compare,
    _fit_usual,
    _tabulate,
    _vary,
    calibrate,
    fit_regions,
)
from bcdm.reconstruction.measuring import measure, simulate


def test_tables_are_sorted_and_hold_what_could_be_scored() -> None:
    rows = [{"residual": 3.0, "typicality": 1.0}, {"residual": -1.0}, {"residual": 2.0}]
    assert _tabulate(rows) == {"residual": [-1.0, 2.0, 3.0], "typicality": [1.0]}


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_model_whose_scores_are_no_numbers_is_not_calibrated(value: float) -> None:
    """Among numbers that are none nothing has a rank."""
    with pytest.raises(ModelError, match=r"right measurements are not finite: residual$"):
        _tabulate([{"residual": 1.0, "typicality": 1.0}, {"residual": value}])


def make_family(*members: dict[str, object], nothing: float = 0.0) -> Model:
    """Untrained: only what it measures with counts here."""
    config = parse_config(
        {
            "name": "family",
            "data": {"path": "nothing", "size": [16, 16], "channels": 1},
            "operator": {"kind": "family", "members": list(members), "nothing": nothing},
            "noise_std": [0.01, 0.1],
            "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "training": {"steps": 1},
        }
    )
    shape = (1, 16, 16)
    return Model(build_method(config, shape), config, None, Preparation((16, 16), 1), shape, {})


K_SPACE: dict[str, object] = {"kind": "k_space", "acceleration": [2.0, 3.0]}
HOLES: dict[str, object] = {"kind": "holes", "hidden": [0.1, 0.3]}
BLOCKS: dict[str, object] = {"kind": "blocks", "factors": [2, 4]}


def test_every_image_of_a_batch_is_measured_as_it_would_be_alone() -> None:
    model, images = make_family(K_SPACE), torch.zeros(20, 1, 16, 16)
    batches = list(measure(model, images, 7, seed=3))
    assert [rows for rows, _ in batches] == [list(range(16)), list(range(16, 20))]
    together = torch.cat([measurement.y for _, measurement in batches])
    for k in (0, 5, 19):
        alone = simulate(model, images[k : k + 1], [7 + k], seed=3)
        assert isinstance(alone.operator, FourierMask)
        assert torch.equal(alone.y, together[k : k + 1])


def test_batches_are_split_by_kind_of_operator() -> None:
    model, images = make_family(HOLES, BLOCKS), torch.zeros(16, 1, 16, 16)
    batches = list(measure(model, images, 0, seed=3))
    kinds = {type(measurement.operator) for _, measurement in batches}
    assert kinds == {PixelMask, BlockMean}
    assert sorted(k for rows, _ in batches for k in rows) == list(range(16))
    assert all(len(measurement.std) == len(rows) for rows, measurement in batches)


def test_nothing_is_calibrated_where_nothing_is_measured() -> None:
    """Training may leave all out in a part of the draws; a score of that would be no number."""
    model, images = make_family(K_SPACE, nothing=0.9), torch.zeros(16, 1, 16, 16)
    ((_, measurement),) = measure(model, images, 0, seed=3)
    mask = measurement.data_mask
    assert mask is not None
    assert bool(mask.flatten(1).any(1).all())


RECEIVERS: dict[str, object] = {
    "kind": "receivers",
    "coils": [1, 3],
    "masks": {"kind": "k_space", "acceleration": [1.5, 2.0], "patterns": ["poisson"]},
}


def make_complex() -> Model:
    """Untrained: its estimates are linear."""
    config = parse_config(
        {
            "name": "coils",
            "data": {
                "path": "nothing",
                "size": [16, 16],
                "channels": 1,
                "value_range": [0.0, 1.0],
                "phase": True,
            },
            "operator": {"kind": "family", "members": [RECEIVERS]},
            "noise_std": [0.01, 0.03],
            "network": {"width": 4, "multipliers": [1, 1], "blocks": 1, "attention": []},
            "parameterisation": {"prior_std": 0.3},
            "training": {"steps": 1},
        }
    )
    shape, preparation = (1, 16, 16), Preparation((16, 16), 1, (0.0, 1.0))
    return Model(build_method(config, shape), config, None, preparation, shape, {})


def test_magnitudes_are_measured_with_a_phase_of_their_number() -> None:
    model, images = make_complex(), torch.rand(3, 1, 16, 16)
    ((_, measurement),) = measure(model, images, 4, seed=1)
    alone = simulate(model, images[1:2], [5], seed=1)
    found, single = (one.estimate_linearly(0.3) for one in (measurement, alone))
    torch.testing.assert_close(found[1:2], single, rtol=0, atol=1e-4)
    # Most is measured: the magnitude is what it was, the phase is not zero.
    assert float((found.abs() - images).square().mean().sqrt()) < 0.2
    assert float(found.angle().abs().mean()) > 0.3
    kept = torch.polar(images, torch.full_like(images, 0.5))
    ((_, measured),) = measure(model, kept, 4, seed=1)
    assert float((measured.estimate_linearly(0.3) - kept).abs().square().mean().sqrt()) < 0.25


@pytest.mark.parametrize("stored", ["magnitudes", "complex"])
def test_a_model_of_complex_images_is_calibrated(stored: str) -> None:
    """Intervals of magnitudes, fitted alike whether the phase was drawn or stored."""
    rng = torch.Generator().manual_seed(0)
    row = torch.arange(16.0)
    inside = (torch.hypot(row[:, None] - 8, row - 8) < 6).float()
    images = inside * (0.3 + 0.6 * torch.rand(44, 1, 16, 16, generator=rng))
    if stored == "complex":
        images = torch.polar(images, 0.1 * row.expand_as(images))
    model = make_complex()
    found = calibrate(model, images, samples=10, calls=6, intervals=4, on="discs", report=str)
    assert {0.5, 0.8} <= found.factors.keys()
    assert all(0.3 < factor < 4 for factor in found.factors.values())
    assert found.local is not None
    assert {"residual", "held-out data", "typicality", "grey levels"} <= found.usual.tables.keys()
    # Contrasts of regions alone: of the same images and samples they are the same.
    assert found.regions is not None
    assert found.regions == fit_regions(
        model, images[22:], samples=10, calls=6, intervals=4, report=str
    )
    if stored == "complex":
        return
    # What is typical may be kept: then every image is compared with, here twice.
    again = calibrate(
        model, images[:22], calls=1, known=found, factors=found.factors, times=2, on="", report=str
    )
    assert again.looks is found.looks
    # Noise is not seen in every one.
    counts = {name: len(table) for name, table in again.usual.tables.items()}
    assert counts.pop("noise level") <= 44
    assert set(counts.values()) == {44}
    assert again.usual.shares == {"grey levels": 4.0}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_contrasts_vary_as_in_training(share: float) -> None:
    model = make_complex()
    data = model.config.data.model_copy(update={"contrast": share})
    several = replace(model, config=model.config.model_copy(update={"data": data}))
    row = torch.arange(16.0)
    images = torch.hypot(row[:, None] - 8, row - 8).expand(40, 1, 16, 16) / 12
    changed = (_vary(several, images, 0) != images).flatten(1).any(1).double().mean()
    assert float(changed) == pytest.approx(share, abs=0.2 * (0 < share < 1))


def test_a_model_of_several_contrasts_does_not_tell_which_are_others() -> None:
    model = make_complex()
    data = model.config.data.model_copy(update={"contrast": 0.5})
    several = replace(model, config=model.config.model_copy(update={"data": data}))
    rng = torch.Generator().manual_seed(0)
    images = 0.3 + 0.6 * torch.rand(44, 1, 16, 16, generator=rng)
    factors = {0.8: 1.0}
    found = calibrate(several, images, calls=1, factors=factors, on="noise", report=str)
    assert "grey levels" not in found.looks
    assert "grey levels" not in found.usual.tables
    assert {"residual", "reconstruction"} <= found.usual.tables.keys()


@pytest.mark.parametrize(
    ("fixture", "known"), [("scanner", True), ("receivers", True), ("masked", False)]
)
def test_k_space_is_calibrated_with_its_scale_taken_as_well(
    request: pytest.FixtureRequest, fixture: str, known: bool
) -> None:
    """Pictures state theirs."""
    calibration = Calibration.of(load(request.getfixturevalue(fixture)))
    assert calibration is not None
    stated, taken = calibration.usual, calibration.taken
    assert (taken is not None) == known
    if taken is None:
        return
    assert taken.tables.keys() == stated.tables.keys()
    assert len(taken.tables["residual"]) == len(stated.tables["residual"])
    assert taken.shares == stated.shares
    assert taken.threshold > 0
    # One noise level: most scales are found as they were, and a sample is the same then.
    assert taken.tables != stated.tables


def test_scales_that_are_taken_have_a_threshold_of_their_own() -> None:
    """Only of those images whose measurement is k-space, each with its own subject."""
    rng = np.random.default_rng(2)
    same = {"noise_std": 0.1, "share": 0.5}
    scored = {
        number: {"typicality": float(rng.standard_normal())} | same for number in range(0, 120, 2)
    }
    subjects = [f"head {k // 10}" for k in range(120)]
    found = _fit_usual(scored, subjects)
    rows = [scored[number] for number in sorted(scored)]
    expected = _choose_threshold(found, rows, subjects[::2])
    assert found.threshold == expected
    assert found.tables["typicality"] == sorted(row["typicality"] for row in rows)


def test_the_threshold_is_for_new_subjects() -> None:
    """Slices of one head are alike: ranks among one's own slices promise too much."""
    rng = np.random.default_rng(0)

    def draw(heads: int) -> list[dict[str, float]]:
        offsets = np.repeat(2 * rng.standard_normal((heads, 4)), 10, 0)
        scores = offsets + rng.standard_normal(offsets.shape)
        names = ("held-out data", "typicality", "bright spots", "grey levels")
        same = {"noise_std": 0.1, "share": 0.5}
        return [dict(zip(names, row.tolist(), strict=True)) | same for row in scores]

    start = Usual()
    rows, new = draw(24), draw(60)
    subjects = [f"head {k // 10}" for k in range(len(rows))]
    fitted = _compare(start, rows)
    assert not fitted.trends
    least = np.array([min(fitted.find_tails(fitted.place(row)).values()) for row in new])
    known, unknown = (_choose_threshold(start, rows, given) for given in (subjects, None))
    assert known < unknown
    # Of one subject alone nothing is known of others: items are left out in turn.
    assert _choose_threshold(start, rows, ["head"] * len(rows)) == unknown
    assert float(np.mean(least < known)) < 0.06 < 0.075 < float(np.mean(least < unknown))


def test_scores_that_follow_mask_and_noise_are_compared_with_what_is_usual_there() -> None:
    rng = np.random.default_rng(1)
    rows = [
        {"residual": 3 * np.log(std) + 0.1 * float(rng.standard_normal())}
        | {"noise_std": std, "share": 0.5}
        for std in np.exp(rng.uniform(-3, 0, 200)).tolist()
    ]
    fitted = _compare(Usual(), rows)
    assert list(fitted.trends) == ["residual"]
    for std in (0.1, 0.5):
        usual = 3 * float(np.log(std))
        for away, odd in ((0.0, False), (1.0, True), (-1.0, True)):
            row = {"residual": usual + away, "noise_std": std, "share": 0.5}
            assert (fitted.find_tails(fitted.place(row))["residual"] < 0.01) == odd
