"""HDF5 files made to do harm."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tests.scans.forging import Makers, forgery, inflate_to


def make_kspace_file(folder: Path, **parts: Any) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        for name, part in parts.items():
            file[name] = part
    return folder / "a.h5"


@forgery("GiB")
def hdf5_of_a_huge_shape(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        shape = (1 << 20, 1 << 20, 640, 368)
        file.create_dataset("kspace", shape, np.complex64, chunks=(1, 1, 64, 64))
    return folder / "a.h5"


@forgery("GiB")
def hdf5_of_a_huge_chunk(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        chunks = (1, 1, 20000, 20000)
        options = {"chunks": chunks, "maxshape": (None,) * 4}
        file.create_dataset("kspace", (1, 1, 4, 4), np.complex64, **options)
    return folder / "a.h5"


@forgery("a.h5")
def hdf5_bomb(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        options = {"chunks": (1, 1, 64, 64), "compression": "gzip"}
        entry = file.create_dataset("kspace", (1, 1, 64, 64), np.complex64, **options)
        entry.id.write_direct_chunk((0, 0, 0, 0), inflate_to(6 << 30, wbits=15))
    return folder / "a.h5"


@forgery("links 'kspace' to another place")
def hdf5_link_to_a_file(folder: Path, makers: Makers) -> Path:
    (folder / "other").mkdir()
    other = makers["make_fastmri"](folder / "other")
    return make_kspace_file(folder, kspace=h5py.ExternalLink(other, "kspace"))


@forgery("links 'kspace' to another place")
def hdf5_link_within(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(
        folder, kspace=h5py.SoftLink("/hidden"), hidden=makers["draw_complex"]((2, 3, 8, 6))
    )


@forgery("keeps 'kspace' in other files")
def hdf5_raw_file_outside(folder: Path, makers: Makers) -> Path:
    (folder / "raw").write_bytes(bytes(512))
    with h5py.File(folder / "a.h5", "w") as file:
        outside = [(folder / "raw", 0, 512)]
        file.create_dataset("kspace", (1, 1, 8, 8), np.complex64, external=outside)
    return folder / "a.h5"


@forgery("keeps 'kspace' in other files")
def hdf5_virtual(folder: Path, makers: Makers) -> Path:
    (folder / "other").mkdir()
    other = makers["make_fastmri"](folder / "other")
    with h5py.File(folder / "a.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 3, 16, 10), np.complex64)
        layout[...] = h5py.VirtualSource(other, "kspace", (2, 3, 16, 10))
        file.create_virtual_dataset("kspace", layout)
    return folder / "a.h5"


@forgery("holds no dataset 'kspace'")
def hdf5_group(folder: Path, makers: Makers) -> Path:
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_group("kspace")
    return folder / "a.h5"


@forgery("store k-space as complex numbers")
def hdf5_of_real_numbers(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=np.ones((2, 3, 8, 6)))


@forgery("holds object")
def hdf5_of_text(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=["a", "b"])


@forgery("empty array")
def hdf5_of_nothing(folder: Path, makers: Makers) -> Path:
    return make_kspace_file(folder, kspace=np.ones((0, 3, 8, 6), np.complex64))


@forgery("not finite")
def hdf5_with_nan(folder: Path, makers: Makers) -> Path:
    kspace = makers["draw_complex"]((2, 3, 8, 6))
    kspace[1, 2, 3, 4] = np.nan
    return make_kspace_file(folder, kspace=kspace)


@forgery("plain name of an array", key="../kspace")
def hdf5_key_out_of_the_file(folder: Path, makers: Makers) -> Path:
    return makers["make_fastmri"](folder)


@forgery("declarations of its own")
def hdf5_header_of_entities(folder: Path, makers: Makers) -> Path:
    lines = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(20))
    header = f'<!DOCTYPE a [<!ENTITY a0 "ha">{lines}]><a>&a20;</a>'
    return make_kspace_file(
        folder, kspace=makers["draw_complex"]((2, 3, 8, 6)), ismrmrd_header=header
    )
