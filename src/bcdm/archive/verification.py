"""Is an archive what its markers say? Hashes of all shards, and a few items drawn again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from bcdm.archive.heads import Head
from bcdm.archive.job import Job
from bcdm.archive.markers import Marker, list_markers, read_marker
from bcdm.archive.places import Place
from bcdm.archive.status import open_archive
from bcdm.archive.store import convert_images, hash_shard, open_group
from bcdm.archive.unit import Unit, open_unit
from bcdm.errors import InputError
from bcdm.files import hash_path
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.verification import TOLERANCE, Verdict
from bcdm.shelf import find_model

__all__ = ["verify"]

_TRIES = 10  # shards that are looked into for an item that is done


def verify(
    out: str,
    *,
    draw: int = 3,
    seed: int = 0,
    model: str | None = None,
    source: str | None = None,
    device: str = "cpu",
    report: Callable[[str], None],
) -> Iterator[Verdict]:
    """Checks an archive.

    Args:
        out: The archive.
        draw: How many items are drawn again.
        seed: Which ones.
        model: Where the model is by now; left out: where it was.
        source: Where the measurements are by now; left out: where they were.
        device: Where the network runs, wherever it ran before.
        report: Told how far it is.
    """
    place, head = open_archive(out)
    markers = 0
    right: list[int] = []
    for marker in list_markers(place, head.shards, head.id):
        markers += 1
        wrong = _check_shard(place, marker)
        if wrong:
            yield Verdict(f"shard {marker.shard}", False, wrong)
        else:
            right.append(marker.shard)
        if markers % 100 == 0:
            report(f"{markers} of {head.shards} shards")
    found = f"{markers} of {head.shards} finished"
    yield Verdict("shards", markers == head.shards, found)
    whole = len(right) == markers
    yield Verdict("hashes", whole, f"{len(right)} of {markers} shards as written")
    if draw and right:
        moved = {"model": model, "source": source, "device": device}
        yield from _draw_again(place, head, right, draw, seed, moved)


def _check_shard(place: Place, marker: Marker) -> str:
    """What is wrong with a shard; empty if nothing is."""
    try:
        found = hash_shard(place, marker.stem, marker.hashes)
    except Exception as error:
        # zarr and its codecs raise many kinds of errors for damaged files.
        return f"cannot be read ({' '.join(str(error).split())[:160]})"
    changed = [name for name, value in marker.hashes.items() if found[name] != value]
    return f"changed: {', '.join(changed)}" if changed else ""


def _draw_again(
    place: Place,
    head: Head,
    shards: Sequence[int],
    count: int,
    seed: int,
    moved: Mapping[str, str | None],
) -> Iterator[Verdict]:
    now = {name: value for name, value in moved.items() if value is not None}
    job = Job(**{**head.job, **now, "out": str(place)})
    same = hash_path(find_model(job.model) / "config.json") == head.settings["model"]
    yield Verdict("model", same, "as it was" if same else "changed: nothing is drawn again")
    if not same:
        return
    unit, generator = open_unit(job, head), np.random.default_rng(seed)
    drawn: set[tuple[int, int]] = set()
    for _ in range(_TRIES * count):
        marker = read_marker(place, shards[int(generator.integers(len(shards)))], head.id)
        if len(drawn) == count or marker is None:
            break
        status = np.asarray(open_group(place, marker.stem)["status"][...])
        left = [k for k in np.flatnonzero(status == 0) if (marker.shard, int(k)) not in drawn]
        if left:
            row = int(left[generator.integers(len(left))])
            drawn.add((marker.shard, row))
            yield _compare(unit, marker, row)
    if len(drawn) < count:
        yield Verdict("items", True, f"{len(drawn)} of {count} drawn again: few are done")


def _compare(unit: Unit, marker: Marker, row: int) -> Verdict:
    """Draws one item again."""
    name = f"item {row} of shard {marker.shard}"
    entries = islice(unit.source.read(marker.shard, unit.fit), row, row + 1)
    found = next(iter(unit.draw(entries)), None)
    if found is None:
        raise InputError(f"the input has no {name} any more")
    _, entry, fitted, outcome = found
    if outcome.mean is None or outcome.std is None or fitted is None:
        return Verdict(name, False, f"is now {outcome.status}: {outcome.reason}")
    group = open_group(unit.place, marker.stem)
    images, sides = convert_images(outcome, fitted, entry.slice), fitted.scan.size
    pairs = [
        (crop_middle(images[key], sides), crop_middle(np.asarray(group[key][row]), sides))
        for key in ("mean", "std")
    ]
    if all(np.array_equal(new, old) for new, old in pairs):
        return Verdict(name, True, "the same to the bit")
    scale = float(np.abs(pairs[0][1]).max()) or 1.0
    away = max(float(np.abs(new - old).max()) for new, old in pairs) / scale
    return Verdict(name, away < TOLERANCE, f"differs by {away:.1e} of its brightness")
