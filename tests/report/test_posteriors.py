"""A report holds what the posterior holds, and nothing is computed by a network for it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.measurement import Measurement
from bcdm.reconstruction import reconstruct
from bcdm.report import posteriors
from bcdm.report.content import Gap, Slice
from bcdm.report.html import write_report
from bcdm.report.posteriors import make_report


@pytest.fixture
def measurement(masked_model: Model, images: Tensor) -> Measurement:
    return Measurement.simulate(images[:2], masked_model.operator, 0.05, seed=1)


def test_the_report_shows_what_was_drawn_and_runs_no_network(
    masked_model: Model, measurement, images, tmp_path, monkeypatch
) -> None:
    posterior = reconstruct(masked_model, measurement, samples=11, calls=3, progress=False)
    assert len(posterior.trust) == 2  # judging holds data out, which needs a network call

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the report asked the network")

    monkeypatch.setattr(masked_model.method.network, "forward", fail)
    posterior.report(tmp_path / "report.html", truth=images[:2])
    assert (tmp_path / "report.html").exists()


def test_the_report_compares_averages_with_the_truth(masked_model, measurement, images) -> None:
    posterior = reconstruct(masked_model, measurement, samples=11, calls=3, progress=False)
    report = make_report(posterior.split(), posterior.trust, truth=images[:2], left_out=[1])
    first, second = report.images
    assert [first.left_out, second.left_out] == [False, True]
    assert [first.trust, second.trust] == posterior.trust
    np.testing.assert_allclose(first.mean, posterior.samples[:, 0].mean(0)[0], atol=1e-6)
    low, high = posterior.interval(0.8)
    np.testing.assert_array_equal(second.interval.low, low[1, 0])
    np.testing.assert_array_equal(second.interval.high, high[1, 0])
    rows = {name: (near, alike) for name, near, alike in second.quality.rows}
    error = (posterior.samples[:, 1].mean(0) - images[1]).square().mean()
    assert rows["Posterior mean"][0] == pytest.approx(float(10 * (4 / error).log10()), abs=1e-3)
    assert "-1 to 1 in its units" in second.quality.convention
    assert "Wang" in second.quality.convention


def test_a_slice_of_nan_is_a_gap_in_the_report(masked_model, measurement, tmp_path) -> None:
    posterior = reconstruct(masked_model, measurement, samples=3, calls=3, progress=False)
    posterior.samples[1, 1, 0, 3, 3] = torch.nan
    report = make_report(posterior.split(), posterior.trust, size=(12, 10))
    # Rows and columns count from where those of the files of images do.
    assert report.slices[0].mean.shape == report.slices[0].std.shape == (12, 10)
    whole = make_report(posterior.split(), posterior.trust)
    np.testing.assert_array_equal(report.slices[0].mean, whole.slices[0].mean[2:14, 3:13])
    report = whole
    assert [type(one) for one in report.slices] == [Slice, Gap]
    posterior.samples[:] = torch.nan
    posterior.report(tmp_path / "report.html")
    assert "its numbers are not finite" in (tmp_path / "report.html").read_text()


def test_of_a_large_volume_some_slices_are_shown_and_all_are_judged(
    masked_model: Model, measurement, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(posteriors, "_ROOM", 3 * 16 * 16)
    posterior = reconstruct(masked_model, measurement, samples=3, calls=2, progress=False)
    slices, cards = 4 * posterior.split(), 4 * posterior.trust
    report = make_report(slices, cards, left_out=[1])
    shown = [number for number, one in enumerate(report.slices) if isinstance(one, Slice)]
    assert shown == [0, 4, 7]
    assert [one.trust for one in report.slices] == cards
    assert [one.left_out for one in report.slices] == [False, True, *[False] * 6]
    write_report(tmp_path / "report.html", report)
    page = (tmp_path / "report.html").read_text()
    assert page.count("this page shows 3 of 8 slices; the files of images hold the others") == 5
