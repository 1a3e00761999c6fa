"""Is a result what it says it is? Hashes, and one sample drawn again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bcdm import __version__
from bcdm.checkpoint import Model, load, load_operator
from bcdm.diffusion import DPMSolver, choose_sampler, sample
from bcdm.errors import InputError
from bcdm.files import hash_path
from bcdm.folders import MARKER, stays_inside
from bcdm.imports import find_object, name_object
from bcdm.measurement import Measurement
from bcdm.methods import Method
from bcdm.reconstruction.choice import FALLBACK, make_fallback, make_guest
from bcdm.reconstruction.files import KEPT
from bcdm.reconstruction.provenance import (
    FIXED,
    NOISE,
    hash_array,
    hash_content,
    hash_operator,
    hash_result,
    name_slice,
)
from bcdm.scans import read_provenance

__all__ = ["Verdict", "verify"]

TOLERANCE = 1e-3
_NOT_DRAWN = (
    "not drawn again, because samples, measurement and operator are not here: a service leaves "
    "them out of a result that was asked for without ?samples=true"
)


@dataclass(frozen=True)
class Verdict:
    """One thing that was looked at, whether it is right, and what was found."""

    name: str
    right: bool
    found: str


def verify(
    path: Path,
    source: Path | None = None,
    model_path: str | None = None,
    method: str | None = None,
    device: str = "cpu",
) -> list[Verdict]:
    """Checks a result against what it says of itself, and draws its first sample again.

    Args:
        path: A result, or the folder of one; what was written beside it must still be there.
        source: The input, to check that too.
        model_path: Where the model is; left out: where models are looked for by name.
        method: The import path of what drew the samples, if that is no part of bcdm: what a result
            says is compared with it, and never run by itself.
        device: Where the network runs, wherever it ran before.
    """
    if (path / MARKER).is_file():
        path = path / MARKER
    folder = _find_folder(path)
    run = _read_run(folder / MARKER)
    name = path.relative_to(folder).as_posix()
    try:
        own = name in (MARKER, "report.html", *KEPT)
        stored = run if own else read_provenance(path)
        if stored is None:
            raise InputError(f"{path} carries no provenance: was it written by bcdm?")
        whole = hash_content({name: stored[name] for name in FIXED}) == stored["id"]
        verdicts = [Verdict("provenance is whole", whole, str(stored["id"])[:16])]
        verdicts += _check_files(folder, run, stored["id"])
        verdicts += _check_slices(run, None if own else stored)
        model = load(model_path or stored["model"]["name"]).to(device)
        same = model.facts["hashes"] == stored["model"]["hashes"]
        verdicts.append(Verdict("model", same, str(stored["model"]["name"])))
        if source is not None:
            right = hash_path(source) == stored["input"]["sha256"]
            verdicts.append(Verdict("input", right, source.name))
        if all(one.right for one in verdicts):
            if _lacks_samples(folder, run):
                verdicts.append(Verdict("first sample", True, _NOT_DRAWN))
            else:
                verdicts += _check_sample(folder, stored, model, method)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: its provenance lacks {error}") from None
    return verdicts


def _find_folder(path: Path) -> Path:
    """Where the run's own files are: beside a result, or one folder above."""
    for folder in (path.parent, path.parent.parent):
        if (folder / MARKER).is_file():
            return folder
    raise InputError(f"no run.json beside {path}: leave results in the folder they were made in")


def _read_run(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError:
        raise InputError(f"{path} is not JSON") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} was not written by bcdm")
    return content


def _check_files(folder: Path, run: dict[str, Any], identity: str) -> list[Verdict]:
    """Whether run.json says what it said, and every file is as it was written."""
    said = {name: value for name, value in run.items() if name != "seal"}
    whole = hash_content(said) == run["seal"] and run["id"] == identity
    verdicts = [Verdict("run.json", whole, "as written" if whole else "changed, or of another run")]
    if not run["files"]:
        raise InputError(f"{folder} holds no results: the run was refused")
    changed, here = [], dict(run["files"])
    if _lacks_samples(folder, run):
        here = {name: digest for name, digest in here.items() if name not in KEPT}
    for name, digest in here.items():
        try:
            if not stays_inside(name):
                changed.append(f"{name} is not in this folder")
            elif not (folder / name).exists():
                changed.append(f"{name} is missing")
            elif hash_result(folder / name) != digest:
                changed.append(f"{name} has changed")
        except InputError as error:
            changed.append(str(error))
    found = "; ".join(changed) or f"{len(here)}, all as written"
    return [*verdicts, Verdict("files", not changed, found)]


def _lacks_samples(folder: Path, run: dict[str, Any]) -> bool:
    """Whether all that samples were drawn from is gone, as from a service's download."""
    listed = [name for name in KEPT if name in run["files"]]
    return bool(listed) and not any((folder / name).exists() for name in listed)


def _check_slices(run: dict[str, Any], result: dict[str, Any] | None) -> list[Verdict]:
    """Which slices are in the images, by run.json and by the result itself."""
    if "slices" not in run:  # by an earlier version, which wrote all or none
        return []
    left_out = [number for number, one in enumerate(run["slices"]) if not one["written"]]
    right = result is None or result.get("left_out", []) == left_out
    found = f"all {len(run['slices'])} written"
    if "refused" in run:
        found = "none written: the run was refused"
    elif left_out:
        found = f"left out: {', '.join(map(str, left_out))} of {len(run['slices'])}"
    return [Verdict("slices", right, found)]


def _check_sample(
    folder: Path, stored: dict[str, Any], model: Model, method: str | None
) -> list[Verdict]:
    """Operator and measurement by their hashes; then the first sample, by these."""
    import zarr

    operator = load_operator(folder / "operator.safetensors")
    with np.load(folder / "measurement.npz", allow_pickle=False) as file:
        y, std = file["y"], float(file["noise_std"])
    verdicts = [
        Verdict(
            "operator",
            hash_operator(operator) == stored["operator"]["sha256"],
            type(operator).__name__,
        ),
        Verdict("measurement", hash_array(y) == stored["measurement"]["sha256"], str(y.shape)),
    ]
    if not all(one.right for one in verdicts):
        return verdicts
    settings = stored["settings"]
    if (operator.batch or 1) > 1:
        # Coils have other maps in every slice.
        operator = operator.select(torch.tensor([0]))
    measurement = Measurement(torch.from_numpy(y[:1]), operator, std)
    scheme = settings.get("noise")
    if scheme not in (None, NOISE):
        raise InputError(f"samples are keyed {scheme!r}, by a later version: use that one")
    drew = _find_method(settings.get("method"), method, model, measurement)
    bound = drew.condition(measurement)
    sampler = choose_sampler(bound, None, DPMSolver(settings["churn"]))
    first = sample(
        bound,
        sampler,
        steps=sampler.count_steps(settings["calls"]),
        seed=settings["seed"],
        indices=[0],
        batch=settings["batch"],
        progress=False,
        # Earlier versions knew samples by their number alone.
        items=None if scheme is None else [name_slice(stored, 0)],
    )
    drawn = first[0].cpu().numpy()
    kept = np.asarray(zarr.open_array(folder / "samples.zarr", mode="r")[0, 0])
    away = float(np.abs(drawn - kept).max())
    where = "the same to the bit" if away == 0 else f"the same up to {away:.1e}"
    here = {
        "bcdm": __version__,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
    }
    made_by = stored["made by"]
    if any(made_by[name] != value for name, value in here.items()):
        where += "; made by other versions or numbers of threads"
    if (there := made_by.get("device", str(model.device))) != str(model.device):
        where += f"; made on {there}, drawn again on {model.device}"
    return [*verdicts, Verdict("first sample, drawn again", away <= TOLERANCE, where)]


def _find_method(
    said: str | None, given: str | None, model: Model, measurement: Measurement
) -> Method:
    """What drew the samples; code that is no part of bcdm only where the user names it."""
    if said is None:
        return model.method
    if said == FALLBACK:
        return make_fallback(model, measurement, "").method
    if given is None or name_object(find_object(given)) != said:
        raise InputError(
            f"the samples were drawn by {said}, code that is no part of bcdm: --method {said} runs "
            "it again"
        )
    return make_guest(model, measurement, given).method
