"""Settings of operators: a closed set of kinds."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from bcdm.problems.families import Blocks, Blurs, Holes, KSpace
from bcdm.problems.receivers import Receivers

__all__ = [
    "BlockMeanConfig",
    "BlurConfig",
    "CustomConfig",
    "FamilyConfig",
    "FourierMaskConfig",
    "IdentityConfig",
    "Member",
    "NothingConfig",
    "OperatorConfig",
    "PixelMaskConfig",
    "RadonConfig",
    "Settings",
    "SingleOperatorConfig",
]

# Letters of a text that is read at a glance.
_TOLD = 80


class Settings(BaseModel):
    """Settings that know all their names, and hold no number that is not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def __repr__(self) -> str:
        """One line of what is not as usual; `model_dump` gives all."""
        told = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.default:
                told.append(_tell(name, value))
        while len(", ".join(told)) > _TOLD:
            told[-2:] = ["..."]
        return f"{type(self).__name__}({', '.join(told)})"


def _tell(name: str, value: object) -> str:
    """A setting in few words: what holds more settings is told by its kind alone."""
    parts = value if isinstance(value, tuple) else (value,)
    if all(part is None or isinstance(part, str | int | float) for part in parts):
        return f"{name}={value!r}"
    return f"{len(parts)} {name}" if isinstance(value, tuple) else f"{name}: {type(value).__name__}"


class FourierMaskConfig(Settings):
    """Single-coil MRI of real images under a variable-density mask."""

    kind: Literal["fourier_mask"]
    acceleration: float = Field(default=8.0, ge=1)
    centre: float = 0.08
    lines: bool = False
    seed: int = 0


class PixelMaskConfig(Settings):
    """Inpainting of a box in the middle."""

    kind: Literal["centre_box"]
    box: tuple[int, int]


class BlockMeanConfig(Settings):
    """Box super-resolution."""

    kind: Literal["block_mean"]
    factor: tuple[int, int]
    scaling: Literal["unitary", "mean"] = "unitary"


class BlurConfig(Settings):
    """Deblurring of a Gaussian kernel."""

    kind: Literal["gaussian_blur"]
    std: float


class RadonConfig(Settings):
    """Tomography with evenly spaced angles; all lengths in pixels, see `bcdm.operators.Radon`."""

    kind: Literal["radon"]
    angles: int = Field(gt=0)
    arc: float | None = Field(default=None, gt=0, le=360)
    """Degrees that the angles are spread over; left out: 180, and 360 for a fan beam."""
    detectors: int | None = Field(default=None, gt=0)
    spacing: float = Field(default=1.0, gt=0)
    centre: float | None = None
    source_distance: float | None = Field(default=None, gt=0)
    detector_distance: float = Field(default=0.0, ge=0)
    scaling: Literal["unit", "length"] = "unit"


class IdentityConfig(Settings):
    """Denoising."""

    kind: Literal["identity"]


class NothingConfig(Settings):
    """No measurement at all: an unconditional model."""

    kind: Literal["nothing"]


Member = KSpace | Receivers | Holes | Blurs | Blocks


class FamilyConfig(Settings):
    """An operator drawn for every training image, from one of several families."""

    kind: Literal["family"]
    members: tuple[Annotated[Member, Field(discriminator="kind")], ...] = Field(min_length=1)
    nothing: float = Field(default=0.0, ge=0, lt=1)
    """The fraction of samples of which nothing is measured: the network is a prior, too."""

    @model_serializer(mode="wrap")
    def _leave_out_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What came later is stored where it is used: settings of finished runs stay the same."""
        stored: dict[str, Any] = write(self)
        if not self.nothing:
            del stored["nothing"]
        for plain, member in zip(stored["members"], self.members, strict=True):
            if isinstance(member, KSpace) and member.middle == KSpace.middle:
                del plain["middle"]
            if isinstance(member, Receivers):
                for name in ("maps", "partial"):
                    if not getattr(member, name):
                        del plain[name]
        return stored


class CustomConfig(Settings):
    """An operator that was given as an object or a file, and what tells it from others."""

    kind: Literal["custom"]
    name: str
    measured: tuple[int, ...]
    """The shape of a measurement."""
    size: float
    """Of a measurement of fixed noise, to four digits."""
    projections: tuple[float, ...] = ()
    """Of such measurements on fixed directions; none in models of earlier versions."""


SingleOperatorConfig = (
    FourierMaskConfig
    | PixelMaskConfig
    | BlockMeanConfig
    | BlurConfig
    | RadonConfig
    | IdentityConfig
    | NothingConfig
)
OperatorConfig = Annotated[
    SingleOperatorConfig | FamilyConfig | CustomConfig, Field(discriminator="kind")
]
