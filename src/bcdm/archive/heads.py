"""The head of an archive: what it is of, written before its first shard and never changed."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bcdm.archive.entries import Source
from bcdm.archive.files import Files
from bcdm.archive.job import Job
from bcdm.archive.places import Place, open_place
from bcdm.archive.tables import Table, is_table
from bcdm.errors import InputError
from bcdm.files import hash_content

__all__ = ["HEAD", "Head", "begin", "choose_shard", "open_source", "read_head"]

HEAD = "archive.json"
_FORMAT = 1
_LISTS, _PLAN = "inputs", "plan-"
_PIECES, _MOST = 100, 1000  # shards of an archive and items of a shard, where nobody says


@dataclass(frozen=True)
class Head:
    """What an archive is of.

    Attributes:
        id: Hash of the settings.
        settings: All that its numbers depend on.
        job: What was asked for, in the words of who began it.
        shards: How many there are.
        items: How many there are, if that was known from the beginning.
        lists: The folder of the lists of its files, if it is of files.
    """

    id: str
    settings: Mapping[str, Any]
    job: Mapping[str, Any]
    shards: int
    items: int | None
    lists: str = _LISTS

    def encode(self) -> bytes:
        """A file."""
        return (json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n").encode()


def open_source(job: Job, place: Place, lists: str = _LISTS) -> Source:
    """The measurements of a job.

    Args:
        job: The job.
        place: Of its archive.
        lists: The folder of the lists of files, as the archive's head says.
    """
    if is_table(job.source):
        return Table(job.source, job.shard, job.mask, job.key)
    return Files(job.source, place, job.shard, job.mask, job.key, lists)


def read_head(place: Place) -> Head | None:
    """The head of an archive; None where there is none yet."""
    held = place.read(HEAD)
    if held is None:
        return None
    try:
        content = json.loads(held)
        if content.pop("format") != _FORMAT:
            raise InputError(f"{place} is an archive of another version of bcdm")
        head = Head(**content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{place}/{HEAD} is damaged: choose another folder") from None
    return head


def choose_shard(job: Job) -> Job:
    """The same in shards so small that little is lost where a worker is killed.

    About a hundredth of all items, from a batch of the network to a thousand; what an archive was
    begun with, if it was.
    """
    place = open_place(job.out)
    head = read_head(place)
    if head is not None:
        return replace(job, shard=int(head.job["shard"]))
    items = open_source(job, place).count(_PIECES * _MOST)
    return replace(job, shard=min(_MOST, max(job.batch, -(-items // _PIECES))))


def begin(job: Job, say: Callable[[str], None]) -> Head:
    """Begins an archive, or goes on with it if it was begun by the same settings.

    Raises:
        InputError: If it was begun by others.
    """
    place = open_place(job.out)
    source = open_source(job, place)
    settings = json.loads(json.dumps(job.describe(source.describe())))
    head = read_head(place)
    if head is None:
        with place.alone(say) as is_alone:
            head = read_head(place) or _write_head(job, place, settings, alone=is_alone)
    if head.id != hash_content(settings):
        changed = sorted(
            name
            for name in settings.keys() | head.settings.keys()
            if settings.get(name) != head.settings.get(name)
        )
        was = ", ".join(f"{name} was {_show(head.settings.get(name))}" for name in changed)
        raise InputError(
            f"{job.out} was begun with other settings ({was}): repeat them, or choose another OUT"
        )
    return head


def _write_head(job: Job, place: Place, settings: Mapping[str, Any], *, alone: bool) -> Head:
    if any(not name.startswith(".") for name in place.list("")) and not _is_plan(place):
        found = read_head(place)
        if found is None:
            raise InputError(f"{place} is not empty and no archive: choose another OUT")
        return found  # of another one, in between
    for left in [name for name in place.list(_LISTS) if alone and name.startswith(_PLAN)]:
        place.remove(f"{_LISTS}/{left}")  # of a run that was killed while it planned
    # Of its own: another one that plans may find other files, and the head says whose count.
    lists = f"{_LISTS}/{_PLAN}{secrets.token_hex(4)}"
    shards, items = open_source(job, place, lists).plan()
    head = Head(hash_content(settings), settings, asdict(job), shards, items, lists)
    if not place.create(HEAD, head.encode()):
        place.remove(lists)
    found = read_head(place)
    assert found is not None
    return found


def _is_plan(place: Place) -> bool:
    """Whether it is what a run left that was killed while it planned."""
    return all(name == _LISTS or name.startswith(".") for name in place.list(""))


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
