"""What a run says while it runs: a JSONL file, TensorBoard, and a line on the terminal."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcdm.files import write_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Log"]


class Log:
    """The log of one run. After a restart, rows from `start` on are written anew.

    Args:
        folder: Where log.jsonl and TensorBoard's events go; None writes nothing (other ranks).
        start: The step the run goes on from.
        steps: The step it ends at, for the ETA.
        images_per_step: For the rate.
    """

    def __init__(self, folder: Path | None, start: int, steps: int, images_per_step: int) -> None:
        self._path = folder / "log.jsonl" if folder else None
        self._start, self._steps, self._images = start, steps, images_per_step
        self._began = time.monotonic()
        self._board: SummaryWriter | None = None
        if folder is None or self._path is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            rows = self._path.read_text().splitlines()
            kept = [row for row in rows if row.endswith("}") and json.loads(row)["step"] <= start]
            write_text(self._path, "".join(row + "\n" for row in kept))
        self._board = _open_board(folder, start)

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Adds a row."""
        if self._path is None:
            return
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def say(self, step: int, text: str) -> None:
        """One line with rate and time left."""
        if self._path is None:
            return
        done = step - self._start
        elapsed = time.monotonic() - self._began
        rate = done / elapsed if elapsed > 0 else 0.0
        left = (self._steps - step) / rate if rate > 0 else float("inf")
        eta = f"{int(left // 60)}:{int(left % 60):02d}" if left < 1e7 else "?"
        sys.stderr.write(
            f"step {step}/{self._steps}  {text}  {rate * self._images:.0f} images/s  ETA {eta}\n"
        )

    def close(self) -> None:
        """Flushes TensorBoard."""
        if self._board is not None:
            self._board.close()


def _open_board(folder: Path, start: int) -> "SummaryWriter | None":
    """TensorBoard's writer if that package is installed: the JSONL file has everything anyway."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)
