"""How many network calls a sample needs: quality and calibration over calls, and what they cost."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import torch

from bcdm.assessment import evaluate
from bcdm.assessment.options import Options, choose_problem
from bcdm.assessment.records import Column, Record
from bcdm.assessment.summary import OVER_CONTROL
from bcdm.benchmark.overhead import interleave
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.building import build_method
from bcdm.diffusion import Ancestral, DPMSolver, sample
from bcdm.errors import InputError
from bcdm.measurement import Measurement

__all__ = ["COLUMNS", "run"]

CALLS = (5, 10, 20, 50, 100, 500)
FEW = 20
KEPT = {
    ("CRPS", "samples"),
    (OVER_CONTROL, None),
    ("PSNR", "sample mean"),
    ("coverage 90%", "all pixels"),
    ("coverage 90%", "hidden pixels"),
    ("chi-square per degree of freedom", "single sample"),
}
COLUMNS = (
    Column("CRPS", "CRPS", "samples", 4),
    Column(OVER_CONTROL, OVER_CONTROL),
    Column("PSNR, mean of samples (dB)", "PSNR", "sample mean"),
    Column("coverage of 90 % intervals", "coverage 90%", "all pixels", 3),
    Column("chi-square of a sample", "chi-square per degree of freedom", "single sample"),
)
PAPER_STEPS, PAPER_ITERATIONS = 1000, 4


def run(
    name: str,
    options: Options,
    command: str,
    *,
    calls: tuple[int, ...] = CALLS,
    report: Callable[[str], None] = print,
) -> list[Record]:
    """Evaluates at every number of calls, with the same images, measurements and seeds.

    Records of 0 calls are those of the linear Gaussian posterior: the control, nothing learned.
    """
    if options.samples < 19:
        raise InputError("90 % coverage needs 19 samples or more")
    rows: list[Record] = []
    for count in calls:
        found = evaluate.run(name, replace(options, calls=count), command, report=report)
        kept = [row for row in found if (row.name, row.case.get("estimate")) in KEPT]
        rows += [row for row in kept if "method" not in row.case or count == calls[0]]
        report(f"calls: {count}")
    record = partial(Record, command=command, seed=options.seed)
    many_calls = max(calls)
    if FEW in calls and many_calls > FEW:
        for metric, estimate in (("CRPS", "samples"), ("coverage 90%", "all pixels")):
            few, many = (
                next(
                    row.value
                    for row in rows
                    if row.name == metric
                    and row.case["estimate"] == estimate
                    and row.case["calls"] == count
                )
                for count in (FEW, many_calls)
            )
            assert few is not None
            assert many is not None
            case: dict[str, object] = {"metric": metric, "few": FEW, "many": many_calls}
            change = abs(few / many - 1)
            rows.append(record("change from many calls", case, change, required="<= 0.02"))
    rows.append(_compare_cost(load(name), options, record))
    return rows


def _compare_cost(
    model: Model, options: Options, record: Callable[..., Record], rounds: int = 7
) -> Record:
    """Time of one sample by the paper's recipe over that of ours, interleaved on one thread.

    The recipe: the same backbone, whitened input, 4 iterations with data consistency, 1000 steps of
    Eq. 3. Its time is that of 5 steps, times 200.
    """
    problem = choose_problem(model, options)
    x = torch.zeros(1, *model.shape)
    measurement = Measurement.simulate(x, problem.operator, problem.noise_std, seed=0)
    network = replace(model.config.network, iterations=PAPER_ITERATIONS)
    settings = replace(
        model.config.parameterisation, statistic="whitened", output="image", probes=False
    )
    config = model.config.model_copy(update={"network": network, "parameterisation": settings})
    paper = build_method(config, model.shape)
    grid = model.method.schedule.time_grid(PAPER_STEPS)[:5]
    theirs = partial(sample, paper.condition(measurement), Ancestral(), grid=grid, progress=False)
    ours = partial(
        sample,
        model.method.condition(measurement),
        DPMSolver(options.churn),
        steps=FEW,
        progress=False,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        ratios = interleave(ours, {"paper": theirs}, rounds)["paper"]
    torch.set_num_threads(threads)
    ratio = median(ratios) * PAPER_STEPS / len(grid)
    case: dict[str, object] = {
        "ours": f"{FEW} calls",
        "paper": f"{PAPER_STEPS} steps x {PAPER_ITERATIONS} iterations",
        "threads": 1,
    }
    return record("time of the paper's recipe / ours", case, ratio)
