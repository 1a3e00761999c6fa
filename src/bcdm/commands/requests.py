"""What `bcdm reconstruct` is asked for, and whether it was done before. Needs no torch."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bcdm import __version__
from bcdm.commands.echo import answer, say
from bcdm.errors import InputError
from bcdm.files import hash_path
from bcdm.imports import find_object, hash_source, is_import_path
from bcdm.shelf import find_model

__all__ = ["Given", "describe_request", "name_left_out", "show_finished"]


@dataclass(frozen=True)
class Given:
    """What a user says about the inputs.

    Attributes:
        mask: File that says what was measured.
        operator: A stored operator, or its settings.
        key: The array to read.
        noise_std: In the file's units.
        features: Regions to judge.
        simulate: Whether the inputs are clean images.
        maps: File with what each coil sees.
        keep_complex: Whether complex images are wanted, too.
        body: File with the same slices by a body coil.
        body_key: The array of it.
        method: "model", "auto", or the import path of what makes a method of a prior.
    """

    mask: Path | None = None
    operator: str | None = None
    key: str | None = None
    noise_std: float | None = None
    features: tuple[str, ...] = ()
    simulate: bool = False
    maps: Path | None = None
    keep_complex: bool = False
    body: Path | None = None
    body_key: str | None = None
    method: str = "model"

    def __post_init__(self) -> None:
        if self.method not in ("model", "auto") and not is_import_path(self.method):
            raise InputError(
                f"--method is model, auto or an import path package.module:name, not {self.method}"
            )
        if self.simulate and self.mask is not None:
            raise InputError("--simulate measures clean images itself: give --operator, not --mask")
        if self.operator is not None and self.mask is not None:
            raise InputError("a mask says what was measured, and so does an operator: give one")
        for name, given in (("--maps", self.maps), ("--body", self.body)):
            if given is not None and (self.simulate or self.operator is not None):
                raise InputError(
                    f"{name} goes with k-space alone: leave out --simulate and --operator"
                )
        if self.body_key is not None and self.body is None:
            raise InputError("--body-key is for --body: give that, too")
        if self.maps is not None and self.body is not None:
            raise InputError("maps are known by --maps or estimated by --body: give one of them")


def describe_request(path: Path, model: str, settings: Mapping[str, float], given: Given) -> str:
    """A hash of all that a result depends on, files by what they hold.

    Empty where a file cannot be read: the command itself says then what is wrong.

    Args:
        path: The input.
        model: Name or folder.
        settings: Of the plan.
        given: What is said about the input.
    """
    # Masks of regions; a region may also be the number of a slice, a comma and a file.
    files = [Path(part) for text in given.features for part in (text, text.partition(",")[2])]
    if given.operator is not None and Path(given.operator).suffix == ".safetensors":
        files.append(Path(given.operator))
    files += [one for one in (given.maps, given.body) if one is not None]
    more: dict[str, object] = {"complex": True} if given.keep_complex else {}
    more |= {} if given.body is None else {"body": given.body_key}
    if given.method != "model":
        more["method"] = given.method
    if is_import_path(given.method):
        more["method code"] = hash_source(find_object(given.method))
    try:
        content = {
            "version": __version__,
            "name": path.name,
            "input": hash_path(path),
            # It holds the hashes of the weights.
            "model": hash_path(find_model(model) / "config.json"),
            "settings": dict(settings) | more,
            "mask": None if given.mask is None else hash_path(given.mask),
            "given": [given.operator, given.key, given.noise_std, given.simulate, given.features],
            "files": [hash_path(file) for file in files if file.is_file()],
        }
    except (InputError, OSError):
        return ""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def name_left_out(numbers: Sequence[int]) -> str:
    """The line about slices that are not in the images."""
    named = ", ".join(map(str, numbers))
    return f"left out of the images, because their cards are red: slices {named} (counted from 0)"


def show_finished(out: Path, found: Mapping[str, Any]) -> None:
    """Says again what a finished run found; a run that was refused is refused again."""
    if "refused" in found:
        raise InputError(found["refused"])
    left_out = [number for number, one in enumerate(found["slices"]) if not one["written"]]
    if left_out:
        say(name_left_out(left_out))
    answer(f"{found['trust']['light']}: {found['trust']['summary']}")
    for one in found["features"]:
        answer(f"{one['feature']}: {one['in words']}")
    for name in found["files"]:
        answer(f"there already: {out / name}")
