"""Ours beside guided methods at equal total training: pages say what the records say."""

import re

from experiments.pages import compare_seeds, read_equal
from tests.records import ROOT, drop_zero, read_records, read_words


def test_rivals_at_their_best_are_as_recorded() -> None:
    """The sentence gives CRPS over that of the best rival: every task, MRI by both starts."""
    spread = r"(\.?[\d.]+(?: to [\d.]+)?)"
    told = re.search(
        f"is over all seeds {spread} for super-resolution, {spread} for deblurring, "
        f"{spread} for denoising, {spread} on MRI from scratch and {spread} started from a prior, "
        f"and {spread} where the mask changed",
        read_words("docs/results.md"),
    )
    assert told
    tasks = ("sr", "deblur", "denoise", "mri", "mri", "inpaint")
    scratch = "BCDM (from scratch)"
    methods = ("BCDM", "BCDM", "BCDM", scratch, "BCDM", "BCDM")
    found = []
    for task, method in zip(tasks, methods, strict=True):
        ratios = compare_seeds(read_equal(ROOT / "experiments/paper" / task), method)
        assert len(ratios) == (1 if (task, method) == ("mri", "BCDM") else 3)
        found.append(" to ".join(dict.fromkeys(map(drop_zero, (min(ratios), max(ratios))))))
    assert list(told.groups()) == found


def test_iterations_of_mmps_on_mri_are_as_tuned() -> None:
    (row,) = [
        row
        for row in read_records("experiments/paper/mri/later/results.json")
        if row["name"] == "CRPS, samples" and row["case"]["method"] == "MMPS"
    ]
    assert row["case"]["iterations a call"] == 3
    told = (
        "validation images choose three again, and the CRPS is "
        f"{1000 * row['value']:.1f} x 1000, so that nothing changes there"
    )
    assert told in read_words("experiments/paper/README.md")


def test_when_to_train_is_what_equal_training_says() -> None:
    """The tutorial on priors gives CRPS beside the best guided method, and the time of a sample."""
    found, times = {}, []
    for task in ("sr", "deblur", "denoise", "mri", "inpaint"):
        both = read_equal(ROOT / "experiments/paper" / task)
        found[task] = [100 * (ratio - 1) for ratio in compare_seeds(both)]
        first = read_records(f"experiments/paper/{task}/equal/results.json")
        seconds = {
            row["case"]["method"]: row["value"]
            for row in first
            if row["name"] == "seconds per sample"
        }
        times.append(seconds["MMPS"] / seconds["BCDM"])
    scratch = compare_seeds(read_equal(ROOT / "experiments/paper/mri"), "BCDM (from scratch)")
    found["scratch"] = [100 * (ratio - 1) for ratio in scratch]
    text = read_words("docs/tutorials/prior.md")
    told = {task: _spread(values) for task, values in found.items()}
    assert f"{told['sr']} % below that of the best guided method for super-resolution" in text
    assert f"and {told['deblur']} % for deblurring, level for denoising, " in text
    assert max(map(abs, found["denoise"])) <= 2
    assert max(*found["sr"], *found["deblur"], *found["scratch"]) < 0 < min(found["inpaint"])
    assert f"on MRI {told['scratch']} % below from scratch and {told['mri']} % above from" in text
    assert f"and {told['inpaint']} % above where the mask changed" in text
    assert (round(min(times)), round(max(times))) == (2, 8)
    assert "from a half to an eighth of the time" in text


def _spread(values: list[float]) -> str:
    """The least and the largest size, as one number where they are the same."""
    sizes = sorted(map(abs, values))
    return " to ".join(dict.fromkeys((f"{sizes[0]:.0f}", f"{sizes[-1]:.0f}")))
