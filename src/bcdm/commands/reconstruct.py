"""`bcdm reconstruct` and `bcdm demo`: from files that exist to results."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.commands.doctor import SMALL
from bcdm.commands.echo import answer, say
from bcdm.commands.extras import require
from bcdm.commands.failures import INTERRUPTED
from bcdm.commands.inputs import for_each
from bcdm.commands.options import (
    device_option,
    mask_option,
    model_option,
    operator_option,
    plan_options,
)
from bcdm.commands.requests import Given, describe_request, name_left_out, show_finished
from bcdm.errors import InputError
from bcdm.folders import find_finished
from bcdm.shelf import find_calls
from bcdm.text import is_unicode, number, printable

if TYPE_CHECKING:
    from torch import Tensor

    from bcdm.checkpoint import Model
    from bcdm.reconstruction.files import Finished, Plan
    from bcdm.reconstruction.fitting import Fitted

__all__ = ["demo", "reconstruct"]


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@model_option(said="A name of a shipped model, or a folder.", required=True)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, file_okay=False))
@plan_options
@mask_option
@operator_option
@click.option(
    "--noise-std",
    type=float,
    help="In the file's units; estimated, or with --simulate the model's, when left out.",
)
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="[SLICE,]ROW0:ROW1,COL0:COL1",
    help="Is this feature real? A box of pixels, or a mask file.",
)
@click.option(
    "--maps",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What each coil sees (.npy, .npz): images are in its units. Estimated when left out.",
)
@click.option(
    "--body",
    type=click.Path(path_type=Path),
    help="The same slices by a body coil, k-space: maps are estimated by it.",
)
@click.option("--body-key", help="The array of that file, if it holds several.")
@click.option("--complex", "keep_complex", is_flag=True, help="Write complex images, too.")
@click.option("--simulate", is_flag=True, help="The inputs are clean: degrade them first.")
@click.option(
    "--method",
    default="model",
    show_default=True,
    metavar="model|auto|PACKAGE.MODULE:NAME",
    help="auto: outside of what the model was made for, MMPS with its network as prior. A path: "
    "called with that prior, it gives a method.",
)
@device_option()
@click.option("--force", is_flag=True, help="Write results although the trust card is red.")
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def reconstruct(
    inputs: tuple[Path, ...],
    model: str,
    out: Path,
    samples: int,
    calls: int | None,
    seed: int,
    batch: int,
    mask: Path | None,
    key: str | None,
    operator: str | None,
    noise_std: float | None,
    features: tuple[str, ...],
    maps: Path | None,
    body: Path | None,
    body_key: str | None,
    keep_complex: bool,
    simulate: bool,
    method: str,
    device: str,
    force: bool,
    no_report: bool,
    dry_run: bool,
) -> None:
    """Reconstruct measurements: mean, uncertainty, samples, checks and a report.

    The noise level is estimated from the data where it is not stated. The same command goes on
    after an interruption. A scan that the model was not made for is refused, or with --method auto
    reconstructed by a slower method over the same network. Of several inputs each gets a folder of
    its name in OUT; what is wrong with one does not stop the others.
    """
    given = Given(
        mask,
        operator,
        key,
        noise_std,
        features,
        simulate,
        maps,
        keep_complex,
        body,
        body_key,
        method,
    )
    folders = {path: out / printable(path.name) if len(inputs) > 1 else out for path in inputs}
    if not is_unicode(str(out)):
        raise InputError(f"the name of {out} is not UTF-8, which some formats need: choose another")
    if len(set(folders.values())) < len(inputs):
        raise InputError(
            "two inputs have the same name: reconstruct them into folders of their own"
        )
    calls = find_calls(model) if calls is None else calls
    settings = {"samples": samples, "calls": calls, "seed": seed, "batch": batch, "force": force}
    if no_report:
        settings["no_report"] = True
    asked = {
        path: "" if dry_run else describe_request(path, model, settings, given) for path in inputs
    }
    finished = {path: find_finished(folders[path], asked[path]) for path in inputs}
    if not all(finished.values()):
        require("zarr")
        from bcdm.checkpoint import load
        from bcdm.reconstruction.files import Plan

        loaded = load(model).to(device)
        plan = Plan(samples=samples, calls=calls, seed=seed, batch=batch, force=force)

    def run(path: Path) -> None:
        found = finished[path]
        if found is not None:
            show_finished(folders[path], found)
            return
        page = None if no_report else folders[path] / "report.html"
        _reconstruct_one(
            path, loaded, folders[path], plan, given, asked[path], page=page, dry_run=dry_run
        )

    try:
        for_each(inputs, run)
    except KeyboardInterrupt:
        say("interrupted: the same command goes on from here")
        raise SystemExit(INTERRUPTED) from None


def _reconstruct_one(
    path: Path,
    model: "Model",
    out: Path,
    plan: "Plan",
    given: Given,
    request: str,
    *,
    page: Path | None,
    dry_run: bool,
) -> None:
    from tqdm.auto import tqdm

    from bcdm.reconstruction.drawing import Item, estimate_seconds
    from bcdm.reconstruction.features import parse_feature
    from bcdm.reconstruction.files import reconstruct_scan
    from bcdm.report.facts import describe_scan
    from bcdm.trust import find_unfamiliar

    if given.keep_complex and not model.config.data.phase:
        raise InputError(f"{model.config.name} makes real images: leave out --complex")
    fitted, truth = _fit(path, model, plan, given, cache=None if dry_run else out / "maps")
    for name, value in describe_scan(fitted):
        say(f"{name:12} {value}")
    if unfamiliar := find_unfamiliar(model, fitted.measure(0))[0]:
        say(f"{'family':12} outside that of {model.config.name}: {unfamiliar}")
    if plan.calls < model.calls:
        told = f"{plan.calls} a sample, fewer than {model.calls}: right data may be found wrong"
        say(f"{'calls':12} {told}")
    count = len(fitted.scan.data)
    regions = [parse_feature(text, count, fitted.scan.size) for text in given.features]
    if dry_run:
        calls = count * (1 + plan.samples * plan.calls)
        if given.method == "model":
            item = Item("", fitted.measure(0))
            wait = estimate_seconds(model.method, item, plan, count)
            more = f", about {tqdm.format_interval(wait)} here"
        else:
            more = ", and Jacobians where another method draws"
        drawn = f"{number(count, 'slice')} x {number(plan.samples, 'sample')}"
        say(f"{'plan':12} {drawn}: {number(calls, 'network call')}{more}")
        return
    done = reconstruct_scan(
        model,
        fitted,
        out,
        plan,
        method=given.method,
        features=regions,
        request=request,
        keep_complex=given.keep_complex,
        show=partial(_show, page, fitted, truth),
        say=say,
    )
    if done.left_out:
        say(name_left_out(done.left_out))
    for file in done.files:
        answer(f"wrote {file}")


def _show(
    page: Path | None, fitted: "Fitted", truth: "Tensor | None", done: "Finished"
) -> list[Path]:
    """Says what was found, and writes the report where there is a page for it."""
    from bcdm.report.scans import report_scan
    from bcdm.trust import join

    if page is not None:
        report_scan(page, fitted, truth, done)
    card = join(done.cards)
    answer(f"{card.light}: {card.summary}")
    for one in done.features:
        answer(f"{printable(one['feature'])}: {one['in words']}")
    if page is not None and len(done.left_out) == len(done.cards):
        answer(f"wrote {page}")
    return [] if page is None else [page]


def _fit(
    path: Path, model: "Model", plan: "Plan", given: Given, *, cache: Path | None
) -> "tuple[Fitted, Tensor | None]":
    """The scan in the model's units, and the clean images behind it where it is simulated."""
    from bcdm.checkpoint.given import read_operator
    from bcdm.reconstruction.fitting import fit_scan
    from bcdm.reconstruction.simulation import simulate_scan
    from bcdm.scans import read_scan

    scan = read_scan(path, given.mask, given.key)
    operator = None
    if given.operator is not None:
        operator = read_operator(given.operator, (model.shape[-2], model.shape[-1]))
    if not given.simulate:
        fitted = fit_scan(
            scan,
            model,
            noise_std=given.noise_std,
            operator=operator,
            maps=given.maps,
            body=None if given.body is None else read_scan(given.body, key=given.body_key),
            cache=cache,
            say=say,
        )
        return fitted, None
    found = simulate_scan(scan, model, seed=plan.seed, noise_std=given.noise_std, operator=operator)
    say(f"{path.name} is taken as a clean image: the measurement is SIMULATED")
    return found


@click.command()
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--no-open", is_flag=True, help="Do not open the report in a browser.")
@device_option()
def demo(out: Path, no_open: bool, device: str) -> None:
    """From a brain slice that comes with bcdm to mean, uncertainty, samples and a report.

    The slice is measured as an 8x accelerated MRI scanner would, and reconstructed by a shipped
    model that never saw it.
    """
    import importlib.resources
    import webbrowser

    require("zarr", "PIL")
    from bcdm.checkpoint import load
    from bcdm.reconstruction.files import Plan

    picture = importlib.resources.files("bcdm") / "demo" / "brain.png"
    with importlib.resources.as_file(picture) as path:
        model = load(SMALL).to(device)
        page, given = out / "report.html", Given(simulate=True)
        _reconstruct_one(path, model, out, Plan(), given, "", page=page, dry_run=False)
    if not no_open:
        webbrowser.open((out / "report.html").resolve().as_uri())
