"""DICOM results: the mean as derived images, the uncertainty as parametric maps."""

import copy
import hashlib
import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library
from bcdm.scans.dicom import Frame, list_frames
from bcdm.scans.output import place, writing
from bcdm.scans.packing import unpack
from bcdm.scans.scan import Results, Scan

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["write"]

_NAME = "bcdm"
_LONGEST_PIECE = 1024
_UPRIGHT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
# Elements that speak of the input's pixels or files, and not of the patient or the scan.
_STALE = ("SmallestImagePixelValue", "LargestImagePixelValue", "LossyImageCompressionRatio")
_SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")
# Elements that every map repeats, and that stripped files may lack.
_REPEATED = (
    "PatientID",
    "PatientName",
    "PatientBirthDate",
    "PatientSex",
    "AccessionNumber",
    "StudyID",
    "StudyDate",
    "StudyTime",
)


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes a folder of derived images for the mean, and one file for each other map.

    All identifiers are functions of the input's identifiers, the results and the provenance: the
    same results have the same name wherever they are made.
    """
    heads = [_parse(scan.path, piece) for piece in unpack(scan.header)]
    for head in heads:
        _resize(scan.path, head, scan.size)
    frames = [list_frames(scan.path, head) for head in heads]
    seed = hashlib.sha256(provenance.encode())
    for head in heads:
        seed.update(str(head.get("SOPInstanceUID", "")).encode())
    for _, values in results.items():
        seed.update(np.ascontiguousarray(values).tobytes())
    target = place(folder, scan, "_mean")
    with writing(target) as partial:
        partial.mkdir()
        start = 0
        for index, (head, placed) in enumerate(zip(heads, frames, strict=True)):
            mean = results.mean[start : start + len(placed), 0]
            derived = _derive(head, placed, mean, seed.digest(), index, provenance)
            if scan.facts.get("simulated"):
                derived.DerivationDescription += ", which was simulated from this clean image"
            derived.save_as(partial / f"{index + 1:05d}.dcm", enforce_file_format=True)
            start += len(placed)
    sidecar = place(folder, scan, "_results.json")
    with writing(sidecar) as partial:
        partial.write_text(provenance + "\n")
    paths = [target, sidecar]
    flat = [frame for each in frames for frame in each]
    for name, values in results.items():
        if name == "mean":
            continue
        target = place(folder, scan, f"_{name}.dcm")
        with writing(target) as partial:
            mapped = _map(heads, flat, name, values[:, 0], seed.digest(), provenance)
            mapped.save_as(partial)
        paths.append(target)
    return paths


def _parse(path: Path, piece: bytes) -> "Dataset":
    with library(path):
        import pydicom

        return pydicom.dcmread(io.BytesIO(piece), force=True)


def _resize(path: Path, head: "Dataset", size: tuple[int, int]) -> None:
    """The same field of view in other pixels: their number, spacing and position."""
    old = int(head.Rows), int(head.Columns)
    if old == size:
        return
    head.Rows, head.Columns = size
    ratios = [whole / length for whole, length in zip(old, size, strict=True)]
    orientation = np.array(list_frames(path, head)[0].orientation or _UPRIGHT)
    # Down the rows is the second direction, along them the first.
    down, along = orientation[3:], orientation[:3]
    spacings = [item for item in _walk(head) if item.get("PixelSpacing")]
    sides = [float(side) for side in spacings[0].PixelSpacing] if spacings else [1.0, 1.0]
    for item in _walk(head):
        for name in _SPACINGS:
            if item.get(name):
                pairs = zip(item.get(name), ratios, strict=True)
                setattr(item, name, [_say(float(side) * ratio) for side, ratio in pairs])
    # Positions are of the middle of the first pixel.
    steps = [side * (ratio - 1) / 2 for side, ratio in zip(sides, ratios, strict=True)]
    for item in _walk(head):
        if item.get("ImagePositionPatient"):
            moved = np.array(item.ImagePositionPatient, float) + steps[0] * down + steps[1] * along
            item.ImagePositionPatient = [_say(place) for place in moved]
    if not spacings:
        head.PixelSpacing = [_say(ratio) for ratio in ratios]


def _walk(head: "Dataset") -> Iterator["Dataset"]:
    """The file itself, and what it says of its frames in places of their own."""
    yield head
    groups = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
    for group in (group for name in groups for group in head.get(name) or ()):
        for name in ("PixelMeasuresSequence", "PlanePositionSequence"):
            yield from group.get(name) or ()


def _say(number: float) -> float:
    """A number that the 16 characters of a decimal string can hold."""
    return float(f"{number:.9g}")


def _name(seed: bytes, *words: object) -> str:
    """An identifier that depends on nothing but its arguments."""
    digest = hashlib.sha256(seed + "/".join(map(str, words)).encode()).digest()
    return f"2.25.{uuid.UUID(bytes=digest[:16], version=5).int}"


def _derive(
    head: "Dataset",
    frames: list[Frame],
    mean: NDArray[np.float32],
    seed: bytes,
    index: int,
    provenance: str,
) -> "Dataset":
    """A copy of the input's image with other pixels, rounded to what its number type can say."""
    from pydicom import Dataset
    from pydicom.uid import ExplicitVRLittleEndian

    derived = copy.deepcopy(head)
    source = Dataset()
    source.ReferencedSOPClassUID = head.SOPClassUID
    source.ReferencedSOPInstanceUID = head.SOPInstanceUID
    for keyword in _STALE:
        if keyword in derived:
            delattr(derived, keyword)
    derived.SOPInstanceUID = _name(seed, "mean", index)
    derived.SeriesInstanceUID = _name(seed, "mean")
    derived.ImageType = ["DERIVED", "SECONDARY"]
    derived.SeriesDescription = "posterior mean"
    derived.DerivationDescription = "Posterior mean given the measurement"
    derived.SourceImageSequence = [source]
    derived.ContributingEquipmentSequence = _attribute(provenance)
    derived.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    derived.file_meta.MediaStorageSOPClassUID = derived.SOPClassUID
    derived.file_meta.MediaStorageSOPInstanceUID = derived.SOPInstanceUID
    bits = int(derived.get("BitsStored", derived.BitsAllocated))
    is_signed = int(derived.get("PixelRepresentation", 0)) == 1
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    slopes, intercepts = np.array([(f.slope, f.intercept) for f in frames]).T[:, :, None, None]
    stored = np.clip(np.rint((mean.astype(np.float64) - intercepts) / slopes), low, high)
    width = int(derived.BitsAllocated) // 8
    derived.PixelData = stored.astype(f"<{'i' if is_signed else 'u'}{width}").tobytes()
    derived["PixelData"].VR = "OB" if width == 1 else "OW"
    if len(derived.PixelData) % 2:
        derived.PixelData += b"\0"
    return derived


def _attribute(provenance: str) -> list["Dataset"]:
    """The provenance as equipment that contributed, in as many pieces as its length takes."""
    from pydicom import Dataset
    from pydicom.sr.codedict import codes

    items = []
    while provenance:
        # Trailing spaces are padding in DICOM, so that no piece may end with one.
        piece = provenance[:_LONGEST_PIECE].rstrip(" ")
        provenance = provenance[len(piece) :]
        purpose = Dataset()
        code = codes.DCM.ModifyingEquipment
        purpose.CodeValue, purpose.CodingSchemeDesignator = code.value, code.scheme_designator
        purpose.CodeMeaning = code.meaning
        item = Dataset()
        item.PurposeOfReferenceCodeSequence = [purpose]
        item.Manufacturer = item.ManufacturerModelName = _NAME
        item.ContributionDescription = piece
        items.append(item)
    return items


def _map(
    heads: list["Dataset"],
    frames: list[Frame],
    name: str,
    values: NDArray[np.float32],
    seed: bytes,
    provenance: str,
) -> Any:
    """A parametric map of float32, one frame for each slice, at the slice's position."""
    import highdicom
    from pydicom.sr.codedict import codes

    spacing, thickness = [*(frames[0].spacing or (1.0, 1.0))], frames[0].thickness or 1.0
    for index, head in enumerate(heads):
        _complete(head, seed, index)
        head.PixelSpacing, head.SliceThickness = spacing, thickness
    top = float(values.max())
    mapping = highdicom.pm.RealWorldValueMapping(
        lut_label=name,
        lut_explanation=f"posterior {name}",
        unit=codes.UCUM.NoUnits,
        value_range=(float(values.min()), top),
        slope=1.0,
        intercept=0.0,
    )
    positions = [
        highdicom.PlanePositionSequence("PATIENT", frame.position or (0.0, 0.0, float(index)))
        for index, frame in enumerate(frames)
    ]
    mapped: Any = highdicom.pm.ParametricMap(
        source_images=heads,
        pixel_array=np.ascontiguousarray(values),
        series_instance_uid=_name(seed, name),
        series_number=1,
        sop_instance_uid=_name(seed, name, 0),
        instance_number=1,
        manufacturer=_NAME,
        manufacturer_model_name=_NAME,
        software_versions="1",
        device_serial_number="1",
        contains_recognizable_visual_features=False,
        real_world_value_mappings=[mapping],
        voi_lut_transformations=[
            highdicom.VOILUTTransformation(window_center=top / 2, window_width=max(top, 1e-6))
        ],
        plane_positions=positions,
        plane_orientation=highdicom.PlaneOrientationSequence(
            "PATIENT", frames[0].orientation or _UPRIGHT
        ),
        pixel_measures=highdicom.PixelMeasuresSequence(spacing, thickness),
        content_description=f"posterior {name}",
    )
    mapped.ContributingEquipmentSequence = _attribute(provenance)
    _settle(mapped, heads[0], _name(seed, name, "dimensions"))
    return mapped


def _settle(mapped: Any, head: "Dataset", dimensions: str) -> None:
    """Replaces what the library draws or reads off the clock: one name has one content."""
    for keyword in ("InstanceCreationDate", "InstanceCreationTime"):
        if keyword in mapped:
            delattr(mapped, keyword)
    for keyword, source in (("ContentDate", "StudyDate"), ("ContentTime", "StudyTime")):
        if head.get(source):
            setattr(mapped, keyword, head.get(source))
    for item in (*mapped.DimensionOrganizationSequence, *mapped.DimensionIndexSequence):
        item.DimensionOrganizationUID = dimensions


def _complete(head: "Dataset", seed: bytes, index: int) -> None:
    """Adds what a map repeats of its sources and what stripped files lack."""
    for keyword in _REPEATED:
        if keyword not in head:
            setattr(head, keyword, None)
    for keyword in ("StudyInstanceUID", "FrameOfReferenceUID"):
        if not head.get(keyword):
            setattr(head, keyword, _name(seed, keyword))
    if not head.get("ImagePositionPatient"):
        head.ImagePositionPatient = [0.0, 0.0, float(index)]
        head.ImageOrientationPatient = [*_UPRIGHT]
