"""A real tooth from a sixth of its projections: python -m experiments.tomography.tooth DATA OUT.

DATA holds ct_sinograms/ct_tooth.npz, a synchrotron scan. OUT becomes a folder with tooth.json and
tooth.png. Least squares with all projections, and a little damping, is the reference.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Record, format_table, write_records
from bcdm.measurement import Measurement
from bcdm.methods import TotalVariation
from bcdm.operators import Radon

FILE = "ct_sinograms/ct_tooth.npz"
CENTRE = 296.0  # the column of 640 that the axis of rotation is projected on
BIN, EVERY = 4, 6  # columns of a detector; of the projections every sixth
SIDE = 144  # pixels, as wide as a detector each
SHOWN = slice(24, 120)  # rows and columns with the tooth
DAMPING = 1e-4  # of the reference, over the largest eigenvalue
PENALTY, ITERATIONS = 0.02, 40  # of ADMM
# Both estimates may choose by the reference: they are at their best.
SPREADS = (0.05, 0.1, 0.3)  # of a pixel under the Wiener estimate's prior
WEIGHTS = (20.0, 60.0, 200.0)  # of total variation


def read_sinogram(data: Path) -> tuple[Tensor, Tensor]:
    """Angles in degrees, and attenuation (1, 1, angles, 160) of the first slice, binned."""
    with np.load(data / FILE) as held:
        white, dark = held["white"].mean(0)[0], held["dark"].mean(0)[0]
        shares = (held["data"][:, 0] - dark) / (white - dark)
        angles = torch.from_numpy(held["theta_deg"]).float()
    whole = -np.log(np.clip(shares, 1e-3, None)).astype(np.float32)
    binned = torch.from_numpy(whole).unflatten(-1, (-1, BIN)).mean(-1)
    return angles, binned[None, None]


def build_operator(angles: Tensor, detectors: int) -> Radon:
    """Parallel beams; a detector is a pixel wide, and so many columns are binned into it."""
    centre = (CENTRE - (BIN - 1) / 2) / BIN
    return Radon(angles, (SIDE, SIDE), detectors=detectors, centre=centre)


def filter_back(operator: Radon, y: Tensor) -> Tensor:
    """Filtered back projection: a ramp along detectors, then the adjoint."""
    width = 2 * y.shape[-1]
    ramp = torch.fft.rfftfreq(width).to(y)
    filtered = torch.fft.irfft(torch.fft.rfft(y, n=width) * ramp, n=width)[..., : y.shape[-1]]
    # The adjoint of lengths in pixels, so a pixel's area is 1.
    back = operator.adjoint(filtered.contiguous()) / operator.scale**2
    return back * torch.pi / len(operator.angles)


def compare(found: Tensor, truth: Tensor) -> float:
    """Relative error in the disc that fits into the image."""
    at = torch.arange(SIDE) - (SIDE - 1) / 2
    inside = at[:, None] ** 2 + at**2 < (SIDE / 2) ** 2
    return float((found - truth)[..., inside].norm() / truth[..., inside].norm())


class Scan:
    """The tooth in units of its brightest hundredth, by all projections and by a sixth of them."""

    def __init__(self, data: Path) -> None:
        angles, sinogram = read_sinogram(data)
        whole = build_operator(angles, sinogram.shape[-1])
        y = whole.scale * sinogram
        found = whole.solve(DAMPING, 1.0, whole.adjoint(y), tolerance=1e-4)
        self.unit = float(found.quantile(0.99))
        self.truth = found / self.unit
        left = (y - whole.forward(found)).square().mean().sqrt()
        # Of an integral over pixels.
        self.noise = float(left) / whole.scale / self.unit
        self.few = build_operator(angles[::EVERY].contiguous(), sinogram.shape[-1])
        thinned = self.few.scale * sinogram[:, :, ::EVERY] / self.unit
        self.measurement = Measurement(thinned, self.few, self.few.scale * self.noise)

    def choose(
        self, make: Callable[[float], Tensor], settings: Sequence[float]
    ) -> tuple[float, Tensor]:
        """The setting with the least error, and its image."""
        tried = {one: make(one) for one in settings}
        best = min(tried, key=lambda one: compare(tried[one], self.truth))
        return best, tried[best]

    def smooth(self, weight: float) -> Tensor:
        """By total variation."""
        method = TotalVariation(weight, iterations=ITERATIONS, penalty=PENALTY)
        return method.condition(self.measurement).estimate


def run(data: Path, out: Path, command: str) -> list[Record]:
    """Writes records and the figure."""
    scan = Scan(data)
    count = len(scan.few.angles)
    spread, linear = scan.choose(scan.measurement.estimate_linearly, SPREADS)
    weight, smooth = scan.choose(scan.smooth, WEIGHTS)
    images = {
        "filtered back projection": filter_back(scan.few, scan.measurement.y),
        f"Wiener, prior_std {spread:g}": linear,
        f"total variation, weight {weight:g}": smooth,
    }
    case: dict[str, object] = {"image": f"{SIDE}x{SIDE}", "projections": count}
    records = [
        Record("error over the reference", case | {"method": name}, compare(image, scan.truth),
               command=command)
        for name, image in images.items()
    ]  # fmt: skip
    told: dict[str, object] = {"unit": "the tooth's 99th percentile times a pixel"}
    records.append(Record("noise of a line integral", told, scan.noise, command=command))
    out.mkdir(parents=True, exist_ok=True)
    write_records(out / "tooth.json", records)
    plot({"181 projections, least squares": scan.truth} | images, count, out / "tooth.png")
    return records


def plot(images: dict[str, Tensor], count: int, path: Path) -> None:
    """The images in a row, on one scale of greys."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(images), figsize=(13, 4), layout="constrained")
    for axis, (name, image) in zip(axes, images.items(), strict=True):
        axis.imshow(image[0, 0, SHOWN, SHOWN].numpy(), cmap="gray", vmin=-0.1, vmax=1.1)
        axis.set_title(name if "181" in name else f"{count} projections,\n{name}", fontsize=9)
        axis.axis("off")
    figure.savefig(path, dpi=90)
    plt.close(figure)
    from PIL import Image

    with Image.open(path) as drawn:
        drawn.convert("L").save(path, optimize=True)


def main(words: Sequence[str]) -> None:
    """Runs, and shows the records."""
    data, out = Path(words[0]), Path(words[1])
    command = f"python -m experiments.tomography.tooth DATA {out}"
    sys.stdout.write(format_table(run(data, out, command)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
