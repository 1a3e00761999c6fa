"""Arrays as small pictures for a page: PNG, a scale for deviations, packed numbers."""

import base64
import struct
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bcdm.report.content import Array

__all__ = [
    "arrange",
    "deviation_scale",
    "encode_png",
    "pack_values",
    "phase_scale",
    "picture",
    "plot_deviation_scale",
    "plot_phase_scale",
    "scale_to_bytes",
]

Bytes = NDArray[np.uint8]

# From certain to uncertain: lightness, chroma and hue (degrees) in OKLCH. Lightness rises
# throughout, so that the order survives grey print and any kind of colour vision.
_ANCHORS = (
    (0.13, 0.02, 280.0),
    (0.26, 0.10, 285.0),
    (0.40, 0.14, 320.0),
    (0.55, 0.15, 5.0),
    (0.69, 0.14, 45.0),
    (0.83, 0.12, 80.0),
    (0.97, 0.05, 105.0),
)


def arrange(image: Array) -> Array:
    """(C, H, W) to (H, W) or (H, W, 3)."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)


@cache
def deviation_scale(levels: int = 256) -> Bytes:
    """Colours (levels, 3) from zero to the largest deviation, at equal steps of perception.

    Equal steps are equal distances in OKLab along a smooth path through a few anchors.
    """
    lightness, chroma, hue = np.array(_ANCHORS).T
    turn = np.deg2rad(hue)
    path = np.stack([lightness, chroma * np.cos(turn), chroma * np.sin(turn)], 1)
    for _ in range(5):  # cutting corners smooths the path and keeps its lightness rising
        near, far = path[:-1], path[1:]
        cut = np.stack([0.75 * near + 0.25 * far, 0.25 * near + 0.75 * far], 1).reshape(-1, 3)
        path = np.concatenate([path[:1], cut, path[-1:]])
    length = np.concatenate([[0], np.linalg.norm(np.diff(path, axis=0), axis=1).cumsum()])
    places = np.linspace(0, length[-1], levels)
    scale = _oklab_to_bytes(np.stack([np.interp(places, length, axis) for axis in path.T], 1))
    scale.flags.writeable = False  # it is shared by all who ask
    return scale


@cache
def phase_scale(levels: int = 256) -> Bytes:
    """Colours (levels, 3) around the circle, as light everywhere: both ends are the same angle."""
    turn = np.linspace(0, 2 * np.pi, levels)
    lab = np.stack([np.full(levels, 0.7), 0.11 * np.cos(turn), 0.11 * np.sin(turn)], 1)
    scale = _oklab_to_bytes(lab)
    scale.flags.writeable = False
    return scale


def plot_phase_scale() -> str:
    """The scale of phases as the address of a picture, one pixel high."""
    return picture(np.arange(256, dtype=np.uint8)[None], phase_scale())


def plot_deviation_scale() -> str:
    """The scale itself as the address of a picture, one pixel high."""
    return picture(np.arange(256, dtype=np.uint8)[None], deviation_scale())


def scale_to_bytes(image: Array, low: float, high: float) -> Bytes:
    """Maps [low, high] to 0..255; what lies outside takes the nearest end."""
    fraction = (np.asarray(image, dtype=np.float64) - low) / (high - low)
    return np.rint(255 * fraction.clip(0, 1)).astype(np.uint8)


def picture(pixels: Bytes, palette: Bytes | None = None) -> str:
    """The pixels as the address of an image that needs no file."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels, palette)).decode()


def encode_png(pixels: Bytes, palette: Bytes | None = None) -> bytes:
    """Encodes grey (H, W), colours (H, W, 3) or indices (H, W) into a palette (256, 3).

    Every row takes the one of PNG's five predictions that leaves least to store.

    >>> encode_png(np.zeros((2, 3), np.uint8))[1:4]
    b'PNG'
    """
    rows, columns, *channels = pixels.shape
    step = 3 if channels else 1
    kind = 2 if channels else 0 if palette is None else 3
    raw = pixels.reshape(rows, -1).astype(np.int16)
    left, up, corner = np.zeros_like(raw), np.zeros_like(raw), np.zeros_like(raw)
    left[:, step:], up[1:], corner[1:, step:] = raw[:, :-step], raw[:-1], raw[:-1, :-step]
    guesses = (0 * raw, left, up, (left + up) // 2, _predict_paeth(left, up, corner))
    rests = np.stack([(raw - guess).astype(np.uint8) for guess in guesses])
    best = np.abs(rests.view(np.int8).astype(np.int16)).sum(2).argmin(0)
    lines = np.concatenate([best[:, None].astype(np.uint8), rests[best, np.arange(rows)]], 1)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)),
            b"" if palette is None else _chunk(b"PLTE", palette.tobytes()),
            _chunk(b"IDAT", _deflate(lines.tobytes())),
            _chunk(b"IEND", b""),
        ]
    )


def pack_values(values: Array, step: float) -> dict[str, float | str]:
    """Packs numbers for the page's readout, exact to half a step.

    Value i is `low + step * code[i]`, channels first. Codes are stored as differences modulo
    2^16, all low bytes before all high bytes, deflated, in base 64: neighbours are alike. A step
    that needs more than 2^16 codes is widened.
    """
    flat = np.asarray(values, dtype=np.float64)
    flat = (np.moveaxis(flat, 2, 0) if flat.ndim == 3 else flat).ravel()
    low = float(flat.min())
    # Constants are exact at any step; theirs only tells the page how many decimals to write.
    step = max(step, (float(flat.max()) - low) / 65535) or abs(low) / 1000 or 1.0
    codes = np.rint((flat - low) / step).astype("<u2")
    changes = np.diff(codes, prepend=np.zeros(1, "<u2"))
    planes = changes.view(np.uint8).reshape(-1, 2).T
    data = base64.b64encode(_deflate(planes.tobytes())).decode()
    return {"low": low, "step": step, "data": data}


def _predict_paeth(left: Array, up: Array, corner: Array) -> Array:
    """Of the three neighbours, the one nearest to `left + up - corner`; ties in this order."""
    plane = left + up - corner
    to_left, to_up, to_corner = (np.abs(plane - each) for each in (left, up, corner))
    second = np.where(to_up <= to_corner, up, corner)
    return np.where((to_left <= to_up) & (to_left <= to_corner), left, second)


def _deflate(content: bytes) -> bytes:
    # Differences repeat by chance only: this strategy gains more than a higher level, in less time.
    compressor = zlib.compressobj(level=6, strategy=zlib.Z_FILTERED)
    return compressor.compress(content) + compressor.flush()


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def _oklab_to_bytes(lab: Array) -> Bytes:
    """OKLab to sRGB bytes (Ottosson 2020)."""
    to_cones = np.array(
        [
            [1, 0.3963377774, 0.2158037573],
            [1, -0.1055613458, -0.0638541728],
            [1, -0.0894841775, -1.2914855480],
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = ((lab @ to_cones.T) ** 3 @ to_linear.T).clip(0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(255 * srgb).astype(np.uint8)
