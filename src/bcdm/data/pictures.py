"""Picture files of any bit depth, with nothing lost on the way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.errors import InputError

__all__ = ["PICTURE_SUFFIXES", "read_picture"]

Pixels = NDArray[Any]
PICTURE_SUFFIXES = (".jpeg", ".jpg", ".png", ".tif", ".tiff")
TIFF_BITS, TIFF_PHOTOMETRIC = 258, 262


def read_picture(file: Path) -> Pixels:
    """Reads a picture (H, W) or (H, W, 3) with the number type it is stored in."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as picture:
            tags: Mapping[int, Any] = getattr(picture, "tag_v2", {})
            is_deep = max(tags.get(TIFF_BITS, (8,))) > 8
            # Cameras add a preview to a JPEG as a second frame; only TIFF pages are images.
            _check_picture(file, picture.mode, getattr(picture, "n_frames", 1) if tags else 1)
            if is_deep and tags.get(TIFF_PHOTOMETRIC) == 0:
                raise InputError(f"{file} stores white as 0 in 16 bits: save it with black as 0")
            if is_deep and picture.mode == "RGB":
                return _read_deep_colour(file)
            # Photographs keep their rotation in the metadata.
            pixels: Pixels = np.asarray(ImageOps.exif_transpose(picture))
            # Older Pillow widens the 16 bits of a grey PNG to 32.
            is_widened = picture.format == "PNG" and pixels.dtype == np.int32
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"{file} cannot be read ({error}): export it anew") from error
    return pixels.astype(np.uint16 if is_widened else pixels.dtype.newbyteorder("="))


def _check_picture(file: Path, mode: str, frames: int) -> None:
    if frames > 1:
        raise InputError(f"{file} holds {frames} frames: save one per file, or use an array file")
    if mode not in ("L", "RGB", "I", "F") and not mode.startswith("I;16"):
        raise InputError(f"{file} has colour mode {mode}: save it as grey or RGB without alpha")
    with file.open("rb") as stream:
        header = stream.read(26)
    # Bit depth and colour type of a PNG; Pillow would keep 8 of the 16 bits.
    if header.startswith(b"\x89PNG") and header[24] == 16 and header[25] != 0:
        raise InputError(f"{file} is PNG colour of 16 bits: save it as TIFF to keep them")


def _read_deep_colour(file: Path) -> Pixels:
    import tifffile

    # Pillow would keep 8 of the 16 bits.
    pixels: Pixels = tifffile.imread(file)
    return np.moveaxis(pixels, 0, -1) if pixels.shape[-1] != 3 else pixels
