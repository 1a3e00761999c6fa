"""Model folders on the Hugging Face Hub."""

from pathlib import Path

from bcdm.checkpoint.facts import read_facts

__all__ = ["pull_model", "push_model"]


def push_model(folder: Path, repository: str) -> str:
    """Uploads a model folder to the Hugging Face Hub; needs the extra `hub` and a token."""
    from huggingface_hub import HfApi

    read_facts(folder)
    api = HfApi()
    api.create_repo(repository, exist_ok=True)
    return str(api.upload_folder(repo_id=repository, folder_path=str(folder)))


def pull_model(repository: str, revision: str | None = None) -> Path:
    """Downloads a model folder from the Hugging Face Hub and returns its path for `load`."""
    from huggingface_hub import snapshot_download

    wanted = ["config.json", "README.md", "*.safetensors"]
    return Path(snapshot_download(repository, revision=revision, allow_patterns=wanted))
