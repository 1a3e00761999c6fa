"""Volumes and pictures made to do harm."""

import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from tests.scans.forging import HARMLESS, Makers, forgery, inflate_to


def make_volume_header(shape: tuple[int, ...], **fields: Any) -> bytes:
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.float32)
    header.set_data_shape(shape)
    header["magic"] = b"n+1"
    header["vox_offset"] = 352
    for name, value in fields.items():
        header[name] = value
    return bytes(header.binaryblock)


@forgery("GiB")
def nifti_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    header = make_volume_header((30000, 30000, 30000))
    (folder / "a.nii.gz").write_bytes(gzip.compress(header + bytes(99)))
    return folder / "a.nii.gz"


@forgery("voxels start at byte")
def nifti_bomb(folder: Path, makers: Makers) -> Path:
    header = make_volume_header((4, 4), vox_offset=5e9)
    packed = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + inflate_to(6 << 30, header)
    (folder / "a.nii.gz").write_bytes(packed)
    return folder / "a.nii.gz"


@forgery("as damaged files do")
def nifti_of_countless_slices(folder: Path, makers: Makers) -> Path:
    header = nibabel.Nifti2Header()
    header.set_data_dtype(np.uint8)
    header.set_data_shape((1, 1, 1 << 28))
    header["magic"], header["vox_offset"] = b"n+2\0\r\n\x1a\n", 544
    packed = inflate_to(1 << 28, bytes(header.binaryblock) + bytes(4))
    (folder / "a.nii.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + packed)
    return folder / "a.nii.gz"


@forgery("268435456 slices")
def nifti_as_long_as_its_slices(folder: Path, makers: Makers) -> Path:
    header = nibabel.Nifti2Header()
    header.set_data_dtype(np.uint8)
    header.set_data_shape((1, 1, 1 << 28))
    header["magic"], header["vox_offset"] = b"n+2\0\r\n\x1a\n", 544
    (folder / "a.nii").write_bytes(bytes(header.binaryblock))
    os.truncate(folder / "a.nii", 544 + (1 << 28))
    return folder / "a.nii"


@forgery("ends before its last number")
def nifti_without_voxels(folder: Path, makers: Makers) -> Path:
    (folder / "a.nii").write_bytes(make_volume_header((4000, 4000, 3)) + bytes(4))
    return folder / "a.nii"


def make_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def make_picture(rows: int, columns: int, bits: int, *chunks: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", columns, rows, bits, 0, 0, 0, 0)
    pixels = make_chunk(b"IDAT", zlib.compress(bytes(rows * 99 if rows < 9 else 9)))
    end = make_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + make_chunk(b"IHDR", head) + b"".join(chunks) + pixels + end


@forgery("GiB")
def png_of_a_huge_size(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_bytes(make_picture(2**31 - 1, 2**31 - 1, 16))
    return folder / "a.png"


@forgery("a.png cannot be read")
def png_of_a_large_size(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_bytes(make_picture(8000, 8000, 8))
    return folder / "a.png"


@forgery("as damaged files do")
def png_bomb(folder: Path, makers: Makers) -> Path:
    side = 1 << 14
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    lines = zlib.compress(bytes(side * (side // 8 + 1)), 9)
    chunks = make_chunk(b"IHDR", head), make_chunk(b"IDAT", lines), make_chunk(b"IEND", b"")
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return folder / "a.png"


@forgery("pieces: save it without notes")
def png_of_notes(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_bytes(make_picture(4, 4, 8, make_chunk(b"teSt", b"") * 300_000))
    return folder / "a.png"


@forgery("a.png cannot be read")
def png_note_bomb(folder: Path, makers: Makers) -> Path:
    note = b"Comment\0\0" + inflate_to(6 << 30, wbits=15)
    (folder / "a.png").write_bytes(make_picture(4, 4, 8, make_chunk(b"zTXt", note)))
    return folder / "a.png"


@forgery("empty array")
def png_of_no_size(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_bytes(make_picture(0, 4, 8))
    return folder / "a.png"


def make_tags(path: Path, following: int = 0, **values: int) -> Path:
    """A TIFF of one page, whose tags say what is asked of them."""
    tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 200, 277: 1, 278: 8, 279: 64}
    names = {"columns": 256, "rows": 257, "bits": 258, "packing": 259, "length": 279}
    tags |= {names[name]: value for name, value in values.items()}
    table = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    page = struct.pack("<H", len(tags)) + table + struct.pack("<I", following)
    path.write_bytes((b"II*\0" + struct.pack("<I", 8) + page).ljust(200, b"\0") + bytes(64))
    return path


@forgery("GiB")
def tiff_of_a_huge_size(folder: Path, makers: Makers) -> Path:
    return make_tags(folder / "a.tif", columns=2**32 - 1, rows=2**32 - 1)


@forgery("a.tif")
def tiff_longer_than_its_file(folder: Path, makers: Makers) -> Path:
    return make_tags(folder / "a.tif", columns=15000, rows=15000, length=15000**2)


@forgery(HARMLESS)
def tiff_bomb(folder: Path, makers: Makers) -> Path:
    packed = inflate_to(6 << 30, wbits=15)
    path = make_tags(folder / "a.tif", packing=8, length=len(packed))
    path.write_bytes(path.read_bytes()[:200] + packed)
    return path


def deflate_dicom(folder: Path, makers: Makers, size: int) -> Path:
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    image = makers["make_slice"](0)
    image.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    image.save_as(folder / "a.dcm", enforce_file_format=True)
    raw = (folder / "a.dcm").read_bytes()
    # Behind the preamble comes the group that names the packing, behind its length.
    start = 144 + int.from_bytes(raw[140:144], "little")
    inner = zlib.decompress(raw[start:], -15)
    # A trailing element that claims the zeros.
    inner += struct.pack("<HH2sHI", 0xFFFC, 0xFFFC, b"OB", 0, size)
    (folder / "a.dcm").write_bytes(raw[:start] + inflate_to(size, inner))
    return folder / "a.dcm"


@forgery("unpacks to more than 2 GiB")
def dicom_bomb(folder: Path, makers: Makers) -> Path:
    return deflate_dicom(folder, makers, 3 << 30)


@forgery("GiB")
def dicom_of_a_huge_size(folder: Path, makers: Makers) -> Path:
    image = makers["make_slice"](0)
    image.Rows = image.Columns = 65535
    image.save_as(folder / "a.dcm", enforce_file_format=True)
    return folder / "a.dcm"


@forgery("copy the file into the folder")
def dicom_link(folder: Path, makers: Makers) -> Path:
    path = makers["make_dicom"](folder)
    makers["make_slice"](3).save_as(folder / "outside.dcm", enforce_file_format=True)
    (path / "d.dcm").symlink_to(folder / "outside.dcm")
    return path


@forgery("holds no integer pixels")
def dicom_without_pixels(folder: Path, makers: Makers) -> Path:
    image = makers["make_slice"](0)
    del image.PixelData
    image.save_as(folder / "a.dcm", enforce_file_format=True)
    return folder / "a.dcm"


@forgery("rescale slope of zero")
def dicom_without_scale(folder: Path, makers: Makers) -> Path:
    image = makers["make_slice"](0)
    image.RescaleSlope = 0
    image.save_as(folder / "a.dcm", enforce_file_format=True)
    return folder / "a.dcm"


@forgery("grey original")
def dicom_in_colour(folder: Path, makers: Makers) -> Path:
    image = makers["make_slice"](0)
    image.SamplesPerPixel, image.PhotometricInterpretation = 3, "RGB"
    image.save_as(folder / "a.dcm", enforce_file_format=True)
    return folder / "a.dcm"
