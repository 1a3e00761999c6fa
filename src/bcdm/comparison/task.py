"""The settings of a comparison: what is trained, what is compared, on what."""

import graphlib
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer

from bcdm.checkpoint.mistakes import explain
from bcdm.comparison.contenders import ContenderConfig, Plug, describe_plug
from bcdm.errors import InputError
from bcdm.machine import Precision
from bcdm.methods import CONTROL
from bcdm.shelf import list_settings

__all__ = ["START", "Task", "add_control", "load_task", "scale_down"]

START = "training.start_from=network:"
_SEED, _MINUTES, _STEPS = "training.seed=", "minutes=", "steps=network:"
_BRANCH, _MODEL = "branch=network:", "model="


class Task(BaseModel):
    """A file of settings.

    Attributes:
        extends: Another such file, whose settings hold where this one says nothing; its networks
            are added to these, its `set` comes first, and a method without settings is its.
        base: Settings of our own network's training, relative to the file that names it.
        minutes: Training time of each network on one thread.
        set: Changes to the base that all networks share.
        networks: Changes of each network, by name; those that a method uses are trained.
            "training.start_from=network:NAME" starts one from another; "minutes=N" gives it
            another training time, "steps=network:NAME" as many steps as another that costs as
            much a step: times differ from run to run. "branch=network:NAME" goes on from where the
            rate of a shorter one of the same settings began to fall, which saves time and changes
            nothing (`bcdm train --branch`). "model=NAME", alone, is a model that is there already,
            by its name or its folder.
        operator: What test images are measured with, if that is not what was trained for: settings,
            a file, or "package.module:name" of what makes an operator for a size (rows, columns).
        noise_std: The same for the noise.
        methods: What is compared, by the name in the tables; the control comes by itself.
        ours: The method that others are tested against.
        beaten: Methods that ours must beat in CRPS and in the PSNR of one call.
        figure: The methods that the figure and the LaTeX table show, in order.
        samples: Per image, averaged; methods without samples give one.
        images: Test images.
        few_images: Those of them that methods with `few` are scored on, and figures show.
        tune_images: Validation images on which weights are chosen.
        tune_samples: Samples of each for that.
        precision: Of the networks in sampling; "auto" is the fastest that the device has, and what
            it was is part of what outcomes are known by.
        metrics: More numbers of images, by name: "package.module:name" of a function (estimate,
            truth) of images (B, C, H, W) to numbers (B,).
        lpips: Weights of LPIPS, in the data folder or not; its features also give a distance.
        fid: Weights of Inception, for a true FID.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    extends: Path | None = None
    base: Path
    minutes: float = Field(gt=0)
    set: tuple[str, ...] = ()
    networks: dict[str, tuple[str, ...]]
    operator: str | None = None
    noise_std: float | None = None
    methods: dict[str, ContenderConfig]
    ours: str
    beaten: tuple[str, ...] = ()
    figure: tuple[str, ...]
    samples: int = 10
    images: int = 128
    few_images: int = 64
    tune_images: int = 16
    tune_samples: int = 4
    batch: int = 16
    precision: Precision = "auto"
    seed: int = 0
    metrics: dict[str, Plug] = Field(default_factory=dict)
    lpips: Path | None = None
    fid: Path | None = None

    @field_serializer("metrics")
    def _name(self, metrics: dict[str, Plug]) -> dict[str, str]:
        return {name: describe_plug(given) for name, given in metrics.items()}

    def list_changes(self, name: str) -> list[str]:
        """Changes to the base that make a network's settings."""
        own = (_MINUTES, _STEPS, _BRANCH)
        return [c for c in (*self.set, *self.networks[name]) if not c.startswith(own)]

    def find_given(self, name: str) -> str | None:
        """The model that a network is, if it is not trained here."""
        named = [c.removeprefix(_MODEL) for c in self.networks[name] if c.startswith(_MODEL)]
        return named[0] if named else None

    def find_branch(self, name: str) -> str | None:
        """The shorter network that a network branches off."""
        named = [c.removeprefix(_BRANCH) for c in self.networks[name] if c.startswith(_BRANCH)]
        return named[0] if named else None

    def find_minutes(self, name: str) -> float:
        """The training time of a network: its own, or that of all."""
        for change in self.networks[name]:
            if change.startswith(_MINUTES):
                try:
                    return float(change.removeprefix(_MINUTES))
                except ValueError:
                    raise InputError(f"network {name!r}: {change} is no time") from None
        return self.minutes

    def find_twin(self, name: str) -> str:
        """A network whose step takes as long: the one named, or the first but for seed, start."""
        for change in self.networks[name]:
            if change.startswith(_STEPS):
                return change.removeprefix(_STEPS)
        plain = {
            other: [change for change in changes if not change.startswith((_SEED, START))]
            for other, changes in self.networks.items()
        }
        return next(other for other, changes in plain.items() if changes == plain[name])


def _list_keys(place: tuple[int | str, ...]) -> list[str]:
    return list(Task.model_fields) if len(place) == 1 else []


def load_task(path: Path) -> Task:
    """Reads a task, and what it extends."""
    try:
        task = Task.model_validate(_read(path))
    except ValidationError as error:
        raise InputError(f"{path} is no task: {explain(error, _list_keys)}") from None
    if unknown := ({task.ours, *task.figure, *task.beaten} - set(task.methods)):
        raise InputError(f"{path} compares no method {sorted(unknown)}")
    needed = {
        name: {c.split(":", 1)[1] for c in changes if c.startswith((START, _STEPS, _BRANCH))}
        for name, changes in task.networks.items()
    }
    if unknown := set().union(*needed.values()) - set(needed):
        raise InputError(f"{path} has no network {sorted(unknown)}")
    try:
        graphlib.TopologicalSorter(needed).prepare()
    except graphlib.CycleError as error:
        raise InputError(f"{path}: networks wait for each other: {error.args[1]}") from None
    for name, changes in task.networks.items():
        if task.find_given(name) is not None and len(changes) > 1:
            raise InputError(f"{path}: network {name!r} is a model that is there: no more changes")
    for name, method in task.methods.items():
        if method.network is not None and method.network not in task.networks:
            raise InputError(
                f"{path}: {name} has no network {method.network!r}: there are "
                f"{sorted(task.networks)}"
            )
    return task


def _find(path: Path, named: str) -> Path:
    """A file that another one names: beside it, or one of those that come with bcdm."""
    beside = path.parent / named
    return beside if beside.exists() else list_settings().get(named, beside)


def _read(path: Path, depth: int = 6) -> dict[str, Any]:
    """The settings of a file over those of the file that it extends."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} is no task: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is no task: it holds no settings")
    if "base" in content:
        content["base"] = _find(path, str(content["base"]))
    if "extends" not in content or depth == 0:
        return content
    parent = _read(_find(path, str(content.pop("extends"))), depth - 1)
    networks = {**parent.get("networks", {}), **content.get("networks", {})}
    changes = [*parent.get("set", ()), *content.get("set", ())]
    known = parent.get("methods", {})
    for name in ("networks", "methods"):
        if not isinstance(content.get(name, {}), dict):
            raise InputError(f"{path} is no task: {name} maps names to settings")
    chosen = content.get("methods", known).items()
    methods = {name: known.get(name) if own is None else own for name, own in chosen}
    return parent | content | {"networks": networks, "set": changes, "methods": methods}


def add_control(task: Task) -> Task:
    """The same with the linear Gaussian posterior of our network's prior among the methods."""
    if CONTROL in task.methods:
        return task
    used = [method.network for method in task.methods.values() if method.network is not None]
    network = task.methods[task.ours].network or next(iter(used), None)
    control = ContenderConfig(kind="linear_gaussian", network=network)
    return task.model_copy(update={"methods": {CONTROL: control, **task.methods}})


def scale_down(task: Task) -> Task:
    """The same with tiny networks, few images and few calls: does everything run?"""
    tiny = (
        "network.width=8",
        "network.multipliers=[1, 2]",
        "network.blocks=1",
        "network.attention=[]",
        "training.steps=4",
        "training.warmup=1",
        "training.validation_images=2",
        "training.checkpoint_every=4",
    )
    methods = {
        name: method.model_copy(update={"calls": min(method.calls, 3), "few": False})
        for name, method in task.methods.items()
    }
    networks = {
        name: tuple(change for change in changes if not change.startswith((_MINUTES, _BRANCH)))
        for name, changes in task.networks.items()
    }
    small = {
        "minutes": 0.02,
        "set": (*task.set, *tiny),
        "networks": networks,
        "methods": methods,
        "samples": 3,
        "images": 3,
        "few_images": 3,
        "tune_images": 2,
        "tune_samples": 2,
        "batch": 4,
    }
    return task.model_copy(update=small)
