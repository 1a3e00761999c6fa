"""Contrasts of regions: intervals that hold where errors of neighbouring pixels are alike."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.regions import RegionFactors
from bcdm.checkpoint.usual import Usual
from bcdm.measurement import Measurement
from bcdm.reconstruction import Posterior
from bcdm.reconstruction.features import Feature, measure_contrast, weigh
from bcdm.reconstruction.regions import RegionFit, draw_disc
from bcdm.reconstruction.widths import fit_widths

SIZE = 32
LEVEL = 0.8


def make_posteriors(model: Model, count: int, seed: int) -> Iterator[tuple[Posterior, Tensor]]:
    """Samples of white noise around a grey image, and truths whose noise is smooth in part.

    Single pixels of truth and samples vary alike; means of regions of the truth vary more.
    """
    generator = torch.Generator().manual_seed(seed)
    grey = torch.zeros(1, 1, SIZE, SIZE)
    nothing = Measurement(torch.zeros(1, *model.shape), model.operator, 1.0)
    for _ in range(count):
        drawn = grey + 0.1 * torch.randn(19, *grey.shape, generator=generator)
        white = torch.randn(grey.shape, generator=generator)
        rough = pad(torch.randn(grey.shape, generator=generator), [1] * 4, mode="circular")
        smooth = 3 * avg_pool2d(rough, 3, 1)
        yield Posterior(model, nothing, grey, drawn), grey + 0.1 * (white + smooth) / 2**0.5


def calibrate(model: Model, *, regions: bool) -> Model:
    contrasts = RegionFit((0.5, LEVEL), seed=0)
    factors, local = fit_widths(contrasts.watch(make_posteriors(model, 60, seed=0)), (0.5, LEVEL))
    found = contrasts.fit() if regions else None
    kept = Calibration({}, Usual(), factors, (0.0, 0.5, 1.0), "noise", local, found)
    return replace(model, facts=model.facts | {"calibration": kept.to_plain()})


def find_coverage(model: Model, radius: float) -> float:
    """Of the contrasts of fresh discs: far from each other, so that they count each."""
    held = []
    for posterior, truth in make_posteriors(model, 60, seed=1):
        for row in (5, 16, 27):
            for column in (5, 16, 27):
                region = draw_disc((SIZE, SIZE), (row, column), radius)
                low, high = posterior.support(region).interval or (0, 0)
                held.append(low <= float(measure_contrast(truth, region)) <= high)
    return sum(held) / len(held)


def test_contrasts_of_regions_hold_what_they_promise(masked_model: Model) -> None:
    """Of 540 regions: two standard errors are 3.5 points, and the fit has some of its own."""
    plain, wide = (calibrate(masked_model, regions=known) for known in (False, True))
    # Right for every pixel, and too sure of every region.
    assert find_coverage(plain, 2.0) < LEVEL - 0.1
    assert find_coverage(wide, 2.0) == pytest.approx(LEVEL, abs=0.05)


def test_factors_are_interpolated_by_size_and_level() -> None:
    factors = RegionFactors((4.0, 16.0), {0.5: [1.0, 2.0], 0.9: [2.0, 4.0]})
    assert factors.find(0.5, 8) == pytest.approx(1.5)
    assert factors.find(0.7, 4) == pytest.approx(1.5)
    assert factors.find(0.9, 1) == 2
    assert factors.find(0.99, 900) == 4
    assert RegionFactors.from_plain(factors.to_plain()) == factors


def test_a_calibration_keeps_them(masked_model: Model) -> None:
    model = calibrate(masked_model, regions=True)
    found = Calibration.of(model)
    assert found is not None
    assert found.regions is not None
    assert [round(size) for size in found.regions.sizes][:2] == [5, 13]
    assert Calibration._from_plain(found.to_plain()).regions == found.regions
    older = {k: v for k, v in found.to_plain().items() if k != "regions"}
    assert Calibration._from_plain(older).regions is None


def test_words_say_how_an_interval_is_known() -> None:
    region = draw_disc((16, 16), (8, 8), 2.0)
    samples = torch.zeros(9, 1, 16, 16)
    samples[..., region] = torch.linspace(0.9, 1.1, 9)[:, None, None]
    feature = Feature("8,8", 0, region)

    def ask(images: Tensor, factors: RegionFactors | None) -> str:
        return str(weigh([feature], [images], 2.0, factors)[0]["in words"])

    wide = RegionFactors((13.0,), {0.8: [3.0]})
    # 9 samples and the truth: the 80 % interval is their range, .45 to .55 in the file's units.
    assert "80% interval 0.45 to 0.55 by the samples alone, which are often" in ask(samples, None)
    assert "80% interval 0.35 to 0.65, 3 times that of the samples" in ask(samples, wide)
    assert "in 90 % of the samples" in ask(samples[:5], wide)


def test_images_too_small_for_regions_have_no_factors(masked_model: Model) -> None:
    fit = RegionFit((LEVEL,), seed=0)
    tiny = torch.zeros(1, 1, 4, 4)
    nothing = Measurement(torch.zeros(1, *masked_model.shape), masked_model.operator, 1.0)
    posterior = Posterior(masked_model, nothing, tiny, torch.randn(9, 1, 1, 4, 4))
    assert len(list(fit.watch([(posterior, tiny)] * 3))) == 3
    assert fit.fit() is None
    assert RegionFit((), seed=0).fit() is None
