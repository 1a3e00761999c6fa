import numpy as np
import pytest
from tests.coils.test_espirit import make_object, measure, miss

from bcdm.coils import estimate_by_body
from bcdm.errors import ShapeError


def transform(image: np.ndarray) -> np.ndarray:
    inner = np.fft.ifftshift(image, axes=(-2, -1))
    return np.fft.fftshift(np.fft.fft2(inner, norm="ortho"), axes=(-2, -1)).astype(np.complex64)


@pytest.mark.parametrize("channels", [None, 2])
def test_maps_are_what_coils_see_over_what_the_body_coil_sees(channels: int | None) -> None:
    kspace, maps, image = measure((64, 64), 6)
    rng = np.random.default_rng(0)
    noise = 0.02 * (rng.normal(size=(2, 64, 64)) + 1j * rng.normal(size=(2, 64, 64)))
    body = transform(np.stack([make_object((64, 64)), 1j * make_object((64, 64))])) + noise
    found = estimate_by_body(kspace, body if channels else body[0])
    inner = np.where(np.roll(np.abs(image), 4, 0) * np.roll(np.abs(image), -4, 0) > 0, image, 0)
    assert miss(found, maps, inner) < 0.1
    np.testing.assert_allclose((np.abs(found) ** 2).sum(0), 1, atol=1e-5)


def test_other_sizes_are_refused() -> None:
    kspace, _, _ = measure((32, 32), 2)
    with pytest.raises(ShapeError, match="does not fit"):
        estimate_by_body(kspace, kspace[0, :16])
