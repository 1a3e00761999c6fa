"""Numbers of experiments/scans are those of its records."""

import re

import pytest
from tests.records import ROOT, read_records, read_table

from bcdm.problems.families import SCANNER, SYMMETRIC

PAGE = ROOT / "experiments/scans/README.md"


def test_coverage_of_scans_is_what_was_measured() -> None:
    rows = read_records("experiments/scans/coverage.json")
    held = {(row["case"]["mask"], row["name"]): row["value"] for row in rows}
    count = {row["case"]["mask"]: row["case"]["subjects"] for row in rows}
    control = "linear Gaussian posterior"
    told = read_table(ROOT / "experiments/scans/README.md", "## Do intervals hold?")
    assert set(told) == set(count)
    for mask, cells in told.items():
        crps = [f"{held[mask, name]:.1f}" for name in ("CRPS x 1000", f"CRPS x 1000, {control}")]
        names = [f"{level}% intervals hold" for level in (50, 80, 90)]
        names.append(f"80% intervals hold, {control}")
        shares = [f"{100 * held[mask, name]:.1f} %" for name in names]
        assert cells == [str(count[mask]), *crps, *shares]


def test_masks_that_brain_mri_takes_are_those_of_the_record() -> None:
    found = {r["case"]["masks"]: r["value"] for r in read_records("experiments/scans/masks.json")}
    kinds = {
        "of training's": [n for n in found if n in {*SCANNER, *SYMMETRIC}],
        "the same": [n for n in found if n.endswith("partial Fourier")],
        "fastMRI's": [n for n in found if n.startswith(("fastMRI", "every"))],
        "20x": [n for n in found if n.endswith("20x")],
        "4x without": [n for n in found if n.endswith("middle")],
    }
    assert sum(map(len, kinds.values())) == len(found)
    for row, (count, accepted, _) in read_table(PAGE, "## Which masks").items():
        names = next(names for start, names in kinds.items() if row.startswith(start))
        low, high = (round(100 * f([found[n] for n in names])) for f in (min, max))
        assert count == str(len(names))
        assert accepted == ("none" if high == 0 else f"{low} to {high} %")


OURS, CONTROL, TV, CALL = (
    "ours",
    "linear Gaussian posterior",
    "total variation",
    "ours by one call",
)
NRMSE, SSIM = "NRMSE in the head", "SSIM in the head"
CRPS, COVERED, CHI = "CRPS x 1000 in the head", "coverage of 80 % intervals", "chi-square"
OF_SAMPLES = {
    "CRPS x 1000": (CRPS, OURS),
    "of the control": (CRPS, CONTROL),
    "of MMPS": (CRPS, "MMPS"),
    "MMPS, limit": ("NRMSE without the samples' scatter", "MMPS"),
    "2 samples of MMPS, seconds": ("seconds a slice", "MMPS"),
    "intervals cover": (COVERED, OURS),
    "80 % intervals cover, in percent": (COVERED, OURS),
    "those of the control": (COVERED, CONTROL),
    "ours before widths were fitted": ("coverage before calibration", OURS),
    "chi-square": (CHI, OURS),
    "NRMSE of the mean of 9 samples": (NRMSE, OURS),
    "NRMSE of their mean": (NRMSE, OURS),
    "total variation on the same": (f"{NRMSE}, sampled slices", TV),
    "l1-wavelet on the same": (f"{NRMSE}, sampled slices", "l1-wavelet"),
    "seconds of one core": ("seconds a slice", OURS),
}
TABLES = [
    ("## The real 16-coil brain", "brain16", (NRMSE, SSIM, None)),
    ("## Simulated scans", "ixi", (NRMSE, SSIM, None)),
    ("### OpenMS, 256x256", "openms", (NRMSE, SSIM, None)),
    ("### HKU, up to 521x444", "hku", (NRMSE, SSIM, None)),
]


def list_tables(heading: str) -> list[list[list[str]]]:
    """The tables below a heading, as rows of cells; the first row is their titles."""
    text = re.split(r"\n##+ ", PAGE.read_text().split(f"{heading}\n")[1])[0]
    return [
        [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    ]


@pytest.mark.parametrize(("heading", "name", "metrics"), TABLES)
def test_tables_of_scans_are_those_of_the_record(
    heading: str, name: str, metrics: tuple[str | None, ...]
) -> None:
    found = {
        (r["name"], r["case"]["mask"], r["case"]["method"]): r["value"]
        for r in read_records("experiments/scans/results.json")
        if r["case"]["set"] == name and "method" in r["case"]
    }
    tables = list_tables(heading)
    assert len(tables) == len(metrics)
    for metric, (titles, _, *rows) in zip(metrics, tables, strict=True):
        masks = {mask for one, mask, method in found if one == CRPS and method == OURS}
        assert {row[0].lower() for row in rows} == masks
        for mask, *cells in rows:
            for title, cell in zip(titles[1:], cells, strict=True):
                plain = metric and (metric, title.replace("control", CONTROL))
                own, method = OF_SAMPLES.get(title) or plain or ("", "")
                value = found[own, mask.lower(), method]
                assert cell == show(own, value, cell), (mask, title)


def show(metric: str, value: float, like: str) -> str:
    """A number as the page writes it: with as many digits, shares in percent."""
    digits = len(like.partition(".")[2])
    value = 100 * value if metric.startswith("coverage") else value
    return f"{value:.{digits}f}".removeprefix("0" if like.startswith(".") else "")


def test_volumes_are_as_recorded() -> None:
    rows = read_records("experiments/scans/volume.json")
    found = {(r["name"], str(r["case"]["slices"])): r for r in rows}
    told = read_table(PAGE, "## A volume by one command")
    assert len(told) == 2
    for slices, (file, seconds, memory) in told.items():
        taken, held = (found[name, slices] for name in ("seconds a slice", "peak memory"))
        assert file == f"{taken['case']['file, MB']} MB"
        assert seconds == f"{taken['value']:.1f}"
        assert memory == f"{held['value']:.0f} MiB"
