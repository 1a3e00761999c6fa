"""Training state on disk: whole or not there.

A checkpoint is written next to its final name and renamed when every byte is on disk, so a kill or
a full disk at any moment leaves the one before it as the latest.
"""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.optim.swa_utils import AveragedModel

from bcdm.files import flush, flush_names

__all__ = ["Checkpoints", "TrainingState"]


class TrainingState:
    """What a run needs to go on: weights, their average, the optimiser's moments, the step."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.network = network
        self.average = AveragedModel(network)
        self.optimizer = optimizer
        self.step = 0
        self._averaged: list[Tensor] = list(self.average.module.parameters())
        self._current: list[Tensor] = list(network.parameters())

    @torch.no_grad()
    def move_average(self, decay: float) -> None:
        """Moves the average to the weights; its memory grows until its start is forgotten.

        AveragedModel's own update sorts all parameters anew each time, which costs five times the
        arithmetic.
        """
        # As many updates as steps, so the average is the same after a restart.
        count = self.step
        keep = min(decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._averaged, self._current, 1 - keep)
        self.average.n_averaged += 1

    def tensors(self) -> dict[str, Tensor]:
        """All state by name; the tensors are the live ones."""
        named = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        named |= {f"average.{name}": t for name, t in self.average.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            moments = self.optimizer.state[parameter]
            named |= {f"optimizer.{name}.{key}": value for key, value in moments.items()}
        return named | {"step": torch.tensor(self.step)}

    def restore(self, folder: Path) -> None:
        """Reads a checkpoint into the live tensors."""
        self._prime_optimizer()
        named = self.tensors()
        _quietly(state_dict_loader.load, named, folder)
        self.step = int(named["step"])

    def _prime_optimizer(self) -> None:
        """Gives Adam's moments their places, which it makes only at its first step."""
        for parameter in self.network.parameters():
            if not self.optimizer.state[parameter]:
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }


class Checkpoints:
    """The checkpoints of one run in one folder, newest kept.

    Args:
        folder: Where they are.
        keep: How many to keep.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def list(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        return sorted(p for p in self.folder.glob("step-*") if p.suffix != ".partial")

    def save(self, state: TrainingState) -> bool:
        """Writes the state; every process calls it. False: it failed and the last one stands."""
        final = self.folder / f"step-{state.step:09d}"
        partial = final.with_suffix(".partial")
        first = not dist.is_initialized() or dist.get_rank() == 0
        if first:
            shutil.rmtree(partial, ignore_errors=True)
            self.folder.mkdir(parents=True, exist_ok=True)
        _wait()
        failure: BaseException | None = None
        try:
            _quietly(state_dict_saver.save, state.tensors(), partial)
            if first:
                flush(partial)
                if final.exists():
                    os.replace(final, final.with_suffix(".old.partial"))
                os.replace(partial, final)
                flush_names(self.folder)
        except (Exception, CheckpointException) as error:  # the latter is no Exception
            failure = error
            shutil.rmtree(partial, ignore_errors=True)
        _wait()
        if failure is not None:
            line = " ".join(str(failure).split()[-12:]) or type(failure).__name__
            warnings.warn(f"checkpoint at step {state.step} failed: {line}", stacklevel=2)
            return False
        if first:
            for old in [*self.list()[: -self.keep], *self.folder.glob("*.old.partial")]:
                shutil.rmtree(old)
        return True

    def restore_latest(self, state: TrainingState) -> Path | None:
        """Loads the newest checkpoint, if there is one."""
        whole = self.list()
        if not whole:
            return None
        state.restore(whole[-1])
        return whole[-1]


def _quietly(call: Callable[..., object], tensors: dict[str, Tensor], checkpoint_id: Path) -> None:
    """A run of one process means to be one; torch warns of it each time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        call(tensors, checkpoint_id=checkpoint_id, no_dist=not dist.is_initialized())


def _wait() -> None:
    if dist.is_initialized():
        dist.barrier()
