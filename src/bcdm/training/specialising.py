"""From a model of a family to one of a single operator: a short training from its weights."""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bcdm.checkpoint import Model, load
from bcdm.checkpoint.kinds import IdentityConfig
from bcdm.checkpoint.settings import RunConfig, change_config
from bcdm.errors import InputError
from bcdm.files import write_text
from bcdm.machine import Precision, choose_precision, find_device
from bcdm.measurement import Measurement
from bcdm.operators import LinearOperator
from bcdm.training.run import has_data, run_settings, time_settings

__all__ = ["MINUTES", "Origin", "derive_settings", "load_base", "specialise"]

MINUTES = 10.0
_BATCH = 16  # at most: more steps of fewer images bring more (docs/decisions/0048)
_STORED = "specialised.json"


@dataclass(frozen=True)
class Origin:
    """Where a specialised model comes from, and how long it was trained.

    Attributes:
        model: The name of the model it started from.
        sha256: Of that model's weights.
        operator: What it was specialised for, in words.
        steps: Of training.
        minutes: That were asked for; None where steps were.
        seconds: That a step took, where minutes were turned into steps.
    """

    model: str
    sha256: str
    operator: str
    steps: int
    minutes: float | None = None
    seconds: float | None = None

    def to_facts(self) -> dict[str, object]:
        """As a model folder holds it."""
        plain = asdict(self)
        return {"from": plain.pop("model")} | {k: v for k, v in plain.items() if v is not None}


def specialise(
    name: str | Path,
    operator: LinearOperator,
    *,
    label: str,
    noise_std: float | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    overrides: Sequence[str] = (),
    data: Path | None = None,
    out: Path | None = None,
    device: str = "auto",
    precision: Precision = "float32",
    dry_run: bool = False,
    report: Callable[[str], None] = print,
) -> Path:
    """Trains a model for one operator, from the weights of one for many; returns its folder.

    Its images, network and augmentation are those of the model it starts from. The same call goes
    on after any interruption. The number of steps fixes the result; minutes are turned into steps
    once, by some first steps that are timed and thrown away, and that number is kept.

    Args:
        name: The model to start from: a name, or a folder.
        operator: What images are measured with.
        label: What the operator is called in the model's name and card.
        noise_std: In the units of the model's images; left out: its own, if it has one level.
        minutes: Of training, as `steps`; 10 where neither is given.
        steps: Of training.
        overrides: Changes to the settings, such as "training.batch=8".
        data: The folder with the images it was trained on; BCDM_DATA when left out.
        out: Where the run is kept; runs/NAME when left out.
        device: Where to train; "auto" is CUDA where there is some.
        precision: Of the network in training, whatever the model's own was.
        dry_run: Whether to say what would be done only.
        report: Takes lines of progress.
    """
    asked = _check_length(minutes, steps)
    model = load_base(name)
    level = _choose_noise(model, noise_std)
    _tell_unfamiliar(model, operator, level, report)

    def derive(count: int) -> RunConfig:
        derived = derive_settings(
            model.config,
            name=f"{model.name}-{_shorten(label)}",
            noise_std=level,
            steps=count,
            start_from=str(name),
            precision=choose_precision(precision, find_device(device)),
        )
        return change_config(derived, overrides)

    first = derive(1 if steps is None else steps)
    _check(model, first, steps, data)
    folder = out or Path("runs") / first.name
    weights = model.facts["hashes"]["model.safetensors"]
    origin = Origin(model.name, weights, label, steps or 0, asked)
    if asked is not None:
        origin = _count_steps(origin, folder, lambda: time_settings(first, data, operator, device))
        report(f"{asked:g} minutes are {origin.steps} steps of {origin.seconds:.2f} s")
    if not dry_run:
        _keep(origin, folder)
    return run_settings(
        derive(origin.steps),
        data,
        folder,
        dry_run=dry_run,
        report=report,
        operator=operator,
        device=device,
        facts={"specialised": origin.to_facts()},
    )


def derive_settings(
    base: RunConfig,
    *,
    name: str,
    noise_std: float,
    steps: int,
    start_from: str,
    precision: str = "float32",
) -> RunConfig:
    """Settings of a short training from a model's weights, for an operator that is given with them.

    The rate is the base's and ends at zero. The average of weights needs no setting: its memory is
    a ninth of the steps so far, until the base's own is reached. Draws are others than in the
    base's training.
    """
    training = base.training.model_copy(
        update={
            "steps": steps,
            "start_from": start_from,
            "batch": min(base.training.batch, _BATCH),
            "warmup": min(base.training.warmup, max(1, steps // 10)),
            "decay": True,
            "precision": precision,
            "seed": base.training.seed + 1,
            "validate_every": max(1, steps // 4),
            "checkpoint_every": max(1, steps // 10),
        }
    )
    # One operator is for images of one size; what is given takes the place of the identity.
    one = {"operator": IdentityConfig(kind="identity"), "sources": (), "scope": None, "strip": None}
    return base.model_copy(
        update={"name": name, "noise_std": noise_std, "training": training} | one
    )


def load_base(name: str | Path) -> Model:
    """The model to start from, if it can be specialised."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("specialising runs in one process: start it without torchrun")
    model = load(name)
    if model.config.data.phase:
        raise InputError(
            f"{model.name} makes complex images of coils, whose maps differ from scan to scan: "
            "there is no one operator to specialise it for"
        )
    return model


def _check(model: Model, config: RunConfig, steps: int | None, data: Path | None) -> None:
    """Refuses settings that cannot be trained as asked."""
    if config.training.steps != (1 if steps is None else steps):
        raise InputError("the number of steps is given by --steps, not by --set training.steps")
    if not has_data(config, data):
        raise InputError(
            f"specialising needs the images that {model.name} was trained on, "
            f"{config.data.path}, which are not here: name the folder with it by --data or "
            "BCDM_DATA (`bcdm data` makes it), or other images by --set data.path=PATH"
        )


def _check_length(minutes: float | None, steps: int | None) -> float | None:
    """The minutes that are asked for; None where steps are."""
    if minutes is not None and steps is not None:
        raise InputError("say how long in minutes or in steps, not in both")
    if minutes is not None and not 0 < minutes < math.inf:
        raise InputError(f"minutes must be a number above 0, got {minutes}")
    if steps is not None:
        return None
    return MINUTES if minutes is None else minutes


def _choose_noise(model: Model, given: float | None) -> float:
    """The level to specialise for."""
    own = model.config.noise_std
    if given is None and (isinstance(own, tuple) or model.config.operator.kind == "nothing"):
        served = f" of {own[0]:g} to {own[1]:g}" if isinstance(own, tuple) else ""
        raise InputError(
            f"{model.name} serves noise levels{served} on images in {list(model.value_range)}: "
            "say yours by --noise-std, in these units"
        )
    level = model.noise_std if given is None else given
    if not 0 < level < math.inf:
        raise InputError(f"noise_std must be a number above 0, got {level}")
    return level


def _tell_unfamiliar(
    model: Model, operator: LinearOperator, noise_std: float, report: Callable[[str], None]
) -> None:
    """Says where the problem is none of the family's: there is then more to learn."""
    try:
        blank = operator.forward(torch.zeros(1, *model.shape))
    except (RuntimeError, IndexError) as error:
        line = " ".join(str(error).split())[:200]
        raise InputError(f"the operator does not take images {model.shape}: {line}") from None
    for verdict in model.judge(Measurement(blank, operator, noise_std)):
        if verdict.reason:
            report(f"outside of what {model.name} was trained for: {verdict.reason}")


def _shorten(label: str) -> str:
    """A part of a name: letters, numbers and dashes."""
    plain = "".join(one if one.isalnum() else " " for one in label)
    return "-".join(plain.split())[:80] or "one"


def _count_steps(origin: Origin, folder: Path, time_step: Callable[[], float]) -> Origin:
    """Minutes as steps: those of a run in progress, or by timing some."""
    begun = _read(folder)
    if begun is not None:
        if begun.minutes != origin.minutes:
            told = f"{begun.steps} steps" if begun.minutes is None else f"{begun.minutes:g} minutes"
            raise InputError(f"{folder} holds a run of {told}: choose another --out, or remove it")
        return Origin(**asdict(origin) | {"steps": begun.steps, "seconds": begun.seconds})
    seconds = time_step()
    assert origin.minutes is not None
    counted = max(1, round(60 * origin.minutes / seconds))
    return Origin(**asdict(origin) | {"steps": counted, "seconds": seconds})


def _read(folder: Path) -> Origin | None:
    """Where the run in a folder comes from; None before its first checkpoint."""
    if not any((folder / "checkpoints").glob("step-*")):
        return None
    try:
        return Origin(**json.loads((folder / _STORED).read_text()))
    except (OSError, ValueError, TypeError):
        raise InputError(f"{folder} holds a run of another kind: choose another --out") from None


def _keep(origin: Origin, folder: Path) -> None:
    """Notes the origin beside the run; refuses to go on from other weights."""
    begun = _read(folder)
    if begun is not None:
        if begun.sha256 != origin.sha256:
            raise InputError(
                f"{folder} holds a run that started from other weights, of {begun.model}: choose "
                "another --out, or remove it"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / _STORED, json.dumps(asdict(origin), indent=1) + "\n")
