"""A comparison from its settings to records, tables, learning curves and a figure."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from bcdm.assessment.metrics import open_features, open_lpips
from bcdm.assessment.records import Record, write_records
from bcdm.comparison.budget import read_budget
from bcdm.comparison.engine import (
    BUDGETS,
    choose_shown,
    find_images,
    run_task,
)
from bcdm.comparison.learning import plot_curves
from bcdm.comparison.tables import compute_frechet, make_latex, make_markdown, make_records
from bcdm.comparison.task import Task, add_control, load_task, scale_down
from bcdm.report.panels import plot_comparison
from bcdm.shelf import find_settings, list_settings

__all__ = ["find_task", "run"]

GUIDED = ("DPS", "DMPS")


def find_task(name: str) -> Path:
    """A file of settings: a path, a task of the paper, or another that comes with bcdm."""
    return list_settings().get(f"paper/{name}/task.yaml") or find_settings(name)


def run(
    task: Path | Task,
    data: Path | None,
    out: Path,
    work: Path,
    command: str,
    *,
    fid: Path | None = None,
    smoke: bool = False,
    device: str = "auto",
    report: Callable[[str], None] = print,
) -> list[Record]:
    """Runs on one thread; writes results.json, table.md, table.tex, curves.png and panel.png.

    There are no curves where nothing was trained.

    Args:
        task: A file of settings, or the settings; these may hold methods, priors, samplers and
            metrics as objects.
        data: Data folder.
        out: Where results go.
        work: Where finished parts are kept.
        command: For the records.
        fid: Weights of Inception.
        smoke: Whether to run a tiny version of it: does it run? Its numbers are held to nothing.
        device: Where networks are trained and run.
        report: Called with each line about progress.
    """
    title = "study"
    if isinstance(task, Path):
        title = task.parent.name if task.stem == "task" else task.stem
        task = load_task(task)
    task = add_control(scale_down(task) if smoke else task)
    task = task if fid is None else task.model_copy(update={"fid": fid})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        outcomes, models = run_task(task, data, out, work, report=report, device=device)
    finally:
        torch.set_num_threads(threads)
    tested = find_images(task, models, data, task.images, "test")
    value_range = next(iter(models.values())).config.data.value_range
    makers = open_features(open_lpips(task.lpips, data), task.fid, data, value_range)
    frechet = compute_frechet(outcomes, {name: f(tested.images) for name, f in makers.items()})
    guided = [name for name in GUIDED if name in outcomes]
    records = make_records(
        title,
        outcomes,
        frechet,
        task.ours,
        subjects=tested.subjects,
        beaten=task.beaten,
        guided=guided,
        seed=task.seed,
        command=command,
    )
    out.mkdir(parents=True, exist_ok=True)
    compared = (outcomes, frechet, task.ours, tested.subjects)
    (out / "table.md").write_text(make_markdown(*compared, list(task.metrics)))
    (out / "table.tex").write_text(make_latex(*compared, task.figure))
    trained = [name for name in models if task.find_given(name) is None]
    budgets = {name: read_budget(out / BUDGETS, name) for name in trained}
    seconds = {name: budget.seconds for name, budget in budgets.items() if budget is not None}
    logs = {name: out / "logs" / f"{name}.jsonl" for name in seconds}
    if logs:
        plot_curves(out / "curves.png", logs, seconds)
    columns = {name: outcomes[name].shown for name in task.figure}
    shown = tested.images[choose_shown(task, tested)].numpy()
    plot_comparison(out / "panel.png", shown, columns, value_range=value_range)
    if smoke:
        records = [replace(record, required=None) for record in records]
    write_records(out / "results.json", records)
    return records
