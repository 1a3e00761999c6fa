"""The XML header that fastMRI and ISMRMRD files share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcdm.scans.complaints import library, refusal

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["MRDHeader", "parse_header"]

_LONGEST_AXIS = 65_535
_ROUNDED = 0.02  # of a length: what a field of view may be rounded by

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
        shares: Of the field of view that was measured, what the image to make shows, along x and
            y; None if the header does not say.
        calibration: How lines for calibration were taken, such as "embedded"; empty if not stated.
    """

    encoded: tuple[int, int, int] | None
    recon: tuple[int, int, int] | None
    trajectory: str
    center: int | None
    noise_bandwidth: float
    facts: dict[str, Any]
    shares: tuple[float, float] | None = None
    calibration: str = ""

    def choose_size(self, measured: tuple[int, int]) -> tuple[int, int]:
        """The size (x, y) of the image to make of so many samples, at their own resolution.

        Its field of view counts: scanners interpolate, and matrices alone would cut or stretch it.
        """
        if self.recon is None:
            return measured
        x, y = (
            _choose_length(length, recon, None if self.shares is None else self.shares[axis])
            for axis, (length, recon) in enumerate(zip(measured, self.recon[:2], strict=True))
        )
        return x, y


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
        shares=_find_shares(root),
        calibration=(root.findtext("encoding/parallelImaging/calibrationMode") or "").strip(),
    )


def _choose_length(measured: int, recon: int, share: float | None) -> int:
    """Of one axis of the image."""
    wanted = recon if share is None else round(measured * min(share, 1.0))
    # Fields of view are rounded; the stated matrix is not.
    if abs(wanted - recon) <= max(1, _ROUNDED * recon):
        wanted = recon
    return max(1, min(wanted, measured))


def _find_shares(root: "Element") -> tuple[float, float] | None:
    """Of the encoded field of view, what the image shows along x and y."""
    sides = [
        _number(root.findtext(f"encoding/{space}/fieldOfView_mm/{axis}"))
        for axis in "xy"
        for space in ("reconSpace", "encodedSpace")
    ]
    if not all(isinstance(side, float) and side > 0 for side in sides):
        return None
    x, whole_x, y, whole_y = (float(side) for side in sides if side is not None)
    return x / whole_x, y / whole_y


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
