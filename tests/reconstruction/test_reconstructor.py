"""(y, physics) in, images out: with plain classes here, with deepinv where it is installed."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import load
from bcdm.errors import InputError, ShapeError
from bcdm.operators import CircularBlur, FourierMask, Outer, PixelMask, from_deepinv
from bcdm.problems.patterns import draw_gaussian_kernel
from bcdm.reconstruction import Reconstructor
from bcdm.trust import UnfitError


class Holes:
    """Keeps some pixels, as deepinv's Inpainting does."""

    def __init__(self, mask: Tensor, sigma: float | None = 0.025) -> None:
        self.mask, self.noise_model = mask, SimpleNamespace(sigma=sigma)

    def A(self, x: Tensor) -> Tensor:  # noqa: N802
        return x * self.mask

    A_adjoint = A


class Sums:
    """Sums of neighbours: nothing that has a name here."""

    noise_model = SimpleNamespace(sigma=0.025)

    def A(self, x: Tensor) -> Tensor:  # noqa: N802
        return x[..., 1:] + x[..., :-1]

    def A_adjoint(self, y: Tensor) -> Tensor:  # noqa: N802
        return torch.nn.functional.pad(y, (0, 1)) + torch.nn.functional.pad(y, (1, 0))


@pytest.fixture
def holes(masked: Path) -> Holes:
    return Holes(load(masked).operator.mask.float())


def test_it_gives_what_the_model_gives(masked: Path, holes: Holes, images: Tensor) -> None:
    """The same data in units [0, 1] and by another class: the same image."""
    model = load(masked)
    y = holes.A((images + 1) / 2)
    found = Reconstructor(model)(y, holes, unused=1)
    _, operator = from_deepinv(holes, y, model.shape)
    assert isinstance(operator, PixelMask)
    measurement = Reconstructor(model).measure(y, holes)
    assert measurement.std.tolist() == [0.05]
    torch.testing.assert_close(measurement.y, model.operator.forward(images))
    assert found.shape == images.shape
    known = holes.mask.expand_as(found) != 0
    assert float((found - (images + 1) / 2)[known].abs().mean()) < 0.05
    averaged = Reconstructor(model, samples=4, calls=3)(y, holes)
    assert float((averaged - found).abs().mean()) < 0.3
    assert Reconstructor(model, samples=3, calls=2).posterior(y, holes).samples.shape[0] == 3


def test_any_linear_physics_will_do(masked: Path, images: Tensor) -> None:
    model, physics = load(masked), Sums()
    y = physics.A((images + 1) / 2)
    _, operator = from_deepinv(physics, y, model.shape)
    assert isinstance(operator, Outer)
    with pytest.raises(UnfitError, match="made for one operator"):
        Reconstructor(model)(y, physics)
    with pytest.raises(UnfitError, match="Nor is it a prior"):
        Reconstructor(model, method="auto")(y, physics)
    found = Reconstructor(model, force=True)(y, physics)
    assert found.shape == images.shape
    away = (physics.A(found) - y).norm() / y.norm()
    assert float(away) < 0.1


def test_what_cannot_be_used_is_refused(masked: Path, holes: Holes, images: Tensor) -> None:
    reconstructor = Reconstructor(masked)
    with pytest.raises(InputError, match="give noise_std"):
        reconstructor(images, Holes(holes.mask, None))
    assert Reconstructor(masked, noise_std=0.1)(images, Holes(holes.mask, None)).shape[0] == 3
    with pytest.raises(ShapeError, match="the model of"):
        reconstructor(torch.zeros(1, 3, 16, 16), Holes(torch.ones(16, 16)))
    wrong = Holes(holes.mask)
    wrong.A_adjoint = lambda y: 2 * y * holes.mask  # type: ignore[method-assign]
    with pytest.raises(InputError, match="not the adjoint"):
        reconstructor(images, wrong)


@pytest.mark.filterwarnings("ignore:non_blocking_transfers")
def test_with_deepinv(masked: Path, scanner: Path, images: Tensor) -> None:
    deepinv = pytest.importorskip("deepinv", reason="deepinv is not installed")
    noise = deepinv.physics.GaussianNoise(0.025)
    clean = (images + 1) / 2
    model = load(masked)
    inpainting = deepinv.physics.Inpainting(
        (1, 16, 16), mask=model.operator.mask.float()[None], noise_model=noise
    )
    y = inpainting(clean)
    assert isinstance(from_deepinv(inpainting, y, model.shape)[1], PixelMask)
    found = Reconstructor(model)(y, inpainting)
    assert found.shape == clean.shape
    blur = deepinv.physics.Blur(
        draw_gaussian_kernel(0.8)[None, None], padding="circular", noise_model=noise
    )
    y = blur(clean)
    assert isinstance(from_deepinv(blur, y, model.shape)[1], CircularBlur)
    assert float((blur.A(Reconstructor(model, force=True)(y, blur)) - y).norm() / y.norm()) < 0.2

    model = load(scanner)
    mri = deepinv.physics.MRI(
        mask=model.operator.mask.float(), img_size=(2, 16, 16), noise_model=noise
    )
    x = torch.cat([clean, torch.zeros_like(clean)], 1)
    y = mri(x)
    data, operator = from_deepinv(mri, y, model.shape)
    assert isinstance(operator, FourierMask)
    assert data.is_complex()
    reconstructor = Reconstructor(model)
    found = reconstructor(y, mri)
    assert found.shape == x.shape
    psnr = deepinv.metric.PSNR()
    zero_filled = float(psnr(mri.A_adjoint(y), x).mean())
    assert float(psnr(found, x).mean()) > zero_filled - 1
    loader = torch.utils.data.DataLoader(
        [{"x": x[k], "y": y[k]} for k in range(len(x))], batch_size=3
    )  # fmt: skip
    scores = deepinv.test(reconstructor, loader, mri, metrics=psnr, device="cpu",
                          show_progress_bar=False, verbose=False)  # fmt: skip
    assert scores["PSNR"] == pytest.approx(float(psnr(found, x).mean()), abs=0.1)


def test_models_of_complex_images_are_refused() -> None:
    with pytest.raises(InputError, match="makes complex images"):
        Reconstructor("brain-mri")
