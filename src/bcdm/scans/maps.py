"""DICOM results that are no integers: parametric maps, one frame for each slice."""

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.frames import UPRIGHT, Frame

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["make_attribution", "make_map", "make_name"]

_NAME = "bcdm"
_LONGEST_PIECE = 1024
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


def make_name(seed: bytes, *words: object) -> str:
    """An identifier that depends on nothing but its arguments."""
    digest = hashlib.sha256(seed + "/".join(map(str, words)).encode()).digest()
    return f"2.25.{uuid.UUID(bytes=digest[:16], version=5).int}"


def make_attribution(provenance: str) -> list["Dataset"]:
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


def make_map(
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
        series_instance_uid=make_name(seed, name),
        series_number=1,
        sop_instance_uid=make_name(seed, name, 0),
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
            "PATIENT", frames[0].orientation or UPRIGHT
        ),
        pixel_measures=highdicom.PixelMeasuresSequence(spacing, thickness),
        content_description=f"posterior {name}",
    )
    mapped.ContributingEquipmentSequence = make_attribution(provenance)
    _settle(mapped, heads[0], make_name(seed, name, "dimensions"))
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
            setattr(head, keyword, make_name(seed, keyword))
    if not head.get("ImagePositionPatient"):
        head.ImagePositionPatient = [0.0, 0.0, float(index)]
        head.ImageOrientationPatient = [*UPRIGHT]
