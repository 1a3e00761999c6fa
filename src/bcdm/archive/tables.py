"""Items that are rows of one large array: zarr, on a disk or in an object store, or HDF5."""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bcdm.archive.entries import Entry, Fit, fail
from bcdm.archive.objects import blaming_store
from bcdm.archive.places import is_remote, open_place
from bcdm.errors import MachineError
from bcdm.scans import Scan, read_mask
from bcdm.scans.complaints import library, refusal
from bcdm.scans.layout import choose_key, choose_kind, kept_dtype, shape_mask
from bcdm.scans.limits import LIMITS
from bcdm.scans.reading import complete

if TYPE_CHECKING:
    from bcdm.reconstruction.fitting import Fitted

__all__ = ["Table", "is_table"]

_BLOCK_BYTES = 1 << 25
# What libraries say of a chunk that cannot be unpacked.
_DAMAGE = (OSError, ValueError, RuntimeError, EOFError, zlib.error)
_MASK, _NOISE = "mask", "noise_std"


def is_table(text: str) -> bool:
    """Whether it is one large array, and not files: zarr, or HDF5 that no scanner wrote."""
    if is_remote(text):
        return open_place(text).read("zarr.json") is not None
    path = Path(text)
    if path.is_dir():
        return (path / "zarr.json").is_file()
    if not path.is_file() or path.suffix.lower() not in (".h5", ".hdf5"):
        return False
    with library(path):
        import h5py

        with h5py.File(path, "r", locking=False) as file:
            return not {"ismrmrd_header", "dataset"} & set(file)


class Table:
    """Rows (channels or coils, rows, columns) of an array.

    Beside it there may be `mask`, (rows, columns) or one for each row, and `noise_std`, one number
    for each row or for all.

    Args:
        text: Path or address.
        shard: How many rows a shard has.
        mask: File that says what was measured, for all rows.
        key: The array to read.
    """

    def __init__(
        self, text: str, shard: int, mask: str | None = None, key: str | None = None
    ) -> None:
        self._text = text if is_remote(text) else str(Path(text).absolute())
        self._path = Path(text)
        self._shard, self._mask, self._key = shard, mask, key

    def describe(self) -> Mapping[str, Any]:
        """See `Source`."""
        with self._opened() as arrays:
            known = {name: [*map(int, a.shape), str(a.dtype)] for name, a in sorted(arrays.items())}
        return {"table": self._text, "arrays": known}

    def plan(self) -> tuple[int, int | None]:
        """See `Source`."""
        count = self._count_rows()
        return -(-count // self._shard), count

    def count(self, most: int) -> int:
        """See `Source`."""
        return min(most, self._count_rows())

    def _count_rows(self) -> int:
        with self._opened() as arrays:
            return int(self._choose(arrays)[1].shape[0])

    def read(self, shard: int, fit: Fit) -> Iterator[Entry]:
        """See `Source`."""
        with self._opened() as arrays:
            name, data = self._choose(arrays)
            count = int(data.shape[0])
            begin = shard * self._shard
            end = min(begin + self._shard, count)
            size = data.shape[-2], data.shape[-1]
            row_bytes = int(np.prod(data.shape[1:])) * np.dtype(data.dtype).itemsize
            with self._online():
                common = {
                    kind: np.asarray(arrays[kind][...])
                    for kind, axes in ((_MASK, 3), (_NOISE, 1))
                    if kind in arrays and not _is_by_row(arrays[kind], axes, count)
                }
            shared = None if self._mask is None else read_mask(self._mask, size)
            for start in range(begin, end, max(1, _BLOCK_BYTES // row_bytes)):
                stop = min(start + max(1, _BLOCK_BYTES // row_bytes), end)
                with self._online():
                    parts = {
                        kind: _read_rows(arrays[kind], start, stop)
                        for kind in (name, _MASK, _NOISE)
                        if kind == name or (kind in arrays and kind not in common)
                    }
                for row in range(start, stop):
                    own = common | {kind: part[row - start] for kind, part in parts.items()}
                    yield self._make_entry(row, name, own, shared, fit)

    def _make_entry(
        self,
        row: int,
        name: str,
        own: Mapping[str, "NDArray[Any] | Exception"],
        shared: NDArray[np.bool_] | None,
        fit: Fit,
    ) -> Entry:
        digest = hashlib.sha256()
        for kind, value in own.items():
            if isinstance(value, Exception):
                own_id = hashlib.sha256(f"{self._text} {row}".encode()).hexdigest()
                return Entry(own_id, f"row {row}", fail(self._explain(row, value)))
            digest.update(f"{kind} {value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        # By content, so that neither the order of rows nor where the file lies matters.
        identity = digest.hexdigest()

        def fit_row() -> "Fitted":
            numbers, std = own[name], own.get(_NOISE)
            assert isinstance(numbers, np.ndarray)
            mask = shared
            size = numbers.shape[-2], numbers.shape[-1]
            if mask is None and _MASK in own:
                mask = shape_mask(self._path, np.asarray(own[_MASK]), size)
            scan = _make_scan(self._path, row, name, numbers, mask)
            return fit(scan, None if std is None else float(np.asarray(std)))

        return Entry(identity, f"row {row}", fit_row)

    def _explain(self, row: int, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.errno is not None:
            return error  # of the disk, maybe: whoever draws tells them apart
        return refusal(self._path, f"cannot be read at row {row} ({error}): copy it anew")

    @contextmanager
    def _online(self) -> Iterator[None]:
        """A network that fails says nothing of an item."""
        try:
            yield
        except Exception as error:
            if not is_remote(self._text):
                raise
            line = " ".join(str(error).split())[:300]
            raise MachineError(f"{self._text} cannot be read: {line}") from error

    def _choose(self, arrays: Mapping[str, Any]) -> tuple[str, Any]:
        names = [name for name in arrays if name != _NOISE]
        name = "array" if names == ["array"] else choose_key(self._path, names, self._key)
        data = arrays[name]
        if len(data.shape) not in (3, 4) or 0 in data.shape:
            raise refusal(
                self._path,
                f"holds {name!r} of shape {tuple(data.shape)}: store (items, channels or coils, "
                "rows, columns), or (items, rows, columns)",
            )
        chunks = getattr(data, "chunks", None) or (1,)
        if int(np.prod(chunks)) * np.dtype(data.dtype).itemsize > LIMITS.numbers:
            raise refusal(self._path, f"has chunks {tuple(chunks)} too large to read: rechunk it")
        choose_kind(self._path, name, np.dtype(data.dtype))
        return name, data

    @contextmanager
    def _opened(self) -> Iterator[dict[str, Any]]:
        """Arrays by name; one without a name is called "array"."""
        if not is_remote(self._text) and self._path.is_file():
            with library(self._path):
                import h5py

                file = h5py.File(self._path, "r", locking=False)
            with file:
                yield {name: file[name] for name in file if _is_inside(file, name)}
            return
        with library(self._path), blaming_store(f"{self._text} cannot be read"):
            import zarr

            opened: Any = zarr.open(open_place(self._text).open_store(""), mode="r", zarr_format=3)
            found = {"array": opened} if isinstance(opened, zarr.Array) else dict(opened.arrays())
        yield found


def _is_inside(file: Any, name: str) -> bool:
    """Whether it is an array of the file itself, not of others that it leads to."""
    import h5py

    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    held = file[name]
    return isinstance(held, h5py.Dataset) and not held.is_virtual and held.external is None


def _is_by_row(array: Any, axes: int, count: int) -> bool:
    return len(array.shape) >= axes and array.shape[0] == count


def _read_rows(array: Any, start: int, stop: int) -> "list[NDArray[Any] | Exception]":
    """Some rows, or what is wrong with them."""
    try:
        return list(np.asarray(array[start:stop]))
    except _DAMAGE:
        # A damaged chunk costs the rows in it, and no others.
        return [_read_row(array, row) for row in range(start, stop)]


def _read_row(array: Any, row: int) -> "NDArray[Any] | Exception":
    try:
        return np.asarray(array[row])
    except _DAMAGE as error:
        return error


def _make_scan(
    path: Path, row: int, name: str, numbers: NDArray[Any], mask: NDArray[np.bool_] | None
) -> Scan:
    kind = choose_kind(path, name, numbers.dtype)
    data = numbers.astype(kept_dtype(kind))[None]
    if data.ndim == 3:
        data = data[:, None]
    elif kind == "image" and data.shape[1] not in (1, 3) and data.shape[-1] in (1, 3):
        data = np.moveaxis(data, -1, 1)
    facts = {"array": name, "stored type": str(numbers.dtype), "row": row}
    size = data.shape[-2], data.shape[-1]
    return complete(Scan(path, "zarr", kind, data, mask, None, size, facts))
