"""Training images of several sizes in one run: each batch is of one source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bcdm.checkpoint.building import build_augmentation, build_preparation, build_problems
from bcdm.checkpoint.settings import RunConfig, SourceConfig, resolve_data_path
from bcdm.data import Batch, ImageBatches, ImageSource, assign_splits, open_images, select_split
from bcdm.errors import InputError
from bcdm.problems import DrawnProblems, OneProblem

__all__ = ["Source", "Turns", "count_images", "open_source"]

# Sources draw from seeds of their own; those of runs are small numbers.
_SEEDS = 1 << 32


@dataclass(frozen=True)
class Source:
    """One of the further sources of a run.

    Attributes:
        config: Its settings.
        batches: Its training images.
        problems: What they are measured with.
        seed: Of all its draws.
    """

    config: SourceConfig
    batches: ImageBatches
    problems: OneProblem | DrawnProblems
    seed: int


@dataclass(frozen=True)
class Turns:
    """Which source has its turn at a step: a function of the step alone.

    Args:
        shares: How many steps of a cycle each source has; they are spread evenly.

    >>> turns = Turns((2, 1))
    >>> [turns.find(step) for step in range(6)]
    [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]
    """

    shares: tuple[int, ...]

    def find(self, step: int) -> tuple[int, int]:
        """The source, and how many turns it had before."""
        places = sorted(
            ((turn + 0.5) / share, source)
            for source, share in enumerate(self.shares)
            for turn in range(share)
        )
        order = [source for _, source in places]
        cycle, place = divmod(step, len(order))
        source = order[place]
        return source, cycle * self.shares[source] + order[:place].count(source)

    def walk(
        self, batches: Sequence[ImageBatches], start: int, stop: int
    ) -> Iterator[tuple[int, Batch]]:
        """The source and the batch of each step."""
        for step in range(start, stop):
            source, turn = self.find(step)
            yield source, batches[source].batch(turn)


def open_source(
    config: RunConfig, number: int, data: Path | None, *, rank: int, world_size: int
) -> Source:
    """Opens one of the further sources of a run.

    Args:
        config: The run; its `data.source_range` is known.
        number: Which of its sources, from 0.
        data: The data folder; BCDM_DATA when left out.
        rank: This process.
        world_size: The number of processes.
    """
    own = config.sources[number]
    source = open_images(
        resolve_data_path(own.data.path, data), own.data.key, own.data.source_range
    )
    settings = own.data
    if settings.source_range is None:
        settings = settings.model_copy(update={"source_range": tuple(source.value_range)})
    for name in ("phase", "value_range"):
        if getattr(settings, name) != getattr(config.data, name):
            raise InputError(f"sources.{number}.data.{name} is another than that of data")
    labels = assign_splits(source, settings.fractions, settings.split_seed)
    images = select_split(source, labels, "train")
    preparation = build_preparation(settings)
    channels, rows, columns = preparation(images[0]).shape
    _check_channels(number, channels, config)
    seed = config.training.seed + (number + 1) * _SEEDS
    training = config.training.model_copy(update={"seed": seed})
    operator = config.operator if own.operator is None else own.operator
    run = config.model_copy(update={"operator": operator, "training": training})
    batches = ImageBatches(
        images,
        preparation,
        build_augmentation(settings),
        seed=seed,
        global_batch=own.batch,
        rank=rank,
        world_size=world_size,
        cache=settings.cache,
    )
    return Source(own, batches, build_problems(run, (rows, columns), None, data), seed)


def _check_channels(number: int, channels: int, config: RunConfig) -> None:
    if config.data.channels not in (None, channels):
        raise InputError(
            f"sources.{number} has images of {channels} channels, data of {config.data.channels}"
        )


def count_images(images: ImageSource, sources: Sequence[Source]) -> int:
    """Training images of all sources."""
    return len(images) + sum(len(source.batches.source) for source in sources)
