"""One YAML per run, typed: unknown keys are errors that name the nearest valid one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_serializer,
)

from bcdm.checkpoint.kinds import (
    BlockMeanConfig,
    BlurConfig,
    FamilyConfig,
    FourierMaskConfig,
    OperatorConfig,
    PixelMaskConfig,
    RadonConfig,
    Settings,
    SingleOperatorConfig,
)
from bcdm.checkpoint.mistakes import explain
from bcdm.errors import InputError
from bcdm.machine import Precision
from bcdm.methods import Parameterisation
from bcdm.networks import Structure
from bcdm.problems import Levels
from bcdm.problems.families import Blocks, Blurs, Family, Holes, KSpace
from bcdm.problems.receivers import Receivers
from bcdm.shelf import find_settings

__all__ = [
    "DataConfig",
    "RunConfig",
    "ScopeConfig",
    "SourceConfig",
    "TrainingConfig",
    "change_config",
    "load_config",
    "parse_config",
    "parse_operator",
]


Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


# Settings that came later, whose default changes nothing.
_LATER = ("count", "lesions", "contrast", "turn", "zoom", "phase", "shading")


class DataConfig(Settings):
    """Where clean images come from and how they are prepared.

    Not `Preparation` and `Augmentation` themselves: a file has one flat group for both, and the
    source's range may be unknown until its images are open. A test holds the three together.
    """

    path: str
    """File or folder, relative to the data folder (--data or BCDM_DATA) or absolute."""
    key: str | None = None
    size: tuple[int, int] | None = None
    channels: Literal[1, 3] | None = None
    crop: tuple[int, int, int, int] | None = None
    value_range: tuple[float, float] = (-1.0, 1.0)
    source_range: tuple[float, float] | None = None
    """Of the stored numbers; read off the files for 8- and 16-bit images when left out."""
    fractions: dict[str, float] = Field(default={"train": 0.8, "val": 0.1, "test": 0.1})
    split_seed: int = 0
    flip: bool = False
    shift: int = 0
    lesions: float = Field(default=0.0, ge=0, le=1)
    """The fraction of training images that get lesions; see data/lesions.py."""
    contrast: float = Field(default=0.0, ge=0, le=1)
    """The fraction of training images that get other grey levels."""
    turn: float = Field(default=0.0, ge=0, le=180)
    """Training images are turned by up to so many degrees."""
    zoom: float = Field(default=0.0, ge=0, le=1)
    """And scaled by a factor of up to 1 + zoom, down to its inverse."""
    phase: bool = False
    """Whether images become complex by a random smooth phase; value_range starts at 0 then."""
    shading: float = Field(default=0.0, ge=0, le=1)
    """Images get a smooth factor whose logarithm varies by up to so much; value_range as above."""
    cache: bool = True
    count: int | None = Field(default=None, gt=0)
    """Training images in `path`, for plans that are made where the images are not."""

    @property
    def dtype(self) -> torch.dtype:
        """The number type of prepared images."""
        return torch.complex64 if self.phase else torch.float32

    @model_serializer(mode="wrap")
    def _leave_out_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Where nothing is stated nothing is stored: settings of finished runs stay the same."""
        stored: dict[str, Any] = write(self)
        return {k: v for k, v in stored.items() if v or k not in _LATER}


@dataclass(frozen=True)
class NetworkConfig(Structure):
    """The backbone, how often it is unrolled and how many share the noise levels.

    Attributes:
        kind: "ncsnpp" is the paper's, "plain" a U-Net without norms, attention, filters and
            progressive images, which learns more in the same time on a processor.
        iterations: Of the unrolled network.
        experts_below_t: Two experts split at this step of 1000 (the paper: 50); one network when
            left out.
    """

    iterations: Annotated[int, Field(ge=1, le=1000)] = 1
    experts_below_t: int | None = None
    kind: Literal["ncsnpp", "plain"] = "ncsnpp"

    def __post_init__(self) -> None:
        """Refuses settings that would say nothing."""
        super().__post_init__()
        names = ("attention", "bottleneck_attention", "progressive_input", "progressive_output")
        said = [name for name in (*names, "fir", "dropout") if self._says(name)]
        if self.kind == "plain" and said:
            raise InputError(f"a plain network has no {', '.join(said)}: leave out")

    def _says(self, name: str) -> bool:
        """Whether a value is another one than where nothing is said."""
        standard = {one.name: one.default for one in fields(NetworkConfig)}
        return bool(getattr(self, name) != standard[name])


class ScheduleConfig(Settings):
    """The diffusion."""

    kind: Literal["VP", "VE", "bridge"] = "VP"
    sigma_min: float = 0.002
    spread: float | None = None
    """Of the most uncertain direction, for grids that skip where nothing is decided."""


class TrainingConfig(Settings):
    """The optimisation."""

    steps: int = Field(gt=0)
    batch: int = Field(default=32, gt=0)
    accumulation: int = Field(default=1, gt=0)
    learning_rate: float = Field(default=2e-4, gt=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    warmup: int = Field(default=200, ge=0)
    decay: bool | Share = True
    """The learning rate falls to zero as a cosine over all steps; a share, such as .2: it is
    constant, then falls linearly over that share of the steps, and `bcdm train --branch` can go on
    from there to a longer run; False: it stays."""
    clip: Positive = 1.0
    """The largest norm of a gradient."""
    ema: Share = 0.999
    """What is kept of the averaged weights at each step."""
    precision: Precision = "float32"
    """Of the network; "auto" is the fastest that the device has, and stored as what it was."""
    weights: Literal["float32", "float16"] = "float32"
    """How matrices are stored in the model; training state keeps full precision."""
    seed: int = 0
    start_from: str | None = None
    """A model (name or folder) of the same network, whose weights training starts from."""
    log_every: int = Field(default=20, gt=0)
    validate_every: int = Field(default=1000, gt=0)
    validation_images: int = Field(default=64, gt=0)
    checkpoint_every: int = Field(default=500, gt=0)
    keep: int = Field(default=2, gt=0)
    levels: Levels = Levels()

    def find_fall(self) -> int:
        """The step from which on the rate falls."""
        if isinstance(self.decay, bool):
            return 0 if self.decay else self.steps
        return self.steps - round(self.decay * self.steps)


class ScopeConfig(Settings):
    """Which images a model is for, where its network takes other sizes than that of training."""

    sides: tuple[int, int]
    """The smallest and the largest side in pixels."""
    spacing: tuple[Positive, Positive]
    """The smallest and the largest distance of pixels in mm."""

    @field_validator("sides", "spacing")
    @classmethod
    def _check_order(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not 0 < bounds[0] <= bounds[1]:
            raise ValueError(f"a range [from, to] is needed, got {list(bounds)}")
        return bounds


class SourceConfig(Settings):
    """More training images, of another size: each batch of a run is of one source."""

    data: DataConfig
    operator: OperatorConfig | None = None
    """What they are measured with; left out: as those of `data`."""
    batch: int = Field(default=1, gt=0)
    share: int = Field(default=1, gt=0)
    """How many steps of a cycle are of this source; one is of `data`."""
    strip: int | None = Field(default=None, gt=0)
    """Images are cut to so many lines, for masks that are all of whole columns, or all of rows."""


class RunConfig(Settings):
    """Everything that fixes a training run."""

    name: str
    data: DataConfig
    operator: OperatorConfig
    noise_std: Positive | tuple[Positive, Positive]
    """In units of the prepared images (`data.value_range`); a range is drawn log-uniformly."""
    schedule: ScheduleConfig = ScheduleConfig()
    network: NetworkConfig = NetworkConfig()
    parameterisation: Parameterisation = Parameterisation()
    training: TrainingConfig
    scope: ScopeConfig | None = None
    """Sizes that the model is for; left out: the size of its training images alone."""
    sources: tuple[SourceConfig, ...] = ()
    """More training images beside `data`."""
    strip: int | None = Field(default=None, gt=0)
    """As that of sources, for the images of `data`; validation has whole ones."""

    @model_serializer(mode="wrap")
    def _leave_out_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As for data: settings of finished runs stay the same."""
        stored: dict[str, Any] = write(self)
        return {k: v for k, v in stored.items() if v or k not in ("scope", "sources", "strip")}


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a YAML file, or one that comes with bcdm, and applies overrides such as "a.b=100"."""
    try:
        raw = yaml.safe_load(find_settings(path).read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise InputError(f"{path} holds no settings: start from one that `bcdm settings` lists")
    for override in overrides:
        _override(raw, override)
    return parse_config(raw)


def change_config(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Settings with overrides such as "a.b=100"."""
    raw = config.model_dump(mode="json")
    for override in overrides:
        _override(raw, override)
    return parse_config(raw)


def parse_config(raw: dict[str, Any]) -> RunConfig:
    """Checks settings; the first mistake is one line that names the fix."""
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        raise InputError(explain(error, _known_keys)) from None


def parse_operator(text: str) -> SingleOperatorConfig:
    """Reads the settings of one operator, such as "{kind: block_mean, factor: [4, 4]}"."""
    adapter: TypeAdapter[SingleOperatorConfig] = TypeAdapter(
        Annotated[SingleOperatorConfig, Field(discriminator="kind")]
    )
    try:
        return adapter.validate_python(yaml.safe_load(text))
    except ValidationError as error:
        raise InputError(f"operator: {explain(error, _known_keys)}") from None
    except yaml.YAMLError:
        raise InputError(f"operator {text!r} is not YAML") from None


def resolve_data_path(path: str | Path, folder: str | Path | None) -> Path:
    """Where data is: absolute, or below --data or BCDM_DATA."""
    root = folder if folder is not None else os.environ.get("BCDM_DATA")
    if Path(path).is_absolute():
        return Path(path)
    if root is None and not Path(path).exists():
        raise InputError(
            f"no data folder for {path}: give --data or set BCDM_DATA; `bcdm data` makes one"
        )
    return Path(path) if root is None else Path(root) / path


def _override(raw: dict[str, Any], override: str) -> None:
    key, sign, value = override.partition("=")
    if not sign:
        raise InputError(f"--set takes a.b=value, got {override!r}")
    *parents, last = key.split(".")
    inner = raw
    for parent in parents:
        inner = inner.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise InputError(f"--set {override}: {parent} is a value, not a group")
    try:
        inner[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        raise InputError(f"--set {override}: the value is not YAML") from None


def _known_keys(place: tuple[int | str, ...]) -> list[str]:
    """The settings of the group that an unknown one stands in."""
    group = _GROUPS.get(place[-2], RunConfig) if len(place) > 1 else RunConfig
    if issubclass(group, BaseModel):
        return list(group.model_fields)
    return [field.name for field in fields(group)]


_Group = type[BaseModel] | type[Structure] | type[Parameterisation] | type[Family] | type[Levels]
_GROUPS: dict[int | str, _Group] = {
    "block_mean": BlockMeanConfig,
    "blocks": Blocks,
    "blurs": Blurs,
    "centre_box": PixelMaskConfig,
    "data": DataConfig,
    "family": FamilyConfig,
    "fourier_mask": FourierMaskConfig,
    "gaussian_blur": BlurConfig,
    "holes": Holes,
    "k_space": KSpace,
    "radon": RadonConfig,
    "receivers": Receivers,
    "levels": Levels,
    "network": NetworkConfig,
    "parameterisation": Parameterisation,
    "schedule": ScheduleConfig,
    "scope": ScopeConfig,
    "sources": SourceConfig,
    "training": TrainingConfig,
}
