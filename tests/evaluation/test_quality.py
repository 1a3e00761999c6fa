"""PSNR, NRMSE and SSIM against scikit-image and closed forms."""

import math

import numpy
import pytest
import torch
from skimage import metrics
from torch import Tensor

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.evaluation import SSIMConvention, describe_ssim, nrmse, psnr, ssim

CONVENTIONS: list[SSIMConvention] = ["skimage", "wang"]


def pair(dtype: torch.dtype, channels: int = 3, offset: float = 0.0) -> tuple[Tensor, Tensor]:
    """A smooth picture with noise of a different level in each image, (4, C, 33, 40)."""
    generator = torch.Generator().manual_seed(1)
    rows, columns = torch.linspace(0, 3, 33)[:, None], torch.linspace(0, 5, 40)
    phase = torch.arange(4.0 * channels).view(4, channels, 1, 1)
    reference = 0.5 + 0.4 * torch.sin(rows * 2 + phase) * torch.cos(columns + phase)
    level = torch.tensor([0.0, 0.02, 0.1, 0.4]).view(4, 1, 1, 1)
    noise = torch.randn(reference.shape, generator=generator)
    return (reference + level * noise + offset).to(dtype), (reference + offset).to(dtype)


def reference_ssim(
    estimate: Tensor, reference: Tensor, data_range: float, convention: SSIMConvention
) -> numpy.ndarray:
    options = (
        {}
        if convention == "skimage"
        else {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    )
    values = [
        metrics.structural_similarity(
            a.double().numpy(), b.double().numpy(), data_range=data_range, channel_axis=0, **options
        )
        for a, b in zip(estimate, reference, strict=True)
    ]
    return numpy.array(values)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_ssim_equals_scikit_image(
    convention: SSIMConvention, channels: int, dtype: torch.dtype, tolerance: float
) -> None:
    estimate, reference = pair(dtype, channels)
    ours = ssim(estimate, reference, data_range=0.9, convention=convention)
    theirs = reference_ssim(estimate, reference, 0.9, convention)
    assert ours.shape == (4,)
    assert ours.dtype == dtype
    numpy.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=tolerance)
    assert ours[0] == pytest.approx(1, abs=1e-6)
    assert (ours.diff() < -0.01).all()


def test_ssim_inside_is_the_average_of_its_pixels() -> None:
    """By scikit-image's map of similarities."""
    estimate, reference = (image[2:3] for image in pair(torch.float64, 1))
    inside = torch.zeros(reference.shape[-2:], dtype=torch.bool)
    inside[4:9, 5:9] = True
    ours = ssim(estimate, reference, data_range=0.9, convention="skimage", inside=inside)
    _, similar = metrics.structural_similarity(
        reference[0, 0].numpy(), estimate[0, 0].numpy(), data_range=0.9, full=True
    )
    assert ours.item() == pytest.approx(similar[inside.numpy()].mean(), abs=1e-10)
    whole = ssim(estimate, reference, data_range=0.9, convention="skimage")
    assert abs(ours.item() - whole.item()) > 1e-4


def test_ssim_conventions_differ() -> None:
    estimate, reference = pair(torch.float64)
    a, b = (ssim(estimate, reference, data_range=1.0, convention=c) for c in CONVENTIONS)
    assert (a[1:] - b[1:]).abs().min() > 1e-3


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_ssim_in_float32_survives_a_large_offset(convention: SSIMConvention) -> None:
    estimate, reference = pair(torch.float32, offset=100.0)
    exact = ssim(estimate.double(), reference.double(), data_range=1.0, convention=convention)
    ours = ssim(estimate, reference, data_range=1.0, convention=convention)
    torch.testing.assert_close(ours.double(), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_ssim_of_constant_images_is_its_luminance_term(convention: SSIMConvention) -> None:
    a, b = torch.full((1, 1, 16, 16), 0.2), torch.full((1, 1, 16, 16), 0.7)
    expected = (2 * 0.2 * 0.7 + 1e-4) / (0.2**2 + 0.7**2 + 1e-4)
    value = ssim(a, b, data_range=1.0, convention=convention)
    assert value.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_psnr_and_nrmse_equal_scikit_image(dtype: torch.dtype, tolerance: float) -> None:
    estimate, reference = (image[1:] for image in pair(dtype))
    rows = list(zip(reference.double().numpy(), estimate.double().numpy(), strict=True))
    expected = [metrics.peak_signal_noise_ratio(a, b, data_range=1.5) for a, b in rows]
    ours = psnr(estimate, reference, data_range=1.5)
    numpy.testing.assert_allclose(ours.numpy(), expected, rtol=0, atol=tolerance)
    expected = [metrics.normalized_root_mse(a, b, normalization="euclidean") for a, b in rows]
    numpy.testing.assert_allclose(nrmse(estimate, reference).numpy(), expected, atol=tolerance)


def test_psnr_closed_form_and_identity() -> None:
    reference = torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value = psnr(reference + 0.1, reference, data_range=2.0)
    torch.testing.assert_close(value, torch.full((2,), 20 * math.log10(20), dtype=torch.float64))
    assert psnr(reference, reference, data_range=1.0).isposinf().all()


def test_data_range_per_image_equals_one_by_one() -> None:
    estimate, reference = pair(torch.float64)
    ranges = torch.tensor([0.5, 1.0, 2.0, 4.0])
    for image, peak in enumerate(ranges.tolist()):
        a, b = estimate[[image]], reference[[image]]
        for convention in CONVENTIONS:
            whole = ssim(estimate, reference, data_range=ranges, convention=convention)
            alone = ssim(a, b, data_range=peak, convention=convention)
            torch.testing.assert_close(whole[[image]], alone)
        whole = psnr(estimate, reference, data_range=ranges)
        torch.testing.assert_close(whole[[image]], psnr(a, b, data_range=peak))


def test_ssim_is_differentiable() -> None:
    estimate, reference = (image[1:2, :1, :12, :13] for image in pair(torch.float64))
    torch.autograd.gradcheck(
        lambda x: ssim(x, reference, data_range=1.0, convention="skimage"),
        estimate.clone().requires_grad_(),
    )


def test_descriptions_are_single_lines_that_name_the_window() -> None:
    assert "7x7 uniform" in describe_ssim("skimage")
    assert "11x11 Gaussian" in describe_ssim("wang")
    assert not any("\n" in describe_ssim(convention) for convention in CONVENTIONS)


def test_bad_input_is_refused() -> None:
    image = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    with pytest.raises(DtypeError, match="magnitude"):
        psnr(image.to(torch.complex64), image, data_range=1.0)
    with pytest.raises(DtypeError, match="magnitude"):
        ssim(image, image.to(torch.complex64), data_range=1.0, convention="wang")
    with pytest.raises(DtypeError, match="uint8"):
        nrmse(image.byte(), image.byte())
    with pytest.raises(ShapeError, match="one shape"):
        psnr(image, image[:1], data_range=1.0)
    with pytest.raises(ShapeError, match="11x11"):
        ssim(image[..., :9], image[..., :9], data_range=1.0, convention="wang")
    with pytest.raises(InputError, match="positive"):
        psnr(image, image, data_range=0.0)
    with pytest.raises(ShapeError, match="data_range"):
        psnr(image, image, data_range=torch.ones(3))
    with pytest.raises(InputError, match="unknown SSIM"):
        ssim(image, image, data_range=1.0, convention="matlab")  # type: ignore[arg-type]
