"""Do intervals hold on scans of coils? python -m experiments.scans.coverage MODEL DATA OUT.json.

One slice of each test subject of IXI at 128x128 as 8 drawn coils see it, with a drawn phase,
noise_std .02, masks of 4x and 8x in turn; inside of the head, by the calibration that the model is
shipped with. The control is the same method with a network of zeros, whose intervals nobody fits.
"""

from collections import defaultdict
from pathlib import Path

import torch
from experiments.scans.trust import MASKS
from experiments.scans.undersampled import read_command

from bcdm.assessment.records import Record, write_records
from bcdm.assessment.statistics import bootstrap
from bcdm.benchmark.coilsets import Case, Slice, draw_mask, open_set
from bcdm.checkpoint import Model, load
from bcdm.evaluation import crps
from bcdm.evaluation.ranks import find_interval
from bcdm.methods import CONTROL, LinearGaussian
from bcdm.reconstruction import reconstruct
from bcdm.tensors import SeededNoise

LEVELS = (0.5, 0.8, 0.9)
OFF = "<= 0.03"  # from what is promised
SEED = 400
SAMPLES = 19  # the fewest that have a 90 % interval


def choose_slices(data: Path, limit: int) -> list[Slice]:
    """One slice of each test subject: that in the middle."""
    subjects: dict[str, list[Slice]] = defaultdict(list)
    for one in open_set("ixi", data, 10_000, tuning=False, seed=SEED):
        subjects[one.name.split()[0]].append(one)
    return [own[len(own) // 2] for own in subjects.values()][:limit]


def judge(low: torch.Tensor, high: torch.Tensor, case: Case) -> float:
    """The share of the head's pixels that intervals hold."""
    held = (low <= case.reference) & (case.reference <= high)
    return float(held[case.inside].double().mean())


@torch.no_grad()
def examine(model: Model, case: Case, calls: int, seed: int) -> dict[str, float]:
    """Coverage and CRPS of the model and of the control, of one slice."""
    posterior = reconstruct(
        model,
        case.measurement,
        samples=SAMPLES,
        calls=calls,
        seed=seed,
        progress=False,
        force=True,
    )
    assert model.scales is not None
    noise = SeededNoise(seed, range(SAMPLES))
    drawn = LinearGaussian(model.scales).draw(case.measurement.repeat(SAMPLES), noise)[:, 0].abs()
    truth, own = case.reference[case.inside][None], posterior.values[:, 0, 0]
    found = {
        "CRPS x 1000": 1000 * float(crps(own[:, case.inside][:, None], truth)),
        f"CRPS x 1000, {CONTROL}": 1000 * float(crps(drawn[:, case.inside][:, None], truth)),
    }
    for level in LEVELS:
        name = f"{level:.0%} intervals hold"
        low, high = (end[0, 0] for end in posterior.interval(level))
        found[name] = judge(low, high, case)
        low, high = (end[0, 0] for end in posterior.interval(level, calibrated=False))
        found[f"{name}, before calibration"] = judge(low, high, case)
        found[f"{name}, {CONTROL}"] = judge(*find_interval(drawn, level), case)
    return found


def run(model: Model, data: Path, command: str, *, limit: int, calls: int) -> list[Record]:
    """Records over all masks, and by mask."""
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number, one in enumerate(choose_slices(data, limit)):
        pattern, factor = MASKS[number % len(MASKS)]
        case = one.undersample(draw_mask(pattern, factor, one, SEED + number))
        for name, value in examine(model, case, calls, SEED + number).items():
            for mask in ("all masks", f"{pattern} {factor:g}x"):
                rows[mask][name].append(value)
    records = []
    for mask, columns in rows.items():
        for name, values in columns.items():
            said: dict[str, object] = {"model": model.config.name, "mask": mask}
            said |= {"subjects": len(values), "samples": SAMPLES, "calls": calls}
            mean = sum(values) / len(values)
            interval = bootstrap(values) if len(values) > 1 else None
            records.append(Record(name, said, mean, "", interval, None, SEED, command))
            if mask == "all masks" and name.endswith("hold"):
                off = abs(mean - float(name.split("%")[0]) / 100)
                title = f"{name}: off what is promised"
                records.append(Record(title, said, off, "", None, OFF, SEED, command))
    return records


if __name__ == "__main__":
    given = read_command("coverage", limit=25, calls=12)
    found = run(load(given.model), given.data, given.said, limit=given.limit, calls=given.calls)
    write_records(given.out, found)
