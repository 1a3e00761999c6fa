"""What a client asks for: plain values, checked at the door, and never a path of this machine."""

import re
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bcdm import __version__
from bcdm.files import hash_content

if TYPE_CHECKING:
    from bcdm.checkpoint.kinds import SingleOperatorConfig

__all__ = ["Asked", "AskedJob", "make_safe_name"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST = 100

Text = Annotated[str, Field(max_length=200)]

# Settings of an operator as JSON, as far as a pattern tells: names with numbers, words or lists of
# numbers, and a kind. The document of the service says it, too: what it allows is accepted.
_NUMBER = r"-?(0|[1-9][0-9]{0,17})([.][0-9]{1,17})?([eE][-+]?[0-9]{1,2})?"
_WORD = '"[A-Za-z0-9_ .-]*"'
_VALUE = rf"({_NUMBER}|{_WORD}|true|false|null|\[ *({_NUMBER}( *, *{_NUMBER})*)? *\])"
_PAIR = f'"[a-z_]+" *: *{_VALUE}'
_SETTINGS = rf'^ *\{{ *({_PAIR} *, *)*"kind" *: *"[a-z_]+"( *, *{_PAIR})* *\}} *$'


def make_safe_name(name: str) -> str:
    """A file name of letters, digits and a few signs, that stays in its folder.

    >>> make_safe_name("../../scan 1.nii.gz"), make_safe_name("")
    ('scan_1.nii.gz', 'scan')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    # The ending says more than the front.
    return _UNSAFE.sub("_", last)[-_LONGEST:].lstrip(".-_") or "scan"


class Asked(BaseModel):
    """What can be said of a file.

    Attributes:
        name: Of the file; results are named after it.
        key: The array to read, if the file holds several.
        noise_std: In the file's units; estimated when left out.
        operator: How it was measured, if the file does not say: settings as JSON.
        seed: Of all noise.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text = Field(default="scan", description="Of the file; results are named after it.")
    key: Text | None = Field(
        default=None, description="The array to read, if the file holds several."
    )
    noise_std: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="In the file's units; estimated when left out.",
    )
    operator: Annotated[Text, Field(json_schema_extra={"pattern": _SETTINGS})] | None = Field(
        default=None,
        description='How it was measured, as JSON: {"kind": "gaussian_blur", "std": 1.3}.',
    )
    seed: int = Field(default=0, ge=0, lt=1 << 63, description="Of all noise.")

    @field_validator("operator")
    @classmethod
    def _check_operator(cls, operator: str | None) -> str | None:
        """A name of a file would be one of this machine."""
        if operator is not None and not re.fullmatch(_SETTINGS, operator):
            raise ValueError("an operator is an object of JSON with its kind")
        return operator

    def parse_operator(self) -> "SingleOperatorConfig | None":
        """The settings of the operator."""
        if self.operator is None:
            return None
        from bcdm.checkpoint.settings import parse_operator  # the gateway needs no torch

        return parse_operator(self.operator)


class AskedJob(Asked):
    """What can be asked of a job.

    Attributes:
        samples: Of each slice.
        calls: Network calls per sample; as the model was calibrated when left out.
        batch: Samples at once; it may change the last digits.
        force: Whether results are written although the trust card is red.
        simulate: Whether the file is a clean image that is to be degraded first.
    """

    samples: int = Field(default=16, ge=9, le=256, description="Of each slice.")
    calls: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Network calls per sample; as the model was calibrated when left out.",
    )
    batch: int = Field(default=8, ge=1, le=64, description="Samples at once.")
    force: bool = Field(default=False, description="Write results although the trust card is red.")
    simulate: bool = Field(
        default=False, description="The file is a clean image: degrade it first."
    )

    def describe(self, model: str) -> str:
        """A hash of all that the result depends on beside the file.

        Args:
            model: The hash of the model's settings, which hold those of its weights.
        """
        return hash_content({"bcdm": __version__, "model": model, **self.model_dump()})

    @classmethod
    def decode(cls, text: str) -> Self:
        """From what was stored."""
        return cls.model_validate_json(text)
