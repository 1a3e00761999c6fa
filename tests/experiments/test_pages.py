"""Numbers on the pages about the paper's tasks are those of the records."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.claims import JUDGES
from experiments.pages import fill_pages, make_sections

from bcdm.errors import InputError
from bcdm.methods import CONTROL

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments/paper"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The page, the paper's numbers and our records, to be changed."""
    for path in [FOLDER.parent / "README.md", *FOLDER.rglob("*")]:
        if path.name in ("README.md", "published.yaml", "results.json"):
            target = tmp_path / path.relative_to(FOLDER.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return tmp_path / "paper"


def change_record(folder: Path, task: str, method: str, name: str, value: float) -> None:
    path = folder / task / "results.json"
    records = json.loads(path.read_text())
    for record in records:
        if (record["case"].get("method"), record["name"]) == (method, name):
            record["value"] = value
            record["case"] = {"method": method}
    path.write_text(json.dumps(records))


def find_claim(folder: Path, number: int) -> str:
    rows = make_sections(folder)["claims"].splitlines()
    return next(row for row in rows if row.startswith(f"| {number} |")).split("|")[5].strip()


def test_the_pages_are_what_the_command_writes(copy: Path) -> None:
    command = [sys.executable, "-m", "experiments.pages", str(copy)]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in ("README.md", "../README.md"):
        assert (copy / name).read_text() == (FOLDER / name).read_text()


@pytest.mark.parametrize(("better", "verdict"), [(60.0, "**fails**"), (1.0, "**holds**")])
def test_a_claim_follows_the_records(copy: Path, better: float, verdict: str) -> None:
    """The highest PSNR for MRI, with one rival made better or all made worse."""
    for record in json.loads((copy / "mri/results.json").read_text()):
        method = record["case"].get("method")
        if record["name"] == "PSNR, average" and method not in (None, "BCDM (paper)", "BCDM"):
            change_record(copy, "mri", method, "PSNR, average", 1.0)
    change_record(copy / "mri", "guarded", "MMPS", "PSNR, average", 1.0)
    change_record(copy, "mri", "DPS", "PSNR, average", better)
    assert find_claim(copy, 1).startswith(verdict)


def test_comparisons_are_over_images_that_all_have(copy: Path) -> None:
    path = copy / "deblur/results.json"
    records = json.loads(path.read_text())
    for record in records:
        if (record["case"].get("method"), record["name"]) == ("DI", "SSIM, average"):
            record["case"]["mean over the images of all methods"] = 0.999
    path.write_text(json.dumps(records))
    assert find_claim(copy, 7).startswith("**holds**: DI 99.9,")


def test_every_judge_is_used() -> None:
    assert set(re.findall(r"judge: (\w+)", (FOLDER / "published.yaml").read_text())) == set(JUDGES)


def test_a_page_without_a_place_is_left_alone(copy: Path) -> None:
    page, above = copy / "README.md", copy.parent / "README.md"
    above.write_text("# Nothing here\n")
    assert fill_pages(copy) == [page]
    assert above.read_text() == "# Nothing here\n"
    page.write_text("# Nothing here\n")
    with pytest.raises(InputError, match="has no place for results"):
        fill_pages(copy)
    assert page.read_text() == "# Nothing here\n"


def test_the_papers_numbers_stand_beside_ours(copy: Path) -> None:
    change_record(copy, "sr", "DMPS", "PSNR, average", 12.34)
    lines = make_sections(copy)["published"].splitlines()
    here = next(line for line in lines if line.startswith("| DMPS, here |"))
    printed = next(line for line in lines if line.startswith("| DMPS, paper |"))
    assert [line.split("|")[4].strip() for line in (here, printed)] == ["12.34", "29.36"]
    assert "| DMPS, paper | 55.24 | 19.82 | 39.79 | 31.67 | 38.70 |" in lines


def test_the_control_is_shown_and_no_rival(copy: Path) -> None:
    """Its numbers are those of our method here: as a rival it would change verdicts."""
    before = make_sections(copy)
    for task in ("mri", "deblur", "sr", "inpaint", "denoise"):
        path = copy / task / ("guarded" if task == "mri" else "control") / "results.json"
        records = json.loads(path.read_text())
        kept = [record for record in records if record["case"].get("method") != CONTROL]
        ours = [
            record
            for record in json.loads((copy / task / "results.json").read_text())
            if record["case"].get("method") == "BCDM"
        ]
        control = [one | {"case": one["case"] | {"method": CONTROL}} for one in ours]
        path.write_text(json.dumps([*control, *kept]))
    after = make_sections(copy)
    assert after["claims"] == before["claims"]
    assert after["published"] == before["published"]
    assert after["results"] != before["results"]
    for table in after["results"].split("\n\n"):
        rows = table.splitlines()
        assert rows[2].startswith(f"| {CONTROL} |")
        assert rows[2].split("|")[2:] == rows[-1].split("|")[2:]


def test_what_was_run_again_takes_the_place_of_what_it_corrects(copy: Path) -> None:
    """MMPS is guarded in a later record; its row stands where the first was."""
    change_record(copy / "mri", "guarded", "MMPS", "CRPS, samples", 0.0123)
    table = make_sections(copy)["results"].split("\n\n")[0]
    (row,) = (line for line in table.splitlines() if line.startswith("| MMPS |"))
    assert row.split("|")[2].strip() == "12.3"
