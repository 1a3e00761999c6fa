"""The trust card on scans of several coils: python -m experiments.scans.trust MODEL DATA OUT.json.

Test slices of IXI at 128x128 as 8 drawn coils see them, with a drawn phase, noise_std .02, masks of
4x and 8x in turn, equispaced columns and Poisson discs. What is wrong is wrong in one way only.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments.scans.undersampled import read_command

from bcdm.assessment.images import choose_evenly
from bcdm.assessment.records import Record, write_records
from bcdm.benchmark.coilsets import Case, Slice, draw_mask, open_set, simulate_slices
from bcdm.checkpoint import Model, load
from bcdm.evaluation import wilson
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.reconstruction import reconstruct
from bcdm.reconstruction.measuring import simulate

ALARMS, NOTICED = "<= 0.07", ">= 0.95"
SEED = 300
STRIPES = 0.05  # of the range, by a spike in one coil
_FIRST = 1 << 21  # far from the numbers that calibration draws by
MASKS = [(pattern, factor) for factor in (4.0, 8.0) for pattern in ("equispaced", "poisson")]

Change = Callable[[Measurement, Sense, np.random.Generator], Measurement]


def undersample(slices: list[Slice], cache: Path | None = None) -> Iterator[Case]:
    """With masks in turn, and maps from the data as everybody has to take them."""
    for number, one in enumerate(slices):
        pattern, factor = MASKS[number % len(MASKS)]
        yield one.undersample(draw_mask(pattern, factor, one, SEED + number), cache)


def swap_coils(measurement: Measurement, operator: Sense, rng: np.random.Generator) -> Measurement:
    """Two neighbouring coils stand in each other's place in the data."""
    first = int(rng.integers(measurement.y.shape[1] - 1))
    order = list(range(measurement.y.shape[1]))
    order[first], order[first + 1] = order[first + 1], order[first]
    return replace(measurement, y=measurement.y[:, order])


def add_spike(measurement: Measurement, operator: Sense, rng: np.random.Generator) -> Measurement:
    """One sample of one coil is off, at a drawn place and phase."""
    places = operator.mask.nonzero()
    row, column = places[int(rng.integers(len(places)))].tolist()
    size = STRIPES * operator.mask.numel() ** 0.5
    y = measurement.y.clone()
    y[0, int(rng.integers(y.shape[1])), row, column] += size * np.exp(2j * np.pi * rng.random())
    return replace(measurement, y=y)


def misstate(factor: float) -> Change:
    """The noise is so many times what is stated."""

    def change(measurement: Measurement, *_: object) -> Measurement:
        return replace(measurement, noise_std=measurement.std / factor)

    return change


def read_faces(data: Path, count: int) -> list[tuple[str, np.ndarray]]:
    """Photographs of the test split, grey, 128x128, from 0 to 1."""
    from PIL import Image

    with np.load(data / "faces_public_domain/faces64.npz") as held:
        rows = np.flatnonzero(held["split"] == "test")
    with np.load(data / "faces_public_domain/faces128_jpeg.npz") as held:
        offsets, blob = held["offsets"], held["blob"]
    faces = []
    for row in rows[choose_evenly(len(rows), count)]:
        stored = io.BytesIO(blob[offsets[row] : offsets[row + 1]].tobytes())
        faces.append((f"face {row}", np.asarray(Image.open(stored).convert("L")) / 255))
    return faces


def list_cases(
    model: Model, data: Path, right: int, wrong: int
) -> Iterator[tuple[str, bool, Iterator[Measurement]]]:
    """Name, whether nothing is wrong, and the measurements."""
    slices = open_set("ixi", data, right, tuning=False, seed=SEED)
    yield "nothing", True, (case.measurement for case in undersample(slices))
    images = torch.stack([one.reference for one in slices])[:, None]
    numbers = range(_FIRST, _FIRST + right)
    drawn = (
        simulate(model, images[k : k + 1], [number], SEED, data) for k, number in enumerate(numbers)
    )
    yield "nothing; coils, masks and noise as in training, maps known", True, drawn
    # Other slices than those that are right: none counts twice.
    few = open_set("ixi", data, wrong, tuning=False, seed=SEED + 1)
    yield "maps of another slice", False, _exchange_maps(list(undersample(few)))
    changes: dict[str, Change] = {
        "noise is twice what is stated": misstate(2.0),
        "noise is half of what is stated": misstate(0.5),
        "two coils are swapped": swap_coils,
        f"a spike in one coil: stripes of {STRIPES:.0%} of the range": add_spike,
    }
    for name, change in changes.items():
        yield name, False, _change_all(few, change)
    faces = simulate_slices(read_faces(data, wrong), wrong, SEED)
    yield "a face", False, (case.measurement for case in undersample(faces))


def _exchange_maps(cases: list[Case]) -> Iterator[Measurement]:
    for number, case in enumerate(cases):
        # One further in the list has other coils, too, as in another scan of another head.
        other = cases[(number + 1) % len(cases)].measurement.operator
        own = case.measurement.operator
        assert isinstance(own, Sense)
        assert isinstance(other, Sense)
        yield replace(case.measurement, operator=replace(own, maps=other.maps))


def _change_all(slices: list[Slice], change: Change) -> Iterator[Measurement]:
    for number, case in enumerate(undersample(slices)):
        operator = case.measurement.operator
        assert isinstance(operator, Sense)
        yield change(case.measurement, operator, np.random.default_rng([SEED, number]))


@torch.no_grad()
def judge(
    model: Model, measurements: Iterator[Measurement], calls: int
) -> tuple[list[str], Counter[str]]:
    """The light of each, and how often each check was the first that objected."""
    lights: list[str] = []
    spoke = Counter[str]()
    for number, one in enumerate(measurements):
        (card,) = reconstruct(
            model, one, samples=1, calls=calls, seed=SEED + number, progress=False, force=True
        ).trust
        lights.append(card.light)
        order = {"bad": 0, "doubtful": 1}
        loud = [check for check in card.checks if check.judgement in order]
        if loud:
            spoke[min(loud, key=lambda check: order[check.judgement]).name] += 1
    return lights, spoke


def run(
    model: Model, data: Path, command: str, *, right: int, wrong: int, calls: int
) -> list[Record]:
    """A record for each case."""
    records = []
    for name, fine, measurements in list_cases(model, data, right, wrong):
        lights, spoke = judge(model, measurements, calls)
        count = len(lights)
        share = sum(light != "green" for light in lights) / count
        case: dict[str, Any] = {
            "wrong": name,
            "measurements": count,
            "red": lights.count("red") / count,
            "by": {key: round(times / count, 3) for key, times in spoke.most_common()},
            "model": model.config.name,
            "calls": calls,
        }
        title, required = ("false alarms", ALARMS) if fine else ("noticed", NOTICED)
        records.append(
            Record(title, case, share, "", wilson(share, count), required, SEED, command)
        )
    return records


if __name__ == "__main__":
    given = read_command("trust", right=40, wrong=20, calls=12)
    counts = {key: getattr(given, key) for key in ("right", "wrong", "calls")}
    write_records(given.out, run(load(given.model), given.data, given.said, **counts))
