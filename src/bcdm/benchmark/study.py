"""Several trainings of equal cost, evaluated alike: how design choices are compared."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bcdm.benchmark import evaluate
from bcdm.benchmark.records import Record
from bcdm.config import load_config
from bcdm.errors import InputError
from bcdm.training import run as training

__all__ = ["Study", "load_study", "run", "train_for"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variant(_Model):
    """A training that differs from the base by some settings."""

    set: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)


class Evaluation(_Model):
    """A name, and the options of `bcdm evaluate`."""

    name: str
    options: evaluate.Options = evaluate.Options()


class Study(_Model):
    """A file of settings.

    Attributes:
        base: Settings of the training that variants change, relative to the file.
        minutes: Training time of each on one thread of this machine; each variant gets as many
            steps as fit, by the time its own first steps take.
        set: Changes to the base that all variants share.
        variants: By name.
        evaluations: Done for every trained network.
    """

    base: Path
    minutes: float = Field(gt=0)
    set: tuple[str, ...] = ()
    variants: dict[str, Variant]
    evaluations: tuple[Evaluation, ...]


def load_study(path: Path) -> Study:
    """Reads a study."""
    try:
        return Study.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{path} is no study: {' '.join(str(error).split())[:300]}") from None


def run(
    path: Path,
    data: Path | None,
    out: Path,
    command: str,
    *,
    only: Sequence[str] = (),
    report: Callable[[str], None],
) -> list[Record]:
    """Trains what is not trained yet, evaluates, and draws the learning curves.

    One thread throughout, so that two studies can share a machine of two cores.
    """
    study = load_study(path)
    if unknown := set(only) - set(study.variants):
        raise InputError(f"no variant {unknown}: there are {list(study.variants)}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _run(study, path, data, out, command, only, report)
    finally:
        torch.set_num_threads(threads)


def _run(
    study: Study,
    path: Path,
    data: Path | None,
    out: Path,
    command: str,
    only: Sequence[str],
    report: Callable[[str], None],
) -> list[Record]:
    records: list[Record] = []
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, variant in study.variants.items():
        if only and name not in only:
            continue
        for seed in variant.seeds:
            folder = out / f"{name}-{seed}"
            changes = [*study.set, *variant.set, f"training.seed={seed}", f"name={name}-{seed}"]
            base = path.parent / study.base
            seconds = train_for(study.minutes, base, changes, data, folder, report)
            curves[f"{name}, seed {seed}"] = _read_curve(folder, seconds)
            for one in study.evaluations:
                records += _evaluate(folder, name, seed, one, data, command, report)
    draw_curves(out / "curves.png", curves)
    return records


def train_for(
    minutes: float,
    base: Path,
    changes: list[str],
    data: Path | None,
    folder: Path,
    report: Callable[[str], None],
) -> float:
    """Trains what is not trained yet; returns the seconds of a step, which fixed their number."""
    timed = folder / "time.json"
    asked = {"settings": load_config(base, changes).model_dump(mode="json"),
             "minutes": minutes}  # fmt: skip
    if not timed.exists():
        seconds = training.time_step(base, changes, data)
        folder.mkdir(parents=True, exist_ok=True)
        steps = max(1, round(60 * minutes / seconds))
        _write(timed, {"seconds": seconds, "steps": steps} | asked)
    known = json.loads(timed.read_text())
    _expect(asked, {name: known[name] for name in asked}, timed)
    report(f"{folder.name}: {known['steps']} steps of {known['seconds']:.2f} s")
    each = max(1, known["steps"] // 8)
    changes = [*changes, f"training.steps={known['steps']}", f"training.validate_every={each}"]
    if not (folder / "model/config.json").exists():
        training.run(base, changes, data, folder, dry_run=False, report=report)
    return float(known["seconds"])


def _evaluate(
    folder: Path,
    variant: str,
    seed: int,
    one: Evaluation,
    data: Path | None,
    command: str,
    report: Callable[[str], None],
) -> list[Record]:
    """Records of one network on one evaluation; kept in a file, so that a restart goes on."""
    stored = folder / f"{one.name}.json"
    asked = json.loads(one.model_dump_json())
    if not stored.exists():
        options = replace(one.options, data=data)
        rows = evaluate.run(str(folder / "model"), options, command, report=report)
        case = {"variant": variant, "training seed": seed, "evaluation": one.name}
        rows = [replace(row, case=case | row.case) for row in rows]
        _write(stored, {"asked": asked, "rows": [_to_plain(row) for row in rows]})
    known = json.loads(stored.read_text())
    _expect(asked, known["asked"], stored)
    return [Record(**row) for row in known["rows"]]


def _expect(asked: object, found: object, path: Path) -> None:
    """Results of other settings are never passed off as those asked for."""
    if asked != found:
        raise InputError(f"{path} is of other settings: remove its folder, or take another --out")


def _write(path: Path, content: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.replace(path)


def _to_plain(record: Record) -> dict[str, Any]:
    names = ("name", "case", "value", "unit", "interval", "required", "seed", "command")
    return {name: getattr(record, name) for name in names}


def _read_curve(folder: Path, seconds: float) -> list[tuple[float, float]]:
    """Minutes of training and validation PSNR."""
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(row["step"] * seconds / 60, row["psnr"]) for row in rows if "psnr" in row]


def draw_curves(path: Path, curves: dict[str, list[tuple[float, float]]]) -> None:
    """One-call validation PSNR over training time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set(xlabel="minutes of training", ylabel="one-call PSNR on validation images (dB)")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
