"""What samples say: intervals that hold what they promise, support for a feature, memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import Usual
from bcdm.errors import InputError, ShapeError
from bcdm.measurement import Measurement
from bcdm.operators import PixelMask
from bcdm.reconstruction import Posterior, reconstruct
from bcdm.trust import UnfitError


@pytest.fixture
def measurement(masked_model: Model, images: Tensor) -> Measurement:
    return Measurement.simulate(images[:2], masked_model.operator, 0.05, seed=1)


def test_five_lines(masked_model: Model, measurement, images, tmp_path) -> None:
    posterior = reconstruct(masked_model, measurement, samples=11, calls=3, progress=False)
    assert posterior.mean.shape == posterior.std.shape == (2, 1, 16, 16)
    assert posterior.quantiles([0.1, 0.5, 0.9]).shape == (3, 2, 1, 16, 16)
    # A network that was never trained keeps the noise of the data in its samples.
    assert [card.light for card in posterior.trust] == ["red", "red"]
    assert all("nearer to the data than" in card.summary for card in posterior.trust)
    torch.testing.assert_close(posterior.mean, posterior.samples.mean(0))
    assert not torch.allclose(posterior.mean, posterior.preview, atol=1e-3)
    posterior.save(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        np.testing.assert_array_equal(file["mean"], posterior.mean.numpy())
        np.testing.assert_array_equal(file["preview"], posterior.preview.numpy())
        np.testing.assert_array_equal(file["samples"], posterior.samples.numpy())
        assert file["level"] == 0.8
        low, high = posterior.interval(float(file["level"]))
        np.testing.assert_array_equal(file["low"], low.numpy())
        np.testing.assert_array_equal(file["high"], high.numpy())
    posterior.report(tmp_path / "report.html", truth=images[:2])
    assert "imulated" in (tmp_path / "report.html").read_text()


def test_a_single_sample_is_saved_without_what_needs_two(
    masked_model: Model, measurement, tmp_path
) -> None:
    posterior = reconstruct(masked_model, measurement, samples=1, calls=3, progress=False)
    posterior.save(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as file:
        assert set(file) == {"mean", "samples", "preview"}


@pytest.fixture
def three(masked_model: Model, images: Tensor) -> Measurement:
    return Measurement.simulate(images, masked_model.operator, 0.05, seed=1)


@pytest.mark.parametrize("rows", [[0], [1], [2], [2, 0], [1, 2, 0]])
@pytest.mark.parametrize(("samples", "batch"), [(4, 16), (2, 16), (4, 3)])
def test_a_sample_is_the_same_in_any_batch(
    masked_model: Model, three: Measurement, rows: list[int], samples: int, batch: int
) -> None:
    """Whatever stands beside it, in any order, and however many samples are drawn."""
    whole = reconstruct(masked_model, three, samples=4, calls=3, progress=False)
    part = three.select(torch.tensor(rows))
    drawn = reconstruct(masked_model, part, samples=samples, calls=3, batch=batch, progress=False)
    expected = whole.samples[:samples, rows]
    torch.testing.assert_close(drawn.samples, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(drawn.preview, whole.preview[rows], rtol=1e-5, atol=1e-5)


def test_noise_is_that_of_the_item(masked_model: Model, three: Measurement) -> None:
    """Names fix the noise; measurements of other content share none of it."""
    first = three.select(torch.tensor([0, 0]))

    def draw(names: list[str] | None, seed: int = 0) -> Tensor:
        return reconstruct(
            masked_model, first, samples=2, calls=3, seed=seed, items=names, progress=False
        ).samples

    same, named = draw(None), draw(["a", "b"])
    torch.testing.assert_close(same[:, 0], same[:, 1])
    assert float((named[:, 0] - named[:, 1]).abs().max()) > 0.01
    torch.testing.assert_close(draw(["b", "a"]), named.flip(1), rtol=1e-5, atol=1e-5)
    assert float((draw(["a", "b"], 1) - named).abs().amax((1, 2, 3, 4)).min()) > 0.01
    with pytest.raises(ShapeError, match="3 names of items for 2 measurements"):
        draw(["a", "b", "c"])


def test_deviations_of_two_measurements_are_independent(masked_model: Model, three) -> None:
    """Each alone, as files of an archive are: what is pooled over them must not be the same."""
    parts = [three.select(torch.tensor([row])) for row in (0, 1)]
    drawn = [reconstruct(masked_model, one, samples=8, calls=3, progress=False) for one in parts]
    away = torch.stack([((d.samples - d.samples.mean(0)) / d.std).flatten() for d in drawn])
    # 8 samples x 256 pixels, of which noise and a smooth network leave a few hundred to count.
    assert abs(float(torch.corrcoef(away)[0, 1])) < 0.15


@pytest.mark.parametrize(("count", "level"), [(16, 0.8), (11, 0.8), (19, 0.9), (40, 0.5)])
def test_intervals_hold_what_they_promise(masked_model, measurement, count, level) -> None:
    """Truth and samples exchangeable: 20,000 pixels, within four standard errors."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(count + 1, 1, 1, 100, 200, generator=generator)
    posterior = Posterior(masked_model, measurement, drawn[0], drawn[1:])
    low, high = posterior.interval(level, calibrated=False)
    held = float(((drawn[0] >= low) & (drawn[0] <= high)).double().mean())
    # Between order statistics the interpolation is exact for uniform spacings only.
    assert abs(held - level) < 4 * (level * (1 - level) / 20_000) ** 0.5 + 0.004


def test_another_operator_than_that_of_training_is_red(masked_model, images) -> None:
    mask = torch.ones(16, 16)
    mask[6:10, 6:12] = 0  # two columns more than the model knows
    other = Measurement.simulate(images[:2], PixelMask(mask), 0.05, seed=1)
    with pytest.raises(UnfitError, match="made for one operator"):
        reconstruct(masked_model, other, samples=2, calls=2, progress=False)
    posterior = reconstruct(masked_model, other, samples=2, calls=2, progress=False, force=True)
    assert [card.light for card in posterior.trust] == ["red", "red"]
    assert all("made for one operator" in card.summary for card in posterior.trust)


def test_intervals_are_scaled_as_the_calibration_asks(masked_model, measurement) -> None:
    calibration = Calibration({}, Usual(), {0.5: 1.2, 0.8: 2.0}, (0.0, 0.5, 1.0), "faces")
    facts = masked_model.facts | {"calibration": calibration.to_plain()}
    model = replace(masked_model, facts=facts)
    drawn = torch.randn(20, 1, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    posterior = Posterior(model, measurement, drawn[0], drawn)
    # The nearest level where none is as small or large, and between two of them a value between.
    for level, factor in [(0.3, 1.2), (0.5, 1.2), (0.65, 1.6), (0.8, 2.0), (0.9, 2.0)]:
        low, high = posterior.interval(level)
        plain_low, plain_high = posterior.interval(level, calibrated=False)
        torch.testing.assert_close(low + high, plain_low + plain_high)
        torch.testing.assert_close(high - low, factor * (plain_high - plain_low))


def test_an_interval_that_few_samples_cannot_tell_is_refused(masked_model, measurement) -> None:
    drawn = torch.randn(10, 1, 1, 4, 4)
    posterior = Posterior(masked_model, measurement, drawn[0], drawn)
    with pytest.raises(InputError, match="82%, not 90%: draw more"):
        posterior.interval(0.9)


def test_is_this_feature_real(masked_model: Model, measurement) -> None:
    drawn = 0.1 * torch.randn(20, 1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    drawn[:15, ..., 6:9, 6:9] += 1.0
    drawn[15:, ..., 6:9, 6:9] -= 0.5
    posterior = Posterior(masked_model, measurement, drawn.mean(0), drawn)
    region = torch.zeros(16, 16, dtype=torch.bool)
    region[6:9, 6:9] = True
    support = posterior.support(region)
    assert support.fraction == 0.75
    # As masks are stored: 255 where it is.
    assert posterior.support(255 * region.to(torch.uint8)) == support
    assert support.low < 0 < support.contrast < support.high
    # Wilson's interval for 15 of 20, from tables.
    assert support.fraction_interval == pytest.approx((0.531, 0.888), abs=1e-3)
    with pytest.raises(ShapeError, match="16, 16"):
        posterior.support(torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="surrounds"):
        posterior.support(torch.ones(16, 16, dtype=torch.bool))


@pytest.mark.parametrize(
    ("ending", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_a_figure_for_a_paper(masked_model, measurement, images, tmp_path, ending, start) -> None:
    posterior = reconstruct(masked_model, measurement, samples=3, calls=2, progress=False)
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    for path in (first, second):
        posterior.figure(path, number=1, truth=images[:2])
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [first.name, second.name]
    if ending == "svg":
        text = first.read_text()
        names = ("reference", "posterior mean", "sample 2", "standard deviation", "error of")
        assert all(name in text for name in names)
        posterior.figure(first, samples=1)
        assert "reference" not in first.read_text()
    for wrong, said in (({"number": 2}, "no image 2"), ({"samples": 4}, "there are 3")):
        with pytest.raises(InputError, match=said):
            posterior.figure(first, **wrong)
    with pytest.raises(InputError, match="a figure is one of"):
        posterior.figure(tmp_path / "a.jpg")


def test_what_is_not_there_is_one_line(masked_model: Model, measurement, images, tmp_path) -> None:
    one = reconstruct(masked_model, measurement, samples=1, calls=1, progress=False)
    with pytest.raises(InputError, match="needs 2 samples or more"):
        _ = one.std_error
    with pytest.raises(InputError, match="there is no image 9"):
        one.support(torch.ones(16, 16, dtype=torch.bool), number=9)
    with pytest.raises(InputError, match="truth has shape"):
        one.report(tmp_path / "report.html", truth=images[:1, :, :8])
