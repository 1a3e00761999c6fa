"""Settings of operators: a closed set of kinds."""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

__all__ = [
    "BlockMeanConfig",
    "BlocksFamilyConfig",
    "BlurConfig",
    "BlursFamilyConfig",
    "CustomConfig",
    "FamilyConfig",
    "FamilyMemberConfig",
    "FourierMaskConfig",
    "HolesFamilyConfig",
    "IdentityConfig",
    "KSpaceFamilyConfig",
    "NothingConfig",
    "OperatorConfig",
    "PixelMaskConfig",
    "Settings",
    "SingleOperatorConfig",
]


class Settings(BaseModel):
    """Settings that know all their names, and hold no number that is not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


class IdentityConfig(Settings):
    """Denoising."""

    kind: Literal["identity"]


class NothingConfig(Settings):
    """No measurement at all: an unconditional model."""

    kind: Literal["nothing"]


MaskPattern = Literal[
    "points",
    "lines",
    "radial",
    "free_points",
    "free_columns",
    "free_rows",
    "random_columns",
    "random_rows",
    "equispaced_columns",
    "equispaced_rows",
    "poisson",
]


class KSpaceFamilyConfig(Settings):
    """k-space masks; see problems/families.py."""

    kind: Literal["k_space"]
    acceleration: tuple[float, float] = (2.0, 12.0)
    patterns: tuple[MaskPattern, ...] = ("points", "lines", "radial")
    centre: float = 0.08


class HolesFamilyConfig(Settings):
    """Pixel masks."""

    kind: Literal["holes"]
    hidden: tuple[float, float] = (0.05, 0.4)
    shapes: tuple[Literal["centre", "box", "strokes"], ...] = ("centre", "box", "strokes")


class BlursFamilyConfig(Settings):
    """Gaussian and motion kernels."""

    kind: Literal["blurs"]
    std: tuple[float, float] = (0.4, 2.0)
    length: tuple[float, float] | None = (2.0, 10.0)


class BlocksFamilyConfig(Settings):
    """Box means."""

    kind: Literal["blocks"]
    factors: tuple[int, ...] = (2, 4, 8)


FamilyMemberConfig = KSpaceFamilyConfig | HolesFamilyConfig | BlursFamilyConfig | BlocksFamilyConfig


class FamilyConfig(Settings):
    """An operator drawn for every training image, from one of several families."""

    kind: Literal["family"]
    members: tuple[Annotated[FamilyMemberConfig, Field(discriminator="kind")], ...] = Field(
        min_length=1
    )
    nothing: float = Field(default=0.0, ge=0, lt=1)
    """The fraction of samples of which nothing is measured: the network is a prior, too."""

    @model_serializer(mode="wrap")
    def _leave_out_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As in DataConfig."""
        stored: dict[str, Any] = write(self)
        return {k: v for k, v in stored.items() if v or k != "nothing"}


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
    | IdentityConfig
    | NothingConfig
)
OperatorConfig = Annotated[
    SingleOperatorConfig | FamilyConfig | CustomConfig, Field(discriminator="kind")
]
