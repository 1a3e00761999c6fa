"""Sources of clean images: folders of pictures, NumPy arrays and HDF5 files behind one contract."""

import math
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bcdm.data.pictures import PICTURE_SUFFIXES, read_picture
from bcdm.errors import DtypeError, InputError, ShapeError

__all__ = ["ArrayFile", "HDF5File", "ImageFolder", "ImageSource", "open_images"]

Pixels = NDArray[Any]
Range = tuple[float, float]
Layout = Literal["HW", "HWC", "CHW"]

CHANNEL_COUNTS = (1, 3)
SPLIT_FOLDERS = {
    "test": "test",
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
}
SUBJECT_KEYS = ("subject", "person")


class ImageSource(Protocol):
    """A finite list of clean images, read one at a time."""

    @property
    def subjects(self) -> Sequence[str] | None:
        """Who is in each image, or None if the file does not say."""

    @property
    def split_labels(self) -> Sequence[str] | None:
        """The stored "train", "val" or "test" of each image, or None; "valid" is "val"."""

    @property
    def value_range(self) -> Range:
        """The native numbers of black and white: a scale for the images, not a bound on them."""

    def __len__(self) -> int:
        """Counts the images."""

    def __getitem__(self, index: int) -> Tensor:
        """Reads one image (C, H, W), float32 or complex64, in native numbers."""


def open_images(
    path: str | Path, key: str | None = None, value_range: Range | None = None
) -> ImageSource:
    """Opens a folder of pictures, an .npy or .npz array, or an HDF5 file.

    Args:
        path: A folder, or a file ending in .npy, .npz, .h5 or .hdf5.
        key: The name of the array inside an .npz or HDF5 file; "images" if None.
        value_range: The native numbers of black and white. It may be left out for 8-bit and
            16-bit unsigned integers, whose type says it.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        if key is not None:
            raise InputError(f"{path} is a folder and holds no array {key!r}: leave out the key")
        return ImageFolder(path, value_range)
    if suffix in (".npy", ".npz"):
        return ArrayFile(path, key or "images", value_range)
    if suffix in (".h5", ".hdf5"):
        return HDF5File(path, key or "images", value_range)
    _check_file(path)
    raise InputError(
        f"{path} has an unknown suffix: give a folder of pictures, or an .npy, .npz or .h5 file"
    )


class ImageFolder:
    """PNG, JPEG and TIFF pictures in a folder and its subfolders, in the order of their paths.

    The subject of a picture is the name of the folder at the top that holds it, however deep, or
    the stem of its own name if it lies in no subfolder. Folders train, val (or valid, validation)
    and test at the top are the stored split: subjects are then the folders inside them, and a
    picture in none is a subject of its own.
    """

    def __init__(self, path: str | Path, value_range: Range | None = None) -> None:
        root = Path(path)
        if not root.is_dir():
            raise InputError(f"folder {root} does not exist: check the path")
        places = sorted(
            place.relative_to(root)
            for place in root.rglob("*")
            if place.suffix.lower() in PICTURE_SUFFIXES and place.is_file()
        )
        # Names with a leading dot are the leavings of file managers and notebooks; beside a log
        # lies the picture that a training writes.
        places = [p for p in places if not any(part.startswith(".") for part in p.parts)]
        places = [p for p in places if not (root / p.parent / "log.jsonl").exists()]
        if not places:
            raise InputError(f"{root} holds no picture: put {', '.join(PICTURE_SUFFIXES)} there")
        has_split = _has_split(root, places)
        self.files = tuple(root / place for place in places)
        self.subjects: Sequence[str] = tuple(_name_subject(p, has_split) for p in places)
        self.split_labels: Sequence[str] | None = (
            tuple(SPLIT_FOLDERS[p.parts[0].lower()] for p in places) if has_split else None
        )
        self._dtype = read_picture(self.files[0]).dtype
        self.value_range = _choose_range(self._dtype, value_range, self.files[0].name)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        """Reads one picture (C, H, W), float32, in native numbers."""
        file = self.files[index]
        pixels = read_picture(file)
        if pixels.dtype != self._dtype:
            raise DtypeError(
                f"{file} is {pixels.dtype} but {self.files[0].name} is {self._dtype}: "
                "keep one bit depth per folder"
            )
        return _to_tensor(pixels, "HW" if pixels.ndim == 2 else "HWC", str(file))


class _ArrayItems(ABC):
    """Images along the first axis of one array in a file."""

    def __init__(
        self,
        path: Path,
        key: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stated: Range | None,
    ) -> None:
        self.path, self.key, self._stated = path, key, stated
        self._layout: Layout = _find_layout(shape, path.name)
        self._length = shape[0]
        self.value_range = _choose_range(dtype, stated, path.name)
        self.subjects: Sequence[str] | None = None
        self.split_labels: Sequence[str] | None = None

    def _set_labels(self, labels: Mapping[str, Sequence[str]]) -> None:
        for name, values in labels.items():
            if len(values) != self._length:
                raise ShapeError(
                    f"{self.path.name} holds {self._length} images but {len(values)} entries of "
                    f"{name!r}: store one per image"
                )
        self.subjects = next((labels[name] for name in SUBJECT_KEYS if name in labels), None)
        split = labels.get("split")
        self.split_labels = split and tuple(SPLIT_FOLDERS.get(name.lower(), name) for name in split)

    @abstractmethod
    def _read(self, index: int) -> Pixels:
        """Reads one item as stored."""

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Tensor:
        """Reads one image (C, H, W), float32, in native numbers."""
        if not -self._length <= index < self._length:
            raise IndexError(f"{self.path.name} holds {self._length} images: no item {index}")
        return _to_tensor(self._read(index), self._layout, f"{self.path.name}, item {index}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Sends the path and not the content: another process opens the file by itself."""
        return type(self), (self.path, self.key, self._stated)


class ArrayFile(_ArrayItems):
    """Images in an .npy or .npz array (N, H, W), (N, H, W, C) or (N, C, H, W), C = 1 or 3.

    An .npy file and an .npz file without compression are memory-mapped; a compressed .npz file is
    loaded once. An .npz file may also hold "subject" (or "person") and "split", one per image.

    Attributes:
        array: All images as stored; a `numpy.memmap` where the file allows it.
    """

    def __init__(
        self, path: str | Path, key: str = "images", value_range: Range | None = None
    ) -> None:
        path = _check_file(Path(path))
        labels: dict[str, Sequence[str]] = {}
        try:
            if path.suffix.lower() == ".npz":
                with zipfile.ZipFile(path) as archive:
                    self.array = _open_member(path, archive, key)
                    for name in (*SUBJECT_KEYS, "split"):
                        if f"{name}.npy" in archive.namelist():
                            labels[name] = _to_strings(_load_member(path, archive, name))
            else:
                with path.open("rb") as stream:
                    self.array = _map_array(path, stream)
        except InputError:
            raise
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path} cannot be read ({error}): write it anew") from error
        super().__init__(path, key, self.array.shape, self.array.dtype, value_range)
        self._set_labels(labels)

    def _read(self, index: int) -> Pixels:
        return np.asarray(self.array[index])


class HDF5File(_ArrayItems):
    """Images in a dataset (N, H, W), (N, H, W, C) or (N, C, H, W) of an HDF5 file, C = 1 or 3.

    Datasets "subject" (or "person") and "split" beside it, if there, label each image. Each
    process opens the file for itself at its first read, so that workers may fork at any time.
    """

    def __init__(
        self, path: str | Path, key: str = "images", value_range: Range | None = None
    ) -> None:
        path = _check_file(Path(path))
        self._file: Any = None
        self._process = -1
        with _open_hdf5(path) as file:
            entry = file.get(key)
            # A group has members but no shape.
            if entry is None or not hasattr(entry, "shape"):
                raise InputError(f"{path} holds no dataset {key!r}: choose one of {sorted(file)}")
            _check_dtype(entry.dtype, path.name)
            super().__init__(path, key, tuple(entry.shape), entry.dtype, value_range)
            names = [name for name in (*SUBJECT_KEYS, "split") if name in entry.parent]
            self._set_labels({name: _to_strings(entry.parent[name][...]) for name in names})

    def _read(self, index: int) -> Pixels:
        if self._process != os.getpid():
            # A handle from before a fork shares its state with the parent.
            if self._file is not None:
                self._file.close()
            self._file = _open_hdf5(self.path)
            self._process = os.getpid()
        return np.asarray(self._file[self.key][index % self._length])


def _has_split(root: Path, places: Sequence[Path]) -> bool:
    """Whether the folders at the top are a split; refuses a mixture of splits and others."""
    labelled = [len(p.parts) > 1 and p.parts[0].lower() in SPLIT_FOLDERS for p in places]
    if any(labelled) and not all(labelled):
        split, other = (places[labelled.index(is_split)].parts[0] for is_split in (True, False))
        raise InputError(
            f"{root} holds the split {split!r} beside {other!r}, which is none: put all pictures "
            "into train, val and test, or rename the folder"
        )
    return all(labelled)


def _name_subject(place: Path, has_split: bool) -> str:
    """Who is in a picture, by its path."""
    if not has_split:
        return place.parts[0] if len(place.parts) > 1 else place.stem
    # Folders inside may be classes, and pictures are numbered anew: no subject is in two splits.
    return "/".join(place.parts[:2]) if len(place.parts) > 2 else place.with_suffix("").as_posix()


def _check_file(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"file {path} does not exist: check the path")
    return path


def _check_dtype(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in "buifc":
        raise DtypeError(f"{name} holds {dtype}: store one array of integers or floats")


def _choose_range(dtype: np.dtype[Any], stated: Range | None, name: str) -> Range:
    _check_dtype(dtype, name)
    if stated is not None:
        low, high = float(stated[0]), float(stated[1])
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"value_range {stated} is empty: give (low, high) with low < high")
        return low, high
    if dtype.kind == "b":
        return 0.0, 1.0
    if dtype.kind == "u" and dtype.itemsize <= 2:
        return 0.0, float(np.iinfo(dtype).max)
    # A guess would silently change the meaning of every noise level.
    raise InputError(f"{name} holds {dtype}, which has no range: state data.source_range")


def _find_layout(shape: tuple[int, ...], name: str) -> Layout:
    if len(shape) in (3, 4) and 0 in shape:
        raise ShapeError(f"{name} of shape {shape} holds no image: store at least one")
    if len(shape) == 3:
        return "HW"
    first, last = (len(shape) == 4 and shape[axis] in CHANNEL_COUNTS for axis in (1, -1))
    if first == last:
        raise ShapeError(
            f"{name} has shape {shape}: store (N, H, W), (N, H, W, C) or (N, C, H, W), C = 1 or 3"
        )
    return "CHW" if first else "HWC"


def _to_tensor(pixels: Pixels, layout: Layout, name: str) -> Tensor:
    """Turns one stored image into a tensor (C, H, W) of its own memory, float32 or complex64."""
    if layout == "HW":
        pixels = pixels[None]
    elif layout == "HWC":
        pixels = np.moveaxis(pixels, -1, 0)
    # A float64 beyond float32 becomes infinite, and is refused below.
    with np.errstate(over="ignore"):
        kept = np.complex64 if pixels.dtype.kind == "c" else np.float32
        image = torch.from_numpy(np.array(pixels, dtype=kept, order="C"))
    if pixels.dtype.kind in "fc" and not bool(torch.isfinite(image).all()):
        raise InputError(f"{name} has values that are not finite: replace NaN and infinity")
    return image


def _to_strings(values: Pixels) -> tuple[str, ...]:
    return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values.reshape(-1))


def _read_header(stream: IO[bytes], name: str) -> tuple[Any, np.dtype[Any], Literal["F", "C"]]:
    """Reads shape, type and order of an .npy stream, and stops at its first number."""
    version = np.lib.format.read_magic(stream)
    layout = np.lib.format
    read = layout.read_array_header_1_0 if version == (1, 0) else layout.read_array_header_2_0
    shape, is_fortran, dtype = read(stream)
    # Only unpickling could read objects, and it could run anything.
    if dtype.hasobject:
        raise DtypeError(f"{name} holds Python objects: store one array of numbers or strings")
    return shape, dtype, "F" if is_fortran else "C"


def _map_array(path: Path, stream: IO[bytes]) -> Pixels:
    """Maps the .npy content that starts where the stream stands."""
    shape, dtype, order = _read_header(stream, path.name)
    # NumPy could not map an empty array.
    _find_layout(shape, path.name)
    return np.memmap(path, dtype, mode="r", offset=stream.tell(), shape=shape, order=order)


def _load_member(path: Path, archive: zipfile.ZipFile, key: str) -> Pixels:
    with archive.open(f"{key}.npy") as stream:
        shape, dtype, order = _read_header(stream, f"{path.name}, {key!r},")
        return np.frombuffer(stream.read(), dtype).reshape(shape, order=order)


def _open_member(path: Path, archive: zipfile.ZipFile, key: str) -> Pixels:
    """Maps an .npz member if it is stored as it is, and loads it if it is compressed."""
    names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
    if key not in names:
        raise InputError(f"{path} holds no array {key!r}: choose one of {names}")
    entry = archive.getinfo(f"{key}.npy")
    if entry.compress_type != zipfile.ZIP_STORED:
        return _load_member(path, archive, key)
    with path.open("rb") as stream:
        # A zip member starts with 30 bytes, a name and an extra field; only the member itself,
        # at its byte 26, tells the true lengths of both.
        stream.seek(entry.header_offset + 26)
        lengths = np.frombuffer(stream.read(4), "<u2")
        stream.seek(entry.header_offset + 30 + int(lengths.sum(dtype=np.int64)))
        return _map_array(path, stream)


def _open_hdf5(path: Path) -> Any:
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} cannot be read as HDF5: write it anew") from error
