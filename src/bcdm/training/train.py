"""The training loop: DDP over processes, and every random number a function of counters."""

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bcdm.checkpoint import describe_operator, load
from bcdm.checkpoint.building import (
    build_augmentation,
    build_method,
    build_preparation,
    build_problems,
)
from bcdm.checkpoint.settings import RunConfig
from bcdm.data import Augmentation, ImageBatches, ImageSource
from bcdm.errors import InputError, ShapeError
from bcdm.machine import autocast, find_device
from bcdm.methods import Bayesian
from bcdm.operators import LinearOperator
from bcdm.training.folder import BRANCH
from bcdm.training.logs import Log
from bcdm.training.objective import Objective, Objectives
from bcdm.training.sources import Turns, open_source
from bcdm.training.state import Checkpoints, TrainingState
from bcdm.training.validation import validate

__all__ = ["Processes", "Trainer", "open_processes"]


@dataclass(frozen=True)
class Processes:
    """This process among all of the run."""

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009

    def wait(self) -> None:
        """Goes on when all are here."""
        if self.world > 1:
            dist.barrier()

    def agree(self, value: bool) -> bool:
        """What the first process says, for all."""
        said = torch.tensor(int(value), device=self.device)
        if self.world > 1:
            dist.broadcast(said, 0)
        return bool(said)


@contextlib.contextmanager
def open_processes(device_name: str = "auto") -> Iterator[Processes]:
    """Joins the processes that torchrun started; a run of one needs none.

    Args:
        device_name: Where to train; "auto" is CUDA where there is some. Of several processes on
            CUDA each takes a device of its own.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    device = _choose_device(device_name, world)
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.set_device(device)
    if world == 1:
        yield Processes(device=device)
        return
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Processes(dist.get_rank(), world, device)
    finally:
        dist.destroy_process_group()


def _choose_device(name: str, world: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = find_device(name)
    if device.type == "cuda" and (device.index is None or world > 1):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


class Trainer:
    """All parts of one run, built from its settings.

    Args:
        config: The run.
        images: Training images.
        validation: Validation images; none for no validation.
        folder: Where checkpoints and logs go.
        processes: Who takes part.
        operator: What images are measured with, instead of what the settings say.
        data: The folder of files that operators are drawn from; BCDM_DATA when left out.
    """

    def __init__(
        self,
        config: RunConfig,
        images: ImageSource,
        validation: ImageSource | None,
        folder: Path,
        processes: Processes,
        operator: LinearOperator | None = None,
        data: Path | None = None,
    ) -> None:
        if config.data.source_range is None:
            known = config.data.model_copy(update={"source_range": tuple(images.value_range)})
            config = config.model_copy(update={"data": known})
        self.preparation = build_preparation(config.data)
        self.shape = shape = tuple(self.preparation(images[0]).shape)
        if operator is not None:
            described = describe_operator(operator, shape, config.data.dtype)
            config = config.model_copy(update={"operator": described})
        self.config, self.folder, self.processes = config, folder, processes
        self.images, self.validation = images, validation
        method = build_method(config, shape)
        if config.training.start_from is not None:
            copy_weights(load(config.training.start_from).method, method)
        method.network.to(processes.device)
        problems = build_problems(config, (shape[-2], shape[-1]), operator, data)
        self.problems = problems.to(processes.device)
        options = config.training
        self.objective = Objective(
            method, self.problems, options.levels, options.seed, config.strip
        )
        self.sources = [
            open_source(config, k, data, rank=processes.rank, world_size=processes.world)
            for k in range(len(config.sources))
        ]
        optimizer = torch.optim.Adam(
            method.network.parameters(), lr=options.learning_rate, betas=options.betas
        )
        self.state = TrainingState(method.network, optimizer)
        self.checkpoints = Checkpoints(folder / "checkpoints", options.keep)
        # Where the rate begins to fall after being constant longer runs are still the same.
        self.branch = None if isinstance(options.decay, bool) else options.find_fall()

    def run(self) -> bool:
        """Trains from the last checkpoint to the last step; False: nothing was left to do."""
        options, state = self.config.training, self.state
        self.checkpoints.restore_latest(state)
        if state.step >= options.steps:
            return False
        first = self.processes.rank == 0
        if first and self.validation is not None:
            _ = self.validation_images  # what is wrong with an image shows now, not in an hour
        log = Log(self.folder if first else None, state.step, options.steps, options.batch)
        model: nn.Module = self._join_objectives()
        if self.processes.world > 1:
            model = DistributedDataParallel(model)
        batches = [self.make_batches(state.step), *(source.batches for source in self.sources)]
        turns = Turns((1, *(source.config.share for source in self.sources)))
        for part, batch in turns.walk(batches, state.step, options.steps):
            loss = self.advance(model, batch.images, batch.counters, part)
            state.step += 1
            if state.step % options.log_every == 0 or state.step == options.steps:
                mean = self._average_over_processes(loss)
                log.write(state.step, {"loss": mean})
                log.say(state.step, f"loss {mean:.4f}")
            if state.step % options.validate_every == 0 or state.step == options.steps:
                self._validate(log)
            if state.step % options.checkpoint_every == 0 or state.step == options.steps:
                self.checkpoints.save(state)
            if state.step == self.branch:
                Checkpoints(self.folder / BRANCH, 1).save(state)
        log.close()
        return True

    def _join_objectives(self) -> Objectives:
        """Those of all sources, that of `data` first."""
        method, levels = self.objective.method, self.config.training.levels
        parts = [self.objective]
        for source in self.sources:
            problems = source.problems.to(self.processes.device)
            parts.append(Objective(method, problems, levels, source.seed, source.config.strip))
        return Objectives(parts)

    def make_batches(self, start: int) -> ImageBatches:
        """This process's part of every batch from step `start` on."""
        data, options = self.config.data, self.config.training
        return ImageBatches(
            self.images,
            self.preparation,
            build_augmentation(data),
            seed=options.seed,
            global_batch=options.batch,
            start_step=start,
            stop_step=options.steps,
            rank=self.processes.rank,
            world_size=self.processes.world,
            cache=data.cache,
        )

    def advance(
        self, model: nn.Module, images: Tensor, counters: Tensor, part: int | None = None
    ) -> Tensor:
        """One optimiser step; returns this process's mean loss.

        Args:
            model: An objective, or several.
            images: Of this process.
            counters: One per image.
            part: Which of several objectives.
        """
        which = () if part is None else (part,)
        options, optimizer = self.config.training, self.state.optimizer
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * self._rate(self.state.step)
        optimizer.zero_grad(set_to_none=True)
        parts = list(
            zip(
                images.chunk(options.accumulation),
                counters.chunk(options.accumulation),
                strict=True,
            )
        )
        total = torch.zeros((), device=self.processes.device)
        for number, (some, count) in enumerate(parts):
            last = number == len(parts) - 1
            joined = isinstance(model, DistributedDataParallel) and not last
            quiet = model.no_sync() if joined else contextlib.nullcontext()  # type: ignore[operator]
            with quiet, self._dropout(number), self._precision():
                loss = model(some.to(self.processes.device), count, *which).sum() / len(images)
            loss.backward()
            total += loss.detach()
        self._clip(total)
        optimizer.step()
        self.state.move_average(options.ema)
        return total

    def _clip(self, loss: Tensor) -> None:
        """Shortens the gradient to the longest allowed; a step must not spoil the weights."""
        gradients = [p.grad for p in self.state.network.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients, foreach=True)
        if not bool((norm + loss).isfinite()):
            raise InputError(
                f"step {self.state.step + 1}: the loss or its gradient is not finite; the last "
                "checkpoint is kept: lower training.learning_rate"
            )
        # Most gradients are short enough: multiplying them by one would cost a pass over memory.
        if norm > self.config.training.clip:
            torch._foreach_mul_(gradients, self.config.training.clip / norm)

    def _rate(self, step: int) -> float:
        """Warm-up, then down to zero: a factor of the learning rate."""
        options = self.config.training
        warm = min(1.0, (step + 1) / max(1, options.warmup))
        if options.decay is True:
            return warm * 0.5 * (1 + math.cos(math.pi * step / options.steps))
        fall = options.find_fall()
        return warm if step < fall else warm * (options.steps - step) / (options.steps - fall)

    @contextlib.contextmanager
    def _dropout(self, part: int) -> Iterator[None]:
        """Makes dropout's masks, which come from torch's global generator, a function of counters.

        They are then the same after a restart with as many processes, but not for other numbers.
        """
        if not self.config.network.dropout:
            yield
            return
        place = (self.config.training.seed, self.state.step, self.processes.rank, part)
        with torch.random.fork_rng():
            torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1)[0]))
            yield

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        return autocast(self.processes.device, self.config.training.precision)

    def _average_over_processes(self, loss: Tensor) -> float:
        if self.processes.world > 1:
            dist.all_reduce(loss)
        return float(loss) / self.processes.world

    def _validate(self, log: Log) -> None:
        if self.processes.rank == 0 and self.validation is not None:
            values = self.validate()
            log.write(self.state.step, values)
            log.say(self.state.step, f"validation: one-call PSNR {values['psnr']:.2f} dB")
        self.processes.wait()

    def validate(self) -> dict[str, float]:
        """Errors of the averaged weights on validation images; the picture goes to the folder."""
        if self.validation is None:
            raise InputError("there are no validation images")
        images = self.validation_images.to(self.processes.device)
        network = self.state.average.module
        return validate(self.objective, network, images, self.folder, self.config.data.value_range)

    @cached_property
    def validation_images(self) -> Tensor:
        """Validation images as the network has them."""
        assert self.validation is not None
        data = self.config.data
        # Only what makes an image another kind of image; what is at random stays away.
        kind = Augmentation(value_range=data.value_range, phase=data.phase)
        count = min(self.config.training.validation_images, len(self.validation))
        prepared = [
            kind.augment(self.preparation(self.validation[i]), np.random.default_rng(i))
            for i in range(count)
        ]
        for number, image in enumerate(prepared):
            if image.shape != self.shape:
                raise ShapeError(
                    f"validation image {number} has shape {tuple(image.shape)}, the first training "
                    f"image {self.shape}: set data.size"
                )
        return torch.stack(prepared)


def copy_weights(source: Bayesian, target: Bayesian) -> None:
    """Starts a network from another of the same layers.

    Input channels that the other does not have, which come last, start without effect.
    """
    before, now = _list_inputs(source), _list_inputs(target)
    if now[: len(before)] != before:
        raise InputError(f"training.start_from sees {before} beside the image, and not {now}")
    known = source.network.state_dict()
    with torch.no_grad():
        for name, weight in target.network.state_dict().items():
            found = known.get(name)
            more = found is not None and weight.ndim == 4 and found.shape[1] < weight.shape[1]
            if found is not None and more and found.shape[0] == weight.shape[0]:
                weight.zero_()
                weight[:, : found.shape[1]] = found
            elif found is not None and found.shape == weight.shape:
                weight.copy_(found)
            else:
                raise InputError(f"training.start_from is of another network: {name} differs")


def _list_inputs(method: Bayesian) -> list[str]:
    """What a network sees beside the image, in the order of its channels."""
    given = method.parameterisation
    there = {
        "recall": getattr(method.network, "recall", False),
        given.statistic: given.extra_images - 2 * given.compare,
        "probes": given.probes,
        "uncertainty": given.uncertainty,
        "compare": given.compare,
    }
    return [name for name, count in there.items() if count]
