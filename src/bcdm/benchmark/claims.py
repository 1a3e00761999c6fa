"""The page on the paper's claims: what the paper says, and what our records say of it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from bcdm.benchmark.scores import FRECHET
from bcdm.benchmark.tables import SHARED, SIGNIFICANT
from bcdm.errors import InputError
from bcdm.files import write_text

__all__ = ["fill_page", "make_sections"]

PAPER, OURS, DUAL, DUAL_PAPER = "BCDM (paper)", "BCDM", "DI", "DI (paper)"
GUIDED = ("DPS", "DMPS")
POINTS = ("LS", "noisy", "TV", "Unrolled")  # methods without samples
TASKS = {
    "mri": "MRI 8x",
    "deblur": "deblurring",
    "sr": "super-resolution 4x",
    "inpaint": "inpainting, shift",
    "denoise": "denoising",
}
FOUR = ("mri", "deblur", "sr", "inpaint")
COVERED = "coverage 80%, all pixels"
NEAR_SSIM, NEAR_PSNR = 0.1, 0.5  # what the paper's text calls level: points of SSIM, dB
COSTS = (3.0, 6.5)  # "about four times"


@dataclass(frozen=True)
class Results:
    """The records of one task: of methods by name, and what is required of ours."""

    methods: Mapping[str, Mapping[str, Mapping[str, Any]]]
    required: Sequence[Mapping[str, Any]]

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
    return Results(methods, [record for record in records if record["required"] is not None])


def fill_page(folder: Path) -> None:
    """Writes tables and claims anew into the README.md of a folder of tasks."""
    page = folder / "README.md"
    text = page.read_text()
    for name, section in make_sections(folder).items():
        start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise InputError(f"{page} has no place for {name}: put {start.strip()} and "
                             f"{end.strip()} around it")  # fmt: skip
        before, _, rest = text.partition(start)
        text = before + start + section + end + rest.partition(end)[2]
    write_text(page, text)


def make_sections(folder: Path) -> dict[str, str]:
    """The tables of the page, by name, from the records below a folder."""
    tasks = {name: read_results(folder / name / "results.json") for name in TASKS}
    tasks["matched"] = read_results(folder / "inpaint/matched/results.json")
    published = yaml.safe_load((folder / "published.yaml").read_text())
    rows = []
    for number, claim in enumerate(published["claims"], 1):
        given = [tasks] if "task" not in claim else [tasks[name] for name in claim["task"].split()]
        held, words = JUDGES[claim["judge"]](*given)
        cells = (claim["claim"], claim["where"], claim["paper"], f"{_say(held)}: {words}")
        rows.append([str(number), *cells])
    heads = ("", "claim", "where", "in the paper", "here")
    return {
        "results": _make_overview({name: tasks[name] for name in TASKS}),
        "claims": _make_table(heads, rows),
        "asked": _make_asked({name: tasks[name] for name in TASKS}),
    }


def _make_overview(tasks: Mapping[str, Results]) -> str:
    """PSNR and CRPS of every method on every task; coverage and chi-square of ours."""
    names = [name for name in tasks["mri"].methods if name != OURS]
    rows = []
    for name in [*names, OURS]:
        label = {"LS": "LS (the noisy image itself for denoising)", OURS: "**BCDM, ours**"}
        cells = []
        for results in tasks.values():
            shown = "noisy" if name == "LS" and "noisy" in results.methods else name
            cells.append("" if shown not in results.methods else
                         f"{results.get(shown, 'PSNR, average'):.2f}; "
                         f"{1000 * results.get(shown, 'CRPS, samples'):.1f}")  # fmt: skip
        rows.append([label.get(name, name), *cells])
    covered, squares = [], []
    for results in tasks.values():
        found = {m: 100 * results.get(m, COVERED) for m in results.methods if m not in POINTS}
        ours = found.pop(OURS)
        best = min(found, key=lambda name: abs(found[name] - 80))
        covered.append(f"{ours:.1f}; {found[best]:.1f} ({best})")
        name = "chi-square per degree of freedom, single sample"
        both = [results.get(m, name) for m in (OURS, DUAL) if m in results.methods]
        squares.append("; ".join([f"{both[0]:.2f}", *(f"{value:.0f}" for value in both[1:])]))
    rows.append(["coverage of 80 % intervals, ours; closest other", *covered])
    rows.append(["chi-square of a sample, ours; DI", *squares])
    return _make_table(["PSNR of 10 samples averaged (dB); CRPS x 1000", *TASKS.values()], rows)


def _make_asked(tasks: Mapping[str, Results]) -> str:
    """What is required of our default: the records that can be missed."""
    rows: dict[str, list[str]] = {}
    for place, results in enumerate(tasks.values()):
        for record in results.required:
            scale, unit = (1000, "") if record["name"].startswith("CRPS") else (1, " dB")
            if record["name"].startswith("coverage"):
                scale, unit = 100, " points"
            interval = record["interval"]
            between = "" if interval is None else " [{:.2f}, {:.2f}]".format(
                *(scale * value for value in interval))  # fmt: skip
            cell = (
                f"{_say([record['holds']])}: {scale * record['value']:+.2f}{unit}{between}, "
                f"{record['case']['other']}"
            )
            cells = rows.setdefault(record["name"], [])
            cells.extend([""] * (place + 1 - len(cells)))
            cells[place] = f"{cells[place]}; {cell}" if cells[place] else cell
    labels = {"CRPS behind the best other": "CRPS x 1000 behind the best other, wanted at most 0",
              "averaged PSNR behind the best other (dB)":
                  "averaged PSNR behind the best other, wanted at most .1",
              "coverage's distance behind the best other":
                  "how much farther from 80 % coverage is than that of the best other, wanted 0",
              "averaged PSNR over a guided method (dB)":
                  "averaged PSNR over a guided method, wanted above 0"}  # fmt: skip
    body = [
        [labels[name], *cells, *[""] * (len(tasks) - len(cells))] for name, cells in rows.items()
    ]
    return _make_table(["", *TASKS.values()], body)


def _make_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("|  |", "| |")


def _say(held: Sequence[bool]) -> str:
    return "**holds**" if all(held) else "**in part**" if any(held) else "**fails**"


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
    held = [r.psnr(PAPER) > r.psnr(psnr), r.ssim(PAPER) > r.ssim(ssim),
            r.frechet(PAPER) < r.frechet(frechet)]  # fmt: skip
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
        name: [tasks[t].get(name, "seconds per sample") / tasks[t].get(DUAL, "seconds per sample")
               for t in FOUR]
        for name in (PAPER, OURS)
    }  # fmt: skip
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
    unclear = {who: p for who, p in chances.items() if p is None or p >= SIGNIFICANT}
    listed = ", ".join(f"{n} ({t}, p = {p})" if p is None else f"{n} ({t}, p = {p:.2f})"
                       for (n, t), p in unclear.items())  # fmt: skip
    held = [who not in unclear for who in chances]
    return held, f"against ours, all but {listed}" if unclear else "against ours"
