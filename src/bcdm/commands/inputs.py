"""`bcdm inspect`: what a file holds; and how a command goes through several inputs."""

from collections.abc import Callable
from math import degrees, isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bcdm.commands.echo import answer, say
from bcdm.commands.failures import describe_failure
from bcdm.commands.options import mask_option
from bcdm.errors import InputError
from bcdm.text import number

if TYPE_CHECKING:
    from bcdm.scans import Scan

__all__ = ["for_each", "inspect"]


def for_each(inputs: tuple[Path, ...], run: Callable[[Path], None]) -> None:
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
            say(describe_failure(error, str(path))[0])
    if failed:
        raise InputError(f"{failed} of {len(inputs)} inputs failed, see above")


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=click.Path(path_type=Path))
@mask_option
def inspect(inputs: tuple[Path, ...], mask: Path | None, key: str | None) -> None:
    """Say what a file holds: shape, coils, acceleration, noise level, and which model fits."""
    from bcdm.scans import read_scan

    def run(path: Path) -> None:
        scan = read_scan(path, mask, key)
        answer(f"{path.name}: {scan.format}, {scan.kind}")
        for name, value in [*_describe(scan), *_match_models(scan)]:
            answer(f"  {name:14} {value}")

    for_each(inputs, run)


def _describe(scan: "Scan") -> list[tuple[str, str]]:
    from bcdm.noise import find_phase
    from bcdm.reconstruction.fitting import estimate_noise

    slices, channels, rows, columns = scan.data.shape
    kind = "coil" if scan.kind == "k-space" else "channel"
    parts = f"{number(slices, 'slice')}, {number(channels, kind)}"
    lines = [("shape", f"{parts}, {rows} x {columns}")]
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
    angle = find_phase(scan.data, scan.mask) if scan.kind == "k-space" else None
    if angle is not None:
        varies = "varies over the image" if isnan(angle) else f"{degrees(angle):.1f} degrees"
        lines.append(("phase", f"{varies}: for models of complex images"))
    size = f"{float(abs(scan.data).min()):.4g} to {float(abs(scan.data).max()):.4g}"
    lines.append(("magnitude", f"{size} in the units of the file"))
    return [*lines, *((name, str(value)) for name, value in scan.facts.items())]


def _match_models(scan: "Scan") -> list[tuple[str, str]]:
    from bcdm.checkpoint import list_models, load
    from bcdm.reconstruction.fitting import fit_scan
    from bcdm.trust import UnfitError, find_unfamiliar
    from bcdm.trust.matching import explain_noise

    # Models that do not fit for the same reason share a line.
    found: dict[tuple[str, str], list[str]] = {}
    for name in list_models():
        reason = doubt = ""
        try:
            model = load(name)
            measurement = fit_scan(scan, model).measure(0)
            reason = find_unfamiliar(model, measurement)[0]
            far = explain_noise(model.config.noise_std, float(measurement.std))
            doubt = f", but for its noise: {far}" if far else ""
        except (UnfitError, InputError) as error:
            reason = str(error)
        found.setdefault((reason.replace(name, "the model"), doubt), []).append(name)
    lines = []
    for (reason, doubt), names in found.items():
        told = f"{'fit' if len(names) > 1 else 'fits'}{doubt}"
        if reason:
            told = f"do{'' if len(names) > 1 else 'es'} not fit: {reason}"
        lines.append(("model", f"{', '.join(names)} {told}"))
    return lines
