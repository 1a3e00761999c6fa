import os
from pathlib import Path

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.noise import (
    estimate_from_coils,
    estimate_from_noise_scan,
    find_filter,
    undo_filter,
)

NEEDS_DATA = pytest.mark.skipif("BCDM_DATA" not in os.environ, reason="BCDM_DATA is not set")
COILS, SIDE = 6, 96


def make_covariance(rng: np.random.Generator) -> np.ndarray:
    """Coils that differ, and share some of their noise."""
    mix = np.eye(COILS) + 0.2 * (
        rng.standard_normal((COILS, COILS)) + 1j * rng.standard_normal((COILS, COILS))
    )
    scaled = mix * np.linspace(0.7, 1.5, COILS)[:, None]
    return scaled @ scaled.conj().T


def transform(image: np.ndarray) -> np.ndarray:
    inner = np.fft.ifftshift(image, axes=(-2, -1))
    return np.fft.fftshift(np.fft.fft2(inner, norm="ortho"), axes=(-2, -1))


def transform_back(kspace: np.ndarray) -> np.ndarray:
    inner = np.fft.ifftshift(kspace, axes=(-2, -1))
    return np.fft.fftshift(np.fft.ifft2(inner, norm="ortho"), axes=(-2, -1))


def make_scan(filtered: bool, bright: float = 30.0) -> tuple[np.ndarray, np.ndarray]:
    """An object that fills most of the image as coils see it, with noise; and its covariance."""
    rng = np.random.default_rng(5)
    rows, columns = np.meshgrid(*[np.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    body = (np.hypot(rows / 0.8, columns / 0.55) < 1) * (
        1.5 + np.sin(20 * rows) * np.cos(9 * columns)
    )
    angles = np.arange(COILS) * 2 * np.pi / COILS
    maps = np.stack(
        [
            np.exp(-((rows - np.sin(a)) ** 2) - (columns - np.cos(a)) ** 2 + 2j * rows * np.cos(a))
            for a in angles
        ]
    )
    covariance = make_covariance(rng)
    white = rng.standard_normal((2, COILS, SIDE, SIDE))
    noise = np.einsum("kc,chw->khw", np.linalg.cholesky(covariance), white[0] + 1j * white[1])
    if filtered:
        # A receiver without oversampling: the ends of the readout, here columns, are quieter.
        noise *= np.interp(np.abs(np.linspace(-1, 1, SIDE)), [0, 0.75, 1], [1, 1, 0.3])
    return transform(bright * body * maps + noise)[None], covariance


def compare(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """The true noise of coils that were made white by what was found: ones where it is right."""
    inverse = np.linalg.inv(np.linalg.cholesky(found))
    return np.sqrt(np.linalg.eigvalsh(inverse @ true @ inverse.conj().T))


def make_masks() -> dict[str, np.ndarray]:
    lines = np.zeros(SIDE, bool)
    lines[::3] = True
    lines[SIDE // 2 - 6 : SIDE // 2 + 6] = True
    points = np.random.default_rng(0).random((SIDE, SIDE)) < 0.4
    echo = np.broadcast_to(lines[:, None], (SIDE, SIDE)).copy()
    echo[:, : SIDE // 4] = False
    return {
        "asymmetric echo": echo,
        "padded": np.pad(np.ones((SIDE // 2, SIDE // 2), bool), SIDE // 4),
        "all": np.ones((SIDE, SIDE), bool),
        "columns": np.broadcast_to(lines, (SIDE, SIDE)).copy(),
        "rows": np.broadcast_to(lines[:, None], (SIDE, SIDE)).copy(),
        "points": points,
    }


@pytest.mark.parametrize(
    ("name", "filtered", "within"),
    [
        ("all", False, 0.1),
        ("all", True, 0.15),
        ("columns", False, 0.7),
        ("rows", False, 0.2),
        ("rows", True, 0.2),
        ("points", False, 1.1),
        ("asymmetric echo", False, 0.3),
        ("padded", False, 0.9),
    ],
)
def test_noise_is_found_under_an_object(name: str, filtered: bool, within: float) -> None:
    kspace, covariance = make_scan(filtered)
    mask = make_masks()[name]
    found = estimate_from_coils(np.where(mask, kspace, 0), mask)
    assert ("at most" in found.source) == (name == "points")
    after = compare(found.covariance, covariance)
    assert np.median(after) == pytest.approx(1, abs=0.15)
    # Where no place is without signal, some of it is taken for noise, never noise for signal.
    assert np.abs(np.log(after)).max() < within
    assert after.max() < 1.3
    # Coils that are taken as alike and independent are not.
    assert (
        np.abs(np.log(compare(np.trace(covariance).real / COILS * np.eye(COILS), covariance))).max()
        > 0.5
    )


def test_one_coil_has_one_level_and_silence_is_refused() -> None:
    kspace, covariance = make_scan(False)
    found = estimate_from_coils(kspace[:, :1])
    assert found.covariance.shape == (1, 1)
    assert found.std[0] == pytest.approx(np.sqrt(covariance[0, 0].real), rel=0.15)
    kspace[:, 2] = 0
    with pytest.raises(InputError, match="silent"):
        estimate_from_coils(kspace)


@NEEDS_DATA
@pytest.mark.data
@pytest.mark.parametrize("step", [1, 4])
def test_the_noise_of_a_real_head_is_that_of_its_air(step: int) -> None:
    path = Path(os.environ["BCDM_DATA"]) / "pulseq_brain_16coil_full" / "brain_invivo_16coil.npz"
    kspace = np.load(path)["kspace"]
    inner = np.fft.ifft2(np.fft.ifftshift(kspace, axes=(1, 2)), norm="ortho")
    image = np.fft.fftshift(inner, axes=(1, 2))
    # The receiver filters the outer columns: there the air is quieter.
    air = np.concatenate([image[:, :8, 24:104], image[:, -8:, 24:104]], 1).reshape(16, -1)
    true = estimate_from_noise_scan(air).covariance
    mask = np.zeros((128, 128), bool)
    mask[::step] = True
    mask[58:70] = True
    found = estimate_from_coils(np.where(mask, kspace, 0)[None], mask)
    assert np.median(compare(found.covariance, true)) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("kind", ["full", "lines"])
def test_the_noise_shows_what_a_receiver_filters(kind: str) -> None:
    """Also where the object is, and from every third line: within a tenth of the noise."""
    kspace, _ = make_scan(filtered=True)
    mask = np.ones((SIDE, SIDE), bool) if kind == "full" else make_masks()["columns"].T
    found = find_filter(kspace * mask, mask)
    assert found is not None
    axis, left = found
    assert axis == -1
    true = np.interp(np.abs(np.linspace(-1, 1, SIDE)), [0, 0.75, 1], [1, 1, 0.3])
    np.testing.assert_allclose(left, true, atol=0.1)


def test_undone_the_noise_is_white() -> None:
    kspace, _ = make_scan(filtered=True, bright=0.0)
    found = find_filter(kspace)
    assert found is not None

    def spread(data: np.ndarray) -> float:
        """The least over the most noise of twelve parts along the readout."""
        parts = np.abs(transform_back(data)).reshape(COILS, SIDE, 12, -1).mean((0, 1, 3))
        return float(parts.min() / parts.max())

    assert spread(undo_filter(kspace, *found)) > 0.9
    assert spread(kspace) < 0.6


@pytest.mark.parametrize("bright", [0.0, 30.0])
def test_white_noise_is_no_filter(bright: float) -> None:
    kspace, _ = make_scan(filtered=False, bright=bright)
    assert find_filter(kspace) is None
    points = np.random.default_rng(0).uniform(size=(SIDE, SIDE)) < 0.3
    assert find_filter(make_scan(filtered=True)[0] * points, points) is None


@NEEDS_DATA
@pytest.mark.data
def test_the_filter_of_a_real_receiver() -> None:
    """In air below the head; found from every fourth line, and rather too weak than too strong."""
    folder = Path(os.environ["BCDM_DATA"]) / "pulseq_brain_16coil_full"
    kspace = np.load(folder / "brain_invivo_16coil.npz")["kspace"][None]
    air = (np.abs(transform_back(kspace)[0, :, 112:]) ** 2).mean((0, 1))
    power = air / air[24:104].mean()
    assert power.mean() == pytest.approx(0.80, abs=0.02)
    mask = np.zeros(kspace.shape[-2:], bool)
    mask[::4] = True
    mask[59:69] = True
    found = find_filter(kspace * mask, mask)
    assert found is not None
    axis, left = found
    assert axis == -1
    inner = power.reshape(16, 8).mean(1)
    assert (left.reshape(16, 8).mean(1) ** 2 - inner).min() > -0.12
    assert (left**2).mean() == pytest.approx(power.mean(), abs=0.07)
