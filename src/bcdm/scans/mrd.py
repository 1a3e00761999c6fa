"""ISMRMRD (MRD) files: acquisitions in, image series out."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans import hdf5
from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import COMPLEX
from bcdm.scans.limits import check_size
from bcdm.scans.mrdheader import MRDHeader, parse_header
from bcdm.scans.output import place, writing
from bcdm.scans.packing import pack, unpack
from bcdm.scans.scan import Results, Scan
from bcdm.spool import make_array, release

__all__ = ["FORMAT", "GROUP", "is_mrd", "read", "write"]

FORMAT = "ISMRMRD"
GROUP = "dataset"

# Bits of the flags, counted from 1 as in the standard.
_NOISE, _CALIBRATION, _CALIBRATION_AND_IMAGING, _REVERSE = 19, 20, 21, 22
_NOT_IMAGING = (_NOISE, 23, 24, 26, 27, 28, 29, 30, 31)  # navigators, corrections, feedback
_ONE_OF_EACH = ("contrast", "phase", "repetition", "set", "kspace_encode_step_2")
_MOST_ACQUISITIONS = 1_000_000
_BATCH = 256

Heads = NDArray[np.void]


def is_mrd(path: Path, file: Any, key: str | None) -> bool:
    """Whether the file has a group of acquisitions, of the usual or the given name."""
    group = hdf5.find(path, file, key or GROUP)
    return all(hdf5.find(path, group, name) is not None for name in ("data", "xml"))


def read(path: Path, file: Any, key: str | None) -> Scan:
    """Reads a two-dimensional Cartesian scan; phase encoding along rows, readout along columns."""
    group = hdf5.find(path, file, key or GROUP)
    xml = hdf5.read_text(path, "xml", hdf5.find(path, group, "xml"))
    header = parse_header(path, xml)
    if header.trajectory not in ("", "cartesian"):
        raise refusal(path, f"has a {header.trajectory} trajectory: only Cartesian scans are read")
    if header.encoded is None or header.encoded[2] > 1:
        raise refusal(path, f"encodes the matrix {header.encoded}: only 2-D slices are read")
    entry = hdf5.find(path, group, "data")
    heads = _read_heads(path, entry)
    flags = heads["flags"]
    if header.calibration == "embedded":
        # Lines for calibration belong to the measurement: they lie between those of the image.
        flags &= ~np.uint64(1 << (_CALIBRATION - 1))
    imaging = np.flatnonzero(_is_imaging(flags))
    if not len(imaging):
        raise refusal(path, "holds no imaging acquisitions: export the measurement itself")
    _check_imaging(path, heads[imaging])
    data, taken, counts = _place_lines(path, entry, heads, imaging, header)
    if bool((taken != taken[0]).any()):
        raise refusal(path, "has slices with different masks: reconstruct them one by one")
    averages = np.unique(counts[counts > 0])
    if len(averages) > 1:
        raise refusal(path, f"averages lines {averages.tolist()} times: export equal averages")
    noise = _read_noise(path, entry, heads, header, int(averages[0]))
    columns, rows = header.choose_size((data.shape[-1], data.shape[-2]))
    size = rows, columns
    facts = {
        **header.facts,
        "acquisitions": len(heads),
        "averages": int(averages[0]),
        "calibration lines kept apart": int(_is_calibration(flags).sum()),
        "oversampling": round(data.shape[-1] / size[1], 3),
    }
    if "spacing in mm" in facts:
        # Rows come first, and they are along y.
        facts["spacing in mm"] = [facts["spacing in mm"][axis] for axis in (1, 0, 2)]
    firsts = [imaging[heads["idx"]["slice"][imaging] == s][0] for s in _list_slices(heads, imaging)]
    known = pack([xml, *(heads[first].tobytes() for first in firsts)])
    calibration = _read_calibration(path, entry, heads, imaging, header)
    return Scan(path, FORMAT, "k-space", data, taken[0], noise, size, facts, known, calibration)


def _has(flags: NDArray[np.uint64], bit: int) -> NDArray[np.bool_]:
    return (flags >> np.uint64(bit - 1)) & np.uint64(1) == 1


def _is_calibration(flags: NDArray[np.uint64]) -> NDArray[np.bool_]:
    return _has(flags, _CALIBRATION) & ~_has(flags, _CALIBRATION_AND_IMAGING)


def _is_imaging(flags: NDArray[np.uint64]) -> NDArray[np.bool_]:
    other = np.any([_has(flags, bit) for bit in _NOT_IMAGING], axis=0)
    return ~(other | _is_calibration(flags))


def _list_slices(heads: Heads, imaging: NDArray[np.intp]) -> NDArray[np.uint16]:
    return np.unique(heads["idx"]["slice"][imaging])


def _read_heads(path: Path, entry: Any) -> Heads:
    hdf5.check_dataset(path, "data", entry)
    with library(path):
        from ismrmrd.hdf5 import acquisition_header_dtype as expected

        if entry.ndim != 1 or not 1 <= entry.size <= _MOST_ACQUISITIONS:
            raise refusal(path, f"holds {entry.shape} acquisitions: export it anew")
        if "head" not in (entry.dtype.names or ()) or entry.dtype["head"].names != expected.names:
            raise refusal(path, "holds acquisitions of another version: convert it to version 1")
        heads: Heads = entry.fields("head")[:].astype(expected, casting="same_kind")
    sizes = heads["active_channels"].astype(np.int64) * heads["number_of_samples"]
    if not bool((sizes > 0).all()):
        raise refusal(path, "holds acquisitions without samples: export it anew")
    check_size(path, (int(sizes.sum()),), COMPLEX, COMPLEX)
    return heads


def _check_imaging(path: Path, heads: Heads) -> None:
    if bool(_has(heads["flags"], _REVERSE).any()):
        raise refusal(path, "has lines read backwards (EPI): reverse and correct them first")
    if bool((heads["trajectory_dimensions"] > 0).any()):
        raise refusal(path, "has a trajectory of its own: only Cartesian scans are read")
    if bool((heads["encoding_space_ref"] != 0).any()):
        raise refusal(path, "has several encodings: export the first alone")
    for name in _ONE_OF_EACH:
        values = np.unique(heads["idx"][name])
        if len(values) > 1:
            raise refusal(path, f"holds {len(values)} values of {name}: export one of them")
    if len(np.unique(heads["active_channels"])) > 1:
        raise refusal(path, "changes the number of coils within the scan: export it anew")


def _read_lines(path: Path, entry: Any, heads: Heads, start: int, stop: int) -> Any:
    """Yields the samples (coils, samples) of acquisitions from start to stop."""
    with library(path):
        batch = entry.fields("data")[start:stop]
    for head, flat in zip(heads[start:stop], batch, strict=True):
        shape = int(head["active_channels"]), int(head["number_of_samples"])
        if getattr(flat, "dtype", None) != np.float32 or flat.size != 2 * shape[0] * shape[1]:
            raise refusal(path, f"declares {shape} samples but holds others: export it anew")
        yield np.ascontiguousarray(flat).view(COMPLEX).reshape(shape)


def _place_lines(
    path: Path, entry: Any, heads: Heads, wanted: NDArray[np.intp], header: MRDHeader
) -> tuple[NDArray[np.complex64], NDArray[np.bool_], NDArray[np.int64]]:
    """Sorts lines into k-space and averages them; also what each slice has, and how often."""
    assert header.encoded is not None
    columns, rows, _ = header.encoded
    slices = _list_slices(heads, wanted)
    coils = int(heads["active_channels"][wanted[0]])
    check_size(path, (len(slices), coils, rows, columns), COMPLEX, COMPLEX)
    data = make_array((len(slices), coils, rows, columns), COMPLEX)
    sampled = np.zeros((len(slices), rows, columns), bool)
    counts = np.zeros((len(slices), rows), np.int64)
    offset = rows // 2 - header.center if header.center is not None else 0
    is_wanted = np.zeros(len(heads), bool)
    is_wanted[wanted] = True
    for start in range(0, len(heads), _BATCH):
        stop = min(start + _BATCH, len(heads))
        lines = _read_lines(path, entry, heads, start, stop)
        for index, line in zip(range(start, stop), lines, strict=True):
            if not is_wanted[index]:
                continue
            head = heads[index]
            row = int(head["idx"]["kspace_encode_step_1"]) + offset
            first, kept = _place_readout(path, head, line, columns)
            if not 0 <= row < rows:
                raise refusal(path, f"has a line at {row} of {rows}: its header is of another scan")
            where = int(np.searchsorted(slices, head["idx"]["slice"]))
            # What is beyond float32 becomes infinite, and is refused as such.
            with np.errstate(over="ignore", invalid="ignore"):
                data[where, :, row, first : first + kept.shape[1]] += kept
            sampled[where, row, first : first + kept.shape[1]] = True
            counts[where, row] += 1
        release(data)
    for number, often in enumerate(np.maximum(counts, 1).astype(np.float32)):
        data[number] /= often[:, None]
        release(data)
    return data, sampled, counts


def _read_calibration(
    path: Path, entry: Any, heads: Heads, imaging: NDArray[np.intp], header: MRDHeader
) -> NDArray[np.complex64] | None:
    """Lines for the coils' maps alone, in the rows about the origin; None where they do not fit."""
    chosen = np.flatnonzero(_is_calibration(heads["flags"]))
    own, others = heads[chosen], heads[imaging]
    fits = (
        len(chosen) > 0
        and not bool(_has(own["flags"], _REVERSE).any())
        and not bool((own["trajectory_dimensions"] > 0).any())
        and not bool((own["encoding_space_ref"] != 0).any())
        and set(own["active_channels"]) == set(others["active_channels"])
        and np.array_equal(_list_slices(heads, chosen), _list_slices(heads, imaging))
    )
    if not fits:
        return None
    data, taken, _ = _place_lines(path, entry, heads, chosen, header)
    rows, middle = data.shape[-2], data.shape[-2] // 2
    reach = int(np.abs(np.flatnonzero(taken.any((0, 2))) - middle).max())
    # The origin stays in the middle: there may be a row more before it than after it.
    start, stop = max(middle - reach, 0), min(middle + reach + 1, rows)
    return np.array(data[..., start:stop, :])


def _place_readout(
    path: Path, head: np.void, line: NDArray[np.complex64], columns: int
) -> tuple[int, NDArray[np.complex64]]:
    """The column of the first sample, and the samples that are not to be discarded."""
    length, center = line.shape[1], int(head["center_sample"])
    before, after = int(head["discard_pre"]), int(head["discard_post"])
    kept = line[:, before : length - after]
    # Many writers leave the centre at zero, which no echo has.
    start = before if length == columns and center == 0 else columns // 2 - center + before
    if kept.shape[1] < 1 or not 0 <= start <= columns - kept.shape[1]:
        raise refusal(path, f"has {length} samples around {center} for {columns}: export it anew")
    return start, kept


def _read_noise(
    path: Path, entry: Any, heads: Heads, header: MRDHeader, averages: int
) -> NDArray[np.complex64] | None:
    """Noise samples (coils, n), at the level they have in the data.

    Its power grows with the bandwidth, the inverse of the time per sample, and falls with averages.
    """
    where = np.flatnonzero(_has(heads["flags"], _NOISE))
    imaging = heads[_is_imaging(heads["flags"])][0]
    if not len(where):
        return None
    pieces = []
    for index in where:
        (piece,) = _read_lines(path, entry, heads, int(index), int(index) + 1)
        if len(piece) != int(imaging["active_channels"]):
            raise refusal(path, "has a noise scan of other coils: export it anew")
        with np.errstate(all="ignore"):
            ratio = float(heads[index]["sample_time_us"] / imaging["sample_time_us"])
            ratio = ratio if np.isfinite(ratio) and ratio > 0 else 1.0
            pieces.append(piece * np.float32((ratio / header.noise_bandwidth / averages) ** 0.5))
    return np.concatenate(pieces, axis=1)


def _load_library() -> Any:
    """The package ismrmrd, without the filter of warnings that its import sets for everybody."""
    everything = ("default", None, Warning, None, 0)
    is_wanted = everything in warnings.filters
    import ismrmrd

    # Not by catch_warnings, which would undo what another thread does at the same time.
    if not is_wanted and everything in warnings.filters and isinstance(warnings.filters, list):
        warnings.filters.remove(everything)
    return ismrmrd


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes mean, std, low and high as the image series 0 to 3 beside the copied header."""
    target = place(folder, scan, "_results.h5")
    xml, *heads = unpack(scan.header)
    rows, columns = scan.size
    y, x, z = scan.facts.get("spacing in mm", (0.0, 0.0, 0.0))
    with writing(target) as partial:
        import h5py

        ismrmrd = _load_library()
        with ismrmrd.Dataset(partial, GROUP, mode="w") as dataset:
            dataset.write_xml_header(xml)
            for series, (name, values) in enumerate(results.items()):
                for index, (head, pixels) in enumerate(zip(heads, values, strict=True)):
                    image = ismrmrd.Image.from_array(
                        pixels[:, None], ismrmrd.Acquisition(head), transpose=False, image_type=1
                    )
                    image.image_series_index, image.image_index = series, index
                    image.field_of_view = (x * columns, y * rows, z)
                    image.meta = {"DataRole": "Image", "ImageComment": f"posterior {name}"}
                    dataset.append_image(f"image_{series}", image)
        with h5py.File(partial, "a") as file:
            file.attrs["level"] = results.level
            file.attrs[hdf5.NOTE] = provenance
    return [target]
