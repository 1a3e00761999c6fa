"""NIfTI volumes, made and read back by nibabel."""

import gzip
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.scans import read_provenance, read_scan, write_results

Makers = dict[str, Callable[..., Any]]
CODES = [
    "".join(ends)
    for pairs in itertools.permutations(("RL", "AP", "SI"))
    for ends in itertools.product(*pairs)
]


def show(voxels: np.ndarray) -> np.ndarray:
    """Axial slices of a volume toward right, anterior and superior, as models know them."""
    return np.rot90(voxels).transpose(2, 0, 1)


def reorient(image: Any, codes: str) -> Any:
    ends = nibabel.orientations.axcodes2ornt(codes)
    start = nibabel.orientations.io_orientation(image.affine)
    return image.as_reoriented(nibabel.orientations.ornt_transform(start, ends))


def make_head(folder: Path, codes: str, sides: tuple[float, ...] = (2, 2.5, 3)) -> Path:
    """A volume whose axes run toward these ends, of the same voxels whatever they are."""
    voxels = np.arange(5 * 6 * 4, dtype=np.float32).reshape(5, 6, 4)
    image = nibabel.Nifti1Image(voxels, np.diag([*sides, 1.0]))
    image.affine[:3, 3] = 7, -8, 9
    reorient(image, codes).to_filename(folder / "head.nii")
    return folder / "head.nii"


@pytest.mark.parametrize("name", ["scan.nii.gz", "scan.nii"])
def test_journey(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any], name: str
) -> None:
    path = makers["make_nifti"](tmp_path, name)
    source = nibabel.load(path)
    scan = read_scan(path)
    voxels = source.get_fdata(dtype=np.float32)
    assert np.array_equal(scan.data[:, 0], show(voxels[::-1]))
    assert (scan.format, scan.kind, scan.size, scan.mask) == ("NIfTI", "image", (8, 6), None)
    assert scan.facts["spacing in mm"] == [2.5, 2.0, 4.0]

    results = make_results(scan)
    paths = write_results(tmp_path / "out", scan, results, {"model": "é" * 9})
    assert len(paths) == 8
    for kind, values in results.items():
        back = nibabel.load(tmp_path / "out" / f"scan_{kind}.nii.gz")
        assert back.get_data_dtype() == np.float32
        assert np.array_equal(show(back.get_fdata(dtype=np.float32)[::-1]), values[:, 0])
        assert np.array_equal(back.affine, source.affine)
        assert back.header.get_xyzt_units() == ("mm", "sec")
        for code in ("sform_code", "qform_code"):
            assert back.header[code] == source.header[code]
        sidecar = json.loads((tmp_path / "out" / f"scan_{kind}.json").read_text())
        assert (sidecar["Sources"], sidecar["IntervalLevel"]) == ([name], 0.9)
    for out in paths:
        assert read_provenance(out) == {"model": "é" * 9}
    assert np.array_equal(read_scan(paths[0]).data, results.mean)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_number_types_and_byte_orders(
    tmp_path: Path, makers: Makers, dtype: Any, order: str
) -> None:
    volume = makers["draw_pixels"]((5, 4, 2), dtype)
    image = nibabel.Nifti1Image(volume, np.eye(4), nibabel.Nifti1Header(endianness=order))
    image.set_data_dtype(np.dtype(dtype))
    image.to_filename(tmp_path / "a.nii")
    shown = show(volume).astype(np.float32)
    assert np.array_equal(read_scan(tmp_path / "a.nii").data[:, 0], shown)


@pytest.mark.parametrize("codes", CODES)
def test_every_orientation_shows_anterior_up_and_left_on_the_left(
    tmp_path: Path, make_results: Callable[..., Any], codes: str
) -> None:
    path = make_head(tmp_path, codes)
    source, scan = nibabel.load(path), read_scan(path)
    shown = show(np.arange(5 * 6 * 4).reshape(5, 6, 4))
    # Slices keep the order of the file.
    assert np.array_equal(scan.data[:, 0], shown[::-1] if "I" in codes else shown)
    assert scan.data.flags.c_contiguous
    assert scan.facts["orientation"] == "axial, anterior at the top, left on the left"
    assert scan.facts["spacing in mm"] == [2.5, 2.0, 3.0]

    results = replace(make_results(scan), mean=scan.data)
    back = nibabel.load(write_results(tmp_path / "out", scan, results, {})[0])
    assert (
        back.get_fdata(dtype=np.float32).tobytes() == source.get_fdata(dtype=np.float32).tobytes()
    )
    assert back.shape == source.shape
    for name in ("srow_x", "srow_y", "srow_z", "pixdim", "qform_code", "sform_code", "quatern_b"):
        assert back.header[name].tobytes() == source.header[name].tobytes()

    larger = replace(scan, size=(12, 10))
    grown = nibabel.load(write_results(tmp_path / "large", larger, make_results(larger), {})[0])
    assert nibabel.aff2axcodes(grown.affine) == tuple(codes)
    middle = [(np.array(one.shape) - 1) / 2 for one in (source, grown)]
    here, there = (one.affine @ [*at, 1] for one, at in zip((source, grown), middle, strict=True))
    np.testing.assert_allclose(here, there, atol=1e-5)
    again = read_scan(tmp_path / "large/head_mean.nii.gz")
    assert np.array_equal(again.data, make_results(larger).mean)
    assert again.facts["spacing in mm"] == [1.25, 1.0, 3.0]


@pytest.mark.parametrize(
    ("codes", "sides"), [("ASR", (5, 1, 1)), ("RSA", (1, 5, 1)), ("ASR", (1, 4, 4))]
)
def test_thick_slices_that_are_not_axial_stay_as_stored(
    tmp_path: Path, codes: str, sides: tuple[float, ...]
) -> None:
    path = make_head(tmp_path, codes, sides)
    scan = read_scan(path)
    voxels = nibabel.load(path).get_fdata(dtype=np.float32)
    assert np.array_equal(scan.data[:, 0], np.moveaxis(voxels, -1, 0))
    assert scan.facts["orientation"] == "as stored, slices are not axial"


@pytest.mark.parametrize(
    "affine", [None, np.diag([2.0, 0, 0, 1]), np.full((4, 4), np.nan)], ids=["no", "flat", "nan"]
)
def test_a_volume_without_directions_stays_as_stored(tmp_path: Path, affine: Any) -> None:
    voxels = np.arange(5 * 6 * 4, dtype=np.float32).reshape(5, 6, 4)
    header = nibabel.Nifti1Header()
    if affine is not None:
        header["sform_code"] = 1
        header["srow_x"], header["srow_y"], header["srow_z"] = affine[:3]
    nibabel.Nifti1Image(voxels, None, header).to_filename(tmp_path / "a.nii")
    assert int(nibabel.load(tmp_path / "a.nii").header["sform_code"]) == (affine is not None)
    scan = read_scan(tmp_path / "a.nii")
    assert np.array_equal(scan.data[:, 0], np.moveaxis(voxels, -1, 0))
    assert scan.facts["orientation"] == "as stored"


@pytest.mark.parametrize("is_placed", [True, False])
@pytest.mark.parametrize("codes", ["LPS", "PSR"])
def test_a_mask_beside_is_turned_alike(tmp_path: Path, codes: str, is_placed: bool) -> None:
    """One that does not say where it lies is of the scan's voxels."""
    path = make_head(tmp_path, codes)
    source = nibabel.load(path)
    known = np.zeros((5, 6, 4), np.uint8)
    known[:2, :3] = 1
    mask = reorient(nibabel.Nifti1Image(known, np.diag([2, 2.5, 3, 1])), codes)
    voxels = np.asarray(mask.dataobj)
    stored = nibabel.Nifti1Image(voxels, source.affine if is_placed else None)
    stored.to_filename(tmp_path / "mask.nii.gz")
    scan = read_scan(path, mask=tmp_path / "mask.nii.gz")
    assert scan.mask is not None
    assert np.array_equal(scan.mask, show(known)[0] == 1)


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1, 1)])
def test_version_2_and_other_shapes_keep_their_shape(
    tmp_path: Path, make_results: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    nibabel.Nifti2Image(np.ones(shape, np.float32), np.eye(4)).to_filename(tmp_path / "a.nii.gz")
    scan = read_scan(tmp_path / "a.nii.gz")
    assert scan.data.shape == (1, 1, 4, 5)
    paths = write_results(tmp_path, scan, make_results(scan), {})
    back = nibabel.load(paths[0])
    assert isinstance(back, nibabel.Nifti2Image)
    assert back.shape == shape


@pytest.mark.parametrize("codes", [(1, 1), (1, 0), (0, 2), (0, 0)])
def test_results_of_another_size_cover_the_same_field(
    tmp_path: Path, make_results: Callable[..., Any], codes: tuple[int, int]
) -> None:
    """Twice as many rows, half as many columns."""
    affine = np.array([[0, -2, 0, 5], [3, 0, 0, 6], [0, 0, 4, 7], [0, 0, 0, 1.0]])
    image = nibabel.Nifti1Image(np.ones((6, 8, 2), np.float32), affine)
    image.set_qform(affine, codes[0])
    image.set_sform(affine, codes[1])
    image.to_filename(tmp_path / "a.nii")
    source = nibabel.load(tmp_path / "a.nii")
    scan = replace(read_scan(tmp_path / "a.nii"), size=(12, 4))
    results = make_results(scan)
    back = nibabel.load(write_results(tmp_path / "out", scan, results, {})[0])
    assert np.array_equal(read_scan(tmp_path / "out/a_mean.nii.gz").data, results.mean)
    assert back.shape == (12, 4, 2)
    assert back.header.get_zooms() == (1.5, 4.0, 4.0)
    assert (int(back.header["qform_code"]), int(back.header["sform_code"])) == codes
    for corner, same in (((-0.5, -0.5, 0), (-0.5, -0.5, 0)), ((5.5, 7.5, 1), (11.5, 3.5, 1))):
        there, here = source.affine @ [*corner, 1], back.affine @ [*same, 1]
        np.testing.assert_allclose(here, there, atol=1e-5)


def test_packed_volumes_are_known_by_content_not_by_name(tmp_path: Path, makers: Makers) -> None:
    path = makers["make_nifti"](tmp_path)
    hidden = path.rename(tmp_path / "volume.bin")
    assert read_scan(hidden).format == "NIfTI"
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"not a volume" * 99))
    with pytest.raises(InputError, match="does not hold NIfTI as its name says"):
        read_scan(tmp_path / "a.gz")


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        (np.ones((4, 4, 2, 3), np.float32), "save one volume per file"),
        (np.ones((4, 4), np.complex64), "save it as integers or floats"),
        (np.full((4, 4), np.nan, np.float32), "not finite"),
        (np.full((4, 4), 1e300), "not finite"),
    ],
)
def test_other_volumes_are_refused(tmp_path: Path, volume: np.ndarray, words: str) -> None:
    nibabel.Nifti1Image(volume, np.eye(4)).to_filename(tmp_path / "a.nii")
    with pytest.raises(InputError, match=words):
        read_scan(tmp_path / "a.nii")


@pytest.mark.parametrize("offset", [1e9, -4.0, np.nan, np.inf, 3e38])
def test_voxels_cannot_start_anywhere(tmp_path: Path, makers: Makers, offset: float) -> None:
    path = makers["make_plain_nifti"](tmp_path)
    raw = bytearray(path.read_bytes())
    raw[108:112] = np.float32(offset).tobytes()
    path.write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(InputError, match=r"scan.nii .*: (save|export) it anew"):
        read_scan(path)


def test_a_mask_of_several_slices_is_the_same_in_all(tmp_path: Path, makers: Makers) -> None:
    path = makers["make_nifti"](tmp_path)
    taken = np.ones((6, 8, 3), np.uint8)
    taken[2:4, 3:5] = 0
    affine = nibabel.load(path).affine
    nibabel.Nifti1Image(taken, affine).to_filename(tmp_path / "mask.nii.gz")
    mask = read_scan(path, tmp_path / "mask.nii.gz").mask
    assert mask is not None
    assert (~mask).sum() == 4
    taken[0, 0, 1] = 0
    nibabel.Nifti1Image(taken, affine).to_filename(tmp_path / "mask.nii.gz")
    with pytest.raises(InputError, match="other masks in 3 slices"):
        read_scan(path, tmp_path / "mask.nii.gz")
