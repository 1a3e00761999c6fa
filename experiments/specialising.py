"""How far a family is behind a specialist trained alike, over minutes of `bcdm specialise`.

python -m experiments.specialising experiments/specialising.json
python -m experiments.specialising experiments/specialising.json --case 'MRI 8x' --specialist X

For each of three operators: the family as it is, specialised for some minutes, and a specialist
with the family's own settings but for the operator, from scratch, for as many steps; or X, which
was trained so before, as ixi64-mri8x was. All on the same test images, samples and seed. What is
done is kept in --work, so the command goes on; other cases of the file stay.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from bcdm.assessment.images import open_tested
from bcdm.assessment.judging import judge
from bcdm.assessment.kept import Numbers, keep_numbers
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, keep_others, write_records
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.given import read_operator_for
from bcdm.checkpoint.settings import change_config, parse_operator
from bcdm.machine import choose_precision
from bcdm.training.run import run_settings
from bcdm.training.specialising import specialise

MRI = "{kind: fourier_mask, acceleration: 8, centre: 0.1, seed: 0}"
BOX = "{kind: centre_box, box: [24, 24]}"
MEANS = "{kind: block_mean, factor: [4, 4]}"
CASES = {
    "MRI 8x": ("ixi64-mri", MRI),
    "inpainting, 24x24": ("faces64", BOX),
    "super-resolution 4x": ("faces64", MEANS),
}
PSNR, CRPS = ("PSNR", "sample mean"), ("CRPS", "samples")
REQUIRED = {0.0: "<= 0.8", 10.0: "<= 0.5"}  # dB behind, by minutes of specialising


@dataclass(frozen=True)
class Plan:
    """What is trained and measured.

    Attributes:
        work: Where trainings and numbers are kept.
        minutes: Of specialising.
        noise_std: Of the measurements, on [-1, 1].
        options: Of every evaluation.
        scratch: Changes to the specialist's settings.
        specialist: One that is there; none trains it.
    """

    work: Path
    minutes: tuple[float, ...] = (1.0, 3.0, 10.0)
    noise_std: float = 0.02
    options: Options = field(default_factory=lambda: Options(limit=32, calls=20, precision="auto"))
    scratch: tuple[str, ...] = ()
    specialist: str | None = None


def measure(case: str, family: str, operator: str, plan: Plan, command: str) -> list[Record]:
    """Numbers of a family, of what is specialised from it and of a specialist, for one operator."""
    folder, data = plan.work / case.replace(" ", "-"), plan.options.data
    base = load(family)
    special = (
        load(plan.specialist)
        if plan.specialist
        else _train_alike(base, operator, plan, folder / "scratch")
    )
    given = replace(plan.options, operator=operator, noise_std=plan.noise_std)
    theirs, groups = _score(special, plan.options, folder / "scratch.npz")
    rows: list[Record] = []
    for minutes in (0.0, *plan.minutes):
        model, options = base, given
        if minutes:
            done = specialise(
                family,
                read_operator_for(operator, base),
                label=operator,
                noise_std=plan.noise_std,
                minutes=minutes,
                data=data,
                out=folder / f"{minutes:g}",
                precision=plan.options.precision,
            )
            model, options = load(done), plan.options
        mine, _ = _score(model, options, folder / f"{minutes:g}.npz")
        told = {"case": case, "operator": operator, "noise_std": plan.noise_std, "family": family}
        told["specialist"] = special.name
        told |= {"minutes": minutes, "images": len(groups), "samples": options.samples}
        told |= {"steps": model.facts.get("specialised", {}).get("steps", 0)}
        rows += _compare(told, mine, theirs, groups, command)
    return rows


def _train_alike(base: Model, operator: str, plan: Plan, folder: Path) -> Model:
    """A specialist with the family's settings, from scratch."""
    precision = choose_precision(plan.options.precision, torch.device("cpu"))
    config = base.config.model_copy(
        update={
            "name": f"{base.name}-alike",
            "operator": parse_operator(operator),
            "noise_std": plan.noise_std,
            "training": base.config.training.model_copy(
                update={"start_from": None, "precision": precision}
            ),
        }
    )
    config = change_config(config, plan.scratch)
    return load(run_settings(config, plan.options.data, folder, dry_run=False, report=print))


def _score(model: Model, options: Options, stored: Path) -> tuple[Numbers, list[str]]:
    """Numbers of each image, and whose it is."""

    def find() -> Numbers:
        tested = open_tested(model, options)
        scores = judge(model, tested, options).scores
        found = {f"{m}, {e}": scores.get(m, e).numpy() for m, e in (PSNR, CRPS)}
        return found | {"subjects": np.array(tested.subjects)}

    asked = vars(options) | {"data": None, "hashes": model.facts["hashes"]}
    numbers = keep_numbers(stored, asked, find)
    return numbers, [str(name) for name in numbers["subjects"]]


def _compare(
    told: dict[str, object], mine: Numbers, theirs: Numbers, groups: Sequence[str], command: str
) -> list[Record]:
    """Both models' numbers, and how far one is behind the other."""
    rows = []
    for metric, estimate in (PSNR, CRPS):
        key = f"{metric}, {estimate}"
        for model, numbers in (("specialised", mine), ("specialist", theirs)):
            where = told | {"model": model, "estimate": estimate}
            interval = bootstrap(numbers[key], groups=groups)
            rows.append(Record(metric, where, float(numbers[key].mean()), "", interval))
    behind = theirs["PSNR, sample mean"] - mine["PSNR, sample mean"]
    required = REQUIRED.get(float(str(told["minutes"])))
    interval = bootstrap(behind, groups=groups)
    rows.append(
        Record("PSNR behind the specialist", told, float(behind.mean()), "dB", interval, required)
    )
    ours, over = mine["CRPS, samples"], theirs["CRPS, samples"]
    interval = bootstrap(ours, over, groups=groups)
    rows.append(
        Record("CRPS over the specialist's", told, float(ours.mean() / over.mean()), "", interval)
    )
    return [replace(row, seed=0, command=command) for row in rows]


def main() -> None:
    """Reads the command line, and writes records after every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/specialising"))
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--case", choices=list(CASES), nargs="+", default=list(CASES))
    parser.add_argument("--specialist", help="a trained one, for a single --case")
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    if given.specialist and len(given.case) > 1:
        parser.error("--specialist is for a single --case")
    options = Options(data=given.data, limit=32, calls=20, precision="auto")
    plan = Plan(given.work, tuple(given.minutes), options=options, specialist=given.specialist)
    command = shlex.join(["python", "-m", "experiments.specialising", *sys.argv[1:]])
    records: list[Record] = []
    for case in given.case:
        records += measure(case, *CASES[case], plan, command)
        write_records(given.out, keep_others(given.out, records, "case") + records)


if __name__ == "__main__":
    main()
