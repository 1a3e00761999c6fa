"""`bcdm doctor` and `bcdm models`: what is here to work with."""

import json
from pathlib import Path
from typing import Any

import click

from bcdm.commands.echo import answer
from bcdm.commands.extras import list_extras
from bcdm.shelf import find_model, list_models

__all__ = ["SMALL", "doctor", "models"]

SMALL = "ixi64-mri8x-small"  # which comes with bcdm: its call is timed, and `bcdm demo` takes it


@click.command()
@click.option("--quick", is_flag=True, help="Time no network.")
def doctor(quick: bool) -> None:
    """Say what this installation can do: versions, processor, devices, extras, speed of a call."""
    import platform

    import torch

    from bcdm import __version__
    from bcdm.machine import describe_processor, list_devices

    name, fast = describe_processor()
    answer(
        f"bcdm       {__version__}, Python {platform.python_version()}, torch {torch.__version__}"
    )
    answer(f"processor  {name}, {torch.get_num_threads()} threads")
    told = ", ".join(fast) if fast else "none in hardware: float32 is faster"
    answer(f"bfloat16   {told}")
    answer(f"devices    {', '.join(list_devices())}")
    for extra, missing in list_extras().items():
        told = f"lacks {', '.join(missing)}: pip install 'bcdm[{extra}]'" if missing else "there"
        answer(f"{'extra ' + extra:16} {told}")
    answer(f"models     {', '.join(list_models()) or 'none'}")
    if not quick and SMALL in list_models():
        answer(f"a call     {_time_call(SMALL)}")


def _time_call(name: str) -> str:
    """How long a network call takes, for one image and for several."""
    import time

    import torch

    from bcdm.checkpoint import load
    from bcdm.measurement import Measurement

    model = load(name)
    level = model.method.schedule.level(torch.zeros(1, dtype=torch.float64))
    told = []
    for count in (1, 8):
        x = torch.zeros(count, *model.shape)
        bound = model.method.condition(Measurement.simulate(x, model.operator, 0.05, seed=0))
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            with torch.no_grad():
                bound(x, level)
            seconds.append((time.perf_counter() - start) / count)
        told.append(f"{1000 * min(seconds):.0f} ms an image of {count}")
    size = "x".join(map(str, model.shape))
    return f"{', '.join(told)} on the processor ({name}, {size}); a sample takes 20 calls"


@click.command()
def models() -> None:
    """List the models that can be named: what they make, from what, and where they lie."""
    for name in list_models():
        folder = find_model(name)
        try:
            lines = _describe(name, folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            lines = [f"{name}: BROKEN, its config.json or weights cannot be read, in {folder}"]
        for line in lines:
            answer(line)


def _describe(name: str, folder: Path) -> list[str]:
    content: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config, facts = content["config"], content["facts"]
    operator = config["operator"]
    members = operator.get("members", [operator])
    kinds = ", ".join(dict.fromkeys(str(one["kind"]).replace("_", " ") for one in members))
    nothing = operator.get("nothing", 0) or operator["kind"] == "nothing"
    size = "x".join(map(str, content["shape"]))
    family = "a family of " if operator["kind"] == "family" else ""
    weights = (folder / "model.safetensors").stat().st_size / 1e6
    return [
        f"{name}: images {size} of {config['data']['path']}, {weights:.1f} MB",
        f"  made for {family}{kinds}; noise_std {config['noise_std']}"
        f"{'; also a prior' if nothing else ''}"
        f"{'' if facts.get('calibration') else '; not calibrated'}",
        f"  in {folder}",
    ]
