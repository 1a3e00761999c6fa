"""From the outcomes of a comparison to records, tables in the paper's layout, and requirements."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.images import choose_evenly
from bcdm.assessment.metrics import FEATURES, FID, FRECHET
from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.assessment.summary import OVER_CONTROL
from bcdm.comparison.engine import Outcome
from bcdm.evaluation import frechet_distance
from bcdm.methods import CONTROL

__all__ = ["make_latex", "make_markdown", "make_records"]

SIGNIFICANT = 0.025  # the paper's mark
SHARED = "mean over the images of all methods"
# Metric and estimate, heading, digits, factor, whether larger is better.
ROWS = (
    ("CRPS, samples", "CRPS", 4, 1, False),
    (OVER_CONTROL, OVER_CONTROL, 2, 1, False),
    ("PSNR, average", "PSNR, average of samples (dB)", 2, 1, True),
    ("PSNR, single", "PSNR, single sample (dB)", 2, 1, True),
    ("PSNR, one call", "PSNR, one call (dB)", 2, 1, True),
    ("SSIM, average", "SSIM, average (%)", 1, 100, True),
    ("SSIM, single", "SSIM, single (%)", 1, 100, True),
    ("LPIPS, single", "LPIPS, single", 3, 1, False),
    (FRECHET, "Frechet distance, AlexNet conv5 means", 2, 1, False),
    (FID, "FID", 2, 1, False),
    ("coverage 80%, all pixels", "coverage of 80 % intervals (%)", 1, 100, None),
    ("chi-square per degree of freedom, single sample", "chi-square of a sample", 2, 1, None),
)


def compute_frechet(
    outcomes: Mapping[str, Outcome], reference: Mapping[str, Tensor]
) -> dict[str, dict[str, float]]:
    """Of each method's single samples to the test images, by distance (of its features) and method.

    The distance grows as images get fewer, so every method is judged on those that all have.
    """
    distances = {}
    for distance, truth in reference.items():
        found = {name: outcome.features[distance] for name, outcome in outcomes.items()}
        few = min(map(len, found.values()))
        chosen = {name: values[choose_evenly(len(values), few)] for name, values in found.items()}
        distances[distance] = {
            name: float(frechet_distance(torch.from_numpy(features).double(), truth.double()))
            for name, features in chosen.items()
        }
    return distances


def make_records(
    task: str,
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, Mapping[str, float]],
    ours: str,
    *,
    subjects: Sequence[str],
    beaten: Sequence[str],
    guided: Sequence[str],
    seed: int,
    command: str,
) -> list[Record]:
    """Every number with its standard deviation over images and its distance to ours."""
    record = partial(Record, seed=seed, command=command)
    records = []
    few = min(len(outcome.scores["PSNR, average"]) for outcome in outcomes.values())
    for name, outcome in outcomes.items():
        base = {"task": task, "method": name} | outcome.case
        for metric, values in outcome.scores.items():
            if metric.startswith(("spread", "skill")):
                continue
            case = dict(base)
            if np.isfinite(values).all():
                case["std over images"] = float(values.std())
                if len(values) > few:
                    case[SHARED] = float(values[choose_evenly(len(values), few)].mean())
            if (p := compare_pairs(outcome, outcomes[ours], metric, subjects)) is not None:
                case["p against ours"] = p
            groups = [subjects[k] for k in choose_evenly(len(subjects), len(values))]
            interval = bootstrap(values, groups=groups)
            records.append(record(metric, case, float(values.mean()), "", interval))
        if CONTROL in outcomes:
            ratio, interval = _compare_to_control(outcomes, name, subjects)
            records.append(record(OVER_CONTROL, dict(base), ratio, "", interval))
        for distance, found in frechet.items():
            case = base | {"features": FEATURES[distance], "images": few}
            records.append(record(distance, case, found[name]))
        records.append(record("seconds per sample", base, outcome.seconds, "s"))
    return records + _require(task, outcomes, ours, subjects, beaten, guided, record)


def _compare_to_control(
    outcomes: Mapping[str, Outcome], name: str, subjects: Sequence[str]
) -> tuple[float, tuple[float, float] | None]:
    """The CRPS over the control's on the images that both were scored on, and its interval."""
    mine, theirs = (outcomes[one].scores["CRPS, samples"] for one in (name, CONTROL))
    few = min(len(mine), len(theirs))
    a, b = (values[choose_evenly(len(values), few)] for values in (mine, theirs))
    groups = [subjects[k] for k in choose_evenly(len(subjects), few)]
    return float(a.mean() / b.mean()), bootstrap(a, b, groups=groups)


def _require(
    task: str,
    outcomes: Mapping[str, Outcome],
    ours: str,
    subjects: Sequence[str],
    beaten: Sequence[str],
    guided: Sequence[str],
    record: "partial[Record]",
) -> list[Record]:
    """What the comparison must show of our own method."""

    def judge(what: str, other: str, metric: str, sign: int, required: str) -> Record:
        mine, theirs = (outcomes[name].scores[metric] for name in (ours, other))
        few = min(len(mine), len(theirs))
        mine, theirs = (v[choose_evenly(len(v), few)] for v in (mine, theirs))
        gain = sign * (mine - theirs)
        groups = [subjects[k] for k in choose_evenly(len(subjects), few)]
        case: dict[str, object] = {"task": task, "other": other, "images": few}
        interval = bootstrap(gain, groups=groups)
        return record(what, case, float(gain.mean()), "", interval, required)

    few_images = min(len(values) for o in outcomes.values() for values in o.scores.values())

    def share(metric: str) -> dict[str, float]:
        # Means over the images that all methods were scored on.
        return {
            name: float(values[choose_evenly(len(values), few_images)].mean())
            for name, outcome in outcomes.items()
            if (values := outcome.scores.get(metric)) is not None
        }

    def find_best(metric: str, sign: int) -> str:
        found = share(metric)
        # The control is no rival, but where there is no other.
        others = [n for n in found if n not in (ours, CONTROL)] or [CONTROL]
        return max(others, key=lambda name: sign * found[name])

    crps, average, one_call = "CRPS, samples", "PSNR, average", "PSNR, one call"
    rows = []
    if beaten:
        for name in beaten:
            rows.append(judge("CRPS gained over another", name, crps, -1, "> 0"))
            if all(one_call in outcomes[one].scores for one in (ours, name)):
                what = "one-call PSNR gained over another (dB)"
                rows.append(judge(what, name, one_call, 1, "> 0"))
        return rows
    if ours == CONTROL:
        return rows  # of which nothing is required
    rows.append(judge("CRPS behind the best other", find_best(crps, -1), crps, 1, "<= 0"))
    best = find_best(average, 1)
    rows.append(judge("averaged PSNR behind the best other (dB)", best, average, -1, "<= 0.1"))
    covered = "coverage 80%, all pixels"
    away = {name: abs(value - 0.8) for name, value in share(covered).items()}
    others = [name for name in away if name not in (ours, CONTROL)]  # that give samples
    if others and ours in away:
        best = min(others, key=lambda name: away[name])
        control = away.get(CONTROL, np.nan)
        beside = {"distance of the control's": control} if np.isfinite(control) else {}
        rows.append(
            record(
                "coverage's distance behind the best other",
                {"task": task, "other": best} | beside,
                away[ours] - away[best],
                "",
                None,
                "<= 0",
            )
        )
    return rows + [
        judge("averaged PSNR over a guided method (dB)", name, average, 1, "> 0") for name in guided
    ]


def compare_pairs(
    outcome: Outcome, ours: Outcome, metric: str, subjects: Sequence[str]
) -> float | None:
    """The p-value of Wilcoxon's paired test on the images that both were scored on.

    Images of one subject are alike and count once, by their mean; None below six subjects.
    """
    from scipy.stats import wilcoxon

    if outcome is ours or metric not in ours.scores:
        return None
    theirs, mine = outcome.scores[metric], ours.scores[metric]
    few = min(len(theirs), len(mine))
    names = np.array([subjects[k] for k in choose_evenly(len(subjects), few)])
    members = [names == name for name in np.unique(names)]
    chosen = [v[choose_evenly(len(v), few)] for v in (theirs, mine)]
    a, b = (np.array([v[whose].mean() for whose in members]) for v in chosen)
    if len(a) < 6 or not (np.isfinite(a).all() and np.isfinite(b).all()) or not (a != b).any():
        return None
    return float(wilcoxon(a, b).pvalue)


def make_markdown(
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, Mapping[str, float]],
    ours: str,
    subjects: Sequence[str],
    metrics: Sequence[str] = (),
) -> str:
    """One row per method; mean +- standard deviation over images, * where p < .025 against ours.

    The test is on means per subject. A user's metrics come last.
    """
    there = {FID: FID in frechet, OVER_CONTROL: CONTROL in outcomes}
    rows = [row for row in ROWS if there.get(row[0], True)]
    rows += [(f"{name}, average", f"{name}, average", 4, 1, None) for name in metrics]
    heads = [row[1] for row in rows]
    lines = ["| method | calls | " + " | ".join(heads) + " | s a sample | images |"]
    lines.append("| --- " * (len(heads) + 4) + "|")
    for name, outcome in outcomes.items():
        cells = [_cell(outcomes, frechet, ours, subjects, name, row, " +- ") for row in rows]
        calls, images = outcome.case["calls"], outcome.case["images"]
        lines.append(
            f"| {name} | {calls} | " + " | ".join(cells) + f" | {outcome.seconds:.3g} | {images} |"
        )
    return "\n".join(lines) + "\n"


def make_latex(
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, Mapping[str, float]],
    ours: str,
    subjects: Sequence[str],
    shown: Sequence[str],
) -> str:
    """The paper's layout: methods as columns, pSNR, SSIM and FID (or another distance) as rows."""
    lines = [r"\begin{tabular}{l" + "c" * len(shown) + "}", r"\toprule"]
    lines.append("Metric & " + " & ".join(shown) + r" \\ \midrule")
    distance = (FID, "FID") if FID in frechet else (FRECHET, "FD")
    for metric, head in (("PSNR, average", "pSNR"), ("SSIM, average", "SSIM"), distance):
        row = next(row for row in ROWS if row[0] == metric)
        cells = [
            _cell(outcomes, frechet, ours, subjects, name, row, r"$\pm$", "$^*$") for name in shown
        ]
        lines.append(f"{head} & " + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _cell(
    outcomes: Mapping[str, Outcome],
    frechet: Mapping[str, Mapping[str, float]],
    ours: str,
    subjects: Sequence[str],
    name: str,
    row: tuple[str, str, int, int, bool | None],
    between: str,
    star: str = "*",
) -> str:
    metric, _, digits, factor, _ = row
    outcome = outcomes[name]
    if metric in FEATURES:
        return f"{frechet[metric][name]:.{digits}f}" if metric in frechet else ""
    if metric == OVER_CONTROL and CONTROL in outcomes:
        return f"{_compare_to_control(outcomes, name, subjects)[0]:.{digits}f}"
    if metric not in outcome.scores:
        return ""
    values = factor * outcome.scores[metric]
    p = compare_pairs(outcome, outcomes[ours], metric, subjects)
    mark = star if p is not None and p < SIGNIFICANT else ""
    return f"{values.mean():.{digits}f}{mark}{between}{values.std():.{digits}f}"
