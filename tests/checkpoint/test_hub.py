"""Model folders go to the Hub and come back."""

import pytest

from bcdm.checkpoint import load, pull_model, push_model
from bcdm.errors import InputError


def test_hub_is_reached_with_the_right_files(tiny_model, tmp_path, monkeypatch) -> None:
    """The Hub itself cannot be reached in tests: its two calls are stood in for."""
    hub = pytest.importorskip("huggingface_hub")
    tiny_model(tmp_path)
    seen: dict[str, object] = {}

    class Api:
        def create_repo(self, name: str, exist_ok: bool) -> None:
            seen["created"] = name

        def upload_folder(self, repo_id: str, folder_path: str) -> str:
            seen["uploaded"] = (repo_id, folder_path)
            return "url"

    def download(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        seen["patterns"] = allow_patterns
        return str(tmp_path)

    monkeypatch.setattr(hub, "HfApi", Api)
    monkeypatch.setattr(hub, "snapshot_download", download)
    assert push_model(tmp_path, "someone/tiny") == "url"
    assert seen["uploaded"] == ("someone/tiny", str(tmp_path))
    assert load(pull_model("someone/tiny")).config.name == "tiny"
    assert "*.safetensors" in seen["patterns"]
    with pytest.raises(InputError):
        push_model(tmp_path / "nothing", "someone/tiny")
