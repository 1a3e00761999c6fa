"""The files of jobs: a folder each, with what came in and what was made of it."""

import json
import secrets
import shutil
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcdm.files import flush, flush_names, replacing
from bcdm.folders import MARKER, stays_inside

__all__ = ["KEPT", "MEAN", "REPORT", "Shelf", "Shelves", "pack"]

MEAN, REPORT = "mean.npz", "report.html"
# What samples were drawn from, and they themselves: as `reconstruction.files` has it.
KEPT = ("samples.zarr", "measurement.npz", "operator.safetensors")
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same files give the same bits


@dataclass(frozen=True)
class Shelf:
    """The folder of one job, or of a mean."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.folder.name

    @property
    def out(self) -> Path:
        """Where results go."""
        return self.folder / "out"

    def find_input(self, name: str) -> Path:
        """The file that came in."""
        return self.folder / "input" / name

    def read_run(self) -> dict[str, Any]:
        """What run.json says; empty while it is not there."""
        try:
            content = json.loads((self.out / MARKER).read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def list_files(self) -> list[str]:
        """What can be fetched: only what run.json names, and itself."""
        run = self.read_run()
        names = [name for name in run.get("files", {}) if stays_inside(name)]
        return [*names, MARKER] if run else []

    def remove(self) -> None:
        """Removes all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Shelves:
    """All folders of a service.

    Args:
        root: Made if need be, and closed to other users: scans are of patients.
    """

    def __init__(self, root: Path) -> None:
        self._jobs, self._incoming = root / "jobs", root / "incoming"
        for folder in (root, self._jobs, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root = root

    def begin(self) -> Shelf:
        """A new folder, for what is coming in; it is no job yet."""
        shelf = Shelf(self._incoming / secrets.token_hex(16))
        shelf.find_input("").mkdir(parents=True)
        return shelf

    def accept(self, shelf: Shelf) -> Shelf:
        """Makes it the folder of a job. What is in it survives a crash of the machine."""
        flush(shelf.folder)
        accepted = self.find(shelf.name)
        shelf.folder.rename(accepted.folder)
        flush_names(self._jobs)
        return accepted

    def find(self, name: str) -> Shelf:
        """The folder of a job."""
        return Shelf(self._jobs / name)

    def tidy(self, known: Collection[str]) -> None:
        """At the start: removes what never became a job."""
        left = [*self._incoming.iterdir()]
        left += [folder for folder in self._jobs.iterdir() if folder.name not in known]
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)

    def count_free(self) -> int:
        """Bytes that are free on the disk."""
        return shutil.disk_usage(self._root).free


def pack(folder: Path, names: Collection[str], target: Path) -> None:
    """Writes files and folders to one .zip, whose bits depend on them alone."""
    with replacing(target) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name in sorted(names):
            path = folder / name
            files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            for file in files:
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _ZIP_TIME)
                with archive.open(entry, "w", force_zip64=True) as packed, file.open("rb") as own:
                    shutil.copyfileobj(own, packed)
