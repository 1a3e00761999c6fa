"""Numbers of README and docs are those of records."""

import re
from functools import partial

import pytest
from experiments.pages import read_task
from tests.records import ROOT, drop_zero, find_value, read_records, read_table, read_words

from bcdm.assessment.summary import OVER_CONTROL
from bcdm.methods import CONTROL

TASKS = ("mri", "deblur", "sr", "inpaint")
METHODS = {  # what the page calls a method, beside its name in the records
    "total variation": "TV",
    "Unrolled": "Unrolled",
    "MMPS, the best guided method in CRPS": "MMPS",
    "dual input, EDM preconditioning": "DI",
    "BCDM as in the paper, 4 passes a call": "BCDM (paper)",
    "BCDM, our default, 1 pass a call": "BCDM",
}
ZEROS = "experiments/zeros.json"
CASES = {"mri64": "points 8x", "faces64": "inpainting, 24x24"}


@pytest.mark.parametrize(
    ("title", "name", "scale", "digits"),
    [
        ("PSNR in dB:", "PSNR, average", 1, 2),
        ("CRPS times 1000:", "CRPS, samples", 1000, 0),
    ],
)
def test_quality_on_the_papers_tasks_is_that_of_the_records(
    title: str, name: str, scale: int, digits: int
) -> None:
    found = [read_task(ROOT / "experiments/paper" / task) for task in TASKS]
    rows = read_table(ROOT / "docs/results.md", title)
    assert set(rows) == set(METHODS)
    for row, cells in rows.items():
        shown = [f"{scale * one.get(METHODS[row], name):.{digits}f}" for one in found]
        assert cells == shown, row


def test_distances_to_exact_posteriors_are_those_of_the_records() -> None:
    found = {
        (r["case"]["method"], r["case"]["calls"], r["case"]["d/dy"]): r["value"]
        for name in ("mixture", "learned")
        for r in read_records(f"benchmarks/{name}.json")
        if r["name"] == "sliced W1 / floor"
    }
    cases = ("8/1", "8/2", "8/4", "80/1", "80/2", "80/4")
    for row, cells in read_table(ROOT / "docs/results.md", "| d / dy").items():
        calls = int(re.findall(r"(\d+) calls", row)[0])
        name = row.split(",")[0]
        if name.startswith("our sampler"):
            name = "exact posterior, SDE" if "SDE" in row else "exact posterior, ODE"
        elif name == "BCDM":
            name = "BCDM, learned for the family"
        values = [found.get((name, calls, case)) for case in cases]
        assert cells == ["" if value is None else f"{value:.2f}" for value in values], row


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_crps_stands_beside_its_control(page: str) -> None:
    found: dict[tuple[str, str], float] = {}
    for family, case in CASES.items():
        for record in read_records(f"experiments/families/{family}.results.json"):
            own = record["case"]
            if (own.get("case"), own.get("noise_std")) == (case, 0.02) and "model" in own:
                found[own["model"], f"{record['name']}, {own.get('estimate')}"] = record["value"]
    for record in read_records(ZEROS):
        own = record["case"]
        if (own.get("case"), own.get("noise_std")) in {(case, 0.02) for case in CASES.values()}:
            found[own["model"], f"control, {record['name']}"] = record["value"]
    rows = read_table(ROOT / page, "| model")
    assert len(rows) == 4
    for model, (_, crps, control, over, psnr) in rows.items():
        name = re.findall(r"[\w-]+", model)[0]
        mine, theirs = found[name, "CRPS, samples"], found[name, "control, CRPS"]
        assert [crps, control] == [f"{1000 * value:.0f}" for value in (mine, theirs)]
        assert over == drop_zero(mine / theirs)
        assert psnr == f"{found[name, 'PSNR, sample mean']:.1f}"
    if page == "README.md":
        return
    for model, cells in read_table(ROOT / page, "| of these models").items():
        name = re.findall(r"[\w-]+", model)[0]
        names = ("coverage 90%", "chi-square per degree of freedom")
        estimates = ("all pixels", "single sample")
        covered, fit = (
            [found[name, f"{metric}, {estimate}"], found[name, f"control, {metric}"]]
            for metric, estimate in zip(names, estimates, strict=True)
        )
        assert cells == [f"{100 * value:.1f} %" for value in covered] + [
            f"{value:.2f}" for value in fit
        ]


def test_what_trained_models_reach_is_that_of_the_records() -> None:
    rows = read_table(ROOT / "docs/results.md", "Of trained models this")
    columns: list[list[str]] = []
    models = {"faces64-inpaint": "faces/inpaint64", "ixi64-mri8x": "mri/ixi64"}
    for model, path in models.items():
        own = partial(find_value, f"experiments/{path}.results.json")
        images = {"ixi64-mri8x": 130, "faces64-inpaint": 128}[model]
        control = partial(find_value, ZEROS, model=model, images=images)
        covered = [find("coverage 90%", estimate="all pixels") for find in (own, control)]
        name = "chi-square per degree of freedom"
        fit = [find(name, estimate="single sample") for find in (own, control)]
        tarp = [find("TARP distance from diagonal") for find in (own, control)]
        crps = own("CRPS", estimate="samples") / control("CRPS", estimate="samples")
        alone = [[drop_zero(crps), ""], [f"{own('PSNR gain over zero-filled'):.1f}", ""]]
        both = [
            [f"{100 * value:.1f}" for value in covered],
            *(map(drop_zero, v) for v in (fit, tarp)),
        ]
        columns += map(list, zip(*alone, *both, strict=True))
    assert list(rows.values()) == [list(row) for row in zip(*columns, strict=True)]


def test_what_makes_samples_fail_tarp_is_as_recorded() -> None:
    find, page = partial(find_value, "experiments/tarp.json"), ROOT / "docs/results.md"
    away, inside = "TARP distance from diagonal", "80 % intervals hold"
    right = {"prior": "Gaussian, exact", "way of the mean": 1.0, "width": 1.0}
    for title, key in (("| spread of", "width"), ("| way of the mean", "way of the mean")):
        for factor, cells in read_table(page, title).items():
            case = right | {key: float(factor)}
            held = f"{100 * find(inside, **case):.0f}"
            assert cells == [drop_zero(find(away, **case)), held]
    models = ("ixi64-mri8x", "faces64-inpaint")
    for told, cells in read_table(page, "| samples of 64 test images").items():
        own = [partial(find, model=model, **{"samples are": told}) for model in models]
        kept = [f"{100 * one(inside):.0f}" for one in own]
        assert cells == [drop_zero(own[0](away)), kept[0], drop_zero(own[1](away)), kept[1]]
    both = next(
        row["case"]
        for row in read_records("experiments/tarp.json")
        if row["case"].get("samples are") == "both fitted" and row["case"]["model"] == models[0]
    )
    short, narrow = 100 * (1 - 1 / both["way of the mean"]), 100 * (both["width"] - 1)
    assert f"stops {short:.1f} % short" in page.read_text()
    assert f"its samples are {narrow:.0f} % too narrow in" in page.read_text()


def test_sbi_is_as_recorded() -> None:
    for row, cells in read_table(ROOT / "docs/comparison.md", "| distance to the").items():
        name = "learned" if row.startswith("our") else "sbi"
        calls = int(re.findall(r"(\d+) call", row)[0])
        method = {"learned": "BCDM, learned for the family", "sbi": "NPE"}[name]
        find = partial(find_value, f"benchmarks/{name}.json", "sliced W1 / floor")
        own = [find(method=method, calls=calls, **{"d/dy": f"8/{k}"}) for k in (1, 2, 4)]
        assert cells == [f"{value:.2f}" for value in own]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("MRI 8x", "MRI 8x"),
        ("a box of 24x24", "inpainting, 24x24"),
        ("super-resolution 4x", "super-resolution 4x"),
    ],
)
def test_what_specialising_gains_is_as_recorded(title: str, name: str) -> None:
    find = partial(find_value, "experiments/specialising.json")
    rows = read_table(ROOT / "docs/results.md", f"| minutes of `bcdm specialise`, {title}")
    recorded = {
        row["case"]["minutes"]
        for row in read_records("experiments/specialising.json")
        if row["case"]["case"] == name
    }
    assert {float(minutes) for minutes in rows} == recorded
    for minutes, (steps, behind, over) in rows.items():
        case = {"case": name, "minutes": float(minutes), "steps": int(steps)}
        assert drop_zero(find("PSNR behind the specialist", **case)) == behind
        assert drop_zero(find("CRPS over the specialist's", **case)) == over


def test_families_are_as_in_the_records() -> None:
    page = ROOT / "docs/results.md"
    rows = list(read_table(page, "| | ixi64-mri | faces64").values())
    ends = list(read_table(page, "Over all operators and noise levels of the exam").values())
    for k, (family, model) in enumerate((("mri64", "ixi64-mri"), ("faces64", "faces64"))):
        path = f"experiments/families/{family}.results.json"
        margin = "margin over the rival, operators never drawn"
        (over,) = (
            record
            for record in read_records(path)
            if record["name"] == margin and record["case"]["metric"] == "PSNR, sample mean"
        )
        told = [f"+{value:.2f}" for value in (over["value"], *over["interval"])]
        assert [row[k] for row in rows[:3]] == told
        covered = [
            record["value"]
            for record in read_records(path)
            if record["name"] == "coverage 90%" and record["case"].get("model") == model
        ]
        both = slice(2 * k, 2 * k + 2)
        assert ends[1][both] == [f"{100 * find(covered):.0f}" for find in (min, max)]
        assert rows[3][k] == f"{find_value(path, 'PSNR behind the specialist'):.1f}"
        control = [
            record
            for record in read_records(ZEROS)
            if record["case"]["model"] == model and "case" in record["case"]
        ]
        ratios = []
        for record in (one for one in control if one["name"] == "CRPS"):
            where = {key: record["case"][key] for key in ("case", "noise_std")}
            ratios.append(find_value(path, "CRPS", model=model, **where) / record["value"])
        assert ends[0][both] == [drop_zero(find(ratios)) for find in (min, max)]
        for row, name in ((2, "coverage 90%"), (4, "chi-square per degree")):
            values = [r["value"] for r in control if r["name"].startswith(name)]
            told = [find(values) for find in (min, max)]
            shown = [f"{100 * one:.0f}" if row == 2 else drop_zero(one) for one in told]
            assert ends[row][both] == shown


def test_the_model_for_masks_of_scanners_stands_beside_its_control() -> None:
    path, page = "experiments/families/mri64.patterns.json", ROOT / "experiments/families/README.md"
    rows = read_table(page, "**Is it better on them? No.**")
    models = ("ixi64-mri-scanner", "ixi64-mri", CONTROL)
    over = []
    for row in (one for one in read_records(path) if one["name"] == OVER_CONTROL):
        masks = row["case"]["masks"]
        if row["case"]["model"] != models[0]:
            continue
        find = partial(find_value, path, masks=masks)
        taken = find("fraction of masks accepted", model=models[0]) > 0
        label = masks.replace("free_points", "points without").replace("_", " ")
        label = label.replace("poisson", "Poisson discs")
        (cells,) = (rows[name] for name in rows if _simplify(name) == label)
        expected = [
            f"{find('PSNR', model=model, estimate='one-call mean'):.2f}" for model in models
        ]
        expected += [f"{1000 * find('CRPS', model=model):.1f}" for model in models]
        assert cells == [*expected, drop_zero(row["value"])]
        over += [row["value"]] if taken else []
    assert len(over) == 12
    told = f"{drop_zero(min(over))} to {drop_zero(max(over))} of the control's"
    assert f"its CRPS is {told}." in read_words("experiments/families/README.md")
    assert f"has a CRPS of {told} over six kinds of masks" in read_words("docs/results.md")


def _simplify(name: str) -> str:
    """Without what a table says besides the kind of masks."""
    for said in (" with symmetry", " (fastMRI)", " (refused by both)"):
        name = name.replace(said, "")
    return name


FALLBACKS = {"fallback": "It was tried with ixi64-mri", "fallback-faces": "With faces64-prior, far"}


@pytest.mark.parametrize("name", FALLBACKS)
def test_the_fallback_is_as_recorded(name: str) -> None:
    path = f"experiments/{name}.json"
    table = read_table(ROOT / "docs/methods.md", FALLBACKS[name])
    assert set(table) == {row["case"]["operator"] for row in read_records(path)}
    for operator, cells in table.items():
        find = partial(find_value, path, operator=operator)
        own, linear = find("CRPS x 1000"), find("CRPS x 1000, linear Gaussian posterior")
        assert find("CRPS over the control's") == pytest.approx(own / linear)
        assert cells == [
            f"{find('PSNR'):.1f}",
            f"{find('PSNR, linear Gaussian posterior'):.1f}",
            f"{own:.1f}",
            drop_zero(own / linear),
            f"{100 * find('80 % intervals hold'):.0f}",
            f"{100 * find('80 % intervals hold, before calibration'):.0f}",
        ]


def test_blurred_images_are_as_near_as_told() -> None:
    slices, portraits = (
        find_value(f"experiments/{name}.json", "PSNR, as measured") for name in FALLBACKS
    )
    told = f"images themselves have {slices:.1f} dB (std 1) and {portraits:.1f} dB (std 4)."
    assert told in read_words("docs/methods.md")


def test_deepinv_is_as_recorded() -> None:
    records = read_records("benchmarks/deepinv.json")
    drawn = [*records, *read_records("benchmarks/deepinv-fallback.json")]
    page = ROOT / "docs/guides/deepinv.md"
    for name, cells in read_table(page, "## What was measured").items():
        kind, error, seconds, *quality = cells
        images = {
            row["case"]["estimate"]: f"{row['value']:.1f}"
            for row in drawn
            if row["name"] == "PSNR" and row["case"]["physics"] == name
        }
        assert [images["linear estimate"], images["sample mean"]] == quality
        own = [row for row in records if row["case"]["physics"] == name]
        found = {row["name"]: row["value"] for row in own}
        assert {row["case"]["operator"] for row in own} == {kind}
        assert f"{found['f(A^T A) beside dense, relative']:.0e}".replace("e-0", "e-") == error
        assert f"{found['time of a call']:.2f}" == seconds
    assert all(one["holds"] is not False for one in drawn)
    gains = [one["value"] for one in drawn if one["name"] == "PSNR above the linear estimate's"]
    assert f"at least {min(gains):.1f} dB above the linear estimate" in page.read_text()


def test_the_service_page_says_what_was_measured() -> None:
    rows = {row["name"]: row["value"] for row in read_records("benchmarks/service.json")}
    lost = rows["accepted jobs that were lost"] + rows["answers that are not the library's bits"]
    share = rows["throughput over that of ideal batches, at equal CPU-seconds"]
    told = {
        "jobs done": f"{rows['jobs done']:.0f}",
        "means answered": f"{rows['means answered']:.0f}",
        "lost, or with other bits than the library's": f"{lost:.0f}",
        "a job takes, median": f"{rows['jobs: p50']:.1f} s",
        "a job takes, 99 of 100": f"{rows['jobs: p99']:.1f} s",
        "a mean takes, median": f"{rows['means: p50']:.2f} s",
        "a mean takes, 99 of 100": f"{rows['means: p99']:.2f} s",
        "throughput over that of ideal batches": f"{share:.2f}",
    }
    page = ROOT / "docs/service.md"
    assert read_table(page, "Measured (`benchmarks/service.json`") == {
        name: [value] for name, value in told.items()
    }
    accepted = rows["accepted before kill -9 of everything"]
    refused = rows["refused with 503 and Retry-After"]
    text = " ".join(page.read_text().split())
    assert f"{accepted + refused} jobs at once on a queue of {rows['longest queue']}: " in text
    assert f": {refused} were refused with 503" in text
    assert f"grew by {rows['memory that the gateway grew by']:.0f} MB" in text
    assert f"with {accepted} jobs accepted" in text


def test_lesions_of_brain_mri_are_as_recorded() -> None:
    rows = read_records("experiments/lesions/brain-mri.json")
    found = {(row["case"]["regions"], row["name"]): row["value"] for row in rows}
    told = read_table(ROOT / "experiments/lesions/README.md", "## Several coils at 128x128")
    names = {
        "on the right side, brighter or darker": "direction right",
        "discs whose 80 % interval holds": "coverage of 80 % intervals",
        "the same, widened": "coverage of widened 80 % intervals",
        "discs outside of all samples (20 % expected)": "outside of the range of samples",
        "green cards": "green cards",
    }
    groups = ("all discs", "discs, poisson 8x", "discs, equispaced 4x")
    for title, name in names.items():
        assert told[title] == [f"{100 * found[group, name]:.0f} %" for group in groups]
    kept = [found[group, "part of the contrast in the mean"] for group in groups]
    assert told["part of the contrast in the mean"] == [drop_zero(value) for value in kept]


@pytest.mark.parametrize("page", ["docs/results.md", "experiments/faces/README.md"])
def test_what_moving_a_face_costs_is_as_recorded(page: str) -> None:
    found: dict[str, list[str]] = {}
    for record in read_records("experiments/faces/shifts.json"):
        found.setdefault(record["case"]["model"], []).append(f"{record['value']:.1f}")
    told = read_table(ROOT / page, "| test faces moved by")
    assert {name.split("`")[1]: cells for name, cells in told.items()} == found
