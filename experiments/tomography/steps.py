"""What a training step costs with 30 projections: python -m experiments.tomography.steps OUT.

The same network at 64x64 is trained with `radon` and with a blur, whose functions are filters.
Their steps take turns on one thread, and the median of the ratios counts.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bcdm.assessment.records import Record, format_table, write_records
from bcdm.benchmark.overhead import Pictures, interleave, summarise
from bcdm.checkpoint.settings import parse_config
from bcdm.machine import describe_processor
from bcdm.training.train import Processes, Trainer

SIDE, ANGLES, BATCH, ROUNDS = 64, 30, 8, 20
NETWORK = {"width": 32, "multipliers": [1, 1, 2, 2], "blocks": 1, "attention": []}


def make_step(operator: dict[str, Any], folder: Path, side: int) -> Callable[[], None]:
    """A step of training for an operator, data and noise included."""
    config = parse_config(
        {
            "name": "steps",
            "data": {"path": "", "channels": 1},
            "operator": operator,
            "noise_std": 0.02,
            "network": NETWORK,
            "training": {"steps": 1000, "batch": BATCH},
        }
    )
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (64, 1, side, side), generator=generator).float()
    trainer = Trainer(config, Pictures(pixels), None, folder, Processes())
    batches = trainer.make_batches(0)

    def step() -> None:
        batch = batches.batch(trainer.state.step)
        trainer.advance(trainer.objective, batch.images, batch.counters)
        trainer.state.step += 1

    return step


def measure(command: str, side: int = SIDE, rounds: int = ROUNDS) -> list[Record]:
    """The ratio of both steps, and the seconds of the decomposition that comes before them."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        radon = make_step({"kind": "radon", "angles": ANGLES}, Path(folder) / "radon", side)
        blur = make_step({"kind": "gaussian_blur", "std": 1.3}, Path(folder) / "blur", side)
        start = time.process_time()
        radon()
        first = time.process_time() - start
        ratios = interleave(blur, {"radon": radon}, rounds)["radon"]
    name, _ = describe_processor()
    case = {"image": f"1x{side}x{side}", "angles": ANGLES, "batch": BATCH, "threads": 1}
    case |= {"rounds": rounds, "processor": name}
    return [
        Record(
            "training step: radon / blur", case, required="<= 3", seed=0, command=command,
            **summarise(ratios),
        ),
        Record("first step with its decomposition", case, first, "CPU-seconds", command=command),
    ]  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Writes and shows the records."""
    out = Path(words[0])
    records = measure(f"python -m experiments.tomography.steps {out}")
    write_records(out, records)
    sys.stdout.write(format_table(records) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
