"""What an archive is asked for: in words that fit on one line to a worker, and as a hash."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from bcdm import __version__
from bcdm.errors import InputError
from bcdm.files import hash_path
from bcdm.shelf import find_model

__all__ = ["Job"]


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know. Plain values only, so that it travels as JSON.

    Attributes:
        source: Folder, pattern, file or address of the measurements.
        out: Folder or address of the archive.
        model: Name or folder of the model.
        samples: Of each item.
        calls: Network calls per sample.
        seed: Of all noise.
        batch: Images at once.
        force: Whether red items are written, too.
        keep: Whether samples are kept.
        cards: Whether the checks behind each light are kept.
        mask: File that says what was measured.
        operator: A stored operator, or its settings.
        key: The array to read.
        noise_std: In the units of the files.
        shard: About how many items a shard has.
        threads: Of the processor, for one worker. Their number may change the last digits.
        device: Where a worker's network runs. It may change the last digits, too, and yet is no
            part of the settings: machines with and without a GPU then share an archive.
    """

    source: str
    out: str
    model: str
    samples: int = 16
    calls: int = 20
    seed: int = 0
    batch: int = 8
    force: bool = False
    keep: bool = False
    cards: bool = False
    mask: str | None = None
    operator: str | None = None
    key: str | None = None
    noise_std: float | None = None
    shard: int = 1000
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("shard", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, got {getattr(self, name)}")

    def encode(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, line: str | bytes) -> Self:
        """From one line."""
        return cls(**json.loads(line))

    def describe(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """All that the numbers depend on beyond rounding, files by what they hold.

        Args:
            source: What the measurements say of themselves.
        """
        stored = self.operator is not None and Path(self.operator).suffix == ".safetensors"
        return {
            "bcdm": __version__,
            "input": dict(source),
            # It holds the hashes of the weights.
            "model": hash_path(find_model(self.model) / "config.json"),
            "mask": None if self.mask is None else hash_path(Path(self.mask)),
            "operator": hash_path(Path(str(self.operator))) if stored else self.operator,
            "samples": self.samples,
            "calls": self.calls,
            "seed": self.seed,
            "batch": self.batch,
            "force": self.force,
            "keep": self.keep,
            "cards": self.cards,
            "key": self.key,
            "noise_std": self.noise_std,
            "shard": self.shard,
            "threads": self.threads,
        }
