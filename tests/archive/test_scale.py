"""Numbers of docs/scale.md are those of benchmarks/archive.json, or follow from them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bcdm.archive.simulation import simulate
from bcdm.benchmark.failures import LARGE

ROOT = Path(__file__).parents[2]
SLICES, PASSES, PIXELS, WIDE = 10**8, 16 * 20 + 2, 64 * 64, 25
LOOP = "CPU-seconds over a bare loop"
# Assumed, as the page says.
TFLOPS, GPU, CORE, STORAGE = 30.0, 2.0, 0.04, 23.0


class Measured:
    """Values of the record, by name and by what their cases must hold."""

    def __init__(self, rows: list[dict]) -> None:
        self._rows = rows

    def find(self, name: str, **case: object) -> float:
        rows = [row for row in self._rows if row["name"] == name]
        (found,) = [row["value"] for row in rows if case.items() <= row["case"].items()]
        return found

    def tell(self, name: str, key: str) -> str:
        """What the case of the only record of a name says."""
        (found,) = [row["case"][key] for row in self._rows if row["name"] == name]
        return str(found)


def describe_measured(one: Measured) -> list[tuple[str, ...]]:
    rate = one.find("recognised as finished", by="status") / 1e6
    return [
        ("a pass of `ixi64-mri-scanner`", f"{one.find('FLOPs of a pass') / 1e9:.2f} GFLOP"),
        ("the same, of 8 images at once", f"{one.find('network pass') * 1000:.0f} ms of a core"),
        ("bytes of an item over its arrays", f"{one.find('bytes over those of the arrays'):.2f}"),
        ("memory, ten times more items", f"{one.find('memory of ten times more items'):.3f}"),
        (
            "cost of an item of these (ten times more)",
            f"{one.find('cost of an item of ten times more'):.2f}",
        ),
        ("finished items seen by `status`", f"{rate:.1f} million a second"),
        ("an item, over a bare loop", f"{one.find(LOOP, exam='costs'):.3f}"),
        ("the same by a worker of Ray", f"{one.find(LOOP, exam='ray'):.3f}"),
    ]


def describe_kills(one: Measured) -> list[tuple[str, ...]]:
    parts, ray = {"scheduler": "--part, one of them twice"}, {"scheduler": "Ray, two nodes"}
    lost = "items lost or done twice, 20 kills"
    bits = sum(one.find("shards with other bits", **who) for who in (parts, ray))
    return [
        (f"{lost}, `--part`", f"{one.find('items missing or twice', **parts):.0f} of 10,000"),
        (
            f"{lost}, Ray on two nodes",
            f"{one.find('items missing or twice', **ray):.0f} of 10,000",
        ),
        ("shards with other bits than without kills", f"{bits:.0f} of 800"),
        ("done again, `--part`", f"{one.find('share done again, at most', **parts):.2%}"),
        ("done again, Ray", f"{one.find('share done again, at most', **ray):.2%}"),
    ]


def describe_failures(one: Measured) -> list[tuple[str, ...]]:
    quiet = "finish time without failures"
    price = [one.find(f"overhead of failures, {kind}") for kind in ("real", "simulated")]
    calm = [one.find(f"{quiet}, {kind}") for kind in ("real", "simulated")]
    hard = [one.find("finish time of a real run"), one.find("finish time simulated")]
    return [
        ("deaths of workers", *re.findall(r"\d+", one.tell("shard", "deaths"))),
        ("seconds of a worker, without failures", *(f"{value:.1f}" for value in calm)),
        ("seconds of a worker, with failures", *(f"{value:.1f}" for value in hard)),
        (
            "price of failures, at equal speed of the processor",
            *(f"{value:.1%}" for value in price),
        ),
    ]


def describe_costs(one: Measured) -> list[tuple[str, ...]]:
    kept = one.find("bytes over those of the arrays")
    return [
        ("FLOPs", "passes x F", f"{PASSES * one.find('FLOPs of a pass') / 1e9:.0f} G"),
        ("seconds of a core", "passes x s", f"{PASSES * one.find('network pass'):.1f}"),
        ("bytes in, k-space of one coil", "8 x pixels", f"{8 * PIXELS / 1e3:.0f} k"),
        ("bytes out", f"16 x pixels x {kept:.2f}", f"{16 * PIXELS * kept / 1e3:.0f} k"),
    ]


def describe_money(one: Measured) -> list[tuple[str, ...]]:
    gpu = SLICES * PASSES * one.find("FLOPs of a pass") / (TFLOPS * 1e12) / 3600
    core = SLICES * PASSES * one.find("network pass") / 3600
    out = SLICES * 16 * PIXELS * one.find("bytes over those of the arrays") / 1e12
    rows = (("GPU hours", gpu, GPU), ("or core hours", core, CORE), ("TB, a month", out, STORAGE))
    return [
        (name, *(f"{k * count:,.0f}: {k * count * price:,.0f} $" for k in (1, WIDE)))
        for name, count, price in rows
    ]


@pytest.mark.parametrize(
    "part", [describe_measured, describe_kills, describe_failures, describe_costs, describe_money]
)
def test_the_page_says_what_was_measured(part) -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    rows = json.loads((ROOT / "benchmarks" / "archive.json").read_text())
    for words in part(Measured(rows)):
        assert f"| {' | '.join(words)} |" in page


def test_the_page_says_what_sampling_alone_takes() -> None:
    one = Measured(json.loads((ROOT / "benchmarks" / "archive.json").read_text()))
    share = one.find("item by sampling alone") / one.find("item of the archive")
    assert (
        f"samples without cards take {share:.2f} of an item"
        in (ROOT / "docs" / "scale.md").read_text()
    )


def describe_fleets() -> list[tuple[str, ...]]:
    ray = replace(LARGE, shards=300_000)
    parts = replace(LARGE, shards=100_000, driver_lifetime=float("inf"))
    fleets = {
        "1,000 by Ray": ray,
        "1,000 by parts": parts,
        "1,000 by parts, 1,000 slices a shard": replace(parts, shards=10_000, shard=25_000.0),
        "100,000 by one driver, shards of 250 s": replace(parts, workers=100_000, shard=250.0),
    }
    lines = []
    for name, fleet in fleets.items():
        course = simulate(fleet)
        deaths = f"{course.deaths:,} + {course.driver_deaths}"
        over = f"{course.seconds / fleet.least:.2f}"
        lines.append((name, deaths, over, f"{course.redone:.1%}"))
    return lines


def test_fleets() -> None:
    page = (ROOT / "docs" / "scale.md").read_text()
    for words in describe_fleets():
        assert f"| {' | '.join(words)} |" in page


def test_words_of_the_page_are_numbers_of_the_code_and_the_record() -> None:
    page = " ".join((ROOT / "docs" / "scale.md").read_text().split())
    rows = json.loads((ROOT / "benchmarks" / "archive.json").read_text())
    one = Measured(rows)
    assert 600 < 100 * PASSES * one.find("network pass") < 2400
    assert "a shard takes 10 to 40 minutes: about 100 slices of 64 x 64 on a core" in page
    assert (LARGE.lifetime, LARGE.replace) == (2 * 86400, 300)
    assert "Each worker dies every 2 days and is back after 5 minutes" in page
    assert (LARGE.driver_lifetime, LARGE.driver_start) == (7 * 86400, 600)
    assert (LARGE.hand_out, LARGE.workers) == (0.01, 1000)
    assert "the driver dies every week and is back after 10, and takes 10 ms for each shard" in page
    kills = next(row for row in rows if row["name"] == "share done again, at most")
    assert (kills["case"]["items"], kills["case"]["shard"]) == (10_000, 25)
    assert kills["required"] == "<= 0.07"
    assert "at most 7 % is required" in page
