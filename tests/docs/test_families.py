"""The page on families says what the records say."""

from tests.records import ROOT, drop_zero, find_value, read_records, read_table, read_words

PAGE = "experiments/families/README.md"
PRIOR = "experiments/families/faces64.prior.results.json"
LIMIT = 0.5  # of the control's CRPS
OPERATORS = {
    "inpainting, 24x24": "a box of 24x24",
    "inpainting, 18x30": "a box of 18x30",
    "super-resolution 4x": "means of 4x4",
    "super-resolution 8x": "means of 8x8",
    "deblurring, width 0.5": "a blur of width .5",
    "deblurring, width 1.3": "a blur of width 1.3",
}


def test_where_the_control_is_too_near_is_told() -> None:
    """CRPS over the control's, of every case and noise level: which miss what is wanted."""
    over = {}
    for row in read_records("experiments/families/faces64.results.json"):
        case = row["case"]
        if row["name"] == "CRPS" and case.get("model") == "faces64":
            where = {"case": case["case"], "noise_std": case["noise_std"]}
            control = find_value("experiments/zeros.json", "CRPS", model="faces64", **where)
            over[case["case"], case["noise_std"]] = row["value"] / control
    missed = {name: ratio for (name, _), ratio in over.items() if ratio > LIMIT}
    assert len(over) == 12
    assert len(missed) == 3
    box, means, blur = (
        missed[name]
        for name in ("inpainting, 18x30", "super-resolution 8x", "deblurring, width 0.5")
    )
    assert (
        "<= .5: holds for ixi64-mri; **missed** by faces64 in three of twelve: a box of 18x30 "
        f"({f'{box:.4f}'[1:]}), means of 8x8 ({f'{means:.4f}'[1:]}), a blur of width .5 "
        f"({drop_zero(blur)})"
    ) in read_words(PAGE)


def test_a_family_that_is_a_prior_stands_beside_the_one_that_is_not() -> None:
    rows = read_records(PRIOR)
    table = read_table(ROOT / PAGE, "**That costs nothing that shows**")
    cases = {
        (row["case"]["case"], row["case"]["noise_std"]) for row in rows if row["name"] == "CRPS"
    }
    assert len(table) == len(cases)
    for name, noise in cases:
        where = {"case": name, "noise_std": noise}
        own, before, control = (
            find_value(PRIOR, "CRPS", **where, model=model)
            for model in ("faces64-prior", "faces64", "linear Gaussian posterior")
        )
        means = [
            find_value(PRIOR, "PSNR", **where, model=model, estimate="sample mean")
            for model in ("faces64-prior", "faces64")
        ]
        assert table[f"{OPERATORS[name]}, noise {f'{noise:g}'[1:]}"] == [
            *(f"{1000 * value:.1f}" for value in (own, before, control)),
            drop_zero(own / control),
            *(f"{value:.2f}" for value in means),
        ]
    margins = [row["interval"] for row in rows if row["name"] == "margin over the rival"]
    assert len(margins) == 2 * len(cases)
    assert min(low for low, _ in margins) > 0
    (behind,) = (row for row in rows if row["name"] == "PSNR behind the specialist")
    low, high = behind["interval"]
    told = (
        f"Behind the specialist for the box it is {behind['value']:.1f} dB [{low:.1f}, {high:.1f}]"
    )
    assert told in read_words(PAGE)
    (alarms,) = (row["value"] for row in rows if row["name"].startswith("false alarms"))
    warned = [row["value"] for row in rows if row["name"] == "foreign problem warned about"]
    told = f"It warns of {100 * alarms:.1f} % of its own family's draws and of {sum(warned):.0f} of"
    assert f"{told} {len(warned)} foreign problems." in read_words(PAGE)
