"""ISMRMRD files, made and read back by the ismrmrd package."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bcdm.errors import InputError
from bcdm.scans import (
    crop_kspace,
    read_provenance,
    read_scan,
    remove_oversampling,
    write_results,
)

with warnings.catch_warnings():
    # ismrmrd sets the filters of the whole process when it is imported.
    import ismrmrd

Makers = dict[str, Callable[..., Any]]
Reader = Callable[..., list[dict[str, Any]]]


def test_journey(tmp_path: Path, makers: Makers, make_results: Callable[..., Any]) -> None:
    path = makers["make_mrd"](tmp_path)
    scan = read_scan(path)
    expected = makers["draw_complex"]((2, 3, 8, 16))
    expected[:, :, 1::2] = 0
    assert np.array_equal(scan.data, expected)
    assert (scan.format, scan.kind, scan.size) == ("ISMRMRD", "k-space", (8, 8))
    assert scan.mask is not None
    assert scan.noise is not None
    assert np.array_equal(scan.mask.all(1), np.arange(8) % 2 == 0)
    assert np.array_equal(scan.mask.any(1), scan.mask.all(1))
    # The noise was sampled for 8 us and the data for 2 us, with a relative bandwidth of 0.8.
    noise = makers["draw_complex"]((3, 20), 1)
    assert np.allclose(scan.noise, noise * (8 / 2 / 0.8) ** 0.5)
    facts = {"oversampling": 2.0, "acceleration": 2.0, "coils": 3, "spacing in mm": [7.5, 10, 5]}
    assert facts.items() <= scan.facts.items()

    results = make_results(scan)
    (out,) = write_results(tmp_path, scan, results, {"seed": 3})
    with ismrmrd.Dataset(out, "dataset", mode="r") as dataset:
        assert dataset.read_xml_header().decode() == makers["make_header"](16, 8, 8, 8)
        for series, (_, values) in enumerate(results.items()):
            assert dataset.number_of_images(f"image_{series}") == 2
            for index in range(2):
                image = dataset.read_image(f"image_{series}", index)
                assert np.array_equal(image.data, values[index][:, None])
                assert (*image.position,) == (1.0, 2.0, 5.0 * index)
                assert (*image.field_of_view,) == (80.0, 60.0, 5.0)
                assert (image.slice, image.image_series_index) == (index, series)
    assert read_provenance(out) == {"seed": 3}


def write_scan(
    folder: Path, header: str, lines: list[np.ndarray], change: Callable[[int, Any], None]
) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.h5"
    with ismrmrd.Dataset(path, "dataset", mode="w") as dataset:
        dataset.write_xml_header(header)
        for index, line in enumerate(lines):
            acquisition = ismrmrd.Acquisition.from_array(line)
            acquisition.center_sample = line.shape[1] // 2
            acquisition.idx.kspace_encode_step_1 = index
            change(index, acquisition)
            dataset.append_acquisition(acquisition)
    return path


@pytest.mark.parametrize(("shift", "is_fine"), [(0, True), (1, False)])
def test_slices_with_different_masks_are_refused(
    tmp_path: Path, makers: Makers, shift: int, is_fine: bool
) -> None:
    """Every other line, in the second slice perhaps those between."""
    lines = [makers["draw_complex"]((2, 16), seed) for seed in range(8)]

    def change(index: int, acquisition: Any) -> None:
        where = index // 4
        acquisition.idx.slice = where
        acquisition.idx.kspace_encode_step_1 = 2 * (index % 4) + shift * where

    path = write_scan(tmp_path, makers["make_header"](16, 8, 16, 8), lines, change)
    if is_fine:
        mask = read_scan(path).mask
        assert mask is not None
        assert mask.any(1).tolist() == [True, False] * 4
        return
    with pytest.raises(InputError, match="different masks: reconstruct them one by one"):
        read_scan(path)


def test_partial_fourier_discarded_samples_and_averages(tmp_path: Path, makers: Makers) -> None:
    """Lines start late, the echo is not in the middle, and everything is seen twice."""
    lines = [makers["draw_complex"]((2, 14), seed) for seed in range(12)]

    def change(index: int, acquisition: Any) -> None:
        acquisition.idx.kspace_encode_step_1 = index % 6
        acquisition.idx.average = index // 6
        acquisition.center_sample, acquisition.discard_pre, acquisition.discard_post = 6, 1, 2

    # Step 2 is the centre: row 4 of 8.
    header = makers["make_header"](16, 8, 16, 8, center=2)
    scan = read_scan(write_scan(tmp_path, header, lines, change))
    expected = np.zeros((2, 8, 16), np.complex64)
    for step in range(6):
        average = (lines[step] + lines[step + 6]) / np.float32(2)
        # Sample 6 is the centre: column 8 of 16.
        expected[:, step + 2, 3:14] = average[:, 1:12]
    assert np.array_equal(scan.data[0], expected)
    assert scan.mask is not None
    assert np.array_equal(scan.mask, (expected != 0).any(0))
    assert scan.facts["averages"] == 2


def test_what_is_no_plain_cartesian_scan_is_refused(
    tmp_path: Path, makers: Makers, read_many: Reader
) -> None:
    lines = [makers["draw_complex"]((2, 16), seed) for seed in range(8)]
    plain = makers["make_header"](16, 8, 16, 8)

    def set_repetition(index: int, acquisition: Any) -> None:
        acquisition.idx.repetition = index % 2

    def set_reverse(index: int, acquisition: Any) -> None:
        acquisition.setFlag(ismrmrd.ACQ_IS_REVERSE)

    def set_noise(index: int, acquisition: Any) -> None:
        acquisition.setFlag(ismrmrd.ACQ_IS_NOISE_MEASUREMENT)

    def set_row(index: int, acquisition: Any) -> None:
        acquisition.idx.kspace_encode_step_1 = 300

    def set_line(index: int, acquisition: Any) -> None:
        acquisition.idx.kspace_encode_step_1 = max(index, 1)

    def set_nothing(index: int, acquisition: Any) -> None:
        pass

    cases = {
        "2 values of repetition": (plain, set_repetition),
        "read backwards": (plain, set_reverse),
        "no imaging acquisitions": (plain, set_noise),
        "a line at 300 of 8": (plain, set_row),
        r"averages lines [1, 2] times": (plain, set_line),
        "only 2-D slices": (makers["make_header"](16, 8, 16, 8, z=4), set_nothing),
        "a spiral trajectory": (plain.replace("cartesian", "spiral"), set_nothing),
        "16 samples around 8 for 8": (makers["make_header"](8, 8, 8, 8), set_nothing),
        "declarations of its own": (
            plain.replace("<ismrmrdHeader", "<!DOCTYPE a [<!ENTITY b 'c'>]><ismrmrdHeader", 1),
            set_nothing,
        ),
    }
    paths = [write_scan(tmp_path, header, lines, change) for header, change in cases.values()]
    for words, found in zip(cases, read_many(paths), strict=True):
        assert found["outcome"] == "refused"
        assert words in found["line"]


def test_calibration_lines_are_left_out_and_other_groups_found_by_key(
    tmp_path: Path, makers: Makers
) -> None:
    lines = [makers["draw_complex"]((2, 16), seed) for seed in range(8)]

    def change(index: int, acquisition: Any) -> None:
        if index == 3:
            acquisition.setFlag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)
        if index == 4:
            acquisition.setFlag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)
            acquisition.setFlag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION_AND_IMAGING)

    path = write_scan(tmp_path, makers["make_header"](16, 8, 16, 8), lines, change)
    with h5py.File(path, "a") as file:
        file.move("dataset", "other")
    scan = read_scan(path, key="other")
    assert scan.mask is not None
    assert np.array_equal(np.flatnonzero(~scan.mask.any(1)), [3])
    assert scan.facts["calibration lines kept apart"] == 1
    # They are there for maps, with as many rows as they need about the origin.
    assert scan.calibration is not None
    assert scan.calibration.shape == (1, 2, 3, 16)
    assert np.array_equal(scan.calibration[0, :, 0], lines[3])
    assert not scan.calibration[0, :, 1:].any()
    cropped = remove_oversampling(replace(scan, size=(8, 4))).calibration
    assert cropped is not None
    assert np.allclose(cropped[0, :, 0], crop_kspace(lines[3], 4, -1))


@pytest.mark.parametrize("other", ["coils", "slices", "trajectory"])
def test_calibration_lines_of_another_kind_are_not_used(
    tmp_path: Path, makers: Makers, other: str
) -> None:
    coils = 3 if other == "coils" else 2
    lines = [makers["draw_complex"]((coils if k == 3 else 2, 16), k) for k in range(8)]

    def change(index: int, acquisition: Any) -> None:
        if index != 3:
            return
        acquisition.setFlag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)
        acquisition.idx.slice = int(other == "slices")
        if other == "trajectory":
            acquisition.resize(16, 2, 2)
            acquisition.data[:] = lines[3]

    scan = read_scan(write_scan(tmp_path, makers["make_header"](16, 8, 16, 8), lines, change))
    assert scan.calibration is None
    assert scan.facts["calibration lines kept apart"] == 1


def test_embedded_calibration_lines_are_of_the_measurement(tmp_path: Path, makers: Makers) -> None:
    lines = [makers["draw_complex"]((2, 16), seed) for seed in range(8)]

    def change(index: int, acquisition: Any) -> None:
        if index in (3, 5):
            acquisition.setFlag(ismrmrd.ACQ_IS_PARALLEL_CALIBRATION)

    mode = "<parallelImaging><calibrationMode>embedded</calibrationMode></parallelImaging>"
    header = makers["make_header"](16, 8, 16, 8).replace("</encoding>", f"{mode}</encoding>")
    scan = read_scan(write_scan(tmp_path, header, lines, change))
    assert scan.mask is not None
    assert scan.mask.all()
    assert np.array_equal(scan.data[0, :, 3], lines[3])
    assert scan.facts["calibration lines kept apart"] == 0


@pytest.mark.parametrize(
    ("field", "recon", "size"),
    [
        ((160, 60), (8, 8), (8, 8)),  # twice the field along the readout, as usual
        ((160, 60), (16, 16), (8, 8)),  # the scanner would interpolate
        ((160, 60), (8, 6), (8, 8)),  # the matrix alone would cut a quarter of the rows
        ((80, 60), (8, 8), (8, 16)),
    ],
)
def test_the_field_of_view_says_what_is_oversampling(
    tmp_path: Path,
    makers: Makers,
    field: tuple[int, int],
    recon: tuple[int, int],
    size: tuple[int, int],
) -> None:
    lines = [makers["draw_complex"]((1, 16), seed) for seed in range(8)]
    place = f"<fieldOfView_mm><x>{field[0]}</x><y>{field[1]}</y><z>5</z></fieldOfView_mm>"
    header = makers["make_header"](16, 8, *recon).replace(
        "</encodedSpace>", f"{place}</encodedSpace>"
    )
    scan = read_scan(write_scan(tmp_path, header, lines, lambda index, acquisition: None))
    assert scan.size == size
    assert scan.facts["spacing in mm"] == [60 / 8, field[0] / 16, 5.0]
