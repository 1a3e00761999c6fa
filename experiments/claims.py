"""The paper's claims, judged by our records."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from bcdm.assessment.metrics import FRECHET
from bcdm.comparison.tables import SHARED, SIGNIFICANT
from bcdm.errors import InputError
from bcdm.methods import CONTROL

__all__ = ["JUDGES", "Results", "read_results"]

PAPER, OURS, DUAL, DUAL_PAPER = "BCDM (paper)", "BCDM", "DI", "DI (paper)"
GUIDED = ("DPS", "DMPS")
POINTS = ("LS", "noisy", "TV", "Unrolled")  # methods without samples
FOUR = ("mri", "deblur", "sr", "inpaint")
NEAR_SSIM, NEAR_PSNR = 0.1, 0.5  # what the paper's text calls level: points of SSIM, dB
COSTS = (3.0, 6.5)  # "about four times"


@dataclass(frozen=True)
class Results:
    """The records of one task: of methods by name, what is required of ours, and the control's.

    The control is nobody's rival. Records that are older than it have none.
    """

    methods: Mapping[str, Mapping[str, Mapping[str, Any]]]
    required: Sequence[Mapping[str, Any]]
    control: Mapping[str, Mapping[str, Any]]

    def get(self, method: str, name: str) -> float:
        """A number of a method, over all its images."""
        return float(self.methods[method][name]["value"])

    def share(self, method: str, name: str) -> float:
        """The same over the images that all methods were scored on."""
        record = self.methods[method][name]
        return float(record["case"].get(SHARED, record["value"]))

    def psnr(self, method: str) -> float:
        """Of 10 samples averaged, in dB."""
        return self.share(method, "PSNR, average")

    def ssim(self, method: str) -> float:
        """Of 10 samples averaged, in per cent."""
        return 100 * self.share(method, "SSIM, average")

    def frechet(self, method: str) -> float:
        """Of single samples."""
        return self.share(method, FRECHET)

    @property
    def others(self) -> list[str]:
        """Every method but both forms of BCDM."""
        return [name for name in self.methods if name not in (PAPER, OURS)]

    def compare(self, method: str, others: Sequence[str]) -> tuple[float, float, float]:
        """What a method gains over the mean of others: dB, per cent of SSIM, Frechet distance."""
        ssim = mean(map(self.ssim, others))
        return (
            self.psnr(method) - mean(map(self.psnr, others)),
            100 * (self.ssim(method) / ssim - 1),
            self.frechet(method) - mean(map(self.frechet, others)),
        )


def read_results(path: Path) -> Results:
    """Reads the results.json of a task."""
    try:
        records = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} holds no records: {error}") from None
    methods: dict[str, dict[str, Mapping[str, Any]]] = {}
    for record in records:
        if "method" in record["case"]:
            methods.setdefault(record["case"]["method"], {})[record["name"]] = record
    control = methods.pop(CONTROL, {})
    required = [record for record in records if record["required"] is not None]
    return Results(methods, required, control)


def _list(gains: tuple[float, float, float]) -> str:
    return "{:+.1f} dB, {:+.1f} %, {:+.0f}".format(*gains)


def _call(name: str) -> str:
    return "ours" if name == OURS else name


# A judge gives what must hold for a claim, and the numbers in words.
Judgement = tuple[Sequence[bool], str]
Judge = Callable[..., Judgement]
JUDGES: dict[str, Judge] = {}


def _register(judge: Judge) -> Judge:
    JUDGES[judge.__name__.removeprefix("_judge_")] = judge
    return judge


@_register
def _judge_highest_psnr(r: Results) -> Judgement:
    best = max(r.others, key=r.psnr)
    dual = f", DI {r.psnr(DUAL):.2f}" if best != DUAL else ""
    words = f"{r.psnr(PAPER):.2f} dB{dual}, best other {best} {r.psnr(best):.2f}"
    return [r.psnr(PAPER) > r.psnr(best)], f"{words}; ours {r.psnr(OURS):.2f}"


@_register
def _judge_over_guided(r: Results) -> Judgement:
    gains = r.compare(PAPER, GUIDED)
    held = [gains[0] > 0, gains[1] > 0, gains[2] < 0]
    return held, f"{_list(gains)}; ours {_list(r.compare(OURS, GUIDED))}"


@_register
def _judge_over_dual(r: Results) -> Judgement:
    gains = r.compare(PAPER, [DUAL])
    words = (
        f"{_list(gains)} over the strong DI, {_list(r.compare(PAPER, [DUAL_PAPER]))} over its "
        f"paper's form; ours over the strong one {_list(r.compare(OURS, [DUAL]))}"
    )
    return [gains[0] > 0, gains[1] > 0, gains[2] < 0], words


@_register
def _judge_ssim_near_best(r: Results) -> Judgement:
    best = max((name for name in r.methods if name != PAPER), key=r.ssim)
    words = f"{r.ssim(PAPER):.1f}, best {_call(best)} {r.ssim(best):.1f}, DPS {r.ssim('DPS'):.1f}"
    return [r.ssim(best) - r.ssim(PAPER) <= NEAR_SSIM], words


@_register
def _judge_lowest_frechet(r: Results) -> Judgement:
    best = min(r.others, key=r.frechet)
    words = f"{r.frechet(PAPER):.1f}, best other {best} {r.frechet(best):.1f}"
    return [r.frechet(PAPER) < r.frechet(best)], f"{words}; ours {r.frechet(OURS):.1f}"


@_register
def _judge_dual_ssim(r: Results) -> Judgement:
    words = f"DI {r.ssim(DUAL):.1f}, BCDM {r.ssim(PAPER):.1f}; ours {r.ssim(OURS):.1f}"
    return [r.ssim(DUAL) > r.ssim(PAPER)], words


@_register
def _judge_dual_beats(r: Results) -> Judgement:
    gains = r.compare(DUAL, [PAPER])
    three = {n: f"{r.psnr(n):.2f} / {r.ssim(n):.1f} / {r.frechet(n):.0f}" for n in r.methods}
    words = f"DI {three[DUAL]}, BCDM {three[PAPER]}; ours {three[OURS]}"
    return [gains[0] > 0, gains[1] > 0, gains[2] < 0], words


@_register
def _judge_second(r: Results) -> Judgement:
    compared = [*GUIDED, DUAL, PAPER]
    by_psnr = sorted(compared, key=r.psnr, reverse=True).index(PAPER) + 1
    by_frechet = sorted(compared, key=r.frechet).index(PAPER) + 1
    words = (
        f"of DPS, DMPS, DI and BCDM it is number {by_psnr} in PSNR and {by_frechet} in Fréchet; "
        f"I2SB has {r.psnr('I2SB'):.2f} dB, BCDM {r.psnr(PAPER):.2f}, ours {r.psnr(OURS):.2f}"
    )
    return [by_psnr == 2, by_frechet == 2], words


@_register
def _judge_unrolled_near_best(r: Results) -> Judgement:
    best = max((name for name in r.methods if name not in POINTS), key=r.psnr)
    words = f"{r.psnr('Unrolled'):.2f} and {r.psnr(best):.2f} dB ({_call(best)})"
    return [r.psnr(best) - r.psnr("Unrolled") <= NEAR_PSNR], words


@_register
def _judge_best_in_all(r: Results) -> Judgement:
    psnr, ssim = max(r.others, key=r.psnr), max(r.others, key=r.ssim)
    frechet = min(r.others, key=r.frechet)
    three = {n: f"{r.psnr(n):.2f} / {r.ssim(n):.1f} / {r.frechet(n):.0f}" for n in (PAPER, OURS)}
    words = (
        f"{three[PAPER]}, best others {psnr} {r.psnr(psnr):.2f} / {ssim} {r.ssim(ssim):.1f} / "
        f"{frechet} {r.frechet(frechet):.0f}; ours {three[OURS]}"
    )
    held = [
        r.psnr(PAPER) > r.psnr(psnr),
        r.ssim(PAPER) > r.ssim(ssim),
        r.frechet(PAPER) < r.frechet(frechet),
    ]
    return held, words


@_register
def _judge_smaller_loss(shifted: Results, matched: Results) -> Judgement:
    names = (PAPER, OURS, DUAL, DUAL_PAPER, "Unrolled")
    gains = {name: shifted.psnr(name) - matched.psnr(name) for name in names}
    listed = ", ".join(f"{_call(name)} {gain:+.2f}" for name, gain in gains.items())
    words = f"PSNR with the smaller mask against the larger one of training: {listed} dB"
    return [gains[PAPER] > gains[DUAL]], words


@_register
def _judge_unrolled_lowest(r: Results) -> Judgement:
    low = min(r.methods, key=r.psnr)
    words = f"Unrolled {r.psnr('Unrolled'):.2f} dB, the lowest is {low} with {r.psnr(low):.2f}"
    return [low == "Unrolled"], words


@_register
def _judge_over_unrolled(tasks: Mapping[str, Results]) -> Judgement:
    gains = [tasks[t].psnr(PAPER) - tasks[t].psnr("Unrolled") for t in FOUR]
    return [gain > 0 for gain in gains], "by " + ", ".join(f"{gain:.1f}" for gain in gains) + " dB"


@_register
def _judge_denoising(r: Results) -> Judgement:
    def both(name: str, digits: int, factor: float = 1) -> str:
        ours, theirs = (factor * r.share(method, name) for method in (OURS, "DMPS"))
        return f"{ours:.{digits}f} and {theirs:.{digits}f}"

    words = (
        f"single samples {both('PSNR, single', 2)} dB, {both('SSIM, single', 1, 100)}, Fréchet "
        f"{both(FRECHET, 0)}; averages {both('PSNR, average', 2)} dB, CRPS "
        f"{both('CRPS, samples', 4)}"
    )
    gains = [
        r.share(OURS, name) - r.share("DMPS", name) for name in ("PSNR, single", "SSIM, single")
    ]
    return [*(gain >= 0 for gain in gains), r.frechet(OURS) < r.frechet("DMPS")], words


@_register
def _judge_cost(tasks: Mapping[str, Results]) -> Judgement:
    costs = {
        name: [
            tasks[t].get(name, "seconds per sample") / tasks[t].get(DUAL, "seconds per sample")
            for t in FOUR
        ]
        for name in (PAPER, OURS)
    }
    listed = {name: ", ".join(f"{cost:.1f}" for cost in found) for name, found in costs.items()}
    low, high = COSTS
    held = [low <= cost <= high for cost in costs[PAPER]]
    return held, f"{listed[PAPER]} times; ours {listed[OURS]}"


@_register
def _judge_averaging(tasks: Mapping[str, Results]) -> Judgement:
    gains = {
        f"{name}, {t}": tasks[t].psnr(name) - tasks[t].share(name, "PSNR, single")
        for t in FOUR
        for name in tasks[t].methods
        if name not in POINTS
    }
    low, high = min(gains, key=lambda k: gains[k]), max(gains, key=lambda k: gains[k])
    words = f"by {gains[low]:.1f} ({low}) to {gains[high]:.1f} dB ({high})"
    return [gain > 0 for gain in gains.values()], words


@_register
def _judge_significant(tasks: Mapping[str, Results]) -> Judgement:
    chances = {
        (name, t): tasks[t].methods[name]["PSNR, average"]["case"].get("p against ours")
        for t in FOUR
        for name in tasks[t].methods
        if name != OURS
    }
    untested = [f"{name} ({task})" for (name, task), p in chances.items() if p is None]
    tested = {who: p for who, p in chances.items() if p is not None}
    unclear = {who: p for who, p in tested.items() if p >= SIGNIFICANT}
    words = ["against ours"]
    if unclear:
        words.append(
            "all but " + ", ".join(f"{n} ({t}, p = {p:.2f})" for (n, t), p in unclear.items())
        )
    if untested:
        words.append(f"not tested: {', '.join(untested)}")
    return [who not in unclear for who in tested], ", ".join(words)
