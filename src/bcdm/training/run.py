"""A training run from a file of settings to a model folder."""

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from bcdm.checkpoint import Model, load, save_model
from bcdm.checkpoint.building import build_method, build_problems
from bcdm.checkpoint.settings import RunConfig, load_config, resolve_data_path
from bcdm.data import ImageSource, assign_splits, open_images, select_split
from bcdm.errors import InputError
from bcdm.folders import claim
from bcdm.machine import choose_precision
from bcdm.networks import UnrolledNetwork
from bcdm.operators import LinearOperator
from bcdm.problems import OneProblem
from bcdm.training.cost import count_cost
from bcdm.training.folder import branch_off, store_images, store_settings
from bcdm.training.sources import count_images
from bcdm.training.train import Processes, Trainer, open_processes

__all__ = [
    "has_data",
    "open_data",
    "plan",
    "plan_without_data",
    "run",
    "run_settings",
    "time_settings",
    "train",
]

# Operations a second that a GPU is assumed to sustain in plans made without one.
_ASSUMED_SPEED = 1e13


def run(
    path: Path,
    overrides: Sequence[str],
    data: Path | None,
    out: Path | None,
    *,
    dry_run: bool,
    report: Callable[[str], None],
    operator: LinearOperator | None = None,
    device: str = "auto",
    branch: Path | None = None,
) -> Path:
    """Trains, or goes on training, and writes the model; returns the model's folder.

    An operator that is given takes the place of the one that the settings describe; a new run may
    `branch` off a shorter one of the same settings.
    """
    return run_settings(
        load_config(path, overrides),
        data,
        out,
        dry_run=dry_run,
        report=report,
        operator=operator,
        device=device,
        branch=branch,
    )


def run_settings(
    config: RunConfig,
    data: Path | None,
    out: Path | None,
    *,
    dry_run: bool,
    report: Callable[[str], None],
    operator: LinearOperator | None = None,
    device: str = "auto",
    facts: Mapping[str, Any] | None = None,
    branch: Path | None = None,
) -> Path:
    """The same by settings that are read already; `facts` are stored with the model."""
    folder = out or Path("runs") / config.name
    if dry_run and not has_data(config, data):
        for line in plan_without_data(config).splitlines():
            report(line)
        return folder
    images, validation = open_data(config, data)
    with open_processes(device) as processes:
        config = _fix_precision(config, folder, processes)
        trainer = Trainer(config, images, validation, folder, processes, operator, data)
        about = [_describe_split(images, validation)]
        about += [f"the first image is {line}" for line in _list_changes(trainer)]
        if dry_run:
            for line in [*about, *plan(trainer).splitlines()]:
                report(line)
            return folder
        first = processes.rank == 0
        folder.mkdir(parents=True, exist_ok=True)
        with claim(folder, report) if first else nullcontext():
            if first:
                store_settings(trainer.config, folder)
                store_images(images, folder)
                if branch is not None:
                    branch_off(trainer.config, images, branch, folder)
                for line in about:
                    report(line)
            # Nobody looks for the last checkpoint while another run may still write one.
            processes.wait()
            trained = trainer.run()
            if first and (trained or not (folder / "model/config.json").exists()):
                _save(trainer, folder / "model", facts or {})
                report(f"wrote {folder / 'model'}")
            processes.wait()
    return folder / "model"


def train(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    operator: LinearOperator | None = None,
    data: str | Path | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    report: Callable[[str], None] = print,
) -> Model:
    """Trains a model from a file of settings, with an operator of your own.

    The same call goes on after any interruption; with several processes, run the script by
    torchrun.

    Args:
        path: The file, or one that comes with bcdm, such as "faces64-inpaint.yaml".
        overrides: Changes to it, such as "data.path=/my/pictures".
        operator: Any linear operator for the prepared images; left out: that of the file.
        data: The data folder; BCDM_DATA when left out.
        out: Where the run is kept; runs/NAME when left out.
        device: Where to train; "auto" is CUDA where there is some.
        report: Takes lines of progress.
    """
    folders = [Path(folder) if folder is not None else None for folder in (data, out)]
    model = run(
        Path(path),
        overrides,
        *folders,
        dry_run=False,
        report=report,
        operator=operator,
        device=device,
    )
    return load(model, operator)


def _save(trainer: Trainer, folder: Path, more: Mapping[str, Any]) -> None:
    """Writes the model of a finished run."""
    problems, network = trainer.problems, trainer.state.average.module
    images = count_images(trainer.images, trainer.sources)
    facts = {"training_images": images, "parameters": count_parameters(network)}
    single = problems.operator if isinstance(problems, OneProblem) else None
    save_model(folder, trainer.config, network, single, trainer.shape, facts | dict(more))


def count_parameters(network: nn.Module) -> int:
    """Trainable numbers."""
    return sum(p.numel() for p in network.parameters())


def plan(trainer: Trainer) -> str:
    """What a run would do: sizes, memory, and the time three steps predict."""
    network, steps = trainer.state.network, trainer.config.training.steps
    lines = _describe(trainer.config, trainer.shape, network, len(trainer.images))
    lines += [f"first image {line}" for line in _list_changes(trainer)]
    each = _time_steps(trainer, 3)
    state, peak = _count_state(network), _peak_memory(trainer.processes.device)
    lines += [
        f"memory      {state:.0f} MiB of state, {peak:.0f} MiB at the peak of a step",
        f"time        {each:.2f} s a step here, {each * steps / 60:.0f} minutes in all",
    ]
    return "\n".join(lines)


def plan_without_data(config: RunConfig) -> str:
    """The same where the images are not: counted, not measured."""
    data, options = config.data, config.training
    if data.size is None or data.channels is None:
        raise InputError(
            f"{data.path} is not in the data folder; a plan without it needs data.size and "
            'data.channels, as by --set "data.size=[128, 128]" --set data.channels=1'
        )
    shape = (data.channels, *data.size)
    build_problems(config, data.size, data=Path())
    network = build_method(config, shape).network
    assert isinstance(network, UnrolledNetwork)
    cost = count_cost(network, data.size)
    kept = options.batch / options.accumulation * cost.activations / 2**30
    each = options.batch * cost.operations
    hours = options.steps * each / _ASSUMED_SPEED / 3600
    lines = [
        *_describe(config, shape, network, data.count),
        f"memory      {_count_state(network):.0f} MiB of state, {kept:.1f} GiB kept in a step",
        f"time        {each / 1e12:.2f} TFLOP a step, {hours:.0f} hours in all for one GPU that "
        f"does {_ASSUMED_SPEED / 1e12:.0f} TFLOP/s",
        f"needs       {data.path} in the data folder, which is not here: the plan is counted, "
        "not measured",
    ]
    return "\n".join(lines)


def _list_changes(trainer: Trainer) -> list[str]:
    """What is done to the first image before it is trained on; others may be of another size."""
    rows, columns = trainer.images[0].shape[-2:]
    return trainer.preparation.list_changes(rows, columns)


def _describe(
    config: RunConfig, shape: tuple[int, ...], network: nn.Module, images: int | None
) -> list[str]:
    options = config.training
    seen, sides = options.steps * options.batch, "x".join(str(side) for side in shape)
    counted = "not counted" if images is None else f"{images}, {seen / images:.1f} epochs"
    return [
        f"run         {config.name}: {options.steps} steps of {options.batch} images {sides}",
        f"data        training images: {counted}",
        f"operator    {config.operator.kind}, noise_std {config.noise_std} "
        f"on {config.data.value_range}",
        f"network     {count_parameters(network) / 1e6:.2f} M parameters "
        f"x {config.network.iterations}",
    ]


def _count_state(network: nn.Module) -> float:
    """MiB of weights, gradients, two moments and the average, four bytes each."""
    return 20 * count_parameters(network) / 2**20


def time_settings(
    config: RunConfig,
    data: Path | None,
    operator: LinearOperator | None = None,
    device: str = "auto",
) -> float:
    """Seconds of one training step here, by a few of them; nothing is written.

    Args:
        config: Of the run.
        data: The data folder.
        operator: In place of that of the settings.
        device: Where to train.
    """
    images, _ = open_data(config, data)
    with tempfile.TemporaryDirectory() as folder, open_processes(device) as processes:
        config = _fix_precision(config, Path(folder), processes)
        trainer = Trainer(config, images, None, Path(folder), processes, operator, data)
        return _time_steps(trainer, 12)


def _time_steps(trainer: Trainer, count: int) -> float:
    """The median time of some steps, reading included, after one to warm up."""
    batches = trainer.make_batches(0)
    # One thread's own time is what a quiet machine would take.
    alone = trainer.processes.device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    times = []
    for number in range(count + 1):
        start = clock()
        batch = batches.batch(number % trainer.config.training.steps)
        # Waits for a device to finish.
        float(trainer.advance(trainer.objective, batch.images, batch.counters))
        times.append(clock() - start)
    return median(times[1:])


def open_data(config: RunConfig, data: Path | None) -> tuple[ImageSource, ImageSource | None]:
    """Training and validation images."""
    source = open_images(
        resolve_data_path(config.data.path, data), config.data.key, config.data.source_range
    )
    labels = assign_splits(source, config.data.fractions, config.data.split_seed)
    images = select_split(source, labels, "train")
    return images, select_split(source, labels, "val") if "val" in labels else None


def _describe_split(images: ImageSource, validation: ImageSource | None) -> str:
    """How many images and subjects are trained on and validated with."""
    told = f"images: {_count(images)} to train"
    if validation is None:
        return f"{told}, none to validate: nothing will say how good it gets"
    named = [images.subjects or (), validation.subjects or ()]
    alone = all(len(set(names)) == len(names) > 0 for names in named)
    hint = "; each is taken as a subject of its own: put those of one subject into a folder"
    return f"{told}, {_count(validation)} to validate{hint if alone else ''}"


def _count(images: ImageSource) -> str:
    whose = "" if images.subjects is None else f" of {len(set(images.subjects))} subjects"
    return f"{len(images)}{whose}"


def has_data(config: RunConfig, data: Path | None) -> bool:
    """Whether the images that settings name are here."""
    try:
        return resolve_data_path(config.data.path, data).exists()
    except InputError:
        return False


def _peak_memory(device: torch.device) -> float:
    """MiB: of the device's memory on a GPU, of the whole process elsewhere."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _fix_precision(config: RunConfig, folder: Path, processes: Processes) -> RunConfig:
    """Settings that leave no precision to the machine: a run goes on in that it began in."""
    if config.training.precision != "auto":
        return config
    stored = folder / "config.yaml"
    begun = load_config(stored).training.precision if stored.exists() else "auto"
    is_low = processes.agree(choose_precision(begun, processes.device) == "bfloat16")
    chosen = "bfloat16" if is_low else "float32"
    training = config.training.model_copy(update={"precision": chosen})
    return config.model_copy(update={"training": training})
