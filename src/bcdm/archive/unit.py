"""The unit of work: one shard is read, reconstructed, written whole, and committed.

It knows no scheduler. Whoever runs it, how often and in which order, gives the same bits on one
kind of device, the same to rounding on others: noise belongs to items, and a marker is written
last, by one of all who did the same work.
"""

import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from bcdm.archive.entries import Entry, Fit, Source
from bcdm.archive.heads import Head, open_source
from bcdm.archive.job import Job
from bcdm.archive.markers import (
    Counts,
    Marker,
    describe_machine,
    is_damaged,
    name_marker,
    name_shard,
    read_marker,
)
from bcdm.archive.objects import blaming_store
from bcdm.archive.places import Place, open_place
from bcdm.archive.store import ShardWriter, find_room, remove_shard
from bcdm.archive.tables import is_table
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.given import read_operator
from bcdm.errors import MachineError, ShapeError, blames_machine
from bcdm.reconstruction.drawing import Progress
from bcdm.reconstruction.fitting import Fitted, fit_scan
from bcdm.reconstruction.items import Given, Outcome, Plan, reconstruct_items
from bcdm.scans import Scan
from bcdm.trust import judge_spacing

__all__ = ["Finished", "Unit", "check_job", "open_unit"]


@dataclass(frozen=True)
class Finished:
    """What became of a shard.

    Attributes:
        state: "new" if it was done now; "there" if it was before; "busy" if another worker has it.
        counts: Of its items; None where another one has it.
    """

    state: Literal["new", "there", "busy"]
    counts: Counts | None


@dataclass(frozen=True)
class Unit:
    """All that a worker keeps from shard to shard.

    Attributes:
        place: The archive.
        head: Its head.
        source: The measurements.
        model: The model.
        plan: How to sample.
        fit: From files to the model's units.
        cards: Whether to keep the checks behind each light.
    """

    place: Place
    head: Head
    source: Source
    model: Model
    plan: Plan
    fit: Fit
    cards: bool = False

    def run(
        self,
        shard: int,
        on_step: Callable[[Progress], None] | None = None,
        on_item: Callable[[Outcome], None] | None = None,
    ) -> Finished:
        """Does a shard, unless it is done or another worker is at it.

        Args:
            shard: Its number.
            on_step: Called after every network call; what it raises ends the work.
            on_item: Called with every outcome.

        Raises:
            MachineError: Where memory, disk or network do not last.
        """
        done = self.find(shard)
        if done is not None:
            return done
        with self.place.take(name_shard(shard)) as is_ours:
            # It may have been finished since.
            done = self.find(shard)
            if done is not None or is_ours is False:
                return done or Finished("busy", None)
            self._tidy(shard, alone=is_ours is True)
            return self._do(shard, on_step, on_item)

    def find(self, shard: int) -> Finished | None:
        """What its marker says, if it is finished."""
        marker = read_marker(self.place, shard, self.head.id)
        return None if marker is None else Finished("there", Counts.from_plain(marker.counts))

    def draw(
        self,
        entries: Iterator[Entry],
        on_step: Callable[[Progress], None] | None = None,
    ) -> Iterator[tuple[int, Entry, Fitted | None, Outcome]]:
        """Outcomes of items, with their places among the items; almost in that order."""
        # Items of equal content have one name, and the same outcome.
        waiting: defaultdict[str, deque[tuple[int, Entry]]] = defaultdict(deque)
        fitted: dict[int, Fitted] = {}

        def measure(row: int, entry: Entry) -> Given:
            fitted[row] = entry.fit()
            self._check_size(fitted[row])
            return Given(fitted[row].measure(entry.slice), fitted[row].units.taken)

        def name_all() -> Iterator[tuple[str, Callable[[], Given]]]:
            for row, entry in enumerate(entries):
                waiting[entry.id].append((row, entry))
                yield entry.id, lambda row=row, entry=entry: measure(row, entry)  # type: ignore[misc]

        for outcome in reconstruct_items(self.model, name_all(), self.plan, on_step):
            row, entry = waiting[outcome.id].popleft()
            if not waiting[outcome.id]:
                del waiting[outcome.id]
            own = fitted.pop(row, None)
            if own is not None and outcome.trust is not None:
                spacing = own.scan.facts.get("spacing in mm")
                card = judge_spacing(outcome.trust, self.model.config.scope, spacing)
                outcome = replace(outcome, trust=card)
            yield row, entry, own, outcome

    def _check_size(self, fitted: Fitted) -> None:
        """Refuses what an archive has no room for."""
        rows, columns = find_room(self.model)[-2:]
        if fitted.scan.size[0] > rows or fitted.scan.size[1] > columns:
            found = "x".join(map(str, fitted.scan.size))
            raise ShapeError(
                f"an image of {found}: an archive of {self.model.name} holds up to {rows}x{columns}"
            )

    def _do(
        self,
        shard: int,
        on_step: Callable[[Progress], None] | None,
        on_item: Callable[[Outcome], None] | None,
    ) -> Finished:
        # A name of its own: where there are no locks, two may be at it.
        stem = f"{name_shard(shard)}-{secrets.token_hex(4)}"
        try:
            try:
                with blaming_store(f"{self.place} cannot be written"):
                    marker, counts = self._write(shard, stem, on_step, on_item)
            except BaseException:
                with suppress(OSError, MachineError):
                    remove_shard(self.place, stem)
                raise
            return Finished("new" if self._commit(marker) else "there", counts)
        except OSError as error:
            if blames_machine(error):
                raise MachineError(f"{self.place}: {error.strerror}") from error
            raise

    def _commit(self, marker: Marker) -> bool:
        """Creates the marker of a shard that is written; whether it is the one that counts.

        A store's answer may be lost although it did what was asked: then nothing is removed, or
        the marker would say that a shard is finished whose arrays are gone.
        """
        if self.place.create(name_marker(marker.shard), marker.encode()):
            return True
        # Somebody was faster and has written the same, unless it was we, and asked twice.
        there = read_marker(self.place, marker.shard, self.head.id)
        if there is not None and there.stem == marker.stem:
            return True
        remove_shard(self.place, marker.stem)
        return False

    def _write(
        self,
        shard: int,
        stem: str,
        on_step: Callable[[Progress], None] | None,
        on_item: Callable[[Outcome], None] | None,
    ) -> tuple[Marker, Counts]:
        """Writes all of a shard but its marker."""
        began, counts = time.process_time(), Counts()
        kept = self.plan.samples if self.plan.keep else 0
        shape, size = find_room(self.model), int(self.head.settings["shard"])
        writer = ShardWriter(self.place, stem, shape, kept, size)
        entries = self.source.read(shard, self.fit)
        for row, entry, fitted, outcome in self.draw(entries, on_step):
            writer.add(row, outcome, entry, fitted, cards=self.cards)
            counts.count(outcome.status, outcome.light, outcome.reason)
            if on_item is not None:
                on_item(outcome)
        hashes = writer.close()
        seconds = round(time.process_time() - began, 3)
        marker = Marker(
            self.head.id,
            shard,
            stem,
            counts.to_plain(),
            hashes,
            seconds,
            made_by=describe_machine(str(self.model.device)),
        )
        return marker, counts

    def _tidy(self, shard: int, *, alone: bool) -> None:
        """Removes what workers that were killed left of a shard that is not finished.

        Args:
            shard: Its number.
            alone: Whether nobody else can be at it; else only a damaged marker is removed.
        """
        # One that is whole was written since we looked, and stays.
        if is_damaged(self.place, shard, self.head.id):
            self.place.remove(name_marker(shard))
        if not alone:
            return
        folder, _, name = name_shard(shard).rpartition("/")
        for left in list(self.place.list(folder)):
            if left.startswith(f"{name}-"):
                self.place.remove(f"{folder}/{left}")


def open_unit(job: Job, head: Head) -> Unit:
    """Loads what a worker needs."""
    place = open_place(job.out)
    model, plan, fit = _open_model(job)
    return Unit(place, head, open_source(job, place, head.lists), model, plan, fit, job.cards)


def check_job(job: Job) -> None:
    """Refuses settings that cannot be used, before an archive is held to them.

    Raises:
        InputError: What is wrong.
    """
    _, _, fit = _open_model(job)
    if is_table(job.source):
        next(open_source(job, open_place(job.out)).read(0, fit), None)


def _open_model(job: Job) -> tuple[Model, Plan, Fit]:
    """The model of a job, how to sample it, and how files get into its units."""
    model = load(job.model).to(job.device)
    operator = None
    if job.operator is not None:
        operator = read_operator(job.operator, (model.shape[-2], model.shape[-1]))
    plan = Plan(
        samples=job.samples,
        calls=job.calls,
        seed=job.seed,
        batch=job.batch,
        force=job.force,
        keep=job.keep,
    )

    def fit(scan: Scan, noise_std: float | None = None) -> Fitted:
        std = job.noise_std if noise_std is None else noise_std
        return fit_scan(scan, model, noise_std=std, operator=operator)

    return model, plan, fit
