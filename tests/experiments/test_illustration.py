from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments import illustration


def test_illustration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(illustration, "COUNT", 20)
    assert illustration.plot(tmp_path, seed=0).read_bytes()[:4] == b"\x89PNG"
