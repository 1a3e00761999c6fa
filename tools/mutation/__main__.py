"""Mutation testing: `python tools/mutation [ROOM ...]` (`make mutate`).

A seeded sample of each room's mutants is run against the tests that reach the changed line. The
record is benchmarks/mutation.json, one row a room; reasons.json says why survivors may live.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

from mutants import Mutant, apply, list_mutants
from rooms import ROOMS, Room
from running import ROOT, SOURCE, load_libraries, run_mutant, trace

RECORD = ROOT / "benchmarks" / "mutation.json"
REASONS = Path(__file__).with_name("reasons.json")
# How each mutant ended, for --again.
KEPT = ROOT / ".mutation"
REQUIRED = 0.85
# CPU seconds of tests for one mutant, by their cost without it, fastest first: most are killed by
# the first part, and who survives that meets the second.
BUDGETS = (20.0, 80.0)


def main() -> None:
    """Runs the rooms and writes the record after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", default=[*ROOMS], help=", ".join(ROOMS))
    parser.add_argument("--count", type=int, default=40, help="mutants drawn in each room")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--again", action="store_true", help="only what survived the last run")
    parser.add_argument("--explain", action="store_true", help="run nothing: reasons alone, anew")
    given = parser.parse_args()
    rows = {row["room"]: row for row in json.loads(RECORD.read_text())} if RECORD.exists() else {}
    if not given.explain:
        load_libraries()
    for name in given.rooms:
        if given.explain:
            rows[name] |= explain([one["mutant"] for one in rows[name]["survivors"]])
        else:
            rows[name] = run_room(name, given.count, given.seed, again=given.again)
        ordered = [rows[room] for room in ROOMS if room in rows]
        RECORD.write_text(json.dumps(ordered, indent=1) + "\n")
    missed = [name for name in given.rooms if not rows[name]["holds"]]
    if missed:
        sys.exit(f"less than {REQUIRED:.0%} killed: {', '.join(missed)}")


def run_room(name: str, count: int, seed: int, *, again: bool) -> dict[str, Any]:
    """One row of the record."""
    room = ROOMS[name]
    population = find_mutants(room)
    chosen = draw(population, count, seed)
    kept = KEPT / f"{name}.json"
    outcomes: dict[str, str] = {}
    if again and kept.exists():
        last = json.loads(kept.read_text())
        outcomes = {key: last[key] for key in chosen if last.get(key) in ("killed", "timeout")}
    say(f"{name}: {len(chosen)} of {len(population)} mutants")
    found, idle = trace(find_sources(room), find_tests(room))
    for test, outcome in idle.items():
        say(f"  {outcome} without a mutant, so it guards nothing: {test}")
    kept.parent.mkdir(exist_ok=True)
    for number, key in enumerate(chosen):
        if key not in outcomes:
            outcomes[key] = judge(*population[key], found)
            kept.write_text(json.dumps(outcomes, indent=1))
        say(f"  {number + 1:3d} {outcomes[key]:9s} {key}")
    return describe(name, seed, len(population), outcomes)


def draw(keys: Iterable[str], count: int, seed: int) -> list[str]:
    """The mutants of the smallest hashes: where code is added, the others are drawn again."""
    return sorted(keys, key=lambda key: sha256(f"{seed} {key}".encode()).digest())[:count]


def find_mutants(room: Room) -> dict[str, tuple[Path, Mutant]]:
    """All mutants of a room by their key."""
    return {
        mutant.key: (path, mutant)
        for path in find_sources(room)
        for mutant in list_mutants(path.read_text(), str(path.relative_to(SOURCE / "bcdm")))
    }


def find_sources(room: Room) -> list[Path]:
    """The room's files, without lists of names."""
    files: list[Path] = []
    for part in room.sources:
        path = SOURCE / "bcdm" / part
        files += sorted(path.glob("*.py")) if path.is_dir() else [path]
    return [path for path in files if path.name != "__init__.py"]


def find_tests(room: Room) -> list[str]:
    """Arguments for pytest."""
    left_out = " and ".join(f"not {part}" for part in room.without)
    return [*(f"tests/{part}" for part in room.tests), *(["-k", left_out] if left_out else [])]


def judge(path: Path, mutant: Mutant, found: dict[str, Any]) -> str:
    """Runs the tests that reach it; outside of functions, which run at import, those of all."""
    first, last = mutant.lines
    reaching = sorted(
        (test["seconds"], name)
        for name, test in found.items()
        if not mutant.inside
        or any(file == str(path) and first <= line <= last for file, line in test["lines"])
    )
    if not reaching:
        return "unreached"
    outcome = "survived"
    for part in split(reaching):
        outcome = run_mutant(
            path,
            apply(path.read_text(), mutant.index),
            [name for _, name in part],
            10 + 4 * sum(seconds for seconds, _ in part),
        )
        if outcome != "survived":
            break
    return outcome


def split(tests: list[tuple[float, str]]) -> list[list[tuple[float, str]]]:
    """The tests in parts, one a budget; a part has one test at least, while there are any."""
    parts = []
    for budget in BUDGETS:
        cost, taken = 0.0, 0
        while taken < len(tests) and (not taken or cost + tests[taken][0] <= budget):
            cost += tests[taken][0]
            taken += 1
        parts.append(tests[:taken])
        tests = tests[taken:]
    return [part for part in parts if part]


def describe(name: str, seed: int, population: int, outcomes: dict[str, str]) -> dict[str, Any]:
    """The row: counts, the share that was killed with its 95 % interval, and who survived."""
    lived = [key for key, outcome in outcomes.items() if outcome in ("survived", "unreached")]
    drawn = len(outcomes)
    killed = drawn - len(lived)
    return {
        "room": name,
        "mutants": population,
        "drawn": drawn,
        "seed": seed,
        "killed": killed,
        "share": round(killed / drawn, 4),
        "interval": interval(killed, drawn),
        "required": f">= {REQUIRED}",
        "holds": killed >= REQUIRED * drawn,
        "timeouts": [key for key, outcome in outcomes.items() if outcome == "timeout"],
        **explain(lived),
        "command": f"python tools/mutation {name} --count {drawn} --seed {seed}",
    }


def explain(lived: Iterable[str]) -> dict[str, Any]:
    """Who survived and why, and how many without a reason."""
    reasons = json.loads(REASONS.read_text()) if REASONS.exists() else {}
    survivors = [{"mutant": k, "reason": reasons.get(k, "unexplained")} for k in sorted(lived)]
    unexplained = sum(one["reason"] == "unexplained" for one in survivors)
    return {"unexplained": unexplained, "survivors": survivors}


def interval(killed: int, drawn: int) -> list[float]:
    """Wilson's, of a share."""
    z = 1.96
    share, scale = killed / drawn, 1 + z * z / drawn
    centre = (share + z * z / (2 * drawn)) / scale
    reach = z * sqrt(share * (1 - share) / drawn + z * z / (4 * drawn * drawn)) / scale
    return [round(centre - reach, 4), round(centre + reach, 4)]


def say(text: str) -> None:
    """Progress, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
