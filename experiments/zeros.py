"""The control of records that were made without it: the same images and seed, nothing learned.

python -m experiments.zeros experiments/zeros.json     # a minute: no network runs

`bcdm evaluate` and `bcdm benchmark family` draw it themselves since; a record made anew by them
needs nothing of this. Cards of models that were evaluated before get the control's rows, too.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bcdm.assessment.images import open_tested
from bcdm.assessment.judging import judge
from bcdm.assessment.options import Options
from bcdm.assessment.records import Record, read_records, write_records
from bcdm.assessment.summary import OVER_CONTROL, write_card
from bcdm.benchmark.family import load_comparison
from bcdm.checkpoint import load
from bcdm.methods import CONTROL
from bcdm.shelf import find_model

FAMILIES = ("mri64", "faces64")
HERE = Path(__file__).parent
# Those of `bcdm evaluate`: their records, and as many images as these have.
ALONE = {"ixi64-mri8x": ("mri/ixi64", 130), "faces64-inpaint": ("faces/inpaint64", 128)}
NUMBERS = (
    ("CRPS", "samples"),
    ("PSNR", "sample mean"),
    ("coverage 90%", "all pixels"),
    ("chi-square per degree of freedom", "single sample"),
)


def list_problems() -> Iterator[tuple[str, dict[str, object], Options]]:
    """Model, what distinguishes the problem, and options, as in the records."""
    for name, (_, images) in ALONE.items():
        yield name, {}, Options(limit=images)
    for family in FAMILIES:
        settings = load_comparison(HERE / f"families/{family}.cases.yaml")
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


def complete_cards(control: Sequence[Record]) -> None:
    """Puts the control's numbers below those of the model on the cards that have none."""
    for name, (path, _) in ALONE.items():
        mine = read_records(HERE / f"{path}.results.json")
        theirs = [one for one in control if one.case["model"] == name and "case" not in one.case]
        (own,), (other,) = ([one for one in rows if one.name == "CRPS"] for rows in (mine, theirs))
        assert own.value is not None
        assert other.value is not None
        over = Record(OVER_CONTROL, {}, own.value / other.value)
        command = f"{mine[0].command}`, the control by `{other.command}"
        write_card(find_model(name), [*mine, *theirs, over], command)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    words = f"python -m experiments.zeros {out}"
    found = [one for given in list_problems() for one in run(*given, words)]
    write_records(out, found)
    complete_cards(found)
