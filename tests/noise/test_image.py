"""Noise of images: levels are found, and hard cases are answered sanely or refused."""

import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.noise import NoiseEstimate, estimate_from_image

LEVELS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def noise(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def miss(estimate: NoiseEstimate, truth: float) -> float:
    return abs(estimate.std / truth - 1)


def misses(images: np.ndarray, level: float) -> np.ndarray:
    """Relative errors on several images, (n, slices, channels, rows, columns)."""
    return np.array(
        [
            miss(estimate_from_image(image + level * noise(image.shape, seed)), level)
            for seed, image in enumerate(images)
        ]
    )


@pytest.mark.parametrize("level", LEVELS)
def test_noise_alone(level: float) -> None:
    for seed in range(3):
        estimate = estimate_from_image(level * noise((1, 1, 64, 64), seed))
        # About 2,000 numbers: 1.6 %.
        assert miss(estimate, level) < 0.05
        assert estimate.standard_error < 0.05 * level


@pytest.mark.parametrize("level", LEVELS)
def test_a_drawing(drawing: np.ndarray, level: float) -> None:
    assert np.median(misses(np.stack([drawing] * 5), level)) < 0.05


def test_the_error_is_true(drawing: np.ndarray) -> None:
    pulls = []
    for seed in range(20):
        estimate = estimate_from_image(drawing + 0.05 * noise(drawing.shape, seed))
        pulls.append((estimate.std - 0.05) / estimate.standard_error)
    # Of 20 pulls the root mean square is known to 16 %; detail may bias by an error more.
    assert 0.4 < np.sqrt(np.mean(np.square(pulls))) < 2


def test_slices_share_the_level(drawing: np.ndarray) -> None:
    one = estimate_from_image(drawing + 0.05 * noise(drawing.shape))
    volume = estimate_from_image(drawing + 0.05 * noise((16, 1, 64, 64)))
    assert volume.standard_error < one.standard_error / 2.5
    assert volume.samples > 5 * one.samples
    assert miss(volume, 0.05) < 0.03


def test_channels_share_the_level(drawing: np.ndarray) -> None:
    # The same detail in all colours leaves two directions of colour without any.
    assert miss(estimate_from_image(drawing + 0.01 * noise((1, 3, 64, 64))), 0.01) < 0.03


def test_only_known_pixels_count(drawing: np.ndarray) -> None:
    image = drawing + 0.05 * noise(drawing.shape)
    box = np.ones((64, 64), bool)
    box[16:48, 20:50] = False
    spoiled = np.where(box, image, np.nan)
    assert miss(estimate_from_image(spoiled, box), 0.05) < 0.05
    assert estimate_from_image(spoiled, box) == estimate_from_image(image, box)
    scattered = np.random.default_rng(0).random((64, 64)) < 0.5
    estimate = estimate_from_image(image, scattered)
    assert miss(estimate, 0.05) < max(0.1, 4 * estimate.standard_error / 0.05)


def test_texture_that_is_everywhere_the_same_is_not_noise() -> None:
    board = np.indices((64, 64)).sum(0) % 2 - 0.5
    stripes = np.sign(np.sin(np.arange(64) * np.pi / 2 + 0.1)) * np.ones((64, 1))
    for texture in (board, stripes):
        image = texture[None, None] + 0.05 * noise((1, 1, 64, 64))
        assert miss(estimate_from_image(image), 0.05) < 0.1


def test_letters_are_not_noise() -> None:
    rng = np.random.default_rng(0)
    letters = rng.random((8, 8, 6, 4)) < 0.5
    page = np.ones((8, 8, 8, 8))
    page[:, :, 1:7, 1:5] -= 2 * letters
    page = page.transpose(0, 2, 1, 3).reshape(1, 1, 64, 64)
    page[..., 40:, :] = 1
    for level in (0.02, 0.1):
        assert miss(estimate_from_image(page + level * noise(page.shape)), level) < 0.1


def test_rounding_is_a_floor(drawing: np.ndarray) -> None:
    step = 2 / 255
    for level in (0.1 * step, 2 * step):
        image = np.round((drawing + level * noise(drawing.shape)) / step) * step
        estimate = estimate_from_image(image)
        expected = np.hypot(level, step / np.sqrt(12))
        assert estimate.std >= step / np.sqrt(12) * (1 - 1e-6)
        assert miss(estimate, expected) < 0.1
    assert estimate.source == "flat parts of the image"


def test_clipped_values_are_left_out() -> None:
    ramp = np.broadcast_to(np.linspace(-1.5, 1.5, 64), (4, 1, 64, 64))
    clipped = np.clip(ramp + 0.05 * noise(ramp.shape), -1, 1)
    assert miss(estimate_from_image(clipped), 0.05) < 0.05


@pytest.mark.parametrize("level", LEVELS)
def test_the_half_of_a_ground_that_is_not_clipped_serves(drawing: np.ndarray, level: float) -> None:
    clipped = np.clip(drawing + level * noise(drawing.shape), -1, 1)
    estimate = estimate_from_image(clipped)
    if level <= 0.1:  # else the object's own flat parts may serve as well
        assert estimate.source == "clipped ground of the image"
    assert miss(estimate, level) < 0.1
    rounded = np.round(clipped * 127.5) / 127.5
    assert miss(estimate_from_image(rounded), np.hypot(level, 1 / 127.5 / np.sqrt(12))) < 0.1


def test_a_ground_that_was_painted_does_not_serve(drawing: np.ndarray) -> None:
    for level in (0.01, 0.05, 0.2):
        image = np.where(drawing > -1, drawing + level * noise(drawing.shape), -1)
        estimate = estimate_from_image(image)
        assert "clipped" not in estimate.source
        assert miss(estimate, level) < max(0.1, 3 * estimate.standard_error / level)


def test_air_of_a_magnitude_image_is_corrected_for(drawing: np.ndarray) -> None:
    parts = noise((2, *drawing.shape))
    for level in (0.02, 0.1):
        image = np.hypot(drawing + 1 + level * parts[0], level * parts[1])
        estimate = estimate_from_image(image)
        assert "magnitude" in estimate.source
        assert miss(estimate, level) < 0.06


@pytest.mark.parametrize(
    ("image", "known", "words"),
    [
        (np.ones((1, 1, 64, 64)), None, "too few.*give noise_std"),
        (np.indices((1, 1, 64, 64)).sum(0) % 2 * 1.0, None, "too few.*give noise_std"),
        (noise((1, 1, 6, 6)), None, "too few.*give noise_std"),
        (noise((1, 1, 1, 64)), None, "too small"),
        (noise((1, 1, 64, 64)), np.zeros((64, 64), bool), "too few.*give noise_std"),
        (noise((1, 1, 64, 64)), np.ones((32, 32), bool), "does not fit"),
        (noise((64, 64)), None, "slices, channels"),
        (1j * noise((1, 1, 64, 64)), None, "complex"),
        (np.full((1, 1, 64, 64), np.nan), None, "non-finite"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    image: np.ndarray, known: np.ndarray | None, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        estimate_from_image(image, known)
    assert "\n" not in str(caught.value)


@pytest.mark.data
@pytest.mark.parametrize("level", LEVELS)
def test_single_brain_slices(brains: np.ndarray, native_brains: np.ndarray, level: float) -> None:
    for images in (brains, native_brains):
        assert np.median(misses(images[:, 13:14, None], level)) < 0.05


@pytest.mark.data
@pytest.mark.parametrize("level", LEVELS)
def test_brain_volumes(brains: np.ndarray, level: float) -> None:
    assert (misses(brains[:3, :, None], level) < 0.05).all()


@pytest.mark.data
@pytest.mark.parametrize("level", LEVELS)
def test_faces(faces: np.ndarray, level: float) -> None:
    # Photographs have noise and fine texture of about .006 of their own, which adds in squares.
    allowed = 0.05 + (np.hypot(1, 0.006 / level) - 1)
    assert np.median(misses(faces[:, None], level)) < allowed
