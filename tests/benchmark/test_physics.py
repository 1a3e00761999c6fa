"""Records of physics of deepinv, gathered from several runs; deepinv itself is not needed."""

from pathlib import Path

from bcdm.assessment.records import Record, write_records
from bcdm.benchmark.physics import keep_others


def test_records_of_other_physics_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    write_records(path, [Record("PSNR", {"physics": name}, 1.0) for name in ("MRI", "Blur")])
    (kept,) = keep_others(path, [Record("PSNR", {"physics": "Blur"}, 2.0)])
    assert kept.case == {"physics": "MRI"}
