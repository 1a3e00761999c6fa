"""Files made to do harm: bombs, links out of the file, code, impossible sizes."""

import gzip
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numpy as np
import pytest
import zarr

Makers = dict[str, Callable[..., Any]]
Forger = Callable[[Path, Makers], Path]

FORGERIES: dict[str, tuple[Forger, str, str | None]] = {}
HARMLESS = "Scan("  # in place of words: all that the file claims beyond its pixels is ignored


def forgery(words: str, key: str | None = None) -> Callable[[Forger], Forger]:
    """Registers a maker of a file and the words that its refusal must hold."""

    def register(maker: Forger) -> Forger:
        FORGERIES[maker.__name__] = (maker, words, key)
        return maker

    return register


def inflate_to(size: int, start: bytes = b"", wbits: int = -15) -> bytes:
    """A deflate stream that unpacks to zeros of any size, made of one piece many times over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so that the piece may follow itself.
    return head + piece * (size >> 24) + packer.flush()


def make_kspace_file(folder: Path, **parts: Any) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        for name, part in parts.items():
            file[name] = part
    return folder / "a.h5"


@forgery("is empty")
def empty_file(folder: Path, makers: Makers) -> Path:
    (folder / "a.h5").touch()
    return folder / "a.h5"


@forgery("is no file or folder")
def missing_file(folder: Path, makers: Makers) -> Path:
    return folder / "a.png"


@forgery("is no file or folder")
def pipe(folder: Path, makers: Makers) -> Path:
    os.mkfifo(folder / "a.npy")
    return folder / "a.npy"


@forgery("holds neither a DICOM series nor zarr")
def empty_folder(folder: Path, makers: Makers) -> Path:
    return folder


@forgery("does not hold PNG as its name says")
def text_named_png(folder: Path, makers: Makers) -> Path:
    (folder / "a.png").write_text("a picture")
    return folder / "a.png"


@forgery("is of no known format")
def name_of_two_lines(folder: Path, makers: Makers) -> Path:
    (folder / "a\nb\x1b[31m.txt").write_text("text")
    return folder / "a\nb\x1b[31m.txt"


@forgery("GiB")
def hdf5_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        shape = (1 << 20, 1 << 20, 640, 368)
        file.create_dataset("kspace", shape, np.complex64, chunks=(1, 1, 64, 64))
    return folder / "a.h5"


@forgery("GiB")
def hdf5_of_a_huge_chunk(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        chunks = (1, 1, 20000, 20000)
        options = {"chunks": chunks, "maxshape": (None,) * 4}
        file.create_dataset("kspace", (1, 1, 4, 4), np.complex64, **options)
    return folder / "a.h5"


@forgery("a.h5")
def hdf5_bomb(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        options = {"chunks": (1, 1, 64, 64), "compression": "gzip"}
        entry = file.create_dataset("kspace", (1, 1, 64, 64), np.complex64, **options)
        entry.id.write_direct_chunk((0, 0, 0, 0), inflate_to(6 << 30, wbits=15))
    return folder / "a.h5"


@forgery("links 'kspace' to another place")
def hdf5_link_to_a_file(folder: Path, makers: Makers) -> Path:
    (folder / "other").mkdir()
    other = makers["make_fastmri"](folder / "other")
    return make_kspace_file(folder, kspace=h5py.ExternalLink(other, "kspace"))


@forgery("links 'kspace' to another place")
def hdf5_link_within(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(
        folder, kspace=h5py.SoftLink("/hidden"), hidden=makers["draw_complex"]((2, 3, 8, 6))
    )


@forgery("keeps 'kspace' in other files")
def hdf5_raw_file_outside(folder: Path, makers: Makers) -> Path:
    (folder / "raw").write_bytes(bytes(512))
    with h5py.File(folder / "a.h5", "w") as file:
        outside = [(folder / "raw", 0, 512)]
        file.create_dataset("kspace", (1, 1, 8, 8), np.complex64, external=outside)
    return folder / "a.h5"


@forgery("keeps 'kspace' in other files")
def hdf5_virtual(folder: Path, makers: Makers) -> Path:
    (folder / "other").mkdir()
    other = makers["make_fastmri"](folder / "other")
    with h5py.File(folder / "a.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 3, 16, 10), np.complex64)
        layout[...] = h5py.VirtualSource(other, "kspace", (2, 3, 16, 10))
        file.create_virtual_dataset("kspace", layout)
    return folder / "a.h5"


@forgery("holds no dataset 'kspace'")
def hdf5_group(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_group("kspace")
    return folder / "a.h5"


@forgery("store k-space as complex numbers")
def hdf5_of_real_numbers(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=np.ones((2, 3, 8, 6)))


@forgery("holds object")
def hdf5_of_text(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=["a", "b"])


@forgery("empty array")
def hdf5_of_nothing(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=np.ones((0, 3, 8, 6), np.complex64))


@forgery("not finite")
def hdf5_with_nan(folder: Path, makers: Makers) -> Path:
    kspace = makers["draw_complex"]((2, 3, 8, 6))
    kspace[1, 2, 3, 4] = np.nan
    return make_kspace_file(folder, kspace=kspace)


@forgery("plain name of an array", key="../kspace")
def hdf5_key_out_of_the_file(folder: Path, makers: Makers) -> Path:
    return makers["make_fastmri"](folder)


@forgery("declarations of its own")
def hdf5_header_of_entities(folder: Path, makers: Makers) -> Path:
    lines = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(20))
    header = f'<!DOCTYPE a [<!ENTITY a0 "ha">{lines}]><a>&a20;</a>'
    return make_kspace_file(
        folder, kspace=makers["draw_complex"]((2, 3, 8, 6)), ismrmrd_header=header
    )


class Trap:
    """Runs a command when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@forgery("holds object")
def npy_of_code(folder: Path, makers: Makers) -> Path:
    np.save(folder / "a.npy", np.array([[Trap(folder / "sprung")]], object), allow_pickle=True)
    return folder / "a.npy"


@forgery("holds object")
def npz_of_code(folder: Path, makers: Makers) -> Path:
    np.savez(folder / "a.npz", images=np.array([[Trap(folder / "sprung")]], object))
    return folder / "a.npz"


def make_array_header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    stream = io.BytesIO()
    said = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(stream, said)
    return stream.getvalue()


@forgery("GiB")
def npy_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((1 << 40, 1 << 40)))
    return folder / "a.npy"


@forgery("ends before its last number")
def npy_cut_short(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((8000, 8000)) + bytes(99))
    return folder / "a.npy"


@forgery("declares the shape")
def npy_of_a_negative_shape(folder: Path, makers: Makers) -> Path:
    (folder / "a.npy").write_bytes(make_array_header((-4, -4)) + bytes(64))
    return folder / "a.npy"


def pack_bomb(path: Path, start: bytes, size: int) -> Path:
    """A zip archive with one member that unpacks to far more than its size."""
    packed, name = inflate_to(size, start), b"images.npy"
    length = (size + len(start)) & 0xFFFFFFFF
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(packed), length, len(name), 0)
    local = b"PK\3\4" + fields + name + packed
    central = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0)
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central) + len(name), len(local), 0)
    path.write_bytes(local + central + name + b"PK\5\6" + end)
    return path


@forgery("GiB")
def npz_bomb_of_numbers(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", make_array_header((1 << 16, 1 << 16)), 6 << 30)


@forgery("as damaged files do")
def npz_bomb_of_allowed_size(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", make_array_header((1 << 14, 1 << 14)), 1 << 30)


@forgery("header too long")
def npz_bomb_of_a_header(folder: Path, makers: Makers) -> Path:
    return pack_bomb(folder / "a.npz", b"\x93NUMPY\2\0\xff\xff\xff\xff", 6 << 30)


@forgery("too many arrays")
def npz_of_many_members(folder: Path, makers: Makers) -> Path:
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for index in range(20_000):
            archive.writestr(f"{index:030d}", b"")
    return folder / "a.npz"


@forgery("packs 'images' in an unusual way")
def npz_packed_slowly(folder: Path, makers: Makers) -> Path:
    stream = io.BytesIO()
    np.save(stream, np.ones((4, 4)))
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("images.npy", stream.getvalue())
    return folder / "a.npz"


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


@forgery("unpacks to more than 1 GiB")
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


def change_metadata(path: Path, **fields: Any) -> Path:
    file = path / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
    return path


def make_zarr_array(folder: Path, **options: Any) -> Path:
    array = zarr.create_array(
        folder / "a.zarr", shape=(8, 8), chunks=(8, 8), dtype="float32", **options
    )
    array[...] = 1
    return folder / "a.zarr"


@forgery("GiB")
def zarr_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    return change_metadata(make_zarr_array(folder), shape=[1 << 40, 1 << 40])


@forgery("GiB")
def zarr_of_a_huge_chunk(folder: Path, makers: Makers) -> Path:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1 << 20, 1 << 20]}}
    return change_metadata(make_zarr_array(folder), chunk_grid=grid)


@forgery("a.zarr")
def zarr_of_countless_chunks(folder: Path, makers: Makers) -> Path:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}
    return change_metadata(make_zarr_array(folder), shape=[16000, 16000], chunk_grid=grid)


@forgery("a.zarr")
def zarr_bomb(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder, compressors=zarr.codecs.GzipCodec())
    chunk = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + inflate_to(6 << 30)
    (path / "c" / "0" / "0").write_bytes(chunk)
    return path


@forgery("copy the file into the folder")
def zarr_link(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder)
    chunk = path / "c" / "0" / "0"
    chunk.rename(folder / "outside")
    chunk.symlink_to(folder / "outside")
    return path


@forgery("plain name of an array", key="../outside.zarr")
def zarr_key_out_of_the_folder(folder: Path, makers: Makers) -> Path:
    make_zarr_array(folder).rename(folder / "outside.zarr")
    return makers["make_zarr"](folder)


@forgery("a.zarr cannot be read")
def zarr_of_deep_metadata(folder: Path, makers: Makers) -> Path:
    path = make_zarr_array(folder)
    (path / "zarr.json").write_text("[" * 100_000)
    return path


@forgery("holds object")
def zarr_of_objects(folder: Path, makers: Makers) -> Path:
    return change_metadata(make_zarr_array(folder), data_type="object")


@forgery("not finite")
def zarr_filled_with_nan(folder: Path, makers: Makers) -> Path:
    path = change_metadata(make_zarr_array(folder), fill_value="NaN")
    (path / "c" / "0" / "0").unlink()
    return path


@forgery("is zarr of version 2")
def zarr_of_version_2(folder: Path, makers: Makers) -> Path:
    zarr.open_group(folder / "a.zarr", mode="w", zarr_format=2)
    return folder / "a.zarr"


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, makers: Makers, read_many: Any
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """All forgeries, read in one go."""
    root = tmp_path_factory.mktemp("forgeries")
    paths = {}
    for name, (maker, _, _) in FORGERIES.items():
        (root / name).mkdir()
        paths[name] = maker(root / name, makers)
    keys = [FORGERIES[name][2] for name in paths]
    outcomes = read_many([*paths.values()], keys)
    return {
        name: (path, outcome) for (name, path), outcome in zip(paths.items(), outcomes, strict=True)
    }


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_is_refused_in_one_line(name: str, found: dict[str, Any]) -> None:
    path, outcome = found[name]
    line = outcome["line"]
    allowed = ("refused", *(["ended"] if outcome["fragile"] else []))
    words = FORGERIES[name][1]
    assert outcome["outcome"] in (("scan",) if words == HARMLESS else allowed), line
    assert words in line
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert outcome["seconds"] < 10
    assert outcome["bytes"] < 2e9
    assert not (path.parent / "sprung").exists()


@pytest.mark.parametrize(
    "name", ["nifti_of_countless_slices", "npz_bomb_of_allowed_size", "png_bomb"]
)
def test_small_files_that_declare_much_take_little(name: str, found: dict[str, Any]) -> None:
    """Each is valid, and took 1.1 to 1.5 GB or hours when it was read."""
    path, outcome = found[name]
    assert path.stat().st_size < 1.1e6
    assert outcome["outcome"] == "refused"
    assert outcome["bytes"] < 300e6
    assert outcome["seconds"] < 1
