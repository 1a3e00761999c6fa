"""Pictures: PNG of 8 or 16 bits, and TIFF of integers or floats, one page per slice."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import FLOAT
from bcdm.scans.limits import LIMITS, check_pieces, check_size
from bcdm.scans.output import place, writing
from bcdm.scans.scan import Results, Scan

__all__ = ["read_png", "read_png_note", "read_tiff", "read_tiff_note", "write_png", "write_tiff"]

_NOTE = "bcdm"
# Bits and colour type in the header of a PNG, and the number type they make.
_PNG_KINDS = {(1, 0): bool, (8, 0): np.uint8, (16, 0): np.uint16, (8, 2): np.uint8}
_COLOUR = 2


def read_png(path: Path, key: str | None) -> Scan:
    """Reads a grey PNG of 1, 8 or 16 bits, or one in colour of 8 bits."""
    _refuse_key(path, key)
    rows, columns, bits, colour = _read_png_header(path)
    if (bits, colour) not in _PNG_KINDS:
        fix = "TIFF to keep them" if colour == _COLOUR else "grey or RGB without alpha or palette"
        raise refusal(path, f"is a PNG of {bits} bits and colour type {colour}: save it as {fix}")
    channels = 3 if colour == _COLOUR else 1
    stored = np.dtype(_PNG_KINDS[bits, colour])
    check_size(path, (channels, rows, columns), stored, FLOAT)
    with library(path):
        from PIL import Image

        with Image.open(path, formats=("PNG",)) as picture:
            if getattr(picture, "n_frames", 1) > 1 or picture.size != (columns, rows):
                raise refusal(path, "holds several frames: save one per file")
            pixels = np.asarray(picture)
    data = _order(path, pixels, (channels, rows, columns)).astype(FLOAT)[None]
    facts = {"bits": bits, "channels": channels}
    return Scan(path, "PNG", "image", data, None, None, (rows, columns), facts)


def _read_png_header(path: Path) -> tuple[int, int, int, int]:
    with library(path), path.open("rb") as stream:
        start = stream.read(33)
    if len(start) < 33 or start[12:16] != b"IHDR":
        raise refusal(path, "ends within its header: export it anew")
    _check_chunks(path)
    columns, rows = (int.from_bytes(start[at : at + 4], "big") for at in (16, 20))
    return rows, columns, start[24], start[25]


def _check_chunks(path: Path) -> None:
    """Refuses a picture made of so many tiny pieces that it would be read for hours."""
    with library(path), path.open("rb") as stream:
        stream.seek(8)
        for _ in range(LIMITS.pieces):
            start = stream.read(8)
            if len(start) < 8:
                return
            # Each has its length before its name, and a checksum behind its content.
            stream.seek(int.from_bytes(start[:4], "big") + 4, 1)
    raise refusal(path, f"is made of more than {LIMITS.pieces} pieces: save it without notes")


def read_tiff(path: Path, key: str | None) -> Scan:
    """Reads every page of a TIFF as a slice; all must be alike."""
    _refuse_key(path, key)
    with _opened_tiff(path) as file:
        with library(path):
            # By pages and not by series: a series may lie in other files.
            check_pieces(path, len(file.pages), "pages")
            pages = [page for page in file.pages if not page.is_reduced]
            kinds = {_describe(page) for page in pages}
        if len(kinds) != 1:
            raise refusal(path, f"holds pages of {len(kinds)} kinds: save one kind per file")
        rows, columns, channels, stored, is_packed, photometric = kinds.pop()
        _check_page(path, channels, stored, photometric)
        shape = (len(pages), channels, rows, columns)
        check_size(path, shape, stored, FLOAT)
        data = np.empty(shape, FLOAT)
        images = _unpack(path, pages, stored) if is_packed else _load(path, pages)
        for image, pixels in zip(data, images, strict=True):
            # What is beyond float32 becomes infinite, and is refused as such.
            with np.errstate(over="ignore"):
                image[...] = _order(path, pixels, shape[1:])
    facts = {"pages": len(pages), "channels": channels, "stored type": str(stored)}
    return Scan(path, "TIFF", "image", data, None, None, (rows, columns), facts)


@contextmanager
def _opened_tiff(path: Path) -> Iterator[Any]:
    with library(path):
        import tifffile

        file = tifffile.TiffFile(path)
    with file:
        yield file


def _describe(page: Any) -> tuple[int, int, int, np.dtype[Any], bool, int]:
    return (
        int(page.imagelength),
        int(page.imagewidth),
        int(page.samplesperpixel),
        np.dtype(page.dtype or "V1"),
        int(page.compression) != 1,
        int(page.photometric),
    )


def _check_page(path: Path, channels: int, stored: np.dtype[Any], photometric: int) -> None:
    if stored.kind not in "buif" or stored.itemsize > 8:
        raise refusal(path, f"holds {stored}: save it as integers or floats")
    if photometric == 0:
        raise refusal(path, "stores white as 0: save it with black as 0")
    if (channels, photometric) not in ((1, 1), (3, 2)):
        raise refusal(path, f"has {channels} channels: save it as grey or RGB without alpha")


def _load(path: Path, pages: list[Any]) -> Iterator[NDArray[Any]]:
    for page in pages:
        with library(path):
            pixels = page.asarray()
        yield pixels


def _unpack(path: Path, pages: list[Any], stored: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yields compressed pages by Pillow, which unpacks into memory of known size."""
    exact = {"L": "u1", "RGB": "u1", "I;16": "u2", "I;16B": "u2", "F": "f4", "1": "b1"}
    with library(path):
        from PIL import Image

        picture = Image.open(path, formats=("TIFF",))
    with picture:
        for page in pages:
            with library(path):
                picture.seek(page.index)
                if exact.get(picture.mode) != f"{stored.kind}{stored.itemsize}":
                    raise refusal(path, f"packs {stored} numbers: save it without compression")
                pixels = np.asarray(picture)
            yield pixels


def _order(path: Path, pixels: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    channels, rows, columns = shape
    if pixels.shape == (rows, columns):
        return pixels[None]
    if pixels.shape == (rows, columns, channels):
        return np.moveaxis(pixels, -1, 0)
    if pixels.shape != shape:
        raise refusal(path, f"unpacks to {pixels.shape} and not {shape}: save it anew")
    return pixels


def _refuse_key(path: Path, key: str | None) -> None:
    if key is not None:
        raise refusal(path, f"is a picture and holds no names: leave out the key {key!r}")


def write_png(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes the mean as PNG, rounded to the input's bits, and the rest as TIFF of floats."""
    target = place(folder, scan, "_mean.png")
    bits = scan.facts["bits"]
    rounded = np.clip(np.rint(results.mean[0]), 0, 2**bits - 1)
    pixels = np.moveaxis(rounded, 0, -1).astype({1: bool, 8: np.uint8, 16: np.uint16}[bits])
    with writing(target) as partial:
        from PIL import Image, PngImagePlugin

        note = PngImagePlugin.PngInfo()
        note.add_itxt(_NOTE, provenance)
        picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        picture.save(partial, format="PNG", pnginfo=note)
    return [target, *_write_maps(folder, scan, results, provenance, ("std", "low", "high"))]


def write_tiff(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes mean, std, low and high as TIFF of float32."""
    return _write_maps(folder, scan, results, provenance, ("mean", "std", "low", "high"))


def _write_maps(
    folder: Path, scan: Scan, results: Results, provenance: str, names: tuple[str, ...]
) -> list[Path]:
    paths = []
    for name, values in results.items():
        if name not in names:
            continue
        target = place(folder, scan, f"_{name}.tif")
        is_grey = values.shape[1] == 1
        pages = values[:, 0] if is_grey else np.moveaxis(values, 1, -1)
        with writing(target) as partial:
            import tifffile

            tifffile.imwrite(
                partial,
                pages,
                photometric="minisblack" if is_grey else "rgb",
                description=provenance,
                metadata=None,
            )
        paths.append(target)
    return paths


def read_png_note(path: Path) -> str | None:
    """Reads the text that results carry."""
    _read_png_header(path)
    with library(path):
        from PIL import Image

        with Image.open(path, formats=("PNG",)) as picture:
            picture.load()
            note = picture.info.get(_NOTE)
    return str(note) if note is not None else None


def read_tiff_note(path: Path) -> str | None:
    """Reads the description of the first page."""
    with _opened_tiff(path) as file, library(path):
        return str(file.pages.first.description)
