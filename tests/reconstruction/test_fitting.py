"""The scale of data that nobody stated: by their noise where the image is then as usual."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint import load
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.regions import RegionFactors
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import BlockMean, FourierMask, PixelMask, Sense
from bcdm.reconstruction.features import judge_stored, parse_feature
from bcdm.reconstruction.files import Plan, RefusedError, reconstruct_scan
from bcdm.reconstruction.fitting import fit_scan
from bcdm.reconstruction.measuring import measure
from bcdm.reconstruction.posterior import reconstruct
from bcdm.reconstruction.simulation import simulate_scan
from bcdm.reconstruction.units import choose_units, take_scale
from bcdm.report.facts import describe_scan
from bcdm.scans import Scan
from bcdm.trust import UnfitError, find_unfamiliar

GAIN = 0.004  # of a scanner


@pytest.fixture
def measured(scanner: Path, images: torch.Tensor) -> Measurement:
    model = load(scanner)
    return Measurement.simulate(images[:1], model.operator, model.noise_std, seed=0)


def make_scan(measured: Measurement, scale: float) -> Scan:
    """As stored: black is zero, in units of its own."""
    black = torch.full((1, 1, 16, 16), -1.0)
    raw = scale * (measured.y - measured.operator.forward(black))
    assert isinstance(measured.operator, FourierMask)
    mask = measured.operator.mask.numpy() != 0
    data = raw.numpy()
    return Scan(Path("scan.npz"), "npz", "k-space", data, mask, None, (16, 16), {})


def store(scan: Scan, folder: Path) -> Scan:
    """As a file, of which a record has the hash."""
    path = folder / scan.path
    np.savez(path, data=scan.data)
    return replace(scan, path=path)


@pytest.mark.parametrize("scale", [GAIN, 1.0, 1e3])
def test_noise_tells_the_scale(scanner: Path, measured: Measurement, scale: float) -> None:
    fitted = fit_scan(make_scan(measured, scale), load(scanner), noise_std=0.05 * scale)
    assert fitted.units.gain == pytest.approx(1 / scale)
    torch.testing.assert_close(fitted.measure(0).y, measured.y, rtol=1e-4, atol=1e-4)


def test_an_image_that_would_be_too_dark_is_made_as_bright_as_usual(
    scanner: Path, measured: Measurement
) -> None:
    """Its noise is then another, and said to be."""
    model = load(scanner)
    fitted = fit_scan(make_scan(measured, GAIN), model, noise_std=20 * 0.05 * GAIN)
    back = fitted.operator.adjoint(torch.from_numpy(fitted.scan.data))
    calibration = Calibration.of(model)
    assert calibration is not None
    bright = fitted.units.gain * np.quantile(back.numpy(), 0.99) / 2
    assert bright == pytest.approx(calibration.brightness[1], rel=1e-3)
    assert float(fitted.measure(0).std) > 2 * model.noise_std


@pytest.mark.parametrize(
    ("bright", "source"),
    [(1.0, "by the noise level"), (0.05, "by the brightness that is typical")],
)
def test_a_scale_is_taken_as_from_a_file(
    scanner: Path, images: torch.Tensor, bright: float, source: str
) -> None:
    """What calibration and benchmark compare with is what a file of the same data becomes."""
    model = load(scanner)
    calibration = Calibration.of(model)
    assert calibration is not None
    shown = bright * (images + 1) - 1
    whole = Measurement.simulate(shown, model.operator, model.noise_std, seed=0)
    taken = take_scale(model, whole, calibration.brightness)
    for k in range(len(images)):
        one = whole.select(torch.tensor([k]))
        fitted = fit_scan(make_scan(one, GAIN), model, noise_std=GAIN * float(one.std[0]))
        assert (fitted.units.source, fitted.units.taken) == (source, True)
        torch.testing.assert_close(taken.y[k : k + 1], fitted.measure(0).y, rtol=1e-4, atol=1e-4)
        assert float(taken.std[k]) == pytest.approx(fitted.noise_std, rel=1e-5)


def test_a_scale_is_taken_of_coils(receivers: Path) -> None:
    """Complex images, black is zero: as bright as is typical, whatever the scale was."""
    model, typical = load(receivers), (0.2, 0.5, 0.8)
    magnitudes = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    ((_, whole),) = measure(model, magnitudes, 0, seed=0)
    louder = Measurement(7 * whole.y, whole.operator, 7 * whole.std)
    taken, same = (take_scale(model, one, typical) for one in (whole, louder))
    torch.testing.assert_close(taken.y, same.y)
    torch.testing.assert_close(taken.std, same.std)
    bright = taken.back_projection.abs().flatten(1).quantile(0.99, 1)
    assert bright.tolist() == pytest.approx([0.5, 0.5], rel=1e-3)


def test_a_scale_cannot_be_taken_from_nothing(scanner: Path) -> None:
    model = load(scanner)
    black = Measurement.simulate(torch.full((1, 1, 16, 16), -1.0), model.operator, 1e-9, seed=0)
    nothing = replace(black, y=model.operator.forward(torch.full((1, 1, 16, 16), -1.0)))
    with pytest.raises(UnfitError, match="nothing tells its scale"):
        take_scale(model, nothing, (0.2, 0.5, 0.8))


def make_image_scan(images: torch.Tensor, scale: float, format: str, stored: str) -> Scan:
    """Images of a model as a file holds them: black is zero, white the scale."""
    data = (scale * (images + 1) / 2).numpy()
    mask = np.ones((16, 16), bool)
    mask[6:10, 6:10] = False
    facts = {"stored type": stored} if stored else {}
    return Scan(Path("scan"), format, "image", data, mask, None, (16, 16), facts)


@pytest.mark.parametrize(
    ("format", "stored"), [("DICOM", ""), ("NIfTI", "uint16"), ("NIfTI", "uint8"),
                           ("npz", "float32"), ("TIFF", "float32"), ("npy", "int16")],
)  # fmt: skip
@pytest.mark.parametrize("scale", [1.0, 1499.0, 3e5])
def test_images_in_units_of_their_own_are_as_bright_as_usual(
    masked: Path, images: torch.Tensor, format: str, stored: str, scale: float
) -> None:
    model = load(masked)
    calibration = Calibration.of(model)
    assert calibration is not None
    scan = make_image_scan(images, scale, format, stored)
    known = torch.from_numpy(scan.mask)
    # A noise level that no gain makes that of the model in an image as bright as usual.
    fitted = fit_scan(scan, model, noise_std=scale)
    linear = [(fitted.measure(k).y + 1) * known for k in range(3)]
    bright = np.median([np.quantile(one.numpy(), 0.99) for one in linear]) / 2
    assert bright == pytest.approx(calibration.brightness[1], rel=1e-3)
    assert fitted.units.to_file(torch.tensor(-1.0)) == pytest.approx(0)
    # And with the noise of training, that tells.
    fitted = fit_scan(scan, model, noise_std=0.05 * scale / 2)
    assert fitted.units.gain == pytest.approx(2 / scale)


@pytest.mark.parametrize(
    ("format", "stored", "white"), [("TIFF", "uint16", 65535), ("TIFF", "uint8", 255)]
)
def test_pictures_keep_the_range_of_their_number_type(
    masked: Path, images: torch.Tensor, format: str, stored: str, white: float
) -> None:
    fitted = fit_scan(make_image_scan(images, 100, format, stored), load(masked), noise_std=3)
    assert fitted.units.gain == pytest.approx(2 / white)


def test_a_picture_is_as_bright_as_its_scene_whatever_the_scaling(
    coarse: Path, images: torch.Tensor
) -> None:
    """Coarse pictures hold plain means; the paper's operator divides sums by a root instead."""
    model = load(coarse)
    means = BlockMean((2, 2), "mean").forward(255 * (images + 1) / 2)
    facts = {"stored type": "uint8"}
    scan = Scan(Path("scan"), "PNG", "image", means.numpy(), None, None, (8, 8), facts)
    fitted = fit_scan(scan, model, noise_std=3)
    for number, image in enumerate(images):
        measured = fitted.measure(number)
        torch.testing.assert_close(measured.y, model.operator.forward(image[None]))
        assert measured.std.item() == pytest.approx(2 * 3 * 2 / 255)


def test_images_in_the_units_of_training_stay_in_them(masked: Path, images: torch.Tensor) -> None:
    fitted = fit_scan(make_image_scan(images, 255, "npz", "float32"), load(masked), noise_std=6)
    assert (fitted.units.gain, fitted.units.offset) == pytest.approx((2 / 255, -1))
    assert (fitted.units.source, fitted.units.taken) == ("those of the training data", False)


def test_images_far_below_zero_are_refused(masked: Path, images: torch.Tensor) -> None:
    scan = make_image_scan(images, 1000, "DICOM", "")
    scan.data[:] -= 2000
    with pytest.raises(UnfitError, match="black far below 0"):
        fit_scan(scan, load(masked), noise_std=20)
    scan.data[:] = 0
    with pytest.raises(UnfitError, match=r"shows no image$"):
        fit_scan(scan, load(masked), noise_std=20)


def test_clean_images_of_arbitrary_units_are_simulated_as_bright_as_usual(
    masked: Path, images: torch.Tensor
) -> None:
    model = load(masked)
    scan = make_image_scan(images, 1499, "DICOM", "")
    fitted, truth = simulate_scan(scan, model, seed=0)
    assert fitted.units == choose_units(scan, model, torch.from_numpy(scan.data))
    bright = float(np.median([np.quantile(one.numpy() + 1, 0.99) for one in truth])) / 2
    calibration = Calibration.of(model)
    assert calibration is not None
    assert bright == pytest.approx(calibration.brightness[1], rel=1e-3)
    assert float(fitted.measure(0).std) == pytest.approx(0.05)


def test_stated_noise_of_a_simulation_is_in_units_of_the_file(
    masked: Path, images: torch.Tensor
) -> None:
    scan = make_image_scan(images, 255, "TIFF", "uint8")
    fitted, _ = simulate_scan(scan, load(masked), seed=0, noise_std=20)
    assert fitted.noise.std == 20
    assert float(fitted.measure(0).std) == pytest.approx(20 / 127.5)
    rest = (fitted.scan.data - scan.data)[:, :, scan.mask]
    assert rest.std() == pytest.approx(20, rel=0.1)


def test_another_operator_than_the_one_of_training_is_refused(
    masked: Path, images: torch.Tensor
) -> None:
    model = load(masked)
    scan = make_image_scan(images, 255, "TIFF", "uint8")
    same = PixelMask(torch.from_numpy(scan.mask).clone())
    assert fit_scan(scan, model, noise_std=6, operator=same).operator is same
    other = scan.mask.copy()
    other[0, 0] = False
    changed = PixelMask(torch.from_numpy(other))
    with pytest.raises(UnfitError, match="made for one operator"):
        fit_scan(scan, model, noise_std=6, operator=changed)
    with pytest.raises(UnfitError, match="made for one operator"):
        simulate_scan(scan, model, seed=0, operator=changed)


@pytest.mark.parametrize(("factor", "doubts"), [(1.4, 0), (1 / 1.4, 0), (1.6, 1), (1 / 1.6, 1)])
def test_another_noise_level_than_the_one_of_training_is_doubtful(
    masked: Path, images: torch.Tensor, factor: float, doubts: int
) -> None:
    model = load(masked)
    measured = Measurement.simulate(images[:1], model.operator, factor * 0.05, seed=0)
    card = reconstruct(model, measured, samples=2, calls=2, progress=False).trust[0]
    found = [check.judgement for check in card.checks if check.name == "noise of training"]
    assert found == ["doubtful"] * doubts
    assert card.light != "green" or not doubts


def test_oversampling_that_k_space_keeps_is_cropped_in_the_end(
    scanner: Path, measured: Measurement, tmp_path: Path
) -> None:
    model = load(scanner)
    scan = replace(store(make_scan(measured, 1.0), tmp_path), size=(12, 10))
    fitted = fit_scan(scan, model, noise_std=0.05)
    assert fitted.scan.data.shape == (1, 1, 16, 16)
    plan = Plan(samples=9, calls=1, force=True)
    done = reconstruct_scan(model, fitted, tmp_path, plan, say=print)
    with np.load(tmp_path / "scan_results.npz") as file:
        whole = fitted.units.to_file(done.posteriors[0].mean)
        assert np.array_equal(file["mean"], whole[..., 2:14, 3:13])


def test_features_are_of_the_image_that_is_written(
    scanner: Path, measured: Measurement, tmp_path: Path
) -> None:
    """A box counts rows and columns of the cropped image."""
    model = load(scanner)
    calibration = Calibration.of(model)
    assert calibration is not None
    known = replace(calibration, regions=RegionFactors((4.0,), {0.8: [2.0]})).to_plain()
    model = replace(model, facts=model.facts | {"calibration": known})
    scan = replace(store(make_scan(measured, 1.0), tmp_path), size=(12, 10))
    fitted = fit_scan(scan, model, noise_std=0.05)
    box = parse_feature("4:6,4:6", 1, fitted.scan.size)
    plan = Plan(samples=9, calls=1, force=True)
    done = reconstruct_scan(model, fitted, tmp_path, plan, features=[box], say=print)
    region = torch.zeros(16, 16, dtype=torch.bool)
    region[6:8, 7:9] = True
    expected = done.posteriors[0].support(region).contrast / fitted.units.gain
    assert done.features[0]["contrast"] == pytest.approx(expected, rel=1e-5)
    stored = judge_stored(tmp_path, ["4:6,4:6"])
    assert stored[0]["contrast"] == pytest.approx(expected, rel=1e-5)
    # Later, too, the interval is as wide as the model's calibration asked for.
    assert stored[0]["interval factor"] == done.features[0]["interval factor"] == 2
    assert stored[0]["interval low"] == pytest.approx(done.features[0]["interval low"], rel=1e-4)
    with pytest.raises(InputError, match="leaves the image of"):
        judge_stored(tmp_path, ["11:13,0:4"])


def test_an_operator_of_another_kind_than_the_data(masked: Path, measured: Measurement) -> None:
    model = replace(load(masked), trained_operator=None)
    with pytest.raises(UnfitError, match="holds k-space, and PixelMask gives images"):
        fit_scan(make_scan(measured, 1.0), model, noise_std=1.0, operator=load(masked).operator)


def test_a_phase_is_named_and_what_to_do_about_it_helps(
    scanner: Path, measured: Measurement
) -> None:
    model = load(scanner)
    scan = make_scan(measured, GAIN)
    turned = replace(scan, data=(scan.data * np.exp(1.5707963j)).astype(np.complex64))
    words = r"scan.npz has a phase of (8|9)\d\.\d degrees.*multiply the k-space by exp\((.*)j\)"
    # With a stated noise level, too.
    for noise_std in (None, 0.05 * GAIN):
        with pytest.raises(UnfitError, match=words) as caught:
            fit_scan(turned, model, noise_std=noise_std)
    angle = float(str(caught.value).rpartition("exp(")[2].removesuffix("j)"))
    back = replace(scan, data=(turned.data * np.exp(1j * angle)).astype(np.complex64))
    assert fit_scan(back, model).noise.std == pytest.approx(fit_scan(scan, model).noise.std, 0.2)


def test_several_coils_have_no_model_yet(scanner: Path, measured: Measurement) -> None:
    scan = make_scan(measured, GAIN)
    coils = replace(scan, data=np.repeat(scan.data, 2, 1))
    with pytest.raises(UnfitError, match=r"2 coils.* choose a model of complex images"):
        fit_scan(coils, load(scanner))


def test_clean_images_that_are_cropped_have_no_place_in_space(
    masked: Path, images: torch.Tensor
) -> None:
    model = load(masked)
    cropped = replace(model, preparation=replace(model.preparation, crop=(0, 0, 16, 16)))
    with pytest.raises(InputError, match="crops images, and NIfTI could not say where"):
        simulate_scan(make_image_scan(images, 9, "NIfTI", "uint8"), cropped, seed=0)


def test_a_simulation_says_what_was_done_to_the_image(masked: Path, images: torch.Tensor) -> None:
    model = load(masked)
    small = make_image_scan(images, 255, "TIFF", "uint8")
    assert "changed" not in simulate_scan(small, model, seed=0)[0].scan.facts
    large = replace(small, data=np.kron(small.data, np.ones((2, 2), np.float32)))
    preparation = replace(model.preparation, size=(16, 16))
    fitted, _ = simulate_scan(large, replace(model, preparation=preparation), seed=0)
    said = "resized from 32 x 32 to 16 x 16 pixels, before it was measured"
    assert fitted.scan.facts["changed"] == said
    assert ("image", said) in describe_scan(fitted)
    cut = replace(preparation, crop=(2, 2, 24, 24))
    fitted, _ = simulate_scan(large, replace(model, preparation=cut), seed=0)
    assert fitted.scan.facts["changed"] == (
        "cut from 32 x 32 to 24 x 24 pixels; resized from 24 x 24 to 16 x 16 pixels, before it was "
        "measured"
    )


def test_a_mask_outside_the_family_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    model = load("ixi64-mri")
    rows = torch.arange(64)
    mask = ((rows % 30 == 2) | (abs(rows - 32) < 1))[:, None].expand(64, 64)
    brain = torch.zeros(1, 1, 64, 64)
    brain[..., 16:48, 16:48] = 1.0
    operator = FourierMask(mask, real=True)
    y = Measurement.simulate(brain, operator, 0.02, seed=0).y
    scan = Scan(Path("scan.npz"), "npz", "k-space", y.numpy(), mask.numpy(), None, (64, 64), {})
    fitted = fit_scan(scan, model, noise_std=0.02)
    assert "those of training" in find_unfamiliar(model, fitted.measure(0))[0]
    with pytest.raises(RefusedError, match="Nothing was drawn"):
        reconstruct_scan(model, fitted, tmp_path / "out", Plan(samples=9, calls=1), say=print)
    assert not (tmp_path / "out").exists()


def test_a_mask_beside_an_operator_is_refused(scanner: Path) -> None:
    """It would say something else, and be ignored."""
    pixels, mask = np.zeros((1, 1, 16, 16), np.float32), np.eye(16) == 0
    scan = Scan(Path("image.npz"), "npz", "image", pixels, mask, None, (16, 16), {})
    with pytest.raises(UnfitError, match="comes with a mask"):
        fit_scan(scan, load(scanner), noise_std=0.1, operator=BlockMean((2, 2)))
    with pytest.raises(UnfitError, match="takes for data what it hides"):
        fit_scan(scan, load(scanner), noise_std=0.1, operator=PixelMask(torch.ones(16, 16)))


def test_an_operator_may_be_given_for_complex_images() -> None:
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(1, 3, 96, 96)) + 1j * rng.normal(size=(1, 3, 96, 96))).astype("c8")
    mask = np.ones((96, 96), bool)
    scan = Scan(Path("scan.npz"), "npz", "k-space", data, mask, None, (96, 96), {})
    maps = torch.full((1, 3, 96, 96), 3**-0.5, dtype=torch.complex64)
    operator = Sense(maps, torch.from_numpy(mask))
    measured = fit_scan(scan, load("brain-mri"), noise_std=1.0, operator=operator).measure(0)
    assert measured.operator is operator
    assert measured.back_projection.shape == (1, 1, 96, 96)
