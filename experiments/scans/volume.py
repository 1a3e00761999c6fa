"""A whole volume by one command: python -m experiments.scans.volume MODEL DATA OUT.json.

Slices of the held-out OpenMS patients, 320x320 by air around them, as 8 drawn coils see them, in
the layout of fastMRI at 4x: 16 slices, and the same for 4 times as many. Seconds are those of the
processor, of the command and the process that reads for it; memory is what both hold at the same
time (resident), looked at ten times a second.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bcdm.assessment.records import Record, write_records
from bcdm.benchmark.coilsets import Slice, draw_mask, open_set

SIDE, COILS, ACCELERATION = 320, 8, 4.0
HEADER = """<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding>
<trajectory>cartesian</trajectory>
<encodedSpace><matrixSize><x>{side}</x><y>{side}</y><z>1</z></matrixSize></encodedSpace>
<reconSpace><matrixSize><x>{side}</x><y>{side}</y><z>1</z></matrixSize>
<fieldOfView_mm><x>{side}</x><y>{side}</y><z>3</z></fieldOfView_mm></reconSpace>
</encoding></ismrmrdHeader>"""


def write_volume(path: Path, data: Path, slices: int, side: int = SIDE) -> None:
    """Writes a fastMRI file of undersampled slices, one at a time; few patients take turns."""
    import h5py

    chosen = open_set("openms", data, slices, tuning=False, seed=0)
    with h5py.File(path, "w") as file:
        stored = file.create_dataset("kspace", (slices, COILS, side, side), np.complex64)
        for number in range(slices):
            one = chosen[number % len(chosen)]
            wide = _pad(one, side)
            mask = draw_mask("equispaced", ACCELERATION, wide, 0).numpy()
            stored[number] = wide.kspace * mask
        file["ismrmrd_header"] = HEADER.format(side=side)


def _pad(one: Slice, side: int) -> Slice:
    """The same object and pixels in a larger field of view, and the same noise."""
    axes = (-2, -1)
    image = np.fft.fftshift(
        np.fft.ifft2(np.fft.ifftshift(one.kspace, axes=axes), norm="ortho"), axes=axes
    )
    noise = one.noise_std * np.random.default_rng(1).standard_normal((2, COILS, side, side))
    wide = noise[0] + 1j * noise[1]
    rows, columns = ((side - length) // 2 for length in image.shape[1:])
    wide[:, rows : rows + image.shape[1], columns : columns + image.shape[2]] = image
    kspace = np.fft.fftshift(
        np.fft.fft2(np.fft.ifftshift(wide, axes=axes), norm="ortho"), axes=axes
    )
    return Slice(one.name, kspace.astype(np.complex64), one.noise_std, one.reference)


def find_memory(process: int) -> int:
    """Bytes that a process and those it started hold in memory."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        sizes[int(folder.name)] = int(fields[21])
    family = {process}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(sizes.get(one, 0) for one in family) * resource.getpagesize()


def reconstruct(volume: Path, model: str, out: Path, plan: list[str]) -> tuple[float, int]:
    """Seconds of the processor, and the most memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = ["reconstruct", str(volume), "--model", model, "-o", str(out), "--force", *plan]
    process = subprocess.Popen([sys.executable, "-m", "bcdm", *command])
    most = 0
    while process.poll() is None:
        most = max(most, find_memory(process.pid))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(process.returncode)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most


def main() -> None:
    """Reads the command line and writes the records."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scans.volume")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--no-report", action="store_true")
    given = parser.parse_args()
    asked = {name: getattr(given, name) for name in ("samples", "calls", "batch")}
    sizes = {"slices": given.slices, "side": given.side}
    plan = [text for name, value in asked.items() for text in (f"--{name}", str(value))]
    plan += ["--no-report"] if given.no_report else []
    said = [f"--{name} {value}" for name, value in (sizes | asked).items()]
    shown = [str(Path(given.model).name), *said]
    shown += ["--no-report"] if given.no_report else []
    command = f"python -m experiments.scans.volume {shown[0]} DATA OUT.json {' '.join(shown[1:])}"
    rows, found = [], {}
    for slices in (given.slices, 4 * given.slices):
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder, "volume.h5"), Path(folder, "out")
            write_volume(path, given.data, slices, given.side)
            seconds, memory = reconstruct(path, given.model, out, plan)
            lights = [one["light"] for one in json.loads((out / "run.json").read_text())["slices"]]
            case: dict[str, Any] = asked | {
                "slices": slices,
                "coils": COILS,
                "size": [given.side, given.side],
                "file, MB": round(path.stat().st_size / 1e6),
                "lights": {light: lights.count(light) for light in sorted(set(lights))},
                "model": Path(given.model).name,
                "report": not given.no_report,
            }
        found[slices] = (seconds, memory)
        rows += [
            Record("seconds a slice", case, seconds / slices, "s", command=command),
            Record("peak memory", case, memory / 2**20, "MiB", command=command),
        ]
    (first, small), (last, large) = found.values()
    case = asked | {"slices": [given.slices, 4 * given.slices]}
    rows += [
        Record("memory, of a quarter", case, large / small, required="<= 1.1", command=command),
        Record("seconds, of a quarter", case, last / first, required="<= 4.4", command=command),
    ]
    write_records(given.out, rows)


if __name__ == "__main__":
    main()
