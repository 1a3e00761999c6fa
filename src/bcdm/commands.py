"""The commands for measurements that exist: reconstruct, inspect, verify, feature, calibrate, demo.

Nothing heavy is imported before a command runs, so that help needs no torch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.checkpoint import Model
    from bcdm.operators import LinearOperator
    from bcdm.reconstruction.files import Plan
    from bcdm.scans import Scan

__all__ = ["COMMANDS", "INTERRUPTED"]

TYPICAL = 400  # training images that say what is typical
INTERRUPTED = 130  # what a shell calls a process that ended by Ctrl-C


def _say(line: str) -> None:
    click.echo(line, err=True)


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", required=True, help="A name of a shipped model, or a folder.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--samples", default=16, show_default=True, help="Of each slice.")
@click.option("--calls", default=20, show_default=True, help="Network calls per sample.")
@click.option("--seed", default=0, show_default=True)
@click.option("--batch", default=8, show_default=True, help="Samples at once.")
@click.option("--mask", type=click.Path(path_type=Path), help="What was measured, if not inside.")
@click.option(
    "--operator", metavar="FILE|YAML",
    help='How it was measured: a stored operator, or such as "{kind: gaussian_blur, std: 1.3}".',
)  # fmt: skip
@click.option("--key", help="The array to read, if the file holds several.")
@click.option(
    "--noise-std",
    type=float,
    help="In the file's units; estimated, or with --simulate the model's, when left out.",
)
@click.option(
    "--feature", "features", multiple=True, metavar="[SLICE,]ROW0:ROW1,COL0:COL1",
    help="Is this feature real? A box of pixels, or a mask file.",
)  # fmt: skip
@click.option("--simulate", is_flag=True, help="The inputs are clean: degrade them first.")
@click.option("--force", is_flag=True, help="Write results although the trust card is red.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def reconstruct(
    inputs: tuple[Path, ...], model: str, out: Path, dry_run: bool, **given: Any
) -> None:
    """Reconstruct measurements: mean, uncertainty, samples, checks and a report.

    The noise level is estimated from the data where it is not stated. The same command goes on
    after an interruption. A scan that the model was not made for is refused. Of several inputs
    each gets a folder of its name in OUT; what is wrong with one does not stop the others.
    """
    from bcdm.checkpoint import load
    from bcdm.reconstruction.files import Plan

    loaded = load(model)
    names = ("samples", "calls", "seed", "batch", "force")
    plan = Plan(**{name: given.pop(name) for name in names})
    folders = {path: out / path.name if len(inputs) > 1 else out for path in inputs}
    if len(set(folders.values())) < len(inputs):
        raise InputError(
            "two inputs have the same name: reconstruct them into folders of their own"
        )

    def run(path: Path) -> None:
        _reconstruct_one(path, loaded, folders[path], plan, dry_run=dry_run, **given)

    try:
        _for_each(inputs, run)
    except KeyboardInterrupt:
        _say("interrupted: the same command goes on from here")
        raise SystemExit(INTERRUPTED) from None


def _for_each(inputs: tuple[Path, ...], run: Callable[[Path], None]) -> None:
    """Goes on to the next input where one is unusable, and says so at the end."""
    if len(inputs) == 1:
        run(inputs[0])
        return
    failed = 0
    for path in inputs:
        try:
            run(path)
        except (InputError, OSError) as error:
            failed += 1
            _say(f"error: {path}: {error}")
    if failed:
        raise InputError(f"{failed} of {len(inputs)} inputs failed, see above")


def _reconstruct_one(
    path: Path,
    model: "Model",
    out: Path,
    plan: "Plan",
    *,
    dry_run: bool,
    mask: Path | None,
    operator: str | None,
    key: str | None,
    noise_std: float | None,
    features: tuple[str, ...],
    simulate: bool,
) -> None:
    from bcdm.reconstruction.features import parse_feature
    from bcdm.reconstruction.files import reconstruct_scan
    from bcdm.reconstruction.fitting import find_unfamiliar, fit_scan
    from bcdm.reconstruction.reporting import describe_scan, make_report
    from bcdm.reconstruction.simulation import simulate_scan
    from bcdm.report.html import write_report
    from bcdm.scans import read_scan

    if simulate and mask is not None:
        raise InputError("--simulate measures clean images itself: give --operator, not --mask")
    scan = read_scan(path, mask, key)
    chosen = None if operator is None else _choose_operator(operator, model)
    truth = None
    if simulate:
        fitted, truth = simulate_scan(
            scan, model, seed=plan.seed, noise_std=noise_std, operator=chosen
        )
        _say(f"{path.name} is taken as a clean image: the measurement is SIMULATED")
    else:
        fitted = fit_scan(scan, model, noise_std=noise_std, operator=chosen)
    facts = describe_scan(fitted)
    for name, value in facts:
        _say(f"{name:12} {value}")
    if unfamiliar := find_unfamiliar(fitted, model):
        _say(f"{'family':12} outside that of {model.config.name}: {unfamiliar}")
    count = len(fitted.scan.data)
    regions = [parse_feature(text, count, fitted.scan.size) for text in features]
    if dry_run:
        calls = count * (1 + plan.samples * plan.calls)
        _say(f"{'plan':12} {count} slices x {plan.samples} samples: {calls} network calls")
        return
    done = reconstruct_scan(model, fitted, out, plan, features=regions, say=_say)
    said = tuple((one["feature"], one["in words"]) for one in done.features)
    report = make_report(
        done.posteriors, title=path.name, units=fitted.units, facts=facts, truth=truth,
        subtitle=f"{scan.format}, reconstructed by {model.config.name}",
        provenance=done.provenance, features=said,
    )  # fmt: skip
    write_report(out / "report.html", report)
    click.echo(f"{report.trust.light}: {report.trust.summary}")
    for name, words in said:
        click.echo(f"{name}: {words}")
    for file in [*done.files, out / "report.html"]:
        click.echo(f"wrote {file}")


def _choose_operator(text: str, model: "Model") -> "LinearOperator":
    """A stored operator, or one for images of the model by its settings."""
    from bcdm.checkpoint import load_operator
    from bcdm.checkpoint.building import build_operator
    from bcdm.checkpoint.settings import parse_operator

    if Path(text).suffix == ".safetensors":
        return load_operator(Path(text))
    return build_operator(parse_operator(text), (model.shape[-2], model.shape[-1]))


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mask", type=click.Path(path_type=Path), help="What was measured, if not inside.")
@click.option("--key", help="The array to read, if the file holds several.")
def inspect(inputs: tuple[Path, ...], mask: Path | None, key: str | None) -> None:
    """Say what a file holds: shape, coils, acceleration, noise level, and which model fits."""
    from bcdm.scans import read_scan

    def run(path: Path) -> None:
        scan = read_scan(path, mask, key)
        click.echo(f"{path.name}: {scan.format}, {scan.kind}")
        for name, value in _describe(scan):
            click.echo(f"  {name:14} {value}")

    _for_each(inputs, run)


def _describe(scan: "Scan") -> list[tuple[str, str]]:
    from bcdm.checkpoint import list_models, load
    from bcdm.reconstruction.fitting import UnfitError, estimate_noise, find_unfamiliar, fit_scan

    slices, channels, rows, columns = scan.data.shape
    kind = "coils" if scan.kind == "k-space" else "channels"
    lines = [("shape", f"{slices} slices, {channels} {kind}, {rows} x {columns}")]
    if scan.size != (rows, columns):
        lines.append(("image", f"{scan.size[0]} x {scan.size[1]}, the rest is oversampling"))
    if scan.mask is not None:
        share = float(scan.mask.mean())
        lines.append(("measured", f"{share:.1%}, acceleration {1 / max(share, 1e-9):.1f}x"))
    try:
        noise = estimate_noise(scan)
        error = f"{noise.std:.4g} +- {noise.standard_error:.2g}"
        lines.append(("noise level", f"{error} in the units of the file, from {noise.source}"))
    except InputError as error:
        lines.append(("noise level", f"not estimated: {error}"))
    size = f"{float(abs(scan.data).min()):.4g} to {float(abs(scan.data).max()):.4g}"
    lines.append(("magnitude", f"{size} in the units of the file"))
    lines += [(name, str(value)) for name, value in scan.facts.items()]
    for name in list_models():
        try:
            model = load(name)
            unfamiliar = find_unfamiliar(fit_scan(scan, model), model)
            fits = f"does not fit: {unfamiliar}" if unfamiliar else "fits"
            lines.append(("model", f"{name} {fits}"))
        except (UnfitError, InputError) as error:
            lines.append(("model", f"{name} does not fit: {error}"))
    return lines


@click.command()
@click.argument("result", type=click.Path(path_type=Path, exists=True))
@click.option("--input", "source", type=click.Path(path_type=Path, exists=True),
              help="To check it as well.")  # fmt: skip
@click.option("--model", help="Where the model is, if it is not one of the shipped.")
def verify(result: Path, source: Path | None, model: str | None) -> None:
    """Check a result against its provenance, and draw its first sample again.

    RESULT is a file that bcdm wrote, run.json among them.
    """
    from bcdm.reconstruction.verification import verify as check

    verdicts = check(result, source, model)
    for one in verdicts:
        click.echo(f"{'right' if one.right else 'WRONG'}  {one.name}: {one.found}")
    if not all(one.right for one in verdicts):
        raise SystemExit(1)


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--box", "boxes", multiple=True, required=True, metavar="[SLICE,]ROW0:ROW1,COL0:COL1",
    help="A box of pixels, or a mask file.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print numbers instead of words.")
def feature(out: Path, boxes: tuple[str, ...], as_json: bool) -> None:
    """Ask the samples of a finished reconstruction: is this feature real?

    Prints in how many samples the region is brighter or darker than the ring of 3 pixels around
    it, with a 95 % interval for that fraction, and its contrast in the units of the file.
    """
    import json

    from bcdm.reconstruction.features import judge_stored, read_card

    found = judge_stored(out, boxes)
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for one in found:
        click.echo(f"{one['feature']}: {one['in words']}")
    click.echo(f"trust card: {read_card(out)}")


@click.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--limit", type=int, help="At most this many validation images.")
@click.option("--samples", default=20, show_default=True, type=click.IntRange(min=9))
@click.option("--calls", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--intervals", default=60, show_default=True, type=click.IntRange(min=1),
              help="Images for interval widths.")  # fmt: skip
@click.option("--keep-intervals", is_flag=True, help="Keep the widths that are stored.")
@click.option("--precision", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option("--seed", default=0, show_default=True)
def calibrate(model: str, data: Path | None, limit: int | None, **given: Any) -> None:
    """Fit a model's trust card and the width of its intervals on validation images."""
    import torch

    from bcdm.assessment.images import choose_images, choose_training_images
    from bcdm.checkpoint import find_model, load
    from bcdm.reconstruction import calibration

    loaded = load(model)
    source, rows = choose_images(loaded, data, "val", limit)
    images = torch.stack([loaded.preparation(source[i]) for i in rows])
    on = f"{len(rows)} validation images of {loaded.config.data.path}, seed {given['seed']}"
    known = choose_training_images(loaded, data, TYPICAL)
    typical = torch.stack(known) if known else None
    on += f"; what is typical on {len(known)} training images" if known else ""
    factors = None
    if given.pop("keep_intervals"):
        stored = loaded.facts.get("calibration")
        if stored is None:
            raise InputError(f"{model} has no intervals to keep: leave out --keep-intervals")
        factors = {float(level): factor for level, factor in stored["factors"].items()}
        on += f"; intervals as before, on {stored['on']}"
    reduced = given.pop("precision") == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
        found = calibration.calibrate(loaded, images, typical=typical, factors=factors, on=on,
                                      report=_say, **given)  # fmt: skip
    calibration.store(find_model(model), found)
    for level, factor in found.factors.items():
        click.echo(f"intervals of {level:.0%}: {factor:.3f} times as wide")
    click.echo(f"flags at a tail probability below {found.threshold:.3f}")


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--no-open", is_flag=True, help="Do not open the report in a browser.")
def demo(out: Path, no_open: bool) -> None:
    """From a brain slice that comes with bcdm to mean, uncertainty, samples and a report.

    The slice is measured as an 8x accelerated MRI scanner would, and reconstructed by a shipped
    model that never saw it.
    """
    import importlib.resources
    import webbrowser

    from bcdm.checkpoint import load
    from bcdm.reconstruction.files import Plan

    nothing: dict[str, Any] = {
        "mask": None, "operator": None, "key": None, "noise_std": None, "features": (),
    }  # fmt: skip
    picture = importlib.resources.files("bcdm") / "demo" / "brain.png"
    with importlib.resources.as_file(picture) as path:
        _reconstruct_one(path, load("ixi64-mri8x"), out, Plan(),
                         dry_run=False, simulate=True, **nothing)  # fmt: skip
    if not no_open:
        webbrowser.open((out / "report.html").resolve().as_uri())


COMMANDS = (reconstruct, inspect, verify, feature, calibrate, demo)
