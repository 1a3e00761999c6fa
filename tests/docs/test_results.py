"""Numbers in the sentences of docs/results.md are those of records; tables are in test_numbers."""

import math

import pytest
import yaml
from experiments.tarp import FITTED
from tests.records import ROOT, drop_zero, find_value, read_records, read_table, read_words

from bcdm.benchmark.learned import POINTS, TRAININGS

PAGE = "docs/results.md"
FAMILIES = {"ixi64-mri": "mri64", "faces64": "faces64"}
CHI = "chi-square per degree of freedom"


def test_what_mmps_gains_on_the_real_scan_is_as_recorded() -> None:
    crps: dict[tuple[str, str], float] = {}
    for row in read_records("experiments/scans/results.json"):
        case = row["case"]
        if row["name"] == "CRPS x 1000 in the head" and case["set"] == "brain16":
            crps[case["mask"], case["method"]] = row["value"]
    masks = sorted({mask for mask, _ in crps})
    gains = {mask: 100 * (1 - crps[mask, "MMPS"] / crps[mask, "ours"]) for mask in masks}
    ahead = [gain for gain in gains.values() if gain > 0]
    behind = [mask.split() for mask in masks if gains[mask] < 0]
    assert len(ahead) == 6
    assert {kind for kind, _ in behind} == {"equispaced"}
    assert (
        f"{min(ahead):.0f} to {max(ahead):.0f} % ahead in CRPS with six masks, behind at "
        f"equispaced {' and '.join(speed for _, speed in behind)}."
    ) in read_words(PAGE)


def test_instances_of_the_exam_are_those_of_the_record() -> None:
    found = {
        (row["case"]["d/dy"].split("/")[0], row["case"]["instances"])
        for row in read_records("benchmarks/mixture.json")
    }
    (few, count), (many, rest) = sorted(found, key=lambda pair: int(pair[0]))
    told = f"means over {count} instances (d = {few}) or {rest} (d = {many})"
    assert told in read_words(PAGE)


def test_costs_beside_bare_calls_are_those_of_the_record() -> None:
    found: dict[str, list[float]] = {}
    rows = read_records("benchmarks/overhead.json")
    for row in rows:
        found.setdefault(row["name"], []).append(row["value"])
    steps, solves, (loop,) = (
        found[name]
        for name in (
            "step / bare network",
            "solve / bare FFT pair",
            "training step / bare loop",
        )
    )
    (parameters,) = {row["case"]["parameters"] for row in rows if "parameters" in row["case"]}
    assert (
        f"takes {min(steps):.2f} to {max(steps):.2f} times the bare network call at 64 x 64 with "
        f"{parameters / 1e6:.1f} M parameters; a solve {min(solves):.2f} to {max(solves):.2f} "
        f"times a bare FFT pair at 256 x 256; a training step {loop:.2f} times a bare loop."
    ) in read_words(PAGE)


def test_what_tarp_may_be_off_by_chance_is_as_recorded() -> None:
    text = read_words(PAGE)
    faces, brains = (
        drop_zero(find_value(f"experiments/{path}.results.json", "TARP 95 % half width"))
        for path in ("faces/inpaint64", "mri/ixi64")
    )
    assert f"taken as independent: {faces} and {brains};" in text
    bands: dict[bool, list[float]] = {True: [], False: []}
    for row in read_records("experiments/tarp.json"):
        if row["name"] == "TARP 95 % band":
            bands["model" in row["case"]].append(row["value"])
    exact, trained = (
        f"{drop_zero(min(b))} to {drop_zero(max(b))}" for b in (bands[False], bands[True])
    )
    assert f"95 % band {exact})" in text
    assert f"95 % band, of whole subjects, {trained}:" in text
    away = find_value("experiments/faces/inpaint64.results.json", "TARP distance from diagonal")
    assert f"(the {drop_zero(away)} above is of 128 images)" in text


def test_what_the_tarp_study_looked_at_is_as_recorded() -> None:
    text = read_words(PAGE)
    cases = [row["case"] for row in read_records("experiments/tarp.json")]
    (prior,) = {
        (*case["size"], case["truths"], case["samples"]) for case in cases if "prior" in case
    }
    told = "at {} x {}, MRI 8x, {} truths, {} samples, seed 0)".format(*prior)
    assert told in text
    (trained,) = {
        (case["images"], case["samples"], case["calls"]) for case in cases if "model" in case
    }
    told = "fitted on {} validation images, it passes on {} test images"
    assert told.format(FITTED, trained[0]) in text
    assert f"{trained[1]} samples of {trained[2]} calls; 95 % band" in text
    mended = {"model": "ixi64-mri8x", "samples are": "both fitted"}
    away, band = (
        find_value("experiments/tarp.json", f"TARP {name}", **mended)
        for name in ("distance from diagonal", "95 % band")
    )
    assert away < band


def test_false_alarms_of_families_are_those_of_the_records() -> None:
    name = "false alarms of an unfamiliar problem"
    paths = [f"experiments/families/{family}.results.json" for family in FAMILIES.values()]
    brains, faces = (find_value(path, name, draws=1000) for path in paths)
    told = (
        f"({100 * brains:.1f} and {f'{100 * faces:.1f}'.lstrip('0')} % false alarms on 1,000 draws"
    )
    assert told in read_words(PAGE)


def show(value: float) -> str:
    """With two digits, as the page writes ratios that go far beyond 1."""
    return f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}"


@pytest.mark.parametrize("model", FAMILIES)
def test_samples_of_families_fit_the_data_as_recorded(model: str) -> None:
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in read_records(f"experiments/families/{FAMILIES[model]}.results.json"):
        name = row["case"].get("model", "")
        if row["name"] == CHI and (name == model or name.endswith("-dual/model")):
            found[name == model].append(row["value"])
    place = 2 * list(FAMILIES).index(model)
    table = read_table(ROOT / PAGE, "Over all operators and noise levels of the exam")
    own, other = found[True], found[False]
    told = [drop_zero(min(own)), drop_zero(max(own))]
    assert table["chi-square of samples (1 is right)"][place : place + 2] == told
    told = [show(min(other)), f"{max(other):.0f}"]
    assert table["that of the other's"][place : place + 2] == told


def test_gains_that_are_told_again_are_those_of_the_table() -> None:
    (over,) = (
        row["value"]
        for row in read_records("experiments/families/faces64.results.json")
        if row["name"] == "margin over the rival, operators never drawn"
        and row["case"]["metric"] == "PSNR, sample mean"
    )
    assert f"how much of the {over:.2f} dB is that" in read_words(PAGE)


def test_calls_that_are_enough_are_those_of_the_records() -> None:
    changes: dict[str, list[str]] = {"CRPS": [], "coverage 90%": []}
    times = []
    for model in FAMILIES:
        path = f"experiments/calls/{model}.json"
        for metric, told in changes.items():
            case = {"metric": metric, "few": 20, "many": 500}
            change = 100 * find_value(path, "change from many calls", **case)
            told.append(f"{change:.1f}".removeprefix("0"))
        shape = {"ours": "20 calls", "paper": "1000 steps x 4 iterations"}
        ratio = find_value(path, "time of the paper's recipe / ours", **shape)
        times.append(f"1/{ratio:.0f}")
    crps, covered = (" and ".join(told) for told in changes.values())
    assert (
        f"from 20 to 500 the CRPS of ixi64-mri and faces64 changes by {crps} %, the coverage by "
        f"{covered} %, and 20 calls of one pass take {' and '.join(times)} of the time of the "
        f"paper's {1000 * 4} passes"
    ) in read_words(PAGE)
    assert f"A sample is 20 network calls; the paper's recipe has {1000 * 4:,} passes" in (
        read_words("docs/questions.md")
    )


def test_a_longer_prior_gives_what_was_recorded() -> None:
    """Means over the images that all methods share: guided methods took fewer."""
    shared: dict[tuple[str, str], float] = {}
    for row in read_records("experiments/paper/mri/longer/results.json"):
        if row["name"] in ("PSNR, average", "CRPS, samples"):
            mean = row["case"].get("mean over the images of all methods", row["value"])
            shared[row["case"]["method"], row["name"]] = mean
            if row["case"]["method"] == "MMPS":
                images = row["case"]["images"]
    (guided, error), (own, fault), (started, flaw) = (
        (f"{shared[name, 'PSNR, average']:.2f}", f"{1000 * shared[name, 'CRPS, samples']:.0f}")
        for name in ("MMPS", "BCDM", "BCDM (from the prior)")
    )
    assert (
        f"{guided} dB and a CRPS of {error} beside {own} and {fault}, or {started} and {flaw} for "
        f"ours started from that prior ({images} images)."
    ) in read_words(PAGE)


def test_steps_a_minute_are_those_of_the_record() -> None:
    found = [
        row["case"]["steps"] / row["case"]["minutes"]
        for row in read_records("experiments/specialising.json")
        if row["case"]["minutes"]
    ]
    text = read_words(PAGE)
    told = f"which takes {min(found):.0f} to {max(found):.0f} steps of 16 images in each)"
    assert told in text
    cases = [row["case"] for row in read_records("experiments/specialising.json")]
    ((images, noise),) = {(case["images"], case["noise_std"]) for case in cases}
    assert (
        f"compared on the same {images} test images ([record](../experiments/specialising.json)"
        in text
    )
    assert f"16 samples of 20 calls averaged, noise_std {drop_zero(noise)}, seed 0; minutes" in text


def test_images_of_the_papers_tasks_are_those_of_the_records() -> None:
    cases = [
        row["case"]
        for task in ("mri", "deblur", "sr", "inpaint")
        for row in read_records(f"experiments/paper/{task}/results.json")
        if row["name"] == "PSNR, average" and row["case"]["method"] in ("BCDM", "MMPS")
    ]
    (samples,) = {case["samples"] for case in cases}
    own, guided = (
        {case["images"] for case in cases if case["method"] == name} for name in ("BCDM", "MMPS")
    )
    assert (len(own), len(guided)) == (1, 1)
    assert (
        f"{samples} samples averaged, {own.pop()} test images ({guided.pop()} for guided methods)"
    ) in read_words(PAGE)


def test_trained_models_were_asked_as_often_as_told() -> None:
    paths = ("faces/inpaint64", "mri/ixi64")
    (calls,) = {
        row["case"]["calls"]
        for path in paths
        for row in read_records(f"experiments/{path}.results.json")
        if row["name"] == "CRPS"
    }
    assert f"held-out subjects, {calls} calls a sample:" in read_words(PAGE)


def test_all_comparisons_are_of_as_many_images_as_told() -> None:
    cases = [
        row["case"]
        for family in FAMILIES.values()
        for row in read_records(f"experiments/families/{family}.results.json")
    ]
    (images,) = {case["images"] for case in cases if "images" in case}
    text = read_words(PAGE)
    assert f"{images} test images of each kind that training never saw" in text
    (drawn,) = {read_options(family) for family in FAMILIES.values()}
    assert drawn[0] == images
    samples, calls = drawn[1:]
    told = f"training never saw, noise_std .02, {samples} samples of {calls} calls, seed 0;"
    assert told in text
    assert f"({images} test images, 16 samples of {calls} calls averaged, seed 0;" in text
    assert (
        f"on {images} test images of each kind (64 x 64, values on [-1, 1], noise_std .02, "
        f"{samples} samples)"
    ) in read_words("README.md")


def read_options(family: str) -> tuple[int, int, int]:
    """Images, samples and calls of an exam of a family."""
    cases = yaml.safe_load((ROOT / f"experiments/families/{family}.cases.yaml").read_text())
    return tuple(cases["options"][key] for key in ("limit", "samples", "calls"))


def test_the_learned_mixture_is_trained_as_told() -> None:
    """Its record does not say how the network was made; the code that made it does."""
    page = read_words(PAGE)
    assert f"The learned network is attention over {POINTS} points" in page
    assert TRAININGS == {8: (3000, 512), 80: (3000, 128)}
