"""A small real file of every format, made by the format's own library; and a way to read many."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcdm.scans import Results, Scan

HEADER = """<?xml version="1.0" encoding="utf-8"?>
<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
<acquisitionSystemInformation><systemVendor>ACME</systemVendor>
<systemFieldStrength_T>1.5</systemFieldStrength_T>
<relativeReceiverNoiseBandwidth>0.8</relativeReceiverNoiseBandwidth>
</acquisitionSystemInformation>
<encoding><trajectory>cartesian</trajectory>
<encodedSpace><matrixSize><x>{x}</x><y>{y}</y><z>{z}</z></matrixSize></encodedSpace>
<reconSpace><matrixSize><x>{rx}</x><y>{ry}</y><z>1</z></matrixSize>
<fieldOfView_mm><x>80</x><y>60</y><z>5</z></fieldOfView_mm></reconSpace>
<encodingLimits><kspace_encoding_step_1><minimum>0</minimum><maximum>{top}</maximum>
<center>{center}</center></kspace_encoding_step_1></encodingLimits>
</encoding>
<sequenceParameters><TR>500</TR></sequenceParameters></ismrmrdHeader>"""


def make_header(x: int, y: int, rx: int, ry: int, z: int = 1, center: int | None = None) -> str:
    middle = y // 2 if center is None else center
    return HEADER.format(x=x, y=y, z=z, rx=rx, ry=ry, top=y - 1, center=middle)


def draw_complex(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    parts = np.random.default_rng(seed).normal(size=(2, *shape)).astype(np.float32)
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


def draw_pixels(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def make_fastmri(folder: Path, **options: Any) -> Path:
    import h5py

    kspace = draw_complex((2, 3, 16, 10))
    kspace[..., [0, 9]] = 0  # padding
    mask = np.array([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], np.float32)
    kspace[..., mask == 0] = 0
    with h5py.File(folder / "scan.h5", "w") as file:
        file.create_dataset("kspace", data=kspace, **options)
        file["mask"] = mask
        file["ismrmrd_header"] = make_header(16, 10, 8, 8)
        file.attrs["acquisition"] = "AXT2"
    return folder / "scan.h5"


def make_packed_fastmri(folder: Path) -> Path:
    return make_fastmri(folder, compression="gzip", shuffle=True, chunks=(1, 1, 16, 10))


def make_mrd(folder: Path) -> Path:
    with warnings.catch_warnings():
        # ismrmrd sets the filters of the whole process when it is imported.
        import ismrmrd

    kspace, noise = draw_complex((2, 3, 8, 16)), draw_complex((3, 20), 1)
    with ismrmrd.Dataset(folder / "scan.h5", "dataset", mode="w") as dataset:
        dataset.write_xml_header(make_header(16, 8, 8, 8))
        quiet = ismrmrd.Acquisition.from_array(noise, sample_time_us=8.0)
        quiet.setFlag(ismrmrd.ACQ_IS_NOISE_MEASUREMENT)
        dataset.append_acquisition(quiet)
        # Every second line, last slice first, to see that lines are sorted and not appended.
        for s in (1, 0):
            for line in (0, 2, 4, 6):
                acquisition = ismrmrd.Acquisition.from_array(kspace[s, :, line])
                acquisition.center_sample, acquisition.sample_time_us = 8, 2.0
                acquisition.idx.slice, acquisition.idx.kspace_encode_step_1 = s, line
                acquisition.position = (1.0, 2.0, 5.0 * s)
                dataset.append_acquisition(acquisition)
    return folder / "scan.h5"


def make_nifti(folder: Path, name: str = "scan.nii.gz") -> Path:
    import nibabel

    volume = draw_pixels((6, 8, 3), np.int16)
    affine = np.array([[-2, 0, 0, 10], [0, 2.5, 0, 20], [0, 0, 4, 30], [0, 0, 0, 1.0]])
    image = nibabel.Nifti1Image(volume, affine)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_slope_inter(0.5, -3.0)
    image.to_filename(folder / name)
    return folder / name


def make_plain_nifti(folder: Path) -> Path:
    return make_nifti(folder, "scan.nii")


def make_slice(index: int, series: str = "1.2.3.4") -> Any:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage

    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID = MRImageStorage
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID = f"{series}.{index}"
    image.StudyInstanceUID, image.SeriesInstanceUID = "1.2.3", series
    image.FrameOfReferenceUID, image.StudyDate, image.StudyTime = "1.2.3.9", "20200101", "1200"
    image.Modality, image.Manufacturer, image.PatientID = "MR", "ACME", "nobody"
    image.RepetitionTime, image.MagneticFieldStrength = 500, 1.5
    image.ImageType = ["ORIGINAL", "PRIMARY"]
    image.InstanceNumber, image.SeriesNumber = 10 - index, 1
    image.ImagePositionPatient = [1.0, 2.0, 4.0 * index]
    image.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    image.PixelSpacing, image.SliceThickness = [1.5, 2.0], 4.0
    image.Rows, image.Columns, image.SamplesPerPixel = 6, 8, 1
    image.PhotometricInterpretation = "MONOCHROME2"
    image.BitsAllocated, image.BitsStored, image.HighBit, image.PixelRepresentation = 16, 12, 11, 0
    image.RescaleSlope, image.RescaleIntercept = 2, -1000
    pixels = np.random.default_rng(index).integers(0, 4096, (6, 8), dtype=np.uint16)
    image.PixelData = pixels.tobytes()
    image["PixelData"].VR = "OW"
    return image


def make_dicom(folder: Path) -> Path:
    series = folder / "series"
    series.mkdir()
    # Named against the order in space.
    for index, name in enumerate(("c.dcm", "a.dcm", "b")):
        make_slice(index).save_as(series / name, enforce_file_format=True)
    return series


def make_dicom_file(folder: Path) -> Path:
    make_slice(1).save_as(folder / "scan.dcm", enforce_file_format=True)
    return folder / "scan.dcm"


def make_png(folder: Path) -> Path:
    from PIL import Image

    Image.fromarray(draw_pixels((9, 7, 3))).save(folder / "scan.png")
    return folder / "scan.png"


def make_tiff(folder: Path, **options: Any) -> Path:
    import tifffile

    pages = draw_pixels((3, 9, 7), np.float32)
    tifffile.imwrite(folder / "scan.tif", pages, photometric="minisblack", **options)
    return folder / "scan.tif"


def make_packed_tiff(folder: Path) -> Path:
    from PIL import Image

    Image.fromarray(draw_pixels((9, 7))).save(folder / "scan.tif", compression="tiff_lzw")
    return folder / "scan.tif"


def make_npy(folder: Path) -> Path:
    np.save(folder / "scan.npy", draw_pixels((2, 6, 8), np.float32))
    return folder / "scan.npy"


def make_npz(folder: Path) -> Path:
    mask = np.ones((8, 6), bool)
    mask[:, 1::2] = False
    kspace = draw_complex((3, 8, 6)) * mask
    np.savez_compressed(folder / "scan.npz", kspace=kspace, mask=mask)
    return folder / "scan.npz"


def make_zarr(folder: Path) -> Path:
    import zarr

    group = zarr.open_group(folder / "scan.zarr", mode="w", zarr_format=3)
    group.create_array("images", data=draw_pixels((3, 8, 6), np.float32), chunks=(1, 8, 6))
    group.create_array("mask", data=np.arange(48).reshape(8, 6) % 2 == 0)
    return folder / "scan.zarr"


MAKERS: dict[str, Callable[[Path], Path]] = {
    "fastMRI": make_fastmri,
    "fastMRI packed": make_packed_fastmri,
    "ISMRMRD": make_mrd,
    "NIfTI": make_plain_nifti,
    "NIfTI packed": make_nifti,
    "DICOM": make_dicom_file,
    "DICOM series": make_dicom,
    "PNG": make_png,
    "TIFF": make_tiff,
    "TIFF packed": make_packed_tiff,
    "npy": make_npy,
    "npz": make_npz,
    "zarr": make_zarr,
}


@pytest.fixture(params=list(MAKERS))
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A valid file of each format in turn."""
    folder = tmp_path / "input"
    folder.mkdir()
    return MAKERS[request.param](folder)


@pytest.fixture(scope="session")
def make_samples() -> Callable[[Path], dict[str, Path]]:
    """Makes a valid file of each format, each in a folder of its own."""

    def make(folder: Path) -> dict[str, Path]:
        samples = {}
        for name, maker in MAKERS.items():
            (folder / name).mkdir()
            samples[name] = maker(folder / name)
        return samples

    return make


@pytest.fixture(scope="session")
def makers() -> dict[str, Callable[..., Any]]:
    """Everything here that makes a file or a part of one, by name."""
    return {name: made for name, made in globals().items() if name.startswith(("make_", "draw_"))}


@pytest.fixture(scope="session")
def make_results() -> Callable[[Scan], Results]:
    """Results that fit a scan; the mean is a whole number that 8 bits can hold."""

    def make(scan: Scan) -> Results:
        channels = scan.data.shape[1] if scan.kind == "image" else 1
        shape = (len(scan.data), channels, *scan.size)
        rng = np.random.default_rng(7)
        mean = 2 * rng.integers(0, 120, shape).astype(np.float32)
        std = rng.uniform(0.5, 2, shape).astype(np.float32)
        return Results(mean, std, mean - 2 * std, mean + 2 * std, 0.9)

    return make


@pytest.fixture(scope="session")
def read_many() -> Callable[[Sequence[Path]], list[dict[str, Any]]]:
    """Reads many files as `read_scan` would, each in a process that the kernel confines."""

    def read(
        paths: Sequence[Path], keys: Sequence[str | None] | None = None
    ) -> list[dict[str, Any]]:
        script = Path(__file__).with_name("batch.py")
        chosen = keys or [None] * len(paths)
        requests = json.dumps([[str(p), key] for p, key in zip(paths, chosen, strict=True)])
        done = subprocess.run(
            [sys.executable, "-P", str(script)], input=requests, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return read
