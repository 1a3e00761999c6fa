"""Rates of docs/trust.md are those of the records."""

import json
from typing import Any

import pytest
from tests.records import ROOT, drop_zero, read_records, read_table, read_words

PAGE = ROOT / "docs/trust.md"
LESIONS = {"ixi64-mri": "ixi64-mri", "ixi64-mri-scanner": "results", "brain-mri": "brain-mri"}


def count(model: str, wrong: str) -> tuple[int, int, int] | None:
    """Measurements that were flagged, all of them, and red ones; None if there is no record."""
    for row in read_records(f"experiments/trust/{model}.json"):
        case = row["case"]
        if case.get("wrong") == wrong:
            whole = case["images"]
            return round(row["value"] * whole), whole, round(case["red"] * whole)
    return None


def test_wrong_lights_are_those_of_the_records() -> None:
    rows = read_table(PAGE, "**How often it is wrong.**")
    (right, *rest) = rows.pop("brain-mri")
    assert right == "{} of {}".format(*count_coils())
    assert rest == ["not measured"] * 3
    for model, (right, taken, green, red) in rows.items():
        flagged = count(model, "nothing")
        assert flagged
        assert right == f"{flagged[0]} of {flagged[1]}"
        again = count(model, "nothing, scale taken from the data")
        assert taken == (f"{again[0]} of {again[1]}" if again else "")
        other = count(model, "another contrast, all sets together")
        assert green == (f"{other[1] - other[0]} of {other[1]}" if other else "")
        assert red == (f"{other[2]} of {other[1]}" if other else "")


def count_coils() -> tuple[int, int]:
    """Right scans of brain-mri that were flagged, and all of them."""
    rows = read_records("experiments/scans/trust.json")
    right = [row for row in rows if row["name"] == "false alarms"]
    whole = sum(row["case"]["measurements"] for row in right)
    return round(sum(row["value"] * row["case"]["measurements"] for row in right)), whole


def test_shares_in_words_follow_from_the_counts() -> None:
    models = list(read_table(PAGE, "**How often it is wrong.**"))
    others = [
        count(model, "another contrast, all sets together")
        for model in models
        if model != "brain-mri"
    ]
    shares = [round(100 * red / whole) for _, whole, red in filter(None, others)]
    assert f"of another contrast {min(shares)} to {max(shares)} % are red" in PAGE.read_text()
    alarms = [count(model, "nothing") for model in models if model != "brain-mri"]
    rates = [flagged / whole for flagged, whole, *_ in [*filter(None, alarms), count_coils()]]
    told = f"flagged in {100 * min(rates):.0f} to {100 * max(rates):.0f} %, by model"
    assert told in (ROOT / "docs/tutorials/trust-card.md").read_text()


def read_columns(model: str, wrong: str) -> dict[str, list[Any]]:
    """What the cards of measurements rest on, each with its noise level and light."""
    text = (ROOT / f"experiments/trust/scores/{model}.json").read_text()
    return json.loads(text)[wrong]["columns"]


def test_why_taken_scales_are_refused() -> None:
    found = read_columns("ixi64-mri-scanner", "nothing, scale taken from the data")
    config = json.loads((ROOT / "models/ixi64-mri-scanner/config.json").read_text())["config"]
    low, high = config["noise_std"]
    beyond = [
        light
        for level, light in zip(found["noise_std"], found["light"], strict=True)
        if not low <= level <= high
    ]
    assert beyond == ["red", "red"]
    flagged = count("ixi64-mri-scanner", "nothing, scale taken from the data")
    assert flagged
    assert flagged[0] == 4
    assert "Two of the four that ixi64-mri-scanner flags are red" in PAGE.read_text()


def test_by_how_much_samples_miss_the_data() -> None:
    models = ("ixi64-mri", "ixi64-mri-scanner")
    columns = [read_columns(model, "nothing") for model in models]
    rows = [
        row
        for found in columns
        for row in zip(found["noise_std"], found["share"], found["chi-square"], strict=True)
    ]
    far = [square for level, share, square in rows if 0.03 <= level <= 0.1 and share < 0.15]
    where = "where noise_std is .03 to .1 and less than .15 of k-space was measured"
    told = (
        f"{where} (chi-square {min(far):.1f} to {max(far):.1f} for the {len(far)} of such a kind "
        f"among the {len(rows)} right ones above;"
    )
    assert told in " ".join(PAGE.read_text().split())
    assert where in read_words("docs/questions.md")


@pytest.mark.parametrize("place", range(3))
def test_what_becomes_of_lesions_is_as_recorded(place: int) -> None:
    model = list(LESIONS)[place]
    rows = read_records(f"experiments/lesions/{LESIONS[model]}.json")
    found = {(row["case"]["regions"], row["name"]): row["value"] for row in rows}
    assert {row["case"]["model"] for row in rows} == {model}
    discs, healthy = "all discs", "healthy places, subjects of test"
    assert found[discs, "direction right"] == 1
    widened = "coverage of widened 80 % intervals"
    shares = [
        found[discs, "outside of the range of samples"],
        found["discs, subjects of others", "outside of the range of samples"],
        found[discs, "green cards"],
        found[discs, widened],
        found[healthy, "coverage of 80 % intervals"],
        found[healthy, widened],
    ]
    told = [cells[place] for cells in read_table(PAGE, "**Do not read a lesion").values()]
    assert told == [
        f"{found[discs, 'number of regions']:.0f}",
        drop_zero(found[discs, "part of the contrast in the mean"]),
        *(f"{100 * share:.0f}" for share in shares),
    ]
