"""What README and docs say of brain-mri is what its records say."""

import itertools

import pytest
from tests.records import ROOT, read_records, read_table, read_words

NRMSE, SSIM = "NRMSE in the head", "SSIM in the head"
OURS, CALL = "ours", "ours by one call"
RIVALS = ("CG-SENSE", "l1-wavelet", "total variation")
SCANS = {
    "bcdm": OURS,
    "control": "linear Gaussian posterior",
    "MMPS": "MMPS",
    "CG-SENSE": "CG-SENSE",
    "l1-wavelet": "l1-wavelet",
    "total variation": "total variation",
}
WORDS = {0: "none", 1: "one", 3: "three", 5: "five", 6: "six", 7: "seven", 8: "eight"}
Found = dict[tuple[str, str, str], float]


def find(name: str) -> Found:
    """Values of a set of scans, by mask, method and metric."""
    return {
        (row["case"]["mask"], row["case"]["method"], row["name"]): row["value"]
        for row in read_records("experiments/scans/results.json")
        if row["case"]["set"] == name and "method" in row["case"]
    }


def list_masks(found: Found) -> list[str]:
    return sorted({mask for mask, *_ in found})


def count_nearer(found: Found, method: str, metric: str) -> list[int]:
    """With how many masks a method is better than each rival."""
    sign = 1 if metric == NRMSE else -1
    return [
        sum(
            sign * found[mask, method, metric] < sign * found[mask, rival, metric]
            for mask in list_masks(found)
        )
        for rival in RIVALS
    ]


def drop(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def test_errors_on_the_real_scan_are_those_of_the_record() -> None:
    found = find("brain16")
    shown = read_table(ROOT / "docs/results.md", "## A real scan of 16 coils")
    assert sorted(shown) == list_masks(found)
    for mask, cells in shown.items():
        # MMPS drew two samples only.
        names = {"MMPS": "NRMSE without the samples' scatter"}
        assert cells == [drop(found[mask, one, names.get(one, NRMSE)]) for one in SCANS.values()]


def test_masks_with_which_it_is_nearer_are_counted_right() -> None:
    found = find("brain16")
    assert len(list_masks(found)) == 8
    nearer, alike = (count_nearer(found, OURS, metric) for metric in (NRMSE, SSIM))
    sensed, wavelets, gradients = (WORDS[count] for count in nearer)
    others = [WORDS[count] for count in alike]
    assert (
        f"than CG-SENSE with {sensed} masks of eight, than l1-wavelet with {wavelets} and than "
        f"total variation with {gradients}; **in SSIM with {others[0]}, {others[1]} and "
        f"{others[2]}**"
    ) in read_words("docs/limits.md")
    behind = [WORDS[8 - count] for count in alike]
    told = f"In SSIM total variation is ahead with {behind[2]} masks of eight"
    assert f"{told}**, l1-wavelet with {behind[1]}." in read_words("docs/results.md")
    assert f"{told} (" in read_words("README.md")
    assert (
        f"is ahead of `brain-mri` with {WORDS[8 - nearer[2]]} masks of eight in NRMSE and with "
        f"{behind[2]} in SSIM"
    ) in read_words("docs/comparison.md")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_picture_is_no_better_than_its_caption(page: str) -> None:
    found, text = find("brain16"), read_words(page)
    own, other = (drop(found[f"{kind} 8x", OURS, NRMSE]) for kind in ("poisson", "equispaced"))
    gradients = drop(found["poisson 8x", "total variation", NRMSE])
    control = drop(found["poisson 8x", "linear Gaussian posterior", NRMSE])
    guided = drop(found["poisson 8x", "MMPS", "NRMSE without the samples' scatter"])
    told = {
        "README.md": f"is {own}, of total variation (not shown) {gradients}; of `brain-mri` with "
        f"equispaced lines {other}. Nothing learned has {control}, guided MMPS with the same "
        f"network {guided}.",
        "docs/index.md": f"NRMSE is {own} here and {other} with equispaced lines, and total "
        f"variation, which is not shown, has {gradients}, too",
    }
    assert told[page] in text


def test_how_far_the_control_and_mmps_are_is_as_recorded() -> None:
    found = find("brain16")
    crps = {
        name: [found[mask, name, "CRPS x 1000 in the head"] for mask in list_masks(found)]
        for name in ("ours", "linear Gaussian posterior", "MMPS")
    }
    over = [a / b for a, b in zip(crps["ours"], crps["linear Gaussian posterior"], strict=True)]
    told = f"ours is at {min(over):.2f} to {max(over):.2f} of the control".replace("0.", ".")
    assert told in read_words("docs/results.md")
    ahead = [b < a for a, b in zip(crps["ours"], crps["MMPS"], strict=True)]
    assert f"MMPS is ahead with {WORDS[sum(ahead)]} masks, slower." in read_words("README.md")


def test_what_rivals_lose_by_their_tuning_is_as_recorded() -> None:
    found = find("brain16")
    best = "NRMSE by the best weight in hindsight"
    text = read_words("docs/results.md")
    for mask in ("Poisson 2x", "equispaced 6x", "equispaced 8x"):
        key = (mask.lower(), "CG-SENSE")
        told = f"{drop(found[*key, best])} instead of {drop(found[*key, NRMSE])} ({mask})"
        assert told in text
    lost = [
        found[mask, rival, NRMSE] - found[mask, rival, best]
        for mask, rival in itertools.product(list_masks(found), RIVALS[1:])
    ]
    assert f"change by {drop(round(max(lost), 3))} at most" in text


def test_simulated_scans_are_won_with_all_masks_by_one_call() -> None:
    found = find("ixi")
    assert len(list_masks(found)) == 4
    for mask, method in itertools.product(list_masks(found), (*RIVALS, CALL)):
        assert found[mask, method, "slices"] == 128
    for metric in (NRMSE, SSIM):
        assert count_nearer(found, CALL, metric) == [4, 4, 4]
    assert "it was nearer than all three by one call, in both." in read_words("docs/limits.md")


def test_large_slices_are_not_all_won() -> None:
    found = find("hku")
    for metric in (NRMSE, SSIM):
        lost = {
            mask
            for mask in list_masks(found)
            if (found[mask, CALL, metric] < found[mask, "l1-wavelet", metric]) == (metric == SSIM)
        }
        assert lost == {"poisson 4x", "poisson 8x"}
    assert count_nearer(found, CALL, SSIM)[2] == 0
    assert {found[mask, CALL, "slices"] for mask in list_masks(found)} == {3}
    assert (
        "(three) l1-wavelet was ahead with Poisson discs, and total variation in SSIM with all "
        "four masks"
    ) in read_words("docs/limits.md")


@pytest.mark.parametrize("page", ["docs/questions.md", "docs/scale.md"])
def test_what_a_slice_costs_is_as_recorded(page: str) -> None:
    text = read_words(page)
    for name in ("brain16", "hku"):
        found = find(name)
        took = [found[mask, OURS, "seconds a slice"] for mask in list_masks(found)]
        assert f" {min(took):.0f} to {max(took):.0f} " in text
