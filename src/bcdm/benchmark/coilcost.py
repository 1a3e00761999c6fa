"""What a sample of several coils costs beside the bare network calls: one thread, one run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Record
from bcdm.benchmark.overhead import interleave, summarise
from bcdm.checkpoint import Model, load
from bcdm.conditioning import Conditioning
from bcdm.data.phase import draw_phase
from bcdm.diffusion import DPMSolver, sample
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.scanner import draw_equispaced

__all__ = ["run"]

LIMIT = "<= 1.5"
ROUNDS = 3  # of bare calls and sample in turn, after two that are not counted
COILS, CALLS, ACCELERATION, NOISE = 8, 20, 4.0, 0.02


def run(
    name: str,
    command: str,
    *,
    smoke: bool = False,
    report: Callable[[str], None],
) -> list[Record]:
    """A row for each size.

    Args:
        name: A model of complex images.
        command: For the records.
        smoke: Small images, few rounds, and nothing is required.
        report: Hears of progress.
    """
    model = load(name)
    if not model.config.data.phase:
        raise InputError(f"{model.config.name} makes real images: give a model of complex ones")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if smoke:
            return [replace(_measure(model, 16, command, 1, report), required=None)]
        return [_measure(model, side, command, ROUNDS, report) for side in (128, 256)]
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def _measure(
    model: Model, side: int, command: str, rounds: int, report: Callable[[str], None]
) -> Record:
    measurement = _simulate(side)
    method = model.method

    def call(bare: Callable[[], Tensor]) -> None:
        for _ in range(CALLS):
            bare()

    def draw() -> Tensor:
        # As in the command: what a measurement remembers from the last batch is not timed away.
        fresh = Measurement(measurement.y, measurement.operator, measurement.std)
        denoiser = method.condition(fresh)
        return sample(denoiser, DPMSolver(1.0), steps=CALLS, seed=0, indices=[0], progress=False)

    level = method.schedule.level(torch.zeros(1, dtype=torch.float64))
    x = torch.zeros_like(measurement.back_projection)
    given = method.parameterisation.prepare(Conditioning(measurement, level), x)
    if given.compare is not None:
        blank = given.compare(torch.zeros_like(given.seen))
        given = given._replace(compare=lambda _: blank)
    bare = partial(method.network, given.seen, level.log_snr.float(), None, *given.more)
    ratios = interleave(partial(call, bare), {"sample": draw}, rounds)["sample"]
    case: dict[str, object] = {
        "image": f"{side}x{side}",
        "coils": COILS,
        "calls": CALLS,
        "mask": f"equispaced columns {ACCELERATION:g}x",
        "noise_std": NOISE,
        "model": model.config.name,
        "threads": 1,
    }
    report(f"{side}x{side}: {np.median(ratios):.2f}")
    title = "sample of 8 coils / bare network calls"
    return Record(title, case, required=LIMIT, seed=0, command=command, **summarise(ratios))


def _simulate(side: int) -> Measurement:
    """A disc with a phase, as drawn coils see it."""
    rng = np.random.default_rng(side)
    axis = np.linspace(-1, 1, side)
    disc = 0.7 * (axis[:, None] ** 2 + axis**2 < 0.6) * (1 + 0.3 * np.sin(9 * axis))
    image = torch.polar(torch.from_numpy(disc).float(), draw_phase((side, side), rng=rng))
    maps = draw_birdcage((side, side), COILS, rng=rng)
    mask = draw_equispaced((side, side), ACCELERATION, centre=0.08, seed=0)
    return Measurement.simulate(image[None, None], Sense(maps, mask), NOISE, seed=0)
