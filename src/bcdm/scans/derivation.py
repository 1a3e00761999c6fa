"""DICOM results: the mean as derived images, the uncertainty as parametric maps."""

import copy
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bcdm.scans.complaints import library
from bcdm.scans.frames import UPRIGHT, Frame, list_frames
from bcdm.scans.maps import make_attribution, make_map, make_name
from bcdm.scans.output import place, writing
from bcdm.scans.packing import unpack
from bcdm.scans.scan import Results, Scan

if TYPE_CHECKING:
    from pydicom import Dataset

__all__ = ["write"]

# Elements that speak of the input's pixels or files, and not of the patient or the scan.
_STALE = ("SmallestImagePixelValue", "LargestImagePixelValue", "LossyImageCompressionRatio")
_SPACINGS = ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing")


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
            start += len(placed)
            if np.isnan(mean).all():
                continue  # its slices are left out
            derived = _derive(head, placed, mean, seed.digest(), index, provenance)
            if scan.facts.get("simulated"):
                derived.DerivationDescription += ", which was simulated from this clean image"
            if results.left_out:
                gaps = ", ".join(map(str, results.left_out))
                derived.DerivationDescription += f"; slices left out, not to be trusted: {gaps}"
            derived.save_as(partial / f"{index + 1:05d}.dcm", enforce_file_format=True)
    sidecar = place(folder, scan, "_results.json")
    with writing(sidecar) as partial:
        partial.write_text(provenance + "\n")
    paths = [target, sidecar]
    kept = results.list_kept()
    flat = [frame for each in frames for frame in each]
    shown = [flat[number] for number in kept]
    for name, values in results.items():
        if name == "mean":
            continue
        target = place(folder, scan, f"_{name}.dcm")
        with writing(target) as partial:
            mapped = make_map(heads, shown, name, values[kept, 0], seed.digest(), provenance)
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
    orientation = np.array(list_frames(path, head)[0].orientation or UPRIGHT)
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
    derived.SOPInstanceUID = make_name(seed, "mean", index)
    derived.SeriesInstanceUID = make_name(seed, "mean")
    derived.ImageType = ["DERIVED", "SECONDARY"]
    derived.SeriesDescription = "posterior mean"
    derived.DerivationDescription = "Posterior mean given the measurement"
    derived.SourceImageSequence = [source]
    derived.ContributingEquipmentSequence = make_attribution(provenance)
    derived.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    derived.file_meta.MediaStorageSOPClassUID = derived.SOPClassUID
    derived.file_meta.MediaStorageSOPInstanceUID = derived.SOPInstanceUID
    bits = int(derived.get("BitsStored", derived.BitsAllocated))
    is_signed = int(derived.get("PixelRepresentation", 0)) == 1
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    slopes, intercepts = np.array([(f.slope, f.intercept) for f in frames]).T[:, :, None, None]
    exact = np.rint((mean.astype(np.float64) - intercepts) / slopes)
    stored = np.clip(np.where(np.isnan(exact), low, exact), low, high)
    width = int(derived.BitsAllocated) // 8
    derived.PixelData = stored.astype(f"<{'i' if is_signed else 'u'}{width}").tobytes()
    derived["PixelData"].VR = "OB" if width == 1 else "OW"
    if len(derived.PixelData) % 2:
        derived.PixelData += b"\0"
    return derived
