"""The page on training compute says what the record says."""

from tests.records import ROOT, read_records, read_table

PAGE = ROOT / "experiments/compute/README.md"


def test_tables_are_those_of_the_record() -> None:
    rows = read_records("experiments/compute/results.json")
    found = {(r["case"]["method"], r["case"]["minutes"], r["case"]["calls"]): r for r in rows}
    names = ("BCDM", "BCDM of a family", "dual input with Wiener", "MMPS")
    trained = read_table(PAGE, "CRPS x 1000 of 20 calls")
    assert list(trained) == ["0.5", "2", "8"]
    for minutes, cells in trained.items():
        told = [f"{found[name, float(minutes), 20]['value']:.1f}" for name in names]
        assert list(cells) == told
    called = read_table(PAGE, "After eight minutes, by calls")
    assert list(called) == ["5", "10", "20"]
    for calls, (*cells, passes) in called.items():
        own = [found[name, 8.0, int(calls)] for name in ("BCDM", "dual input with Wiener", "MMPS")]
        assert cells == [f"{row['value']:.1f}" for row in own]
        assert passes == str(own[-1]["case"]["passes a sample"])
