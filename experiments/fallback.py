"""Outside of a model's family, by MMPS with its network as prior: is that any good, and honest?

python -m experiments.fallback ixi64-mri-scanner experiments/fallback.json
python -m experiments.fallback faces64-prior experiments/fallback-faces.json

Each takes about ten minutes of a core. Test images, operators that the model was never trained for.
The control is the linear Gaussian posterior; its prior is white, so it is weak where a whole image
is blurred, and the error of the blurred image stands beside it. Coverage is that of pixels that are
not black, before and after the widths that were fitted inside of the family (`bcdm calibrate MODEL
--only-fallback`).
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from bcdm.assessment.images import open_tested
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.assessment.statistics import bootstrap
from bcdm.assessment.summary import OVER_CONTROL
from bcdm.checkpoint import Model, load
from bcdm.evaluation import crps, psnr
from bcdm.evaluation.signal import OBJECT, find_signal
from bcdm.measurement import Measurement
from bcdm.methods import CONTROL, LinearGaussian
from bcdm.reconstruction import reconstruct

# Name: settings of the operator, and the noise on [-1, 1].
SLICES = {
    "Gaussian blur, std 1": ("{kind: gaussian_blur, std: 1.0}", 0.03),
    "pixels missing, a box of 16x16": ("{kind: centre_box, box: [16, 16]}", 0.03),
    "means of 2x2 pixels": ("{kind: block_mean, factor: [2, 2]}", 0.03),
}
PORTRAITS = {
    "Gaussian blur, std 4": ("{kind: gaussian_blur, std: 4.0}", 0.03),
    "pixels missing, a box of 48x48": ("{kind: centre_box, box: [48, 48]}", 0.03),
    "Radon transform, 30 angles": ("{kind: radon, angles: 30}", 0.03),
}


def list_cases(model: Model) -> dict[str, tuple[str, float]]:
    """What lies outside of the model's family."""
    return SLICES if model.shape[0] == 1 else PORTRAITS


def examine(
    model: Model, name: str, images: int, samples: int, calls: int, command: str
) -> Iterator[Record]:
    """The records of one operator."""
    operator, noise = list_cases(model)[name]
    tested = open_tested(model, Options(limit=images, operator=operator, noise_std=noise))
    truth, seed = tested.images, 0
    measurement = Measurement.simulate(
        truth, tested.problem.operator, noise, seed=seed, indices=tested.rows
    )
    posterior = reconstruct(
        model, measurement, samples=samples, calls=calls, seed=seed, method="auto", progress=False
    )
    control = LinearGaussian(model.scales)
    rows = [str(row) for row in tested.rows]
    linear = control.draw_many(measurement, rows, samples, seed)
    black, white = model.value_range
    inside = find_signal(truth, black).expand(truth.shape) > OBJECT
    case = {"model": model.name, "operator": name, "noise_std": noise, "images": len(truth)}
    record = partial(
        Record,
        case=case | {"samples": samples, "calls": calls, "method": posterior.model.name},
        seed=seed,
        command=command,
    )
    find_psnr = partial(psnr, data_range=white - black)
    yield record("PSNR", value=float(find_psnr(posterior.mean, truth).mean()))
    linearly = float(find_psnr(posterior.linear, truth).mean())
    yield record(f"PSNR, {CONTROL}", value=linearly)
    if "blur" in name:
        yield record("PSNR, as measured", value=float(find_psnr(measurement.y, truth).mean()))
    mine, theirs = (crps(drawn, truth).double() for drawn in (posterior.samples, linear))
    yield record("CRPS x 1000", value=1000 * float(mine.mean()))
    yield record(f"CRPS x 1000, {CONTROL}", value=1000 * float(theirs.mean()))
    interval = bootstrap(mine, theirs, groups=tested.subjects)
    yield record(OVER_CONTROL, value=float(mine.mean() / theirs.mean()), interval=interval)
    for calibrated in (False, True):
        low, high = posterior.interval(0.8, calibrated=calibrated)
        held = float(((low <= truth) & (truth <= high))[inside].double().mean())
        told = "" if calibrated else ", before calibration"
        yield record(f"80 % intervals hold{told}", value=held)
    lights = [card.light for card in posterior.trust]
    for light in ("green", "amber", "red"):
        yield record(f"{light} cards", value=float(lights.count(light)))


def main() -> None:
    """Reads the command line and writes the records."""
    parser = argparse.ArgumentParser(prog="python -m experiments.fallback")
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    for name, usual in (("images", 8), ("samples", 9), ("calls", 20)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    plan = (given.images, given.samples, given.calls)
    command = (
        f"python -m experiments.fallback {given.model} {given.out} "
        f"--images {plan[0]} --samples {plan[1]} --calls {plan[2]}"
    )
    torch.set_num_threads(1)
    model = load(given.model)
    rows = [row for name in list_cases(model) for row in examine(model, name, *plan, command)]
    write_records(given.out, rows)


if __name__ == "__main__":
    main()
