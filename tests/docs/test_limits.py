"""What README and docs say of limits is what the records say."""

import json
import re
from typing import Any

import pytest
from experiments.pages import make_sections
from tests.docs.test_trust import count, count_coils
from tests.records import ROOT, drop_zero, find_value, read_records, read_table, read_words

CONTRASTS = "another contrast, all sets together"
NO_SCALE = "nothing, scale taken from the data"
LIMITS = "docs/limits.md"
LESIONS = "experiments/lesions"
SHARES = {5: ("half", "half of them"), 8: ("four fifths", "four of five cases")}
COUNTS = {3: "three of four", 4: "four", 5: "five"}


def list_models() -> list[str]:
    """Those with a record of lights; brain-mri has another one, without other contrasts."""
    table = read_table(ROOT / "docs/trust.md", "**How often it is wrong.**")
    assert "not measured" in table.pop("brain-mri")
    return list(table)


def count_green(model: str) -> tuple[int, int]:
    """Scans of another contrast that stayed green, and all of them."""
    found = count(model, CONTRASTS)
    assert found
    return found[1] - found[0], found[1]


def test_the_readme_tells_how_often_lights_are_wrong() -> None:
    text, models = read_words("README.md"), list_models()
    greens = [count_green(model) for model in models if count(model, CONTRASTS)]
    assert {whole for _, whole in greens} == {80}
    low, high = (find(green for green, _ in greens) for find in (min, max))
    told = f"Of 80 simulated scans of another contrast {low} to {high} stayed green, by model (`bra"
    told += "in-mri`: "
    assert f"{told}not measured);" in text
    missed = 1 - find_value("experiments/trust/faces64.json", "noticed", wrong="photographs")
    assert f"`faces64` misses {COUNTS[round(4 * missed)]} photographs" in text
    alarms = [count(model, "nothing") for model in models]
    rates = [100 * flagged / whole for flagged, whole, *_ in [*filter(None, alarms), count_coils()]]
    told = f"Right measurements are flagged in {min(rates):.0f} to {max(rates):.0f} %, by model;"
    assert told in text
    taken = {model: count(model, NO_SCALE) for model in models}
    model, most = max(((m, one) for m, one in taken.items() if one), key=lambda pair: pair[1][0])
    told = f"by `{model}` {most[0]} of {most[1]} without a scale in the file."
    assert told in text


def test_limits_tell_how_often_lights_are_wrong() -> None:
    text = read_words(LIMITS)
    scanner, family = (count_green(model) for model in ("ixi64-mri-scanner", "ixi64-mri"))
    told = f"({scanner[0]} of {scanner[1]} with ixi64-mri-scanner, {family[0]} with ixi64-mri)"
    assert told in text
    first, second = (count(model, NO_SCALE) for model in ("ixi64-mri-scanner", "ixi64-mri"))
    assert first
    assert second
    assert first[1] == second[1]
    assert f"states no scale ({first[0]} and {second[0]} of {first[1]})" in text
    missed = 1 - find_value("experiments/trust/faces64.json", "noticed", wrong="photographs")
    assert f"the card of faces64 misses {COUNTS[round(4 * missed)]} photographs" in text


def read_lesions(name: str) -> tuple[dict[str, float], dict[str, Any]]:
    """What was found of all discs, and the case of it."""
    rows = read_records(f"{LESIONS}/{name}.json")
    discs = [row for row in rows if row["case"]["regions"] == "all discs"]
    return {row["name"]: row["value"] for row in discs}, discs[0]["case"]


def test_lesions_are_counted_right() -> None:
    (family, case), (scanner, same), (coils, other) = map(
        read_lesions, ("ixi64-mri", "results", "brain-mri")
    )
    regions, outside = "number of regions", "outside of the range of samples"
    assert (family[regions], case["subjects"]) == (scanner[regions], same["subjects"])
    assert [one["direction right"] for one in (family, scanner, coils)] == [1, 1, 1]
    few, most = (SHARES[round(10 * one[outside])] for one in (coils, family))
    assert SHARES[round(10 * scanner[outside])] == most
    assert (
        f"Of {family[regions]:.0f} small discs in brains of {case['subjects']} new subjects the "
        "mean was changed to the right side of the true image without the disc every time, but the "
        f"true contrast lay outside of all samples in {most[1]}; with brain-mri "
        f"({coils[regions]:.0f} discs, {other['subjects']} subjects) in {few[1]}, in seven of eight"
    ) in read_words(LIMITS)
    assert f"in {few[0]} (`brain-mri`) to {most[0]} of cases truth lay outside" in read_words(
        "README.md"
    )
    masks = [
        " and ".join(re.findall(r"(?:points|columns|poisson|equispaced) \d+x", text))
        for text in (read_command("ixi64-mri"), read_command("brain-mri"))
    ]
    assert (
        f"Of {case['subjects']} subjects, {masks[0]}; with brain-mri of {other['subjects']} "
        f"subjects, {masks[1].replace('poisson', 'Poisson')}, 8 coils, 128x128."
    ) in read_words("docs/trust.md")


def read_command(name: str) -> str:
    return str(read_records(f"{LESIONS}/{name}.json")[0]["command"])


def test_sizes_of_discs_are_those_of_the_record() -> None:
    regions = {row["case"]["regions"] for row in read_records(f"{LESIONS}/results.json")}
    text = " ".join(regions)
    sizes = {float(size) for size in re.findall(r"radius (\d+(?:\.\d+)?)", text)}
    steps = {abs(float(step)) for step in re.findall(r"contrast ([+-]\d+(?:\.\d+)?)", text)}
    assert (
        f"Discs of radius {min(sizes):g} to {max(sizes):g} pixels and {100 * min(steps):.0f} to "
        f"{100 * max(steps):.0f} % of the range were put into images"
    ) in read_words("docs/trust.md")


def test_samples_as_whole_images_are_told_of_as_measured() -> None:
    path = "experiments/mri/ixi64.results.json"
    away, noise = (
        drop_zero(find_value(path, f"TARP {name}"))
        for name in ("distance from diagonal", "95 % half width")
    )
    text = read_words(LIMITS)
    assert f"TARP is {away} off its diagonal on MRI 8x, where {noise} would be noise" in text
    fitted = next(
        row["case"]
        for row in read_records("experiments/tarp.json")
        if row["case"].get("model") == "ixi64-mri8x" and row["case"]["samples are"] == "both fitted"
    )
    short, narrow = 100 * (1 - 1 / fitted["way of the mean"]), 100 * (fitted["width"] - 1)
    assert f"stop {short:.0f} % short and samples that are {narrow:.0f} % too narrow" in text


def test_what_one_network_for_everything_costs_is_as_recorded() -> None:
    brains, faces = (
        find_value(f"experiments/families/{name}.results.json", "PSNR behind the specialist")
        for name in ("mri64", "faces64")
    )
    told = f"{brains:.1f} dB (MRI) and {faces:.1f} dB (inpainting) behind a network"
    assert told in read_words(LIMITS)
    assert f"The {faces:.1f} dB behind the specialist are not those of alignment" in read_words(
        "docs/results.md"
    )
    left = [
        find_value(
            "experiments/specialising.json", "PSNR behind the specialist", case=case, minutes=10.0
        )
        for case in ("MRI 8x", "inpainting, 24x24")
    ]
    told = f"ten minutes of `bcdm specialise` leave {drop_zero(left[0])} and {left[1]:.2f} dB"
    assert told in read_words(LIMITS)
    behind, after = (
        find_value(
            "experiments/specialising.json",
            "PSNR behind the specialist",
            case="super-resolution 4x",
            minutes=minutes,
        )
        for minutes in (0.0, 10.0)
    )
    assert f"for super-resolution {after:.2f} of {behind:.2f} dB" in read_words(LIMITS)


def test_claims_of_the_paper_are_counted_right() -> None:
    published = make_sections(ROOT / "experiments/paper")["published"]
    found = re.search(r"Of (\d+) claims of the paper (\d+) hold .*, (\d+) in part", published)
    assert found
    claims, held, part = map(int, found.groups())
    told = (
        f"Of {claims} claims of the paper {held} hold on our records, {part} in part, "
        f"{claims - held - part} fail;"
    )
    assert told in read_words(LIMITS)


def test_training_took_as_long_as_its_record_says() -> None:
    """Only brain-mri has a record of its hours; the others have their settings."""
    text = read_words(LIMITS)
    rows = json.loads((ROOT / "experiments/scans/learning.json").read_text())
    assert f"`brain-mri` {max(row['hours'] for row in rows):.1f} hours" in text
    told = {
        "faces64": "`faces64` and `faces64-inpaint` {steps} steps of {batch} images",
        "faces64-inpaint": "`faces64` and `faces64-inpaint` {steps} steps of {batch} images",
        "ixi64-mri8x": "`ixi64-mri8x` and `ixi64-mri` {steps} of {batch},",
        "ixi64-mri": "`ixi64-mri8x` and `ixi64-mri` {steps} of {batch},",
        "ixi64-mri-scanner": "`ixi64-mri-scanner` {steps} of {batch} more from there",
        "faces64-prior": "`faces64-prior` {steps} of {batch} more from `faces64`",
    }
    for model, words in told.items():
        assert words.format(**read_config(model)["training"]) in text, model


def test_mmps_is_as_slow_as_recorded() -> None:
    """A sample of either, from the seconds of a slice."""
    cost: dict[tuple[str, str, str], float] = {}
    for row in read_records("experiments/scans/results.json"):
        case = row["case"]
        if row["name"] == "seconds a slice" and case["method"] in ("ours", "MMPS"):
            own = (case["set"], case["mask"], case["method"])
            cost[own] = row["value"] / case["samples"]
    ratios = {
        (name, mask): seconds / cost[name, mask, "ours"]
        for (name, mask, method), seconds in cost.items()
        if method == "MMPS"
    }
    real = [ratio for (name, _), ratio in ratios.items() if name == "brain16"]
    often = COUNTS[round(sum(real) / len(real))]
    assert f"takes about {often} times as long a sample" in read_words("docs/results.md")
    assert f"with six masks of eight, at about {often} times the time a sample" in read_words(
        LIMITS
    )


def test_intervals_on_the_real_scan_hold_as_recorded() -> None:
    held = {
        row["case"]["mask"]: round(100 * row["value"])
        for row in read_records("experiments/scans/results.json")
        if row["name"] == "coverage of 80 % intervals"
        and (row["case"]["set"], row["case"]["method"]) == ("brain16", "ours")
    }
    worst = [held.pop(f"equispaced {speed}x") for speed in (8, 6, 4)]
    low, high = min(held.values()), max(held.values())
    assert len(held) == 5
    assert (
        f"held in {worst[0]} % of the head at equispaced 8x**, in {worst[1]} % at 6x, {worst[2]} % "
        f"at 4x, and in {low} to {high} % with the other five masks"
    ) in read_words(LIMITS)
    assert (
        f"hold in {worst[0]} % of the head at equispaced 8x, {worst[1]} % at 6x, {worst[2]} % at "
        f"4x and {low} to {high} % with the other masks"
    ) in read_words("docs/results.md")


def test_the_exam_on_scans_is_described_as_it_was() -> None:
    rows = [row["case"] for row in read_records("experiments/scans/results.json")]
    real = [
        case
        for case in rows
        if case["set"] == "brain16" and case.get("method") == "ours" and "samples" in case
    ]
    (samples,), (calls,) = ({case[key] for case in real} for key in ("samples", "calls"))
    speeds = sorted({int(case["mask"].split()[1][:-1]) for case in real})
    (steps,) = {case["calls"] for case in rows if case.get("method") == "MMPS" and "calls" in case}
    (slices,) = {
        row["value"]
        for row in read_records("experiments/scans/results.json")
        if row["case"]["set"] == "ixi"
        and row["name"] == "slices"
        and row["case"]["method"] == "ours by one call"
    }
    text = read_words(LIMITS)
    assert f"At {speeds[0]}x to {speeds[-1]}x the mean of {samples} samples" in text
    assert f"On {slices:.0f} simulated slices of that size, 4x and 8x," in text
    text = read_words("docs/results.md")
    assert f"as the mean of {samples} samples of {calls} calls" in text
    assert f"at its best ({steps} calls of two iterations)" in text


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("docs/index.md", "several coils with sides of {} to {} pixels"),
        ("docs/questions.md", "`brain-mri` {} to {} pixels a side"),
        ("docs/guides/files.md", "coils, {} to {} pixels a side"),
        ("docs/guides/models.md", "complex, {} to {} pixels a side"),
    ],
)
def test_sides_are_those_of_the_model(page: str, told: str) -> None:
    config = read_config("brain-mri")
    assert told.format(*config["scope"]["sides"]) in read_words(page)


@pytest.mark.parametrize("page", [LIMITS, "docs/guides/files.md", "docs/guides/models.md"])
def test_coils_are_those_of_the_model(page: str) -> None:
    low, high = read_config("brain-mri")["operator"]["members"][0]["coils"]
    assert f" {low} to {high} coils" in read_words(page)


def read_config(model: str) -> dict[str, Any]:
    return json.loads((ROOT / f"models/{model}/config.json").read_text())["config"]
