"""The commands for measurements that exist: reconstruct, inspect, verify, calibrate, demo.

Nothing heavy is imported before a command runs, so that help needs no torch.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bcdm.errors import InputError

if TYPE_CHECKING:
    from bcdm.checkpoint import Model
    from bcdm.reconstruction.files import Plan
    from bcdm.scans import Scan

__all__ = ["COMMANDS"]


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
@click.option("--operator", type=click.Path(path_type=Path), help="An operator file.")
@click.option("--key", help="The array to read, if the file holds several.")
@click.option("--noise-std", type=float, help="In the file's units; estimated when left out.")
@click.option("--simulate", is_flag=True, help="The inputs are clean: degrade them first.")
@click.option("--force", is_flag=True, help="Write results although the trust card is red.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def reconstruct(
    inputs: tuple[Path, ...], model: str, out: Path, dry_run: bool, **given: Any
) -> None:
    """Reconstruct measurements: mean, uncertainty, samples, checks and a report.

    The noise level is estimated from the data where it is not stated. The same command goes on
    after an interruption. A scan that the model was not made for is refused.
    """
    from bcdm.checkpoint import load
    from bcdm.reconstruction.files import Plan

    loaded = load(model)
    names = ("samples", "calls", "seed", "batch", "force")
    plan = Plan(**{name: given.pop(name) for name in names})
    for path in inputs:
        folder = out / path.name if len(inputs) > 1 else out
        _reconstruct_one(path, loaded, folder, plan, dry_run=dry_run, **given)


def _reconstruct_one(
    path: Path,
    model: "Model",
    out: Path,
    plan: "Plan",
    *,
    dry_run: bool,
    mask: Path | None,
    operator: Path | None,
    key: str | None,
    noise_std: float | None,
    simulate: bool,
) -> None:
    from bcdm.checkpoint import load_operator
    from bcdm.reconstruction.files import reconstruct_scan
    from bcdm.reconstruction.fitting import fit_scan
    from bcdm.reconstruction.reporting import describe_scan, make_report
    from bcdm.reconstruction.simulation import simulate_scan
    from bcdm.report.html import write_report
    from bcdm.scans import read_scan

    scan = read_scan(path, mask, key)
    chosen = None if operator is None else load_operator(operator)
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
    if dry_run:
        count = len(fitted.scan.data)
        calls = count * (1 + plan.samples * plan.calls)
        _say(f"{'plan':12} {count} slices x {plan.samples} samples: {calls} network calls")
        return
    done = reconstruct_scan(model, fitted, out, plan, say=_say)
    report = make_report(
        done.posteriors, title=path.name, units=fitted.units, facts=facts, truth=truth,
        subtitle=f"{scan.format}, reconstructed by {model.config.name}",
        provenance=done.provenance,
    )  # fmt: skip
    write_report(out / "report.html", report)
    click.echo(f"{report.trust.light}: {report.trust.summary}")
    for file in [*done.files, out / "report.html"]:
        click.echo(f"wrote {file}")


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--mask", type=click.Path(path_type=Path), help="What was measured, if not inside.")
@click.option("--key", help="The array to read, if the file holds several.")
def inspect(inputs: tuple[Path, ...], mask: Path | None, key: str | None) -> None:
    """Say what a file holds: shape, coils, acceleration, noise level, and which model fits."""
    from bcdm.scans import read_scan

    for path in inputs:
        scan = read_scan(path, mask, key)
        click.echo(f"{path.name}: {scan.format}, {scan.kind}")
        for name, value in _describe(scan):
            click.echo(f"  {name:14} {value}")


def _describe(scan: "Scan") -> list[tuple[str, str]]:
    from bcdm.checkpoint import list_models, load
    from bcdm.reconstruction.fitting import UnfitError, estimate_noise, fit_scan

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
            fit_scan(scan, load(name))
            lines.append(("model", f"{name} fits"))
        except (UnfitError, InputError) as error:
            lines.append(("model", f"{name} does not fit: {error}"))
    return lines


@click.command()
@click.argument("result", type=click.Path(path_type=Path, exists=True))
@click.option("--input", "source", type=click.Path(path_type=Path), help="To check it as well.")
def verify(result: Path, source: Path | None) -> None:
    """Check a result against its provenance, and draw its first sample again."""
    from bcdm.reconstruction.verification import verify as check

    verdicts = check(result, source)
    for one in verdicts:
        click.echo(f"{'right' if one.right else 'WRONG'}  {one.name}: {one.found}")
    if not all(one.right for one in verdicts):
        raise SystemExit(1)


@click.command()
@click.argument("model")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; default BCDM_DATA.")
@click.option("--limit", type=int, help="At most this many validation images.")
@click.option("--samples", default=20, show_default=True)
@click.option("--calls", default=20, show_default=True)
@click.option("--seed", default=0, show_default=True)
def calibrate(model: str, data: Path | None, limit: int | None, **given: Any) -> None:
    """Fit a model's trust card and the width of its intervals on validation images."""
    import torch

    from bcdm.benchmark.evaluate import Options, choose_images
    from bcdm.checkpoint import find_model, load
    from bcdm.reconstruction import calibration

    loaded = load(model)
    source, rows = choose_images(loaded, Options(data=data, split="val", limit=limit))
    images = torch.stack([loaded.preparation(source[i]) for i in rows])
    on = f"{len(rows)} validation images of {loaded.config.data.path}, seed {given['seed']}"
    found = calibration.calibrate(loaded, images, on=on, report=_say, **given)
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

    nothing = {"mask": None, "operator": None, "key": None, "noise_std": None}
    picture = importlib.resources.files("bcdm") / "demo" / "brain.png"
    with importlib.resources.as_file(picture) as path:
        _reconstruct_one(path, load("ixi64-mri8x"), out, Plan(),
                         dry_run=False, simulate=True, **nothing)  # fmt: skip
    if not no_open:
        webbrowser.open((out / "report.html").resolve().as_uri())


COMMANDS = (reconstruct, inspect, verify, calibrate, demo)
