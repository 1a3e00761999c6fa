"""One task, every method, equal training time, one protocol: the engine of the paper's tables."""

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.grids import search_grid
from bcdm.assessment.images import Tested, choose_evenly, open_tested
from bcdm.assessment.metrics import Scores, open_features, open_lpips
from bcdm.assessment.options import Options
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.settings import load_config
from bcdm.comparison.budget import read_budget, train_for, write_budget
from bcdm.comparison.contenders import Contender, ContenderConfig, Plug, expand_grid
from bcdm.comparison.identity import (
    describe_outcome,
    hash_content,
    hash_images,
    hash_weights,
)
from bcdm.comparison.task import START, Task
from bcdm.errors import InputError
from bcdm.evaluation import crps
from bcdm.files import replacing
from bcdm.imports import resolve
from bcdm.machine import autocast, choose_precision
from bcdm.measurement import Measurement
from bcdm.shelf import find_model

__all__ = [
    "BUDGETS",
    "Outcome",
    "choose_shown",
    "find_images",
    "run_task",
]

COVERED = (0.5, 0.8)
SHOWN = 3  # images that figures may show
BUDGETS = "budgets.json"  # what each network was given: the same steps everywhere


@dataclass(frozen=True)
class Outcome:
    """All numbers of one method.

    Attributes:
        case: How it was run: calls, sampler, weight, images, samples.
        scores: Per-image numbers by "metric, estimate".
        shown: Some images: a single sample and the average, (N, C, H, W) each.
        features: Of single samples, by the name of the distance that is taken on them.
        seconds: Of one sample of one image.
    """

    case: dict[str, object]
    scores: dict[str, np.ndarray]
    shown: tuple[np.ndarray, np.ndarray]
    features: dict[str, np.ndarray]
    seconds: float


def run_task(
    task: Task,
    data: Path | None,
    out: Path,
    work: Path,
    *,
    report: Callable[[str], None],
    device: str = "auto",
) -> tuple[dict[str, Outcome], Mapping[str, Model]]:
    """Trains what is not trained, tunes and scores what is not scored; goes on where it stopped.

    What was trained or scored on another device counts as done.
    """
    _find_plugs(task)
    _check_measured(task)
    used = [name for name in task.networks if name in {m.network for m in task.methods.values()}]
    if not used:
        raise InputError(
            "a study tests on the data of a network that one of its methods names: give one, such "
            "as networks: {theirs: [model=NAME]} and network: theirs"
        )
    models = {name: _train(task, name, data, out, work, report, device)[1] for name in used}
    # What is kept is known by what it was computed in, whatever a file leaves to the machine.
    precision = choose_precision(task.precision, next(iter(models.values())).device)
    task = task.model_copy(update={"precision": precision})
    outcomes = {}
    for name, config in task.methods.items():
        content = describe_outcome(task, config, models, _find_tested(task, models), data)
        stored = work / "outcomes" / f"{hash_content(content)}.npz"
        if not stored.exists():
            report(f"{name}: tuning and scoring")
            _store(stored, _score(task, config, models, data, report))
        outcomes[name] = _restore(stored)
    return outcomes, models


def _find_plugs(task: Task) -> None:
    """Looks up what comes from other packages, before hours of training."""
    plugs: list[Plug | None] = list(task.metrics.values())
    for config in task.methods.values():
        plugs += [config.prior, config.sampler, config.kind if config.outside else None]
    for plug in plugs:
        if plug is not None:
            resolve(plug)


def _check_measured(task: Task) -> None:
    """Refuses to measure test images as a prior was trained to: with nothing at all."""
    network = task.methods[task.ours].network
    if task.operator is not None or network is None or task.find_given(network) is not None:
        return
    changes = [one for one in task.list_changes(network) if not one.startswith(START)]
    if load_config(task.base, changes).operator.kind == "nothing":
        raise InputError(
            f"{task.ours!r} uses a prior, so nothing says what test images are measured with: "
            "give operator and noise_std in the settings of the study"
        )


def find_images(
    task: Task, models: Mapping[str, Model], data: Path | None, count: int, split: str
) -> Tested:
    """Images of a split: of the task's own number, evenly spaced, `count` of them, evenly again."""
    options = Options(
        data=data,
        split=split,
        limit=max(task.images, count),
        operator=task.operator,
        noise_std=task.noise_std,
    )
    return open_tested(_find_tested(task, models), options, count)


def _find_tested(task: Task, models: Mapping[str, Model]) -> Model:
    """The model whose images are taken: our own."""
    return models[task.methods[task.ours].network or next(iter(models))]


def choose_shown(task: Task, tested: Tested) -> list[int]:
    """Which of the images a figure shows: the same ones for few and for all."""
    every = choose_evenly(tested.whole, task.few_images)
    shown = [every[k] for k in choose_evenly(len(every), SHOWN)]
    return [every.index(k) for k in shown] if len(tested.rows) == len(every) else shown


def _train(
    task: Task,
    name: str,
    data: Path | None,
    out: Path,
    work: Path,
    report: Callable[[str], None],
    device: str,
) -> tuple[Path, Model]:
    """A network by its settings, and the model's folder: tasks that need the same one share it."""
    if (there := task.find_given(name)) is not None:
        return find_model(there), load(there).to(device)
    changes, minutes = task.list_changes(name), task.find_minutes(name)
    settings = load_config(task.base, changes).model_dump(mode="json")
    asked = hash_content([settings, minutes])
    content: list[object] = [settings, minutes, hash_images(settings, data)]
    for number, change in enumerate(changes):
        if change.startswith(START):
            first = change.removeprefix(START)
            other, start = _train(task, first, data, out, work, report, device)
            content.append(start.facts["hashes"])
            changes[number] = f"training.start_from={other}"
    folder = work / "networks" / f"{settings['name']}-{hash_content(content)}"
    given = read_budget(out / BUDGETS, name)
    if given is not None and not given.is_for(minutes, asked):
        given = None
    if given is None and (twin := task.find_twin(name)) != name:
        _train(task, twin, data, out, work, report, device)
        given = read_budget(out / BUDGETS, twin)
    branch = None
    if (shorter := task.find_branch(name)) is not None:
        branch = _train(task, shorter, data, out, work, report, device)[0].parent
    budget = train_for(minutes, task.base, changes, data, folder, report, given, device, branch)
    write_budget(out / BUDGETS, name, replace(budget, minutes=minutes, settings=asked))
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "log.jsonl", logs / f"{name}.jsonl")
    return folder / "model", load(folder / "model").to(device)


def _score(
    task: Task,
    config: ContenderConfig,
    models: Mapping[str, Model],
    data: Path | None,
    report: Callable[[str], None],
) -> Outcome:
    """Chooses the best setting on validation images, and scores it on test images."""
    best, tried = _choose(task, config, models, data, report)
    count = task.few_images if config.few else task.images
    tested = find_images(task, models, data, count, "test")
    x, rows, problem = tested.images, tested.rows, tested.problem
    scores, seconds, shown, lost = Scores(), [], [], 0
    lpips = open_lpips(task.lpips, data)
    metrics = {name: resolve(given) for name, given in task.metrics.items()}
    value_range = next(iter(models.values())).config.data.value_range
    makers = open_features(lpips, task.fid, data, value_range)
    features: dict[str, list[Tensor]] = {name: [] for name in makers}
    for start in range(0, len(x), task.batch):
        part = slice(start, start + task.batch)
        measurement = Measurement.simulate(
            x[part], problem.operator, problem.noise_std, seed=task.seed, indices=rows[part]
        )
        with _choose_precision(task, models):
            drawn = best.draw(measurement, rows[part], task.samples, task.seed)
            one_call = best.estimate(measurement, rows[part], task.seed)
        lost += int((~drawn.samples.isfinite()).flatten(2).any(-1).sum())
        samples = drawn.samples.nan_to_num(0.0, 0.0, 0.0)
        estimates = {"single": samples[0], "average": samples.mean(0)}
        shown.append(torch.stack(list(estimates.values())))
        if one_call is not None:
            estimates["one call"] = one_call.nan_to_num(0.0, 0.0, 0.0)
        scores.judge_images(x[part], estimates, value_range, lpips, metrics)
        if len(samples) > 1:
            scores.judge_samples(x[part], samples, measurement, COVERED)
        else:
            # The CRPS of a point is its absolute error.
            away = (samples[0] - x[part]).abs().flatten(1).mean(1)
            scores.add("CRPS", "samples", away)
        seconds.append(drawn.seconds / (len(samples) * len(measurement.y)))
        for name, make in makers.items():
            features[name].append(make(samples[0]))
    case = best.describe() | {"images": len(x), "samples": len(samples)}
    case |= tried
    if task.fid is not None:
        case["FID's weights"] = hash_weights(task.fid, data)
    if case["calls"]:
        case["precision"] = task.precision
    if best.model is not None and best.model.device.type != "cpu":
        case["device"] = str(best.model.device)
    if lost:
        case["samples that diverged, counted as grey"] = lost
    return Outcome(
        case,
        {f"{a}, {b}": torch.cat(v).numpy() for (a, b), v in scores.rows.items()},
        tuple(torch.cat(shown, 1)[:, choose_shown(task, tested)].numpy()),
        {name: torch.cat(found).numpy() for name, found in features.items()},
        mean(seconds),
    )


def _choose(
    task: Task,
    config: ContenderConfig,
    models: Mapping[str, Model],
    data: Path | None,
    report: Callable[[str], None],
) -> tuple[Contender, dict[str, object]]:
    """The best setting on validation images, and of what it was chosen, for records."""
    if len(only := list(expand_grid(config, models))) == 1:
        return only[0], {}
    errors: dict[Contender, float] = {}

    def find_least(weight: float) -> float:
        found = {
            one: _tune(task, one, models, data) for one in expand_grid(config, models, [weight])
        }
        for one, error in found.items():
            report(f"  {one.describe()}: {error:.5f} on validation images")
        errors.update(found)
        return min(found.values())

    weights = search_grid(config.weight, find_least)
    tried: dict[str, object] = {"tuned over": len(errors)}
    tried |= {"weights tried": list(weights)} if len(weights) > 1 else {}
    return min(errors, key=errors.__getitem__), tried


def _tune(task: Task, one: Contender, models: Mapping[str, Model], data: Path | None) -> float:
    """The CRPS on validation images; infinite where a chain leaves the numbers."""
    tested = find_images(task, models, data, task.tune_images, "val")
    x, rows, problem = tested.images, tested.rows, tested.problem
    measurement = Measurement.simulate(
        x, problem.operator, problem.noise_std, seed=task.seed + 1, indices=rows
    )
    with _choose_precision(task, models):
        drawn = one.draw(measurement, rows, task.tune_samples, task.seed + 1).samples
    if not bool(drawn.isfinite().all()):
        return float("inf")
    # The CRPS of a point is its absolute error.
    return float((drawn[0] - x).abs().mean() if len(drawn) == 1 else crps(drawn, x).mean())


def _choose_precision(
    task: Task, models: Mapping[str, Model]
) -> contextlib.AbstractContextManager[object]:
    return autocast(next(iter(models.values())).device, task.precision)


def _store(path: Path, outcome: Outcome) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"score {name}": values for name, values in outcome.scores.items()}
    arrays |= {"shown": np.stack(outcome.shown), "seconds": np.array(outcome.seconds)}
    arrays["case"] = np.array(json.dumps(outcome.case))
    arrays |= {f"features {name}": values for name, values in outcome.features.items()}
    with replacing(path) as partial:
        np.savez(partial, allow_pickle=False, **arrays)


def _restore(path: Path) -> Outcome:
    with np.load(path, allow_pickle=False) as file:
        scores, features = (
            {name.removeprefix(start): file[name] for name in file.files if name.startswith(start)}
            for start in ("score ", "features ")
        )
        single, average = file["shown"]
        case = json.loads(str(file["case"]))
        return Outcome(case, scores, (single, average), features, float(file["seconds"]))
