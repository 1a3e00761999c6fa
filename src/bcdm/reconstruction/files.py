"""One scan on disk to results on disk: resumable, with a report and where it all comes from."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bcdm.checkpoint import Guest, Model, save_operator
from bcdm.checkpoint.calibration import describe_factors, find_region_factors
from bcdm.errors import InputError
from bcdm.files import remove_partial, replacing, write_arrays, write_text
from bcdm.folders import MARKER, claim
from bcdm.reconstruction.choice import FALLBACK, Choice, choose_method, describe_choice
from bcdm.reconstruction.complexes import write_complex
from bcdm.reconstruction.drawing import Drawer, Drawn, Item, Progress, draw_preview
from bcdm.reconstruction.features import Feature, crop_middle, weigh
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.items import LEVEL, Plan, RefusedError
from bcdm.reconstruction.posterior import Posterior
from bcdm.reconstruction.progress import Bar
from bcdm.reconstruction.provenance import OPERATOR, SAMPLES, collect, name_slice, seal
from bcdm.reconstruction.stored import StoredPosteriors
from bcdm.scans import Results, check_results, write_results
from bcdm.spool import make_array, release, stack
from bcdm.trust import Trust, find_unfamiliar, join, judge_spacing

__all__ = ["Finished", "Plan", "RefusedError", "reconstruct_scan"]

# What a result is made from, beside it: enough to check it and to draw samples again.
KEPT = (SAMPLES, "measurement.npz", OPERATOR)


@dataclass(frozen=True, eq=False)
class Finished:
    """What was made.

    Attributes:
        posteriors: Of each slice, in the model's units.
        cards: The trust card of each slice.
        files: What was written.
        provenance: Where it comes from.
        features: What the samples say of the regions asked for.
        left_out: Numbers of slices that no file of images holds, because they are red.
    """

    posteriors: Sequence[Posterior]
    cards: list[Trust]
    files: list[Path]
    provenance: dict[str, Any]
    features: list[dict[str, Any]]
    left_out: tuple[int, ...] = ()


def reconstruct_scan(
    model: Model,
    fitted: Fitted,
    out: Path,
    plan: Plan,
    *,
    method: Choice = "model",
    features: Sequence[Feature] = (),
    request: str = "",
    keep_complex: bool = False,
    show: Callable[[Finished], Sequence[Path]] | None = None,
    on_step: Callable[[Progress], None] | None = None,
    say: Callable[[str], None],
) -> Finished:
    """Draws what is not drawn yet, judges, and writes results in the scan's own format.

    The same command goes on after any interruption, and gives the same bits. A second process
    that writes the same folder waits for the first. run.json is written last: where it is, all
    that it names is whole. Slices whose card is red are left out of the images, unless the plan
    forces them; samples, report and run.json hold them in any case.

    Args:
        model: The model.
        fitted: The scan, in its units.
        out: Where to write.
        plan: How to sample.
        method: What to take where the model was not made for the first slice; see `choose_method`.
        features: Regions to judge.
        request: What was asked for, in a word that `find_finished` compares.
        keep_complex: Whether to write complex means and samples, too, in the units of the file.
        show: Writes more about what was made, such as a report, and returns the files.
        on_step: Called after every network call. It may raise `Cancelled`, or anything else, to
            stop; the same call goes on later.
        say: Called with each line about progress.

    Raises:
        RefusedError: If the model was not made for the scan, or no slice is left.
    """
    made = _choose(model, fitted, plan, method)
    if isinstance(made, Guest):
        say(f"{'method':12} {made.name}: {made.remark}")
    more = describe_choice(method, made)
    provenance, y = _prepare(model, made, fitted, plan.to_plain() | more)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be made: {error.strerror}; choose another -o") from None
    with claim(out, say) as alone:
        remove_partial(out, alone=alone)
        store = _open_store(out / SAMPLES, model, fitted, plan, provenance)
        # From here on what was finished before may change.
        (out / MARKER).unlink(missing_ok=True)
        _keep_measurement(out, fitted, y)
        posteriors = _draw_slices(made, fitted, plan, store, say, on_step)
        spacing = fitted.scan.facts.get("spacing in mm")
        cards = [judge_spacing(one.trust[0], model.config.scope, spacing) for one in posteriors]
        left_out = _choose_left_out(posteriors, cards, plan)
        asked = {one.number for one in features}
        shown = [
            crop_middle(fitted.weigh(posteriors[number].values[:, 0], number), fitted.scan.size)
            if number in asked
            else torch.empty(0)
            for number in range(len(posteriors))
        ]
        weighed = weigh(features, shown, fitted.units.gain, find_region_factors(made))
        files: list[Path] = []
        if len(left_out) < len(posteriors):
            results = _summarise(fitted, posteriors, left_out)
            noted = provenance | ({"left_out": list(left_out)} if left_out else {})
            files = write_results(out, fitted.scan, results, noted)
            if keep_complex:
                files += write_complex(out, fitted, posteriors, left_out)
        done = Finished(posteriors, cards, [*files, out / SAMPLES], provenance, weighed, left_out)
        pages = [] if show is None else list(show(done))
        kept = [*files, *(out / name for name in KEPT), *pages]
        facts = _describe_run(done, request)
        _write_json(out / MARKER, seal(provenance | facts, out, kept))
    if not files:
        raise RefusedError(facts["refused"])
    return replace(done, files=[*done.files, *pages, out / MARKER])


def _choose_left_out(
    posteriors: Sequence[Posterior], cards: Sequence[Trust], plan: Plan
) -> tuple[int, ...]:
    """Slices that are red; those that are no numbers in any case."""
    return tuple(
        number
        for number, (one, card) in enumerate(zip(posteriors, cards, strict=True))
        if (card.light == "red" and not plan.force) or not bool(one.samples.isfinite().all())
    )


def _describe_run(done: Finished, request: str) -> dict[str, Any]:
    """What run.json says of the results, beside where they come from."""
    card = join(done.cards)
    slices = [
        {"light": one.light, "summary": one.summary, "written": number not in done.left_out}
        for number, one in enumerate(done.cards)
    ]
    facts = {
        "request": request,
        "trust": _to_plain(card),
        "slices": slices,
        "level": LEVEL,
        "features": done.features,
    }
    if len(done.left_out) < len(slices):
        return facts
    reason = (
        f"{card.summary} No image was written; force (--force) writes what has numbers all the same"
    )
    return facts | {"refused": reason}


def _choose(model: Model, fitted: Fitted, plan: Plan, choice: Choice) -> Model | Guest:
    """What draws; refused where the model was not made for the scan and nothing else is asked."""
    first = fitted.measure(0)
    if choice != "model" or plan.force:
        return choose_method(model, first, choice, force=plan.force)
    unfamiliar = find_unfamiliar(model, first)[0]
    if not unfamiliar:
        return model
    other = f", --method auto takes {FALLBACK} with its network as prior" if model.is_prior else ""
    raise RefusedError(
        f"Not a measurement that {model.config.name} was made for: {unfamiliar}. Nothing was "
        f"drawn; --force goes on all the same{other}"
    )


def _prepare(
    model: Model, made: Model | Guest, fitted: Fitted, sampling: dict[str, Any]
) -> tuple[dict[str, Any], np.ndarray]:
    """All that a result depends on, and the data; refuses what could not be finished."""
    settings = sampling | {
        "noise_std": fitted.noise.std,
        "gain": fitted.units.gain,
        "offset": fitted.units.offset,
        "interval_factor": describe_factors(made, LEVEL),
    }
    regions = find_region_factors(made)
    if regions is not None:
        settings["region_factors"] = regions.to_plain()
    if fitted.scan.facts.get("simulated"):
        settings["simulated"] = True
    count = len(fitted.scan.data)
    check_results(fitted.scan, (count, fitted.image_shape[0], *fitted.scan.size))
    y = stack((fitted.measure(number).y[0].numpy() for number in range(count)), count)
    return collect(model, fitted.scan.path, fitted.operator, y, settings), y


def _keep_measurement(out: Path, fitted: Fitted, y: np.ndarray) -> None:
    """Writes what the model was given, beside its samples."""
    with replacing(out / "measurement.npz") as partial:
        weights = {} if fitted.weights is None else {"weights": fitted.weights}
        write_arrays(partial, {"y": y, "noise_std": fitted.noise_std, **weights})
    with replacing(out / OPERATOR) as partial:
        save_operator(fitted.operator, partial)


def _draw_slices(
    model: Model | Guest,
    fitted: Fitted,
    plan: Plan,
    store: Any,
    say: Callable[[str], None],
    on_step: Callable[[Progress], None] | None,
) -> StoredPosteriors:
    """Draws the samples that are not on disk yet, a batch at a time."""
    provenance = store.attrs["provenance"]
    count = len(fitted.scan.data)
    places: dict[str, int] = {name_slice(provenance, k): k for k in range(count)}

    def make_item(number: int) -> Item:
        return Item(name_slice(provenance, number), fitted.measure(number))

    done = [store.attrs["done"].get(str(number), 0) for number in range(count)]
    with Bar(count * plan.samples, say, "sample") as progress:
        progress.advance(sum(done), made=False)

        def watch(step: Progress) -> None:
            left = count * plan.samples - sum(done)
            progress.show(min(plan.batch, left) * step.level / step.levels)
            if on_step is not None:
                on_step(step)

        drawer = Drawer(model.method, plan, watch)

        def keep(drawn: Sequence[Drawn]) -> None:
            for one in drawn:
                if one.error is not None:
                    raise one.error
                assert one.image is not None
                place = places[one.item.id]
                store[place, one.number] = one.image.cpu().numpy()
                done[place] = one.number + 1
            if drawn:
                # Only now: a sample counts once it is whole on disk.
                store.attrs["done"] = {str(number): stop for number, stop in enumerate(done)}
                progress.advance(len(drawn))

        for number in range(count):
            # Made when it is its turn: of a volume, a batch and what is in it are in memory.
            item = make_item(number) if done[number] < plan.samples else None
            for k in range(done[number], plan.samples):
                assert item is not None
                keep(drawer.add(item, k))
        keep(drawer.flush())

    def find_preview(number: int) -> np.ndarray:
        if isinstance(model, Guest):  # what a single call of it gives is not known
            return np.asarray(store[number]).mean(0)
        return draw_preview(model.method, make_item(number), plan.seed)[0].cpu().numpy()

    kept = stack((find_preview(number) for number in range(count)), count)
    return StoredPosteriors(model, fitted, store, kept)


def _open_store(
    path: Path, model: Model, fitted: Fitted, plan: Plan, provenance: dict[str, Any]
) -> Any:
    """Samples (slices, samples, C, H, W) in the model's units, a chunk each; those begun before."""
    import zarr
    from zarr.errors import BaseZarrError

    shape = (len(fitted.scan.data), plan.samples, *fitted.image_shape)
    if path.exists():
        try:
            store = zarr.open_array(path, mode="r+")
        except (BaseZarrError, OSError, ValueError, KeyError):
            raise InputError(f"{path} is damaged: remove it, or choose another -o") from None
        if store.attrs.get("id") == provenance["id"] and store.shape == shape:
            return store
        raise InputError(f"{path} holds samples of another run: choose another -o, or remove it")
    with replacing(path) as partial:
        store = zarr.create_array(
            partial,
            shape=shape,
            chunks=(1, 1, *fitted.image_shape),
            dtype="complex64" if model.config.data.phase else "float32",
            attributes={
                "id": provenance["id"],
                "provenance": provenance,
                "done": {},
                "size": list(fitted.scan.size),
            },
        )
    return zarr.open_array(path, mode="r+")


def _summarise(
    fitted: Fitted, posteriors: Sequence[Posterior], left_out: tuple[int, ...]
) -> Results:
    """Mean, standard deviation and intervals in the file's units; nan where a slice is left out.

    Of complex images, of their magnitudes.
    """
    shape = (len(posteriors), fitted.image_shape[0], *fitted.scan.size)
    mean, std, low, high = (make_array(shape, np.float32) for _ in range(4))
    for number, one in enumerate(posteriors):
        ends = one.interval(LEVEL)
        found = (
            (mean, fitted.to_file(one.image, number)),
            (std, fitted.to_file_size(one.std, number)),
            (low, fitted.to_file(ends[0], number)),
            (high, fitted.to_file(ends[1], number)),
        )
        for values, part in found:
            cut = crop_middle(part, fitted.scan.size)[0]
            values[number] = np.nan if number in left_out else cut
            release(values)
    return Results(mean, std, low, high, LEVEL, left_out)


def _to_plain(card: Trust) -> dict[str, Any]:
    checks = [vars(check) for check in card.checks]
    return {"light": card.light, "summary": card.summary, "checks": checks}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=1) + "\n")
