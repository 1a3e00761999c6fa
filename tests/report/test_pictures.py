"""Pictures and packed numbers come back as they went in; the scale rises evenly."""

import base64
import io
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bcdm.report.pictures import deviation_scale, encode_png, pack_values, scale_to_bytes


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """What the page's script does."""
    low, high = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), np.uint8).reshape(
        2, -1
    )
    codes = (low.astype(np.int64) + 256 * high.astype(np.int64)).cumsum() % 65536
    return packed["low"] + packed["step"] * codes


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (64, 64), (3, 200), (9, 4, 3), (1, 1, 3)])
@pytest.mark.parametrize("kind", ["noise", "smooth", "constant"])
def test_png_returns_every_pixel(shape: tuple[int, ...], kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    smooth = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    pixels = {"noise": noise, "smooth": smooth, "constant": np.full(shape, 7, np.uint8)}[kind]
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_png_with_a_palette_shows_its_colours() -> None:
    palette, indices = deviation_scale(), np.arange(256, dtype=np.uint8).reshape(16, 16)
    with Image.open(io.BytesIO(encode_png(indices, palette))) as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), palette[indices])


def test_png_is_about_as_small_as_pillows() -> None:
    rows, columns = np.mgrid[:128, :128] / 20
    noise = np.random.default_rng(0).standard_normal((128, 128))
    pixels = scale_to_bytes(np.sin(rows) * np.cos(columns) + 0.02 * noise, -1, 1)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", optimize=True)
    assert len(encode_png(pixels)) < 1.05 * buffer.tell()


def test_bytes_are_clipped_and_rounded() -> None:
    values = np.array([[-5.0, 0.0, 0.5, 1.0, 9.0]])
    np.testing.assert_array_equal(scale_to_bytes(values, 0, 1), [[0, 0, 128, 255, 255]])


@pytest.mark.parametrize("shape", [(1, 1), (13, 7), (6, 5, 3)])
@pytest.mark.parametrize("step", [0.0, 0.01])
def test_packed_values_return_to_half_a_step(shape: tuple[int, ...], step: float) -> None:
    values = 3 * np.random.default_rng(1).standard_normal(shape)
    packed = pack_values(values, step)
    flat = np.moveaxis(values, 2, 0).ravel() if values.ndim == 3 else values.ravel()
    assert step <= packed["step"] <= max(step, 1e-3) or values.size == 1
    np.testing.assert_allclose(unpack(packed), flat, rtol=0, atol=0.501 * packed["step"])


def test_packed_constants_are_exact() -> None:
    np.testing.assert_array_equal(unpack(pack_values(np.full((4, 4), 0.3), 0.0)), 0.3)


def test_the_deviation_scale_rises_in_equal_steps_of_perception() -> None:
    scale = deviation_scale().astype(float) / 255
    linear = np.where(scale <= 0.04045, scale / 12.92, ((scale + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    lightness = np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)
    assert lightness[0] < 8
    assert lightness[-1] > 94
    assert (np.diff(lightness[::4]) > 0).all()
    # Published matrices of OKLab, the other way round than in the source.
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    lab = np.cbrt(linear @ np.array(to_cones).T) @ np.array(to_lab).T
    steps = np.linalg.norm(np.diff(lab[::15], axis=0), axis=1)
    assert steps.max() < 1.12 * steps.min()
