"""The service under load, scaled down: nothing lost, nothing wrong, nothing grows."""

from pathlib import Path

from bcdm.assessment.records import all_hold
from bcdm.benchmark.service import SMOKE, run


def test_nothing_is_lost_or_wrong(scanner: Path) -> None:
    records = run("", model=str(scanner), exam=SMOKE, report=print)
    found = {record.name: record for record in records}
    assert all_hold(records), [record for record in records if record.holds is False]
    assert sum(record.holds is True for record in records) >= 12
    assert found["means answered"].value
