"""The control of records that were made without it: the same images and seed, nothing learned.

python -m experiments.zeros experiments/zeros.json     # a minute: no network runs

`bcdm evaluate` and `bcdm benchmark family` draw it themselves since; a record made anew by them
needs nothing of this.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bcdm.assessment.images import open_tested
from bcdm.assessment.judging import judge
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, write_records
from bcdm.benchmark.family import load_comparison
from bcdm.checkpoint import load
from bcdm.methods import CONTROL

FAMILIES = ("mri64", "faces64")
# Those of `bcdm evaluate`: as many images as their records have.
ALONE = {"ixi64-mri8x": 130, "faces64-inpaint": 128}
NUMBERS = (
    ("CRPS", "samples"),
    ("PSNR", "sample mean"),
    ("coverage 90%", "all pixels"),
    ("chi-square per degree of freedom", "single sample"),
)


def list_problems() -> Iterator[tuple[str, dict[str, object], Options]]:
    """Model, what distinguishes the problem, and options, as in the records."""
    for name, images in ALONE.items():
        yield name, {}, Options(limit=images)
    for family in FAMILIES:
        settings = load_comparison(Path(__file__).parent / f"families/{family}.cases.yaml")
        for name, case in settings.cases.items():
            for noise in case.noise_std:
                options = replace(settings.options, operator=case.operator, noise_std=noise)
                where: dict[str, object] = {"case": name, "noise_std": noise}
                yield settings.model, where, options
                if case.specialist is not None and noise == case.specialist_noise:
                    yield case.specialist, where, options


def run(name: str, where: dict[str, object], options: Options, command: str) -> list[Record]:
    """Numbers of the control on the images of one record."""
    model = load(name)
    tested = open_tested(model, options)
    judged = judge(model, tested, options, control=True)
    base: dict[str, object] = {"model": name, "method": CONTROL, "split": options.split}
    base |= {"images": len(tested.rows), "samples": options.samples} | where
    record = partial(Record, seed=options.seed, command=command)
    rows = [
        record(metric, base | {"estimate": one}, float(judged.scores.get(metric, one).mean()))
        for metric, one in NUMBERS
    ]
    for check in judged.checks:
        told = {"says": check.says} if check.says else {}
        rows.append(record(check.name, base | told, check.value))
    return rows


if __name__ == "__main__":
    out = Path(sys.argv[1])
    words = f"python -m experiments.zeros {out}"
    write_records(out, [one for given in list_problems() for one in run(*given, words)])
