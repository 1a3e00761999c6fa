import json

import pytest

from bcdm.assessment.records import (
    Record,
    all_hold,
    format_table,
    keep_others,
    write_records,
)
from bcdm.errors import InputError


def test_rows_have_the_one_layout(tmp_path) -> None:
    records = [
        Record("a", {"n": 1}, 1.0, "dB", (0.9, 1.1), "<= 1.05", 3, "bcdm benchmark a"),
        Record("b", {}, 2.0),
    ]
    write_records(tmp_path / "deep" / "r.json", records)
    rows = json.loads((tmp_path / "deep" / "r.json").read_text())
    assert rows[0] == {
        "name": "a", "case": {"n": 1}, "value": 1.0, "unit": "dB", "interval": [0.9, 1.1],
        "required": "<= 1.05", "holds": True, "seed": 3, "command": "bcdm benchmark a",
    }  # fmt: skip
    assert rows[1]["holds"] is None
    assert all_hold(records)
    assert "holds" in format_table(records)


@pytest.mark.parametrize(
    ("value", "required", "holds"),
    [
        (1.1, "<= 1.05", False),
        (1.8, ">= 1.8", True),
        (2.0, "> 2", False),
        (float("nan"), "< 1", False),
    ],
)
def test_requirements(value: float, required: str, holds: bool) -> None:
    record = Record("a", {}, value, required=required)
    assert record.holds is holds
    assert all_hold([record]) is holds


def test_unknown_comparison_is_refused() -> None:
    with pytest.raises(InputError):
        Record("a", {}, 1.0, required="about 1")


def test_lines_for_a_terminal_are_short() -> None:
    """What all numbers are of is said once, and long texts only in the file."""
    base = {"model": "faces64", "data": "data/images.npz", "images": 16, "samples": 20}
    long = "Wang et al. 2004: a window of 11 pixels, and much more that is said in the records"
    records = [
        Record("PSNR", base | {"estimate": "Wiener"}, 21.5, "dB", (20.5, 22.5)),
        Record("SSIM", base | {"estimate": "mean", "convention": long}, 0.71, "", (0.7, 0.72)),
    ]
    top, *rows = format_table(records).splitlines()
    assert top == "all of: model=faces64 data=data/images.npz images=16 samples=20"
    assert rows == [
        "PSNR  21.5 dB [20.5, 22.5]  estimate=Wiener",
        "SSIM  0.71 [0.7, 0.72]  estimate=mean",
    ]
    assert format_table([]) == ""


def test_records_of_other_cases_are_kept(tmp_path) -> None:
    path = tmp_path / "records.json"
    new = [Record("PSNR", {"set": "a", "mask": "8x"}, 2.0)]
    assert keep_others(path, new, "set", "mask") == []
    cases = [{"set": "a", "mask": "8x"}, {"set": "a", "mask": "4x"}, {"set": "b", "mask": "8x"}]
    write_records(path, [Record("PSNR", case, 1.0) for case in cases])
    assert [one.case for one in keep_others(path, new, "set", "mask")] == cases[1:]
    assert [one.case for one in keep_others(path, new, "set")] == cases[2:]
