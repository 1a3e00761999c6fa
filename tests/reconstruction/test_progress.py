from io import StringIO
from typing import Any

import pytest
from tqdm.std import tqdm

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
        counted.show(0.5)
        counted.advance(2)
    assert said == ["2 samples to go, about 00:00"] * 2


def test_a_bar_moves_while_a_batch_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[float] = []

    class Drawn(tqdm):  # type: ignore[type-arg]
        def __init__(self, **given: Any) -> None:
            super().__init__(**given | {"disable": False, "file": StringIO()})

        def refresh(self, *given: Any, **more: Any) -> None:
            shown.append(self.n)

    monkeypatch.setattr(progress, "tqdm", Drawn)
    monkeypatch.setattr(progress, "_REDRAWN_SECONDS", -1)
    with Bar(16, print, "sample") as counted:
        counted.advance(4, made=False)
        for level in range(1, 4):
            counted.show(8 * level / 3)
        counted.advance(8)
    assert shown[-5:] == [4, 6.7, 9.3, 12, 12]
