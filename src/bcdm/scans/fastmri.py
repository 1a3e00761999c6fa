"""fastMRI files: HDF5 with `kspace`, and `reconstruction` for its evaluation script."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcdm.scans import hdf5
from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import arrange, choose_kind, kept_dtype, shape_mask
from bcdm.scans.mrdheader import parse_header
from bcdm.scans.output import writing
from bcdm.scans.scan import Results, Scan
from bcdm.spool import each

__all__ = ["FORMAT", "read", "remove_padding", "write"]

FORMAT = "fastMRI HDF5"


def read(path: Path, file: Any, key: str | None) -> Scan:
    """Reads `kspace`, or the dataset of the given key, with its header and the mask of k-space."""
    name = key or "kspace"
    entry = hdf5.find(path, file, name)
    if entry is None:
        with library(path):
            held = ", ".join(sorted(file)[:8]) or "nothing"
        raise refusal(path, f"holds no {name!r} but {held}: name the dataset by its key")
    hdf5.check_dataset(path, name, entry)
    with library(path):
        stored = entry.dtype
    kind = choose_kind(path, name, stored)
    numbers = hdf5.read_numbers(path, name, entry, kept_dtype(kind))
    # Where other files have coils first, these have slices.
    is_stack = kind == "k-space" and numbers.ndim == 3
    data = numbers[:, None] if is_stack else arrange(path, numbers, kind)
    facts: dict[str, Any] = {"array": name, "stored shape": [*numbers.shape]}
    if is_stack:
        facts["read as"] = f"{len(numbers)} slices of one coil"
    with library(path):
        acquisition = file.attrs.get("acquisition")
    if isinstance(acquisition, str):
        facts["acquisition"] = acquisition[:80]
    with library(path):
        patient = file.attrs.get("patient_id")
    if isinstance(patient, str):
        # Several volumes may be of one patient: told apart by a hash, the name is not passed on.
        facts["subject"] = hashlib.blake2b(patient.encode(), digest_size=6).hexdigest()
    xml = b""
    size = data.shape[-2], data.shape[-1]
    entry = hdf5.find(path, file, "ismrmrd_header")
    if entry is not None:
        xml = hdf5.read_text(path, "ismrmrd_header", entry)
        header = parse_header(path, xml)
        facts.update(header.facts)
        if header.recon is not None and kind == "k-space":
            # The readout runs along the rows here.
            size = header.choose_size(size)
            facts["oversampling"] = round(data.shape[-2] / size[0], 3)
    entry = hdf5.find(path, file, "mask") if kind == "k-space" else None
    mask = None if entry is None else _read_mask(path, entry, data, facts)
    return Scan(path, FORMAT, kind, data, mask, None, size, facts, xml)


def _read_mask(
    path: Path, entry: Any, data: NDArray[Any], facts: dict[str, Any]
) -> NDArray[np.bool_]:
    stated = hdf5.read_numbers(path, "mask", entry, np.dtype(np.float32))
    return remove_padding(shape_mask(path, stated, (data.shape[-2], data.shape[-1])), data, facts)


def remove_padding(
    mask: NDArray[np.bool_], data: NDArray[Any], facts: dict[str, Any]
) -> NDArray[np.bool_]:
    """A mask without the empty columns that files are padded by at both ends.

    Masks may count them as sampled; facts then say so.
    """
    taken = np.flatnonzero(np.any([(coils != 0).any((0, 1)) for coils in each(data)], 0))
    padding = np.ones(data.shape[-1], bool)
    if len(taken):
        padding[taken[0] : taken[-1] + 1] = False
    left_out = int((mask.any(0) & padding).sum())
    if left_out:
        facts["sampled columns left out as padding"] = left_out
    return mask & ~padding


def write(folder: Path, scan: Scan, results: Results, provenance: str) -> list[Path]:
    """Writes a file of the input's own name, which pairs the two for fastMRI's evaluation.

    The datasets are (slices, rows, columns).
    """
    target = folder / scan.path.name
    if target.resolve() == scan.path.resolve():
        raise refusal(target, "is the input itself: choose another folder")
    with writing(target) as partial:
        import h5py

        with h5py.File(partial, "w") as file:
            for name, values in results.items():
                suffix = "" if name == "mean" else f"_{name}"
                shown = _drop_channel(values)
                stored = file.create_dataset(f"reconstruction{suffix}", shown.shape, shown.dtype)
                for number, one in enumerate(each(shown)):
                    stored[number] = one
            if scan.header:
                file["ismrmrd_header"] = scan.header
            file.attrs["level"] = results.level
            file.attrs[hdf5.NOTE] = provenance
    return [target]


def _drop_channel(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return values[:, 0] if values.shape[1] == 1 else values
