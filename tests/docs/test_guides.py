"""Numbers of guides, the service, installation and tutorials are those of records and files."""

import io
import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.records import ROOT, drop_zero, find_value, read_records, read_table, read_words

from bcdm.data.ixi import DEPTHS, PIXEL, WHITE

MODELS = ROOT / "models"
DEMO = "ixi64-mri8x-small"  # in the wheel of bcdm itself


def read_config(model: str) -> dict[str, Any]:
    return json.loads((MODELS / model / "config.json").read_text())["config"]


def pack(paths: Iterable[Path]) -> int:
    """Bytes of files in a wheel, about: it is a zip file with little more in it."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in filter(Path.is_file, paths):
            wheel.write(path, path.relative_to(ROOT))
    return whole.tell()


@pytest.mark.parametrize(("name", "within"), [("bcdm", 0.05), ("bcdm_models", 0.02)])
def test_wheels_are_about_as_large_as_told(name: str, within: float) -> None:
    if name == "bcdm":
        code = [path for path in (ROOT / "src/bcdm").rglob("*") if path.suffix != ".pyc"]
        own = [*code, *(ROOT / "experiments").rglob("*.yaml"), *(MODELS / DEMO).iterdir()]
    else:
        own = [
            path
            for ending in ("README.md", "config.json", "*.safetensors")
            for path in MODELS.glob(f"*/{ending}")
            if path.parent.name != DEMO
        ]
    told = re.search(rf"`{name}-[^`]*` \((\d+(?:\.\d+)?) MB\)", read_words("docs/install.md"))
    assert told
    assert float(told[1]) * 1e6 == pytest.approx(pack(own), rel=within)


def test_the_installation_is_shown_as_it_was() -> None:
    shown = (ROOT / "docs/install.md").read_text().split("```text\n")[1].split("```")[0]
    assert shown == (ROOT / "benchmarks/newcomer.txt").read_text()


def test_times_of_the_installation_add_up() -> None:
    text = read_words("docs/install.md")
    shown = re.findall(r"\[([\d.]+) s, ([\d.]+) s of the processor\]", text)
    assert len(shown) == 3
    clock, processor = (sum(map(float, times)) for times in zip(*shown, strict=True))
    told = f"took {clock:.0f} s, {processor:.0f} s of the processor."
    assert f"Install, doctor and demo together {told}" in text


def test_the_load_of_the_service_is_as_recorded() -> None:
    rows = {row["name"]: row for row in read_records("benchmarks/service.json")}
    text = read_words("docs/service.md")
    load = rows["jobs done"]["case"]
    samples, calls = re.findall(r"\d+", load["job"])
    assert f"jobs of {samples} samples of {calls} calls, 64x64)" in text
    words = {3: "Three", 4: "four"}
    told = f"{words[load['clients']]} clients wait for jobs and {words[load['mean clients']]} for"
    assert told in text
    spent = rows["time of the gateway"]
    hanging, bodies = spent["case"]["hanging"], spent["case"]["bodies of 100 MB"]
    assert bodies == 10
    assert f"{hanging} clients that hang and ten bodies of 100 MB" in text
    assert f"took {drop_zero(spent['value'])} CPU-seconds." in text


def test_noise_levels_of_models_are_those_of_their_settings() -> None:
    table = read_table(ROOT / "docs/guides/models.md", "| model | images")
    assert len(table) == len([path for path in MODELS.iterdir() if path.is_dir()])
    for row, cells in table.items():
        name = re.findall(r"[\w-]+", row)[0]
        noise = read_config(name)["noise_std"]
        ends = noise if isinstance(noise, list) else [noise]
        assert cells[-1] == " to ".join(f"{end:g}".removeprefix("0") for end in ends), name


def test_masks_that_models_were_trained_for_are_those_of_their_settings() -> None:
    table = read_table(ROOT / "docs/guides/models.md", "| model | images")
    for row, cells in table.items():
        name = re.findall(r"[\w-]+", row)[0]
        operator = read_config(name)["operator"]
        for member in operator.get("members", []):
            inner = member.get("masks", member)
            if "acceleration" in inner:
                low, high = inner["acceleration"]
                assert f"k-space masks of {low:g}x to {high:g}x" in cells[1]


def test_masks_that_are_taken_are_those_of_the_record() -> None:
    rows = read_records("experiments/families/mri64.masks.json")
    taken = [
        row["value"]
        for row in rows
        if not row["case"]["masks"].endswith(("20x", "without a middle"))
    ]
    (draws,) = {row["case"]["draws"] for row in rows}
    told = f"{100 * min(taken):.1f} to {100 * max(taken):.0f} % of {draws} draws of each kind"
    assert told in read_words("docs/guides/models.md")


def test_subjects_of_the_brain_slices_are_counted_right() -> None:
    splits = json.loads((ROOT / "src/bcdm/data/splits.json").read_text())["ixi"]
    train, val, test = (len(splits[name].split()) for name in ("train", "val", "test"))
    text = read_words("docs/guides/data.md")
    assert f"Only the {train + val + test} subjects of Hammersmith Hospital" in text
    assert f"({train} to train, {val} to validate, {test} to test)" in text
    told = (
        f"{len(DEPTHS)} axial slices of each subject, {DEPTHS[0]} to {DEPTHS[-1]} mm below the top "
        f"of the brain; pixels and steps of {PIXEL:g} mm, by averages over whole voxels; the "
        f"{WHITE}th percentile inside the brain is white"
    )
    assert told in text


def test_pages_for_users_hold_no_number_without_a_record() -> None:
    """What was tried by hand stands in decisions and experiments, marked so."""
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        if page.parent.name != "decisions":
            text = read_words(str(page.relative_to(ROOT)))
            assert not re.search("by hand[,;)]|without a record|no record", text), page


def test_a_step_of_tomography_costs_what_was_recorded() -> None:
    ratio = find_value("experiments/tomography/steps.json", "training step: radon / blur")
    told = f"a training step then costs {ratio:.1f} times that of a blur."
    assert told in read_words("docs/guides/tomography.md")


def test_images_of_deepinv_are_drawn_as_told() -> None:
    rows = read_records("benchmarks/deepinv-fallback.json")
    (command,) = {row["command"] for row in rows}
    (samples,) = {row["case"]["samples"] for row in rows if "samples" in row["case"]}
    (calls,) = {row["case"]["calls"] for row in rows if "calls" in row["case"]}
    assert "--fallback" in command
    told = f"mean of {samples} samples of {calls} calls (`make bench-deepinv`)"
    assert told in read_words("docs/guides/deepinv.md")


def test_the_fallback_was_tried_as_told() -> None:
    cases = [row["case"] for row in read_records("experiments/fallback.json")]
    shape = ("images", "samples", "calls", "noise_std")
    ((images, samples, calls, noise),) = {tuple(case.get(key) for key in shape) for case in cases}
    assert (
        f"{images} test slices, noise_std {drop_zero(noise)} on [-1, 1], {samples} samples of "
        f"{calls} calls"
    ) in read_words("docs/methods.md")
    cases = [row["case"] for row in read_records("experiments/fallback-faces.json")]
    assert {tuple(case.get(key) for key in shape) for case in cases} == {
        (images, samples, calls, noise)
    }
    assert f"{images} test faces, all else alike" in read_words("docs/methods.md")


def test_examples_are_as_long_and_as_large_as_told() -> None:
    lines = (ROOT / "examples/azula/azula_methods.py").read_text().splitlines()
    assert f"in {len(lines)} lines and without a change" in read_words("docs/methods.md")
    flow = (ROOT / "examples/sbi/sbi_methods.py").read_text()
    found = re.search(r"SIMULATIONS, EPOCHS, BATCH, RATE, SEED = (.*)", flow)
    wide = re.search(r"hidden_features=(\d+)", flow)
    assert found
    assert wide
    simulations, epochs, batch, rate, _ = found[1].split(", ")
    assert (
        f"({wide[1]} wide, batches of {int(batch):,}, rate {rate}, at most {epochs} epochs), "
        f"trained for all operators and noise levels at once on {int(simulations):,} simulations"
    ) in read_words("docs/comparison.md")


def test_images_behind_advice_on_priors_are_those_of_the_records() -> None:
    images = {
        row["case"]["images"]
        for task in ("sr", "deblur", "denoise", "mri", "inpaint")
        for row in read_records(f"experiments/paper/{task}/equal/results.json")
        if row["name"] == "CRPS, samples"
    }
    assert images == {32}
    told = "At equal training for each task (32 images, three seeds of ours, but one on MRI from"
    assert told in read_words("docs/tutorials/prior.md")
    told = read_words("docs/results.md")
    assert "CRPS times 1000 over the same 32 test images, 10 samples, seed 0" in told
    assert "With three seeds of ours (one of ours from a prior on MRI; ours from scratch" in told


def test_sizes_behind_what_a_slice_costs_are_those_of_the_record() -> None:
    cases = [
        row["case"]
        for row in read_records("experiments/scans/results.json")
        if row["name"] == "seconds a slice" and row["case"]["method"] == "ours"
    ]
    drawn = {case["set"]: (case["samples"], case["calls"]) for case in cases}
    (samples, calls), (fewer, same) = drawn["brain16"], drawn["hku"]
    assert calls == same
    text = read_words("docs/questions.md")
    assert f"with {calls} calls, took" in text
    assert f"seconds for {samples} samples of 128 x 128 pixels and 16 coils" in text
    assert f"for {fewer} samples of up to 521 x 444 pixels and 8 coils" in text
    text = read_words("docs/scale.md")
    assert f"for {samples} samples of {calls} calls (128 x 128, 16 coils)" in text
    assert f"for {fewer} such samples (up to 521 x 444, 8 coils;" in text
