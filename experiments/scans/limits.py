"""Noise or aliasing, what limits a model: python -m experiments.scans.limits MODEL DATA OUT.json.

Rows of two kinds, RMSE over that of the object. White noise: one coil, every sample, slices of the
validation split of IXI with a drawn phase. Undersampled: the real 16-coil brain and a simulated
slice with as many coils and as much noise, by one network call of one to three passes. Total
variation may choose its weight by the truth: it is at its best here.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bcdm.benchmark.coilsets import Case, draw_mask, find_object, open_set
from bcdm.benchmark.contestants import Classical, find_error, list_classical
from bcdm.checkpoint import Model, load
from bcdm.diffusion import posterior_mean
from bcdm.files import write_text
from bcdm.measurement import Measurement
from bcdm.networks import UnrolledNetwork
from bcdm.operators import Sense

NOISES = (0.01, 0.03, 0.1)
PASSES = (1, 2, 3)
MASKS = (("equispaced", 4.0), ("poisson", 4.0), ("poisson", 8.0))
_SEED = 0


@dataclass(frozen=True)
class Judge:
    """A model and its rival on one case after the other."""

    model: Model
    rival: Classical

    def estimate(self, case: Case) -> Tensor:
        """Magnitudes by one network call, (H, W)."""
        mean = posterior_mean(self.model.method.condition(case.measurement), seed=_SEED)
        return mean[0, 0].abs()

    def list_errors(self, case: Case) -> dict[str, float]:
        """Of the network with several passes, of the linear estimate, and of the rival."""
        network = self.model.method.network
        assert isinstance(network, UnrolledNetwork)
        trained, found = network.iterations, {}
        for passes in PASSES:
            network.iterations = passes
            found[f"passes {passes}"] = find_error(self.estimate(case), case)
        network.iterations = trained
        linear = self.model.scales.estimate_linearly(case.measurement)
        found["linear"] = find_error(linear[0, 0].abs(), case)
        found[self.rival.name] = min(
            self.rival.try_weight(weight, case) for weight in self.rival.weights
        )
        return {name: round(error, 4) for name, error in found.items()}


def add_noise(images: Tensor, noise_std: float) -> Iterator[Case]:
    """Complex images (N, 1, H, W) seen whole by one coil."""
    size = images.shape[-2:]
    one = Sense(torch.ones(1, *size, dtype=torch.complex64), torch.ones(size) > 0)
    for number, image in enumerate(images):
        measured = Measurement.simulate(image[None], one, noise_std, seed=_SEED, indices=[number])
        magnitude = image[0].abs()
        yield Case(measured, magnitude, find_object(magnitude), 0.0)


def undersample(data: Path) -> Iterator[tuple[str, Case]]:
    """The real brain and a simulated one, with each mask."""
    for name, tuning in (("real", False), ("simulated", True)):
        (one,) = open_set("brain16", data, 1, tuning=tuning, seed=_SEED)
        for pattern, factor in MASKS:
            case = one.undersample(draw_mask(pattern, factor, one, _SEED))
            yield f"{name}, {pattern} {factor:g}x", case


@torch.no_grad()
def judge(model: Model, images: Tensor, data: Path) -> list[dict[str, Any]]:
    """A row for each noise level, averaged over images, and for each undersampled slice."""
    judge = Judge(model, list_classical()[-1])
    rows: list[dict[str, Any]] = []
    for noise_std in NOISES:
        errors = [judge.list_errors(case) for case in add_noise(images, noise_std)]
        mean = {name: sum(e[name] for e in errors) / len(errors) for name in errors[0]}
        rows.append({"of": f"white noise {noise_std:g}", "slices": len(errors)} | mean)
    for name, case in undersample(data):
        rows.append({"of": name, "slices": 1} | judge.list_errors(case))
    return rows


def main(folder: str, data: Path, out: Path, count: int = 4) -> None:
    """Judges and writes the record."""
    from experiments.scans.control import read_slices

    model = load(folder)
    rows = judge(model, read_slices(data, count, "val"), data)
    record = {"model": model.facts["hashes"], "seed": _SEED, "rows": rows}
    write_text(out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:]))
