"""What a DICOM file says of its images: elements as numbers and text, and each frame's place."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bcdm.scans.complaints import library, refusal
from bcdm.scans.limits import LIMITS

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["UPRIGHT", "Frame", "find_number", "find_text", "list_frames"]

UPRIGHT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # the orientation of a file that states none


class Frame(NamedTuple):
    """How one image of a file is placed in space, in mm, and how its numbers are meant."""

    position: tuple[float, float, float] | None
    orientation: tuple[float, ...] | None
    spacing: tuple[float, float] | None
    thickness: float | None
    slope: float
    intercept: float


def find_text(head: "Dataset", name: str) -> str:
    """An element as text, or nothing if it is missing or cannot be read."""
    try:
        value = head.get(name)
    except Exception:  # pydicom converts on access, and may then raise anything
        return ""
    return "" if value is None else " ".join(str(value).split())[:80]


def find_number(head: "Dataset", name: str) -> float | None:
    """An element as a finite number, or None."""
    try:
        number = float(find_text(head, name))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _numbers(head: "Dataset", name: str, count: int) -> tuple[float, ...] | None:
    try:
        values = tuple(float(value) for value in head.get(name) or ())
    except Exception:  # as above
        return None
    return values if len(values) == count and all(map(math.isfinite, values)) else None


def list_frames(path: Path, head: "Dataset") -> list[Frame]:
    """The frames of a file, in the order in which they are stored."""
    count = find_number(head, "NumberOfFrames") or 1
    if not 1 <= count <= LIMITS.files or count != int(count):
        raise refusal(path, f"declares {count:g} frames: export it anew")
    with library(path):
        shared = list(head.get("SharedFunctionalGroupsSequence") or [])[:1]
        each = list(head.get("PerFrameFunctionalGroupsSequence") or [])
    frames = []
    for index in range(int(count)):
        groups = [*each[index : index + 1], *shared, head]
        slope = _find(path, groups, "PixelValueTransformationSequence", "RescaleSlope")
        intercept = _find(path, groups, "PixelValueTransformationSequence", "RescaleIntercept")
        position = _find(path, groups, "PlanePositionSequence", "ImagePositionPatient", 3)
        orientation = _find(path, groups, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
        spacing = _find(path, groups, "PixelMeasuresSequence", "PixelSpacing", 2)
        thickness = _find(path, groups, "PixelMeasuresSequence", "SliceThickness")
        scaling = 1.0 if slope is None else slope, intercept or 0.0
        frame = Frame(position, orientation, spacing, thickness, *scaling)
        if frame.slope == 0:
            raise refusal(path, "has a rescale slope of zero: export it anew")
        frames.append(frame)
    return frames


def _find(path: Path, groups: Sequence[Any], sequence: str, name: str, count: int = 1) -> Any:
    """An element of a frame: its own, the shared one, or that of the file."""
    for group in groups:
        with library(path):
            items = list(group.get(sequence) or [group])
        found = find_number(items[0], name) if count == 1 else _numbers(items[0], name, count)
        if found is not None:
            return found
    return None
