"""What a worker does with a file: as `bcdm reconstruct`, so that the bits are the same."""

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bcdm.checkpoint import Model, load
from bcdm.checkpoint.building import build_operator
from bcdm.errors import Cancelled, InputError, MachineError, blames_machine
from bcdm.files import hash_path, write_arrays
from bcdm.folders import find_finished
from bcdm.reconstruction.drawing import Item, Progress, draw_previews, is_memory
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.files import Finished, Plan, RefusedError, reconstruct_scan
from bcdm.reconstruction.fitting import Fitted, UnfitError, fit_scan
from bcdm.reconstruction.posterior import as_shown
from bcdm.reconstruction.provenance import SAMPLES
from bcdm.reconstruction.simulation import simulate_scan
from bcdm.report.scans import report_scan
from bcdm.scans import Scan, read_scan
from bcdm.service.asked import Asked, AskedJob, make_safe_name
from bcdm.service.jobs import Conclusion
from bcdm.service.shelves import MEAN, REPORT, Shelf
from bcdm.shelf import find_model
from bcdm.trust import find_unfamiliar

if TYPE_CHECKING:
    from bcdm.operators import LinearOperator

__all__ = ["MEAN_BATCH", "Tasks", "open_tasks"]

# Of network calls for means: small, because every batch is filled up to it.
MEAN_BATCH = 4


@dataclass(frozen=True)
class Tasks:
    """All that a worker keeps from file to file.

    Attributes:
        model: The model.
        identity: The hash of its settings, which hold those of its weights.
        numbers: Most numbers of a scan.
        mean_slices: Most slices of a file whose mean is wanted at once.
    """

    model: Model
    identity: str
    numbers: int
    mean_slices: int

    def to(self, device: str) -> "Tasks":
        """With the network on another device."""
        return replace(self, model=self.model.to(device))

    def reconstruct(
        self, shelf: Shelf, asked: AskedJob, on_progress: Callable[[float], None]
    ) -> Conclusion:
        """Does a job, or what is left of it.

        Args:
            shelf: Its files.
            asked: What is wanted.
            on_progress: Called after every network call with a number from 0 to 1. What it raises
                ends the work; the same call goes on later.
        """
        request = asked.describe(self.identity)
        try:
            if find_finished(shelf.out, request) is None:
                self._draw(shelf, asked, request, on_progress)
        except Exception as error:
            return _explain(shelf, error)
        run = shelf.read_run()
        if "refused" in run:
            return Conclusion("refused", run["trust"]["light"], run["refused"])
        return Conclusion("done", run["trust"]["light"], run["trust"]["summary"])

    def _draw(
        self, shelf: Shelf, asked: AskedJob, request: str, on_progress: Callable[[float], None]
    ) -> None:
        scan, operator = self._read(shelf, asked)
        truth = None
        if asked.simulate:
            fitted, truth = simulate_scan(
                scan, self.model, seed=asked.seed, noise_std=asked.noise_std, operator=operator
            )
        else:
            fitted = fit_scan(
                scan,
                self.model,
                noise_std=asked.noise_std,
                operator=operator,
                cache=shelf.out / "maps",
            )
        plan = Plan(
            samples=asked.samples,
            calls=asked.calls or self.model.calls,
            seed=asked.seed,
            batch=asked.batch,
            force=asked.force,
        )
        total = len(fitted.scan.data) * plan.samples
        before = _count_drawn(shelf.out / SAMPLES)

        def watch(step: Progress) -> None:
            drawn = before + step.samples + plan.batch * step.level / step.levels
            on_progress(min(drawn / total, 1.0))

        def show(done: Finished) -> list[Path]:
            report_scan(shelf.out / REPORT, fitted, truth, done)
            return [shelf.out / REPORT]

        reconstruct_scan(
            self.model,
            fitted,
            shelf.out,
            plan,
            request=request,
            show=show,
            on_step=watch,
            say=lambda _: None,
        )

    def _read(self, shelf: Shelf, asked: Asked) -> "tuple[Scan, LinearOperator | None]":
        """The scan, by a process of its own, and how the client says that it was measured."""
        scan = read_scan(shelf.find_input(make_safe_name(asked.name)), key=asked.key)
        if scan.data.size > self.numbers:
            raise InputError(
                f"holds {scan.data.size} numbers, of which {self.numbers} are taken: split it"
            )
        settings = asked.parse_operator()
        size = (self.model.shape[-2], self.model.shape[-1])
        return scan, None if settings is None else build_operator(settings, size)

    def estimate(self, files: Sequence[tuple[Shelf, Asked]]) -> list[Conclusion]:
        """The means of small files, by one network call for each batch of slices.

        Each is written beside its file, in the file's units. What is wrong with one file does not
        touch the others.
        """
        begun = [self._begin(shelf, asked) for shelf, asked in files]
        # Noise of one seed in a batch; most have the same.
        for seed in {asked.seed for _, asked in files}:
            same = [
                one
                for one, (_, asked) in zip(begun, files, strict=True)
                if isinstance(one, _Begun) and asked.seed == seed
            ]
            items = [item for one in same for item in one.items]
            drawn = iter(draw_previews(self.model.method, items, seed, MEAN_BATCH))
            for one in same:
                one.means.extend(next(drawn) for _ in one.items)
        return [
            _write_mean(shelf, one) if isinstance(one, _Begun) else one
            for one, (shelf, _) in zip(begun, files, strict=True)
        ]

    def _begin(self, shelf: Shelf, asked: Asked) -> "_Begun | Conclusion":
        """What is to be drawn for the mean of a file, or why nothing is."""
        try:
            scan, operator = self._read(shelf, asked)
            if len(scan.data) > self.mean_slices:
                raise InputError(
                    f"has {len(scan.data)} slices; at once only {self.mean_slices} are "
                    "reconstructed: submit it as a job"
                )
            fitted = fit_scan(scan, self.model, noise_std=asked.noise_std, operator=operator)
            measurements = [fitted.measure(number) for number in range(len(fitted.scan.data))]
            for one in measurements[:1]:
                (reason,) = find_unfamiliar(self.model, one)
                if reason:
                    raise RefusedError(f"not what {self.model.config.name} was made for: {reason}")
            digest = hash_path(scan.path)
            items = [Item(f"{digest}/{k}", one) for k, one in enumerate(measurements)]
            return _Begun(fitted, items, [])
        except Exception as error:
            return _explain(shelf, error)


@dataclass(frozen=True)
class _Begun:
    """A file whose mean is being drawn: its slices, and their means as far as they are there."""

    fitted: Fitted
    items: list[Item]
    means: list[Tensor]


def _write_mean(shelf: Shelf, begun: _Begun) -> Conclusion:
    try:
        images = [
            crop_middle(torch.from_numpy(begun.fitted.to_file(as_shown(mean)[None], k)), size)
            for size in [begun.fitted.scan.size]
            for k, mean in enumerate(begun.means)
        ]
        mean = torch.cat(images).numpy()
        if not bool(np.isfinite(mean).all()):
            return Conclusion("failed", summary="the model gave values that are not finite")
        write_arrays(shelf.folder / MEAN, {"mean": mean})
    except Exception as error:
        return _explain(shelf, error)
    return Conclusion("done")


def open_tasks(model: str, numbers: int, mean_slices: int) -> Tasks:
    """Loads the model."""
    return Tasks(load(model), hash_path(find_model(model) / "config.json"), numbers, mean_slices)


def _explain(shelf: Shelf, error: Exception) -> Conclusion:
    """What an error means for a job. Faults of the machine hand it back."""
    # Where files lie is nobody's business.
    text = str(error).replace(f"{shelf.folder}/input/", "").replace(f"{shelf.folder}/", "")
    if isinstance(error, Cancelled):
        return Conclusion("cancelled")
    if _lacks_room(error):
        return Conclusion("waiting", summary="the disk has no room", is_ours=True)
    if is_memory(error) or (isinstance(error, OSError) and blames_machine(error)):
        return Conclusion("waiting", summary="memory or disk does not last")
    if isinstance(error, MachineError):
        return Conclusion("waiting", summary=text)
    if isinstance(error, RefusedError | UnfitError):
        light = shelf.read_run().get("trust", {}).get("light")
        return Conclusion("refused", light, text)
    if isinstance(error, InputError):
        return Conclusion("failed", summary=text)
    raise error


def _lacks_room(error: BaseException | None) -> bool:
    """Whether a disk is full, whatever a library made of that."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _count_drawn(store: Path) -> int:
    """Samples that an earlier attempt left."""
    try:
        content = json.loads((store / "zarr.json").read_text())
        return sum(content["attributes"]["done"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return 0
