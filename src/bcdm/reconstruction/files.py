"""One scan on disk to results on disk: resumable, with a report and where it all comes from."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from bcdm.checkpoint import Model, save_operator
from bcdm.diffusion import DPMSolver, posterior_mean, sample
from bcdm.errors import InputError
from bcdm.reconstruction.calibration import Calibration
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.posterior import CALLS, Posterior, draw_samples
from bcdm.reconstruction.provenance import collect
from bcdm.reconstruction.trust import assess, join
from bcdm.report.content import Trust
from bcdm.scans import Results, write_results

__all__ = ["Finished", "Plan", "RefusedError", "reconstruct_scan"]

LEVEL = 0.8


class RefusedError(InputError):
    """A reconstruction whose trust card is red."""


@dataclass(frozen=True)
class Plan:
    """How to reconstruct.

    Attributes:
        samples: Of each slice.
        calls: Network calls per sample.
        churn: Of DPM-Solver++.
        seed: Of all samples.
        batch: Samples at once.
        force: Whether to write results although the card is red.
    """

    samples: int = 16
    calls: int = CALLS
    churn: float = 1.0
    seed: int = 0
    batch: int = 8
    force: bool = False

    def to_plain(self) -> dict[str, Any]:
        """What fixes the samples."""
        return {"samples": self.samples, "calls": self.calls, "churn": self.churn,
                "seed": self.seed, "batch": self.batch}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Finished:
    """What was made.

    Attributes:
        posteriors: Of each slice, in the model's units.
        cards: The trust card of each slice.
        files: What was written.
        provenance: Where it comes from.
    """

    posteriors: list[Posterior]
    cards: list[Trust]
    files: list[Path]
    provenance: dict[str, Any]


def reconstruct_scan(
    model: Model, fitted: Fitted, out: Path, plan: Plan, *, say: Callable[[str], None]
) -> Finished:
    """Draws what is not drawn yet, judges, and writes results in the scan's own format.

    The same command goes on after any interruption, and gives the same bits.
    """
    settings = plan.to_plain() | {
        "noise_std": fitted.noise.std, "gain": fitted.units.gain, "offset": fitted.units.offset,
    }  # fmt: skip
    count = len(fitted.scan.data)
    y = torch.cat([fitted.measure(number).y for number in range(count)]).cpu().numpy()
    provenance = collect(model, fitted.scan.path, fitted.operator, y, settings)
    out.mkdir(parents=True, exist_ok=True)
    store = _open_store(out / "samples.zarr", model, fitted, plan, provenance)
    posteriors = []
    with tqdm(total=count * plan.samples, disable=None, desc="samples", unit="sample") as bar:
        for number in range(count):
            posteriors.append(_draw_slice(model, fitted, number, plan, store, bar, say))
    cards = [assess(one)[0] for one in posteriors]
    card = join(cards)
    if card.light == "red" and not plan.force:
        _write_json(out / "run.json", provenance | {"trust": _to_plain(card)})
        raise RefusedError(f"{card.summary} Nothing was written; --force writes it all the same")
    with _replacing(out / "measurement.npz") as partial, partial.open("wb") as file:
        np.savez(file, y=y, noise_std=np.array(settings["noise_std"] * fitted.units.gain))
    save_operator(fitted.operator, out / "operator.safetensors")
    results = _summarise(model, fitted, posteriors)
    files = write_results(out, fitted.scan, results, provenance)
    _write_json(out / "run.json", provenance | {"trust": _to_plain(card), "level": LEVEL})
    return Finished(posteriors, cards, [*files, out / "samples.zarr", out / "run.json"], provenance)


def _draw_slice(
    model: Model,
    fitted: Fitted,
    number: int,
    plan: Plan,
    store: Any,
    bar: Any,
    say: Callable[[str], None],
) -> Posterior:
    measurement = fitted.measure(number)
    denoiser = model.method.condition(measurement)
    mean = posterior_mean(denoiser, seed=plan.seed)

    def draw(indices: Sequence[int], batch: int) -> Tensor:
        return sample(denoiser, DPMSolver(plan.churn), steps=plan.calls, seed=plan.seed,
                      indices=indices, batch_size=batch, progress=False)  # fmt: skip

    done = store.attrs.get("done", {}).get(str(number), 0)
    for start in range(0, plan.samples, plan.batch):
        stop = min(plan.samples, start + plan.batch)
        if stop > done:
            indices = [number * plan.samples + k for k in range(start, stop)]
            drawn = draw_samples(draw, indices, plan.batch, say=say)
            store[number, start:stop] = drawn.cpu().numpy()
            # Only now: a sample counts once it is whole on disk.
            _mark(store, number, stop)
        bar.update(stop - start)
    samples = torch.from_numpy(np.asarray(store[number]))[:, None]
    return Posterior(model, measurement, mean, samples)


def _mark(store: Any, number: int, stop: int) -> None:
    store.attrs["done"] = store.attrs.get("done", {}) | {str(number): stop}


def _open_store(
    path: Path, model: Model, fitted: Fitted, plan: Plan, provenance: dict[str, Any]
) -> Any:
    """Samples (slices, samples, C, H, W) in the model's units, a chunk each; those begun before."""
    import zarr

    shape = (len(fitted.scan.data), plan.samples, *model.shape)
    if path.exists():
        store = zarr.open_array(path, mode="r+")
        if store.attrs.get("id") == provenance["id"] and store.shape == shape:
            return store
        raise InputError(f"{path} holds samples of another run: choose another -o, or remove it")
    store = zarr.create_array(path, shape=shape, chunks=(1, 1, *model.shape), dtype="float32")
    # The attributes come last: without them the store counts as no run at all.
    store.attrs.update({"id": provenance["id"], "provenance": provenance, "done": {}})
    return store


def _summarise(model: Model, fitted: Fitted, posteriors: Sequence[Posterior]) -> Results:
    """Mean, standard deviation and intervals in the file's units."""
    calibration = Calibration.of(model)
    factor = calibration.factors.get(LEVEL, 1.0) if calibration is not None else 1.0
    means, stds, lows, highs = [], [], [], []
    for one in posteriors:
        low, high = one.interval(LEVEL)
        middle, half = (low + high) / 2, factor * (high - low) / 2
        means.append(fitted.units.to_file(one.mean))
        stds.append(fitted.units.to_file_size(one.std))
        lows.append(fitted.units.to_file(middle - half))
        highs.append(fitted.units.to_file(middle + half))
    mean, std, low_end, high_end = (np.concatenate(p) for p in (means, stds, lows, highs))
    return Results(mean, std, low_end, high_end, LEVEL)


def _to_plain(card: Trust) -> dict[str, Any]:
    checks = [vars(check) for check in card.checks]
    return {"light": card.light, "summary": card.summary, "checks": checks}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with _replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A name beside the final one, which takes its place once it is whole."""
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    yield partial
    partial.replace(path)
