"""Does an evaluation still give what its record says? A part of it, run again.

    python -m experiments.agreement experiments/calls/ixi64-mri.json --calls 10
    python -m experiments.agreement experiments/mri/ixi64.results.json --limit 8
    python -m experiments.agreement experiments/families/mri64.results.json --case "lines 6x"
    python -m experiments.agreement experiments/noise/ixi64.json --noise-std 0.05

Where noise is keyed anew, or another machine rounds differently, samples are others of the same
law: numbers agree within what so few images tell. With as many images as the record has, they are
the same images.
"""

import argparse
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from bcdm.assessment.evaluate import run
from bcdm.assessment.options import Options
from bcdm.benchmark import noise
from bcdm.benchmark.family import load_comparison
from bcdm.errors import InputError

__all__ = ["Pair", "choose_case", "compare", "compare_noise", "main", "pick"]


@dataclass(frozen=True)
class Pair:
    """A number as it was published and as it is now, with half of its intervals' widths."""

    name: str
    published: float
    now: float
    published_half: float
    now_half: float

    @property
    def distance(self) -> float:
        """In units of what both intervals allow together; at most 1 in 95 % of fair reruns."""
        allowed = math.hypot(self.published_half, self.now_half)
        return abs(self.published - self.now) / max(allowed, 1e-12)


def pick(records: Sequence[dict[str, Any]], calls: int | None) -> list[dict[str, Any]]:
    """Numbers of samples of one model, with an interval, at a number of network calls."""
    found = [
        one
        for one in records
        if one["interval"]
        and one["case"].get("samples")
        and one["case"].get("estimate")
        and "method" not in one["case"]  # of the control
        # Perceptual distances need a file of weights.
        and one["name"] != "LPIPS"
        and calls in (None, one["case"]["calls"])
    ]
    if not found:
        raise InputError("no such numbers of an evaluation among these records")
    return found


def choose_case(records: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The numbers of a family's model on one of its problems, at the lowest noise it has."""
    found = [
        one
        for one in records
        if one["case"].get("case") == name
        and {"model", "noise_std", "estimate"} <= set(one["case"])
    ]
    if not found:
        raise InputError(f"no case {name!r} among these records")
    settings = Path(__file__).parents[1] / shlex.split(found[0]["command"])[3]
    options = load_comparison(settings).options
    effort = {"samples": options.samples, "calls": options.calls, "churn": options.churn}
    model = found[0]["case"]["model"]
    least = min(one["case"]["noise_std"] for one in found)
    return [
        one | {"case": one["case"] | effort}
        for one in found
        if (one["case"]["model"], one["case"]["noise_std"]) == (model, least)
    ]


def compare(published: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> list[Pair]:
    """Pairs of numbers of the same name and estimate."""
    mine = [one for one in now if "method" not in one["case"]]
    fresh = {(one["name"], one["case"].get("estimate")): one for one in mine}
    pairs = []
    for one in published:
        key = (one["name"], one["case"]["estimate"])
        if key in fresh and fresh[key]["value"] is not None:
            values = [one["value"], fresh[key]["value"]]
            halves = [(r["interval"][1] - r["interval"][0]) / 2 for r in (one, fresh[key])]
            pairs.append(Pair(", ".join(key), *values, *halves))
    return pairs


def compare_noise(published: Sequence[dict[str, Any]], level: float) -> list[Pair]:
    """Estimates of one noise level, made again as the command of the record says."""
    _, _, _, model, *options = shlex.split(published[0]["command"])
    limit = int(options[options.index("--limit") + 1])
    fresh = noise.run(
        model, data=None, limit=limit, together=26, command="", report=click.echo, levels=(level,)
    )
    stored = {(one["name"], *map(str, one["case"].values())): one for one in published}
    pairs = []
    for now in fresh:
        assert now.value is not None
        one = stored[(now.name, *map(str, now.case.values()))]
        halves = [(high - low) / 2 for low, high in (one["interval"], now.interval or (0, 0))]
        where = f"{now.name}, {now.case['images']}, {now.case['measured']}"
        pairs.append(Pair(where, one["value"], now.value, *halves))
    return pairs


def main() -> None:
    """Runs a part of a record again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--limit", type=int, help="How many images; default: as many as then.")
    parser.add_argument("--calls", type=int, help="Which of several numbers of network calls.")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--case", help="Which problem of a family.")
    parser.add_argument("--noise-std", type=float, help="Which level of a record of these.")
    given = parser.parse_args()
    records = json.loads(given.records.read_text())
    if given.noise_std is not None:
        show(compare_noise(records, given.noise_std))
    published = pick(choose_case(records, given.case) if given.case else records, given.calls)
    # The numbers of all samples, not those of one.
    case = max((one["case"] for one in published), key=lambda case: case["samples"])
    options = Options(
        limit=given.limit or case["images"],
        samples=case["samples"],
        calls=case["calls"],
        churn=case["churn"],
        operator=case.get("operator"),
        noise_std=case.get("noise_std"),
        precision=given.precision,
    )
    fresh = run(case["model"], options, "")
    show(compare(published, [vars(one) for one in fresh]))


def show(pairs: Sequence[Pair]) -> NoReturn:
    """Prints each number beside its record; exit code 1 where more than 1 in 10 are too far."""
    for pair in pairs:
        half = f"{pair.published:10.4g} +- {pair.published_half:<9.2g}"
        click.echo(f"{pair.name:50} {half} now {pair.now:10.4g}   {pair.distance:5.2f}")
    far = sum(pair.distance > 1 for pair in pairs)
    click.echo(f"{far} of {len(pairs)} farther away than their intervals allow")
    raise SystemExit(far > len(pairs) / 10)


if __name__ == "__main__":
    main()
