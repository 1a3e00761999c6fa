"""DICOM series, made by pydicom and read back by pydicom and highdicom."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import highdicom
import numpy as np
import pydicom
import pytest

from bcdm.errors import InputError
from bcdm.scans import (
    Results,
    Scan,
    check_results,
    read_provenance,
    read_scan,
    write_results,
)

Makers = dict[str, Callable[..., Any]]
Reader = Callable[..., list[dict[str, Any]]]


def read_measures(path: Path) -> tuple[list[float], float]:
    head = pydicom.dcmread(path)
    groups = [*head.SharedFunctionalGroupsSequence, *head.PerFrameFunctionalGroupsSequence]
    measures = next(g.PixelMeasuresSequence[0] for g in groups if "PixelMeasuresSequence" in g)
    return [*measures.PixelSpacing], measures.SliceThickness


def expected_slice(index: int) -> np.ndarray:
    stored = np.random.default_rng(index).integers(0, 4096, (6, 8), dtype=np.uint16)
    return stored * np.float32(2) - np.float32(1000)


def frames_by_position(path: Path) -> dict[float, np.ndarray]:
    mapped = highdicom.pm.ParametricMap.from_dataset(pydicom.dcmread(path))
    frames = mapped.pixel_array.reshape(-1, mapped.Rows, mapped.Columns)
    return {
        float(groups.PlanePositionSequence[0].ImagePositionPatient[2]): pixels
        for groups, pixels in zip(mapped.PerFrameFunctionalGroupsSequence, frames, strict=True)
    }


def test_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_dicom"](tmp_path)
    scan = read_scan(path)
    assert np.array_equal(scan.data[:, 0], [expected_slice(index) for index in range(3)])
    assert (scan.format, scan.kind, scan.size) == ("DICOM", "image", (6, 8))
    facts = {"modality": "MR", "vendor": "ACME", "TR in ms": 500.0, "spacing in mm": [1.5, 2.0]}
    assert facts.items() <= scan.facts.items()

    results = make_results(scan)
    provenance = {"model": "a model", "note": "word " * 900}
    paths = write_results(tmp_path / "out", scan, results, provenance)
    names = ["series_mean", "series_results.json", "series_std.dcm", "series_low.dcm"]
    assert [out.name for out in paths] == [*names, "series_high.dcm"]
    derived = [pydicom.dcmread(file) for file in sorted(paths[0].iterdir())]
    for index, image in enumerate(derived):
        rescaled = image.pixel_array * np.float32(2) - np.float32(1000)
        assert np.array_equal(rescaled, results.mean[index, 0])
        assert image.ImageType == ["DERIVED", "SECONDARY"]
        assert image.DerivationDescription == "Posterior mean given the measurement"
        assert image.ImagePositionPatient == [1.0, 2.0, 4.0 * index]
        source = image.SourceImageSequence[0].ReferencedSOPInstanceUID
        assert source == f"1.2.3.4.{index}"
        assert image.SOPInstanceUID.is_valid
        assert image.file_meta.MediaStorageSOPInstanceUID == image.SOPInstanceUID
        assert (image.StudyInstanceUID, image.PatientID) == ("1.2.3", "nobody")
    assert len({image.SOPInstanceUID for image in derived}) == 3
    assert {image.SeriesInstanceUID for image in derived} != {"1.2.3.4"}
    for name, values in results.items()[1:]:
        frames = frames_by_position(tmp_path / "out" / f"series_{name}.dcm")
        mapped = pydicom.dcmread(tmp_path / "out" / f"series_{name}.dcm")
        sources = mapped.ReferencedSeriesSequence[0].ReferencedInstanceSequence
        assert {item.ReferencedSOPInstanceUID for item in sources} == {
            f"1.2.3.4.{index}" for index in range(3)
        }
        for index in range(3):
            assert frames[4.0 * index].dtype == np.float32
            assert np.array_equal(frames[4.0 * index], values[index, 0])
    for out in paths:
        assert read_provenance(out) == provenance
    assert np.array_equal(read_scan(paths[0]).data, results.mean)


def test_identifiers_are_functions_of_the_content(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    scan = read_scan(makers["make_dicom_file"](tmp_path))
    results = make_results(scan)
    other = Results(results.mean + 2, results.std, results.low, results.high, results.level)

    def name(folder: str, results: Results, provenance: dict[str, int]) -> dict[str, bytes]:
        paths = write_results(tmp_path / folder, scan, results, provenance)
        files = [next(paths[0].iterdir()), *paths[2:]]
        return {str(pydicom.dcmread(file).SOPInstanceUID): file.read_bytes() for file in files}

    first = name("a", results, {"seed": 1})
    assert len(first) == 4
    assert name("b", results, {"seed": 1}) == first
    assert not name("c", results, {"seed": 2}).keys() & first.keys()
    assert not name("d", other, {"seed": 1}).keys() & first.keys()


def test_means_beyond_the_number_type_are_clipped(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    scan = read_scan(makers["make_dicom_file"](tmp_path))
    results = make_results(scan)
    results.mean[0, 0, 0, :3] = [-5000, 1e6, 0.9]
    image = pydicom.dcmread(next(write_results(tmp_path / "out", scan, results, {})[0].iterdir()))
    assert image.pixel_array[0, :3].tolist() == [0, 4095, 500]


def test_files_of_many_frames(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    """Each frame has its own position and scale, as in enhanced images."""
    image = makers["make_slice"](0)
    pixels = makers["draw_pixels"]((2, 6, 8), np.uint16) >> 4
    image.NumberOfFrames, image.PixelData = 2, pixels.tobytes()
    image.PerFrameFunctionalGroupsSequence = groups = [pydicom.Dataset(), pydicom.Dataset()]
    for index, group in enumerate(groups):
        place, scale = pydicom.Dataset(), pydicom.Dataset()
        place.ImagePositionPatient = [0.0, 0.0, 7.0 * index]
        scale.RescaleSlope, scale.RescaleIntercept = index + 1, 5
        group.PlanePositionSequence = [place]
        group.PixelValueTransformationSequence = [scale]
    image.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    scan = read_scan(tmp_path / "a.dcm")
    assert np.array_equal(scan.data[:, 0], pixels * np.array([[[1]], [[2]]]) + np.float32(5))

    results = make_results(scan)
    paths = write_results(tmp_path, scan, results, {})
    back = pydicom.dcmread(paths[0] / "00001.dcm").pixel_array
    assert np.array_equal(back[0], np.clip(results.mean[0, 0] - 5, 0, None))
    frames = frames_by_position(tmp_path / "a_std.dcm")
    assert np.array_equal(frames[7.0], results.std[1, 0])
    paths = write_results(tmp_path / "gap", scan, leave_out(results, 1), {})
    gap = pydicom.dcmread(paths[0] / "00001.dcm").pixel_array
    assert np.array_equal(gap[0], back[0])
    assert not gap[1].any()
    assert list(frames_by_position(tmp_path / "gap/a_std.dcm")) == [0.0]


def leave_out(results: Results, number: int) -> Results:
    maps = [values.copy() for _, values in results.items()]
    for values in maps:
        values[number] = np.nan
    return Results(*maps, results.level, (number,))


def test_slices_that_are_left_out_have_no_file(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    scan = read_scan(makers["make_dicom"](tmp_path))
    results = leave_out(make_results(scan), 1)
    paths = write_results(tmp_path / "out", scan, results, {})
    files = sorted(paths[0].iterdir())
    assert [file.name for file in files] == ["00001.dcm", "00003.dcm"]
    for number, file in zip((0, 2), files, strict=True):
        image = pydicom.dcmread(file)
        assert image.ImagePositionPatient[2] == 4.0 * number
        assert image.DerivationDescription.endswith("left out, not to be trusted: 1")
    for name, values in results.items()[1:]:
        frames = frames_by_position(tmp_path / "out" / f"series_{name}.dcm")
        assert sorted(frames) == [0.0, 8.0]
        assert np.array_equal(frames[8.0], values[2, 0])


def resize(scan: Scan, make_results: Callable[..., Any], size: tuple[int, int]) -> Any:
    larger = replace(scan, size=size)
    return larger, make_results(larger)


def test_results_of_another_size_cover_the_same_field(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    """Twice as many rows, half as many columns."""
    scan = read_scan(makers["make_dicom"](tmp_path))
    larger, results = resize(scan, make_results, (12, 4))
    paths = write_results(tmp_path / "out", larger, results, {})
    assert np.array_equal(read_scan(paths[0]).data, results.mean)
    first = pydicom.dcmread(paths[0] / "00001.dcm")
    assert (first.Rows, first.Columns, first.PixelSpacing) == (12, 4, [0.75, 4.0])
    # The corner of the field stays: half a pixel before the middle of the first.
    assert first.ImagePositionPatient == [1.0 - 1.0 + 2.0, 2.0 - 0.75 + 0.375, 0.0]
    mapped = pydicom.dcmread(paths[2])
    assert (mapped.Rows, mapped.Columns) == (12, 4)
    measures = mapped.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0]
    assert measures.PixelSpacing == [0.75, 4.0]
    groups = mapped.PerFrameFunctionalGroupsSequence[0]
    assert groups.PlanePositionSequence[0].ImagePositionPatient[:2] == [2.0, 1.625]
    assert np.array_equal(frames_by_position(paths[2])[4.0], results.std[1, 0])


@pytest.mark.parametrize("is_shared", [True, False])
def test_frames_of_another_size_cover_the_same_field(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any], is_shared: bool
) -> None:
    image = makers["make_slice"](0)
    pixels = makers["draw_pixels"]((2, 6, 8), np.uint16) >> 4
    image.NumberOfFrames, image.PixelData = 2, pixels.tobytes()
    del image.PixelSpacing, image.SliceThickness, image.ImagePositionPatient
    measures, shared = pydicom.Dataset(), pydicom.Dataset()
    measures.PixelSpacing, measures.SliceThickness = [1.0, 3.0], 5.0
    image.SharedFunctionalGroupsSequence = [shared]
    image.PerFrameFunctionalGroupsSequence = groups = [pydicom.Dataset(), pydicom.Dataset()]
    for group in [shared] if is_shared else groups:
        group.PixelMeasuresSequence = [measures]
    for index, group in enumerate(groups):
        place = pydicom.Dataset()
        place.ImagePositionPatient = [0.0, 0.0, 7.0 * index]
        group.PlanePositionSequence = [place]
    image.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    scan = read_scan(tmp_path / "a.dcm")
    assert scan.facts["spacing in mm"] == [1.0, 3.0]
    assert scan.facts["slice thickness in mm"] == 5.0
    write_results(tmp_path / "same", scan, make_results(scan), {})
    assert read_measures(tmp_path / "same/a_std.dcm") == ([1.0, 3.0], 5.0)

    larger, results = resize(scan, make_results, (12, 16))
    paths = write_results(tmp_path / "out", larger, results, {})
    assert np.array_equal(read_scan(paths[0]).data, results.mean)
    back = pydicom.dcmread(paths[0] / "00001.dcm")
    assert read_measures(paths[0] / "00001.dcm") == ([0.5, 1.5], 5.0)
    for name in ("std", "low", "high"):
        assert read_measures(tmp_path / f"out/a_{name}.dcm") == ([0.5, 1.5], 5.0)
    place = back.PerFrameFunctionalGroupsSequence[1].PlanePositionSequence[0]
    assert place.ImagePositionPatient == [-0.75, -0.25, 7.0]


def test_results_in_colour_are_refused(tmp_path: Path, makers: Makers) -> None:
    scan = read_scan(makers["make_dicom_file"](tmp_path))
    colour = replace(scan, data=np.repeat(scan.data, 3, 1))
    with pytest.raises(InputError, match="takes no results in colour"):
        check_results(colour, (1, 3, 6, 8))


def test_white_as_the_smallest_number_is_refused(tmp_path: Path, makers: Makers) -> None:
    image = makers["make_slice"](0)
    image.PhotometricInterpretation = "MONOCHROME1"
    image.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    with pytest.raises(InputError, match="stores white as its smallest number"):
        read_scan(tmp_path / "a.dcm")


def test_several_series_in_a_folder_need_a_key(
    tmp_path: Path, makers: Makers, read_many: Reader
) -> None:
    path = makers["make_dicom"](tmp_path)
    makers["make_slice"](5, "1.2.3.5").save_as(path / "z", enforce_file_format=True)
    (path / "readme.txt").write_text("not an image")
    scan = read_scan(path, key="1.2.3.4")
    assert len(scan.data) == 3
    (found,) = read_many([path])
    assert "holds 2 series: give the key of one (1.2.3.4, 1.2.3.5)" in found["line"]


@pytest.mark.parametrize("frames", [1, 2])
def test_stripped_files_can_be_written_too(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any], frames: int
) -> None:
    image = makers["make_slice"](0)
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        delattr(image, name)
    del image.SliceThickness
    for name in ("FrameOfReferenceUID", "PatientID", "RescaleSlope", "SeriesNumber"):
        delattr(image, name)
    if frames > 1:
        image.NumberOfFrames, image.PixelData = frames, image.PixelData * frames
    image.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    scan = read_scan(tmp_path / "a.dcm")
    results = make_results(scan)
    write_results(tmp_path, scan, results, {})
    by_position = frames_by_position(tmp_path / "a_std.dcm")
    for index in range(frames):
        assert np.array_equal(by_position[float(index)], results.std[index, 0])


def test_results_do_not_go_into_the_series_itself(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    scan = read_scan(makers["make_dicom"](tmp_path))
    with pytest.raises(InputError, match="is the input itself"):
        write_results(scan.path, scan, make_results(scan), {})


def test_what_was_simulated_says_so(
    tmp_path: Path, makers: Makers, make_results: Callable[..., Any]
) -> None:
    scan = read_scan(makers["make_dicom"](tmp_path))
    scan = replace(scan, facts=dict(scan.facts) | {"simulated": True})
    paths = write_results(tmp_path / "out", scan, make_results(scan), {})
    image = pydicom.dcmread(next(paths[0].iterdir()))
    assert image.DerivationDescription.endswith("simulated from this clean image")
