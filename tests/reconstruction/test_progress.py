import pytest

from bcdm.reconstruction import progress
from bcdm.reconstruction.progress import Bar


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(progress, "_QUIET_SECONDS", -1)
    with Bar(8, said.append, "sample") as counted:
        counted.advance(4, made=False)
        counted.advance(2)
        counted.advance(2)
    assert said == ["2 samples to go, about 00:00"]
