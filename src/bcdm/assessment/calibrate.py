"""Fits a model's calibration on images of its own data, and stores it with the model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from bcdm.assessment.images import choose_images, choose_training_images
from bcdm.checkpoint import Model, find_model, load
from bcdm.checkpoint.calibration import Calibration, store_calibration
from bcdm.checkpoint.given import read_operator
from bcdm.checkpoint.regions import RegionFactors
from bcdm.checkpoint.widths import LocalFactors
from bcdm.errors import InputError
from bcdm.machine import Precision, autocast
from bcdm.operators import LinearOperator
from bcdm.reconstruction import calibrating

__all__ = ["calibrate_model", "check_enough"]

# Clauses of what a calibration says that it was fitted on.
_TYPICAL, _WIDTHS = "; what is typical on ", "; widths of intervals on "
_REGIONS = "; contrasts of regions on "
_FALLBACK = "; widths of MMPS on "

Only = Literal["regions", "fallback"]
"""What is fitted alone: widths of contrasts of regions, or of intervals that MMPS draws."""


def calibrate_model(
    name: str,
    *,
    operator: LinearOperator | str | None = None,
    data: Path | None = None,
    limit: int | None = None,
    samples: int = 20,
    calls: int | None = None,
    intervals: int = 60,
    typical: int = 400,
    keep_intervals: bool = False,
    keep_looks: bool = False,
    only: Only | None = None,
    times: int = 1,
    precision: Precision = "float32",
    device: str = "cpu",
    seed: int = 0,
    report: Callable[[str], None] = print,
) -> Calibration:
    """Fits trust card and widths of intervals on validation images, and stores them.

    Args:
        name: The model, or its folder.
        operator: What it was trained with, or an import path of what makes it for a size; left
            out: what is stored with it.
        data: The data folder; BCDM_DATA when left out.
        limit: At most so many validation images; None takes all.
        samples: Per image.
        calls: Network calls per sample; as before when left out.
        intervals: Images that widths are fitted on.
        typical: Training images that say what is typical.
        keep_intervals: Whether the widths that are stored stay.
        keep_looks: Whether what is stored as typical stays.
        only: Whether all that is stored stays, but for this.
        times: How often each image is measured to be compared with.
        precision: Of the network.
        device: Where it runs.
        seed: Of measurements and samples.
        report: Takes lines of progress.
    """
    if isinstance(operator, str):
        shape = load(name).shape
        operator = read_operator(operator, (shape[-2], shape[-1]), code=True)
    model = load(name, operator).to(device)
    calls = calls or model.calls
    source, rows = choose_images(model, data, "val", limit)
    images = torch.stack([model.preparation(source[i]) for i in rows])
    if only is not None:
        before = Calibration.of(model)
        if before is None:
            raise InputError(f"{name} is not calibrated: leave out --only-{only}")
        plan = {"samples": samples, "calls": calls, "intervals": intervals, "seed": seed}
        on = f"{min(intervals, len(rows))} validation images, seed {seed}"
        with autocast(model.device, precision):
            if only == "regions":
                regions = calibrating.fit_regions(model, images, **plan, report=report, data=data)
                found = replace(before, regions=regions, on=_tell(before.on, _REGIONS, on))
            else:
                widths = calibrating.fit_fallback(model, images, **plan, report=report, data=data)
                found = replace(before, fallback=widths, on=_tell(before.on, _FALLBACK, on))
        if getattr(found, only) is None:
            few = "images, give more --intervals" if only == "regions" else "samples, give 19"
            raise InputError(f"too few to fit a width: {few}")
        store_calibration(find_model(name), found)
        return found
    kept = Calibration.of(model) if keep_looks else None
    if keep_looks and kept is None:
        raise InputError(f"{name} is not calibrated: leave out --keep-looks")
    known = [] if kept else choose_training_images(model, data, typical)
    looked = f"{len(known)} training images"
    subjects = None if source.subjects is None else [str(source.subjects[i]) for i in rows]
    if not known and not kept:
        # Training images are too few to say what is typical: half of these do, by whole subjects.
        first, second = calibrating.halve(subjects or [str(row) for row in rows])
        looked = f"{len(first)} others of them"
        known, images, rows = list(images[first]), images[second], [rows[k] for k in second]
        subjects = None if subjects is None else [subjects[k] for k in second]
    on = f"{len(rows)} validation images of {model.config.data.path}, seed {seed}"
    on += f", measured {times} times each" if times > 1 else ""
    if subjects is not None and len(set(subjects)) == 1:
        on += ", all of one subject"
        report("validation images are all of one subject: alarms on others may be false")
    on += f"{_TYPICAL}{looked}" if known else ""
    on += _carry(_TYPICAL, kept.on) if kept else ""
    factors, local, regions = None, None, None
    if keep_intervals:
        factors, local, regions, said = _read_widths(model, name)
        on += _carry(_WIDTHS, said) + _carry(_REGIONS, said)
    else:
        on += f"{_WIDTHS}{min(intervals, len(rows))} validation images"
    with autocast(model.device, precision):
        found = calibrating.calibrate(
            model,
            images,
            typical=torch.stack(known) if known else None,
            subjects=subjects,
            samples=samples,
            calls=calls,
            intervals=intervals,
            factors=factors,
            local=local,
            regions=regions,
            known=kept,
            times=times,
            seed=seed,
            on=on,
            report=report,
            data=data,
        )
    stored = model.facts.get("calibration") or {}
    if "fallback" in stored:
        widths = LocalFactors.from_plain(stored["fallback"])
        found = replace(found, fallback=widths, on=found.on + _carry(_FALLBACK, stored["on"]))
    store_calibration(find_model(name), found)
    return found


def check_enough(model: Model, data: Path | None) -> None:
    """Refuses data that have too few images for a calibration, before hours of training."""
    _, rows = choose_images(model, data, "val", None)
    known = choose_training_images(model, data, 2 * calibrating.LEAST)
    needed = calibrating.LEAST if known else 2 * calibrating.LEAST
    if len(rows) < needed:
        raise InputError(
            f"a calibration needs {needed} validation images, and there are {len(rows)}: give more "
            "subjects, or a larger data.fractions.val"
        )


def _tell(before: str, clause: str, on: str) -> str:
    """What a calibration says that it was fitted on, with one clause said anew."""
    return before.replace(_carry(clause, before), "") + clause + on


def _read_widths(
    model: Model, name: str
) -> tuple[dict[float, float], LocalFactors | None, RegionFactors | None, str]:
    """The widths that a model's intervals have, and on what they were fitted."""
    stored = model.facts.get("calibration")
    if stored is None:
        raise InputError(f"{name} has no intervals to keep: leave out --keep-intervals")
    local = LocalFactors.from_plain(stored["local"]) if "local" in stored else None
    regions = RegionFactors.from_plain(stored["regions"]) if "regions" in stored else None
    factors = {float(level): factor for level, factor in stored["factors"].items()}
    return factors, local, regions, stored["on"]


def _carry(clause: str, before: str) -> str:
    """That clause of what was said before; nothing where nobody said it."""
    last = before.rpartition(clause)[2]
    return clause + last.split("; ")[0] if clause in before else ""
