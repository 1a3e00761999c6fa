"""From the outcomes of a comparison to records, tables in the paper's layout, and requirements."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch

from bcdm.benchmark.comparison import Outcome
from bcdm.benchmark.records import Record
from bcdm.benchmark.statistics import bootstrap
from bcdm.evaluation import frechet_distance

__all__ = ["make_latex", "make_markdown", "make_records"]

SIGNIFICANT = 0.025  # the paper's mark
FRECHET = "Frechet distance"
# Metric and estimate, heading, digits, factor, whether larger is better.
ROWS = (
    ("PSNR, average", "PSNR, average of samples (dB)", 2, 1, True),
    ("PSNR, single", "PSNR, single sample (dB)", 2, 1, True),
    ("SSIM, average", "SSIM, average (%)", 1, 100, True),
    ("SSIM, single", "SSIM, single (%)", 1, 100, True),
    ("LPIPS, single", "LPIPS, single", 3, 1, False),
    (FRECHET, "Frechet distance, AlexNet conv5 means", 2, 1, False),
    ("CRPS, samples", "CRPS", 4, 1, False),
    ("coverage 80%, all pixels", "coverage of 80 % intervals (%)", 1, 100, None),
    ("chi-square per degree of freedom, single sample", "chi-square of a sample", 2, 1, None),
)


def measure_frechet(
    outcomes: Mapping[str, Outcome], reference: np.ndarray | None
) -> dict[str, float]:
    """Of each method's single samples to the test images, on named features."""
    if reference is None:
        return {}
    truth = torch.from_numpy(reference).double()
    return {
        name: float(frechet_distance(torch.from_numpy(outcome.features).double(), truth))
        for name, outcome in outcomes.items()
        if outcome.features is not None
    }


def make_records(
    task: str,
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, float],
    ours: str,
    *,
    guided: Sequence[str],
    seed: int,
    command: str,
) -> list[Record]:
    """Every number with its standard deviation over images and its distance to ours."""
    record = partial(Record, seed=seed, command=command)
    records = []
    for name, outcome in outcomes.items():
        base = {"task": task, "method": name} | outcome.case
        for metric, values in outcome.scores.items():
            if metric.startswith(("spread", "skill")):
                continue
            case = base | (
                {"std over images": float(values.std())} if np.isfinite(values).all() else {}
            )
            if (p := compare_pairs(outcome, outcomes[ours], metric)) is not None:
                case["p against ours"] = p
            records.append(record(metric, case, float(values.mean()), "", bootstrap(values)))
        if name in frechet:
            case = base | {"features": "AlexNet conv5, channel means"}
            records.append(record(FRECHET, case, frechet[name]))
        records.append(record("seconds per sample", base, outcome.seconds, "s"))
    return records + _require(task, outcomes, ours, guided, record)


def _require(
    task: str,
    outcomes: Mapping[str, Outcome],
    ours: str,
    guided: Sequence[str],
    record: "partial[Record]",
) -> list[Record]:
    """What the comparison must show of our own method."""

    def take(name: str, metric: str) -> np.ndarray:
        return outcomes[name].scores[metric]

    def compare(name: str, metric: str) -> np.ndarray:
        mine, other = take(ours, metric), take(name, metric)
        return mine[_spread(len(mine), len(other))] - other

    others = [name for name in outcomes if name != ours]
    rows: list[tuple[str, str, float, str]] = []
    best = min(others, key=lambda name: float(take(name, "CRPS, samples").mean()))
    gap = float(compare(best, "CRPS, samples").mean())
    rows.append(("CRPS behind the best other", best, gap, "<= 0"))
    best = max(others, key=lambda name: float(take(name, "PSNR, average").mean()))
    gap = -float(compare(best, "PSNR, average").mean())
    rows.append(("averaged PSNR behind the best other (dB)", best, gap, "<= 0.1"))
    covered = "coverage 80%, all pixels"
    away = {
        name: abs(float(outcome.scores[covered].mean()) - 0.8)
        for name, outcome in outcomes.items()
        if covered in outcome.scores
    }
    best = min((name for name in away if name != ours), key=lambda name: away[name])
    rows.append(("coverage's distance behind the best other", best, away[ours] - away[best],
                 "<= 0"))  # fmt: skip
    for name in guided:
        gain = float(compare(name, "PSNR, average").mean())
        rows.append(("averaged PSNR over a guided method (dB)", name, gain, "> 0"))
    return [
        record(what, {"task": task, "other": other}, value, "", None, required)
        for what, other, value, required in rows
    ]


def compare_pairs(outcome: Outcome, ours: Outcome, metric: str) -> float | None:
    """The p-value of Wilcoxon's paired test on the images that both were scored on."""
    from scipy.stats import wilcoxon

    if outcome is ours or metric not in ours.scores:
        return None
    theirs, mine = outcome.scores[metric], ours.scores[metric]
    few = min(len(theirs), len(mine))
    a, b = (v[_spread(len(v), few)] for v in (theirs, mine))
    if len(a) < 6 or not (np.isfinite(a).all() and np.isfinite(b).all()) or not (a != b).any():
        return None
    return float(wilcoxon(a, b).pvalue)


def _spread(count: int, few: int) -> np.ndarray:
    """Which of `count` evenly spaced images are among `few` of them."""
    return np.linspace(0, count - 1, few).round().astype(int)


def make_markdown(outcomes: Mapping[str, Outcome], frechet: Mapping[str, float], ours: str) -> str:
    """One row per method; mean +- standard deviation over images, * where p < .025 against ours."""
    heads = [row[1] for row in ROWS]
    lines = ["| method | calls | " + " | ".join(heads) + " | s a sample | images |"]
    lines.append("| --- " * (len(heads) + 4) + "|")
    for name, outcome in outcomes.items():
        cells = [_cell(outcomes, frechet, ours, name, row, " +- ") for row in ROWS]
        calls, images = outcome.case["calls"], outcome.case["images"]
        lines.append(
            f"| {name} | {calls} | " + " | ".join(cells) + f" | {outcome.seconds:.3g} | {images} |"
        )
    return "\n".join(lines) + "\n"


def make_latex(
    outcomes: Mapping[str, Outcome], frechet: Mapping[str, float], ours: str, shown: Sequence[str]
) -> str:
    """The paper's layout: methods as columns, pSNR, SSIM and a Frechet distance as rows."""
    lines = [r"\begin{tabular}{l" + "c" * len(shown) + "}", r"\toprule"]
    lines.append("Metric & " + " & ".join(shown) + r" \\ \midrule")
    for metric, head in (("PSNR, average", "pSNR"), ("SSIM, average", "SSIM"), (FRECHET, "FD")):
        row = next(row for row in ROWS if row[0] == metric)
        cells = [_cell(outcomes, frechet, ours, name, row, r"$\pm$", "$^*$") for name in shown]
        lines.append(f"{head} & " + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _cell(
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, float],
    ours: str,
    name: str,
    row: tuple[str, str, int, int, bool | None],
    between: str,
    star: str = "*",
) -> str:
    metric, _, digits, factor, _ = row
    outcome = outcomes[name]
    if metric == FRECHET:
        return f"{frechet[name]:.{digits}f}" if name in frechet else ""
    if metric not in outcome.scores:
        return ""
    values = factor * outcome.scores[metric]
    p = compare_pairs(outcome, outcomes[ours], metric)
    mark = star if p is not None and p < SIGNIFICANT else ""
    return f"{values.mean():.{digits}f}{mark}{between}{values.std():.{digits}f}"
