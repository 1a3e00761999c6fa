"""The XML header that fastMRI and ISMRMRD files share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcdm.scans.complaints import library, refusal

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["MRDHeader", "parse_header"]

_LONGEST_AXIS = 65_535

_FACTS = {
    "vendor": "acquisitionSystemInformation/systemVendor",
    "model": "acquisitionSystemInformation/systemModel",
    "field strength in T": "acquisitionSystemInformation/systemFieldStrength_T",
    "TR in ms": "sequenceParameters/TR",
    "TE in ms": "sequenceParameters/TE",
    "TI in ms": "sequenceParameters/TI",
    "flip angle in degrees": "sequenceParameters/flipAngle_deg",
    "stated acceleration": "encoding/parallelImaging/accelerationFactor/kspace_encoding_step_1",
}


@dataclass(frozen=True)
class MRDHeader:
    """What the header says about the first encoding; x is the readout, y the phase encoding.

    Attributes:
        encoded: Matrix (x, y, z) that was measured, or None if the header does not say.
        recon: Matrix (x, y, z) of the image to make, or None.
        trajectory: Such as "cartesian"; empty if not stated.
        center: The phase encoding step through the centre of k-space, or None.
        noise_bandwidth: Bandwidth of a noise scan relative to its sampling rate.
        facts: Plain things worth printing.
    """

    encoded: tuple[int, int, int] | None
    recon: tuple[int, int, int] | None
    trajectory: str
    center: int | None
    noise_bandwidth: float
    facts: dict[str, Any]


def parse_header(path: Path, text: bytes) -> MRDHeader:
    """Reads the few fields that matter here, whatever else the header holds or lacks."""
    from xml.etree import ElementTree

    # Entities can name any file or grow without bound; no real header declares any.
    if b"<!" in text.replace(b"<!--", b"") or b"\0" in text:
        raise refusal(path, "has a header with declarations of its own: export it anew")
    with library(path):
        root = ElementTree.fromstring(text)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
    facts: dict[str, Any] = {n: _number(root.findtext(place)) for n, place in _FACTS.items()}
    recon = _find_matrix(path, root, "reconSpace")
    encoded = _find_matrix(path, root, "encodedSpace")
    facts["spacing in mm"] = _find_spacing(root, encoded, recon)
    center = _number(root.findtext("encoding/encodingLimits/kspace_encoding_step_1/center"))
    bandwidth = _number(root.findtext(".//relativeReceiverNoiseBandwidth"))
    return MRDHeader(
        encoded=encoded,
        recon=recon,
        trajectory=(root.findtext("encoding/trajectory") or "").strip().lower(),
        center=int(center) if isinstance(center, float) and 0 <= center <= _LONGEST_AXIS else None,
        noise_bandwidth=bandwidth if isinstance(bandwidth, float) and 0 < bandwidth <= 1 else 1.0,
        facts={name: value for name, value in facts.items() if value is not None},
    )


def _number(text: str | None) -> float | str | None:
    """A number if the text is one, otherwise the text, otherwise nothing."""
    words = " ".join((text or "").split())
    try:
        number = float(words)
    except ValueError:
        return words[:80] or None
    return number if abs(number) < 1e12 else None


def _find_matrix(path: Path, root: "Element", space: str) -> tuple[int, int, int] | None:
    lengths = [_number(root.findtext(f"encoding/{space}/matrixSize/{axis}")) for axis in "xyz"]
    if lengths[0] is None:
        return None
    if not all(isinstance(n, float) and 1 <= n <= _LONGEST_AXIS for n in lengths):
        raise refusal(path, f"has a header with {space} {lengths}: export it anew")
    x, y, z = (int(float(n)) for n in lengths if n is not None)
    return x, y, z


def _find_spacing(
    root: "Element", encoded: tuple[int, int, int] | None, recon: tuple[int, int, int] | None
) -> list[float] | None:
    """Along x, y and z, of images made of the samples that there are: scanners may interpolate."""
    found = [
        _divide(root, space, matrix)
        for space, matrix in (("encodedSpace", encoded), ("reconSpace", recon))
    ]
    measured = found[0] or found[1]
    if measured is None:
        return None
    # Only the image says how thick a slice is: the encoded one may be oversampled.
    return [*measured[:2], (found[1] or measured)[2]]


def _divide(root: "Element", space: str, matrix: tuple[int, int, int] | None) -> list[float] | None:
    """The field of view over the number of pixels."""
    place = f"encoding/{space}/fieldOfView_mm"
    sides = [_number(root.findtext(f"{place}/{axis}")) for axis in "xyz"]
    if matrix is None or not all(isinstance(side, float) and side > 0 for side in sides):
        return None
    return [round(float(s) / n, 4) for s, n in zip(sides, matrix, strict=True) if s is not None]
