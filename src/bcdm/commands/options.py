"""Options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bcdm.shelf import list_models

__all__ = [
    "ANY_OPERATOR",
    "count_option",
    "data_option",
    "device_option",
    "exam_options",
    "mask_option",
    "model_argument",
    "model_option",
    "operator_option",
    "output_folder",
    "plan_options",
    "precision_option",
    "records_option",
    "work_option",
]

Command = Callable[..., Any]
ANY_OPERATOR = "FILE|YAML|PACKAGE.MODULE:NAME"  # where nothing is stored that it must be read from


def count_option(
    name: str, default: int | None, said: str | None = None, least: int = 1
) -> Callable[[Command], Command]:
    """A whole number, `least` or more."""
    kind, shown = click.IntRange(min=least), default is not None
    return click.option(name, default=default, show_default=shown, type=kind, help=said)


def data_option(command: Command) -> Command:
    """Where images are."""
    kind = click.Path(path_type=Path)
    return click.option("--data", type=kind, help="Data folder; default BCDM_DATA.")(command)


def records_option(command: Command) -> Command:
    """Where records go; the parameter is `path`."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option("--json", "path", type=kind, help="Write records here.")(command)


def exam_options(command: Command) -> Command:
    """The options of a benchmark that needs no data: `smoke` and `path`."""
    smoke = click.option("--smoke", is_flag=True, help="A scaled-down run of seconds.")
    return records_option(smoke(command))


def precision_option(command: Command) -> Command:
    """In which numbers the network computes."""
    kind = click.Choice(["auto", "float32", "bfloat16"])
    said = "Of the network; auto is the fastest that the processor has."
    return click.option("--precision", type=kind, default="float32", show_default=True, help=said)(
        command
    )


def device_option(default: str | None = "cpu") -> Callable[[Command], Command]:
    """Where networks run; without a default where a file of settings says."""
    said = "Where networks run: cpu, cuda, cuda:1, mps; auto is the first beside the processor."
    return click.option("--device", default=default, show_default=True, help=said)


def _complete_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of models that begin so; folders where none does."""
    names = [CompletionItem(name) for name in list_models() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="dir")]


def model_argument(command: Command) -> Command:
    """A name of a model, or a folder."""
    return click.argument("model", shell_complete=_complete_models)(command)


def model_option(
    *names: str, said: str, default: str | None = None, required: bool = False
) -> Callable[[Command], Command]:
    """The same as an option: --model, if no other name is given."""
    return click.option(
        *(names or ("--model",)),
        metavar="MODEL",
        default=default,
        show_default=default is not None,
        required=required,
        help=said,
        shell_complete=_complete_models,
    )


def mask_option(command: Command) -> Command:
    """What was measured, and which array of a file is meant: `mask` and `key`."""
    kind = click.Path(path_type=Path)
    mask = click.option("--mask", type=kind, help="What was measured, if not inside.")
    key = click.option("--key", help="The array to read, if the file holds several.")
    return mask(key(command))


def operator_option(command: Command) -> Command:
    """How it was measured."""
    said = 'How it was measured: a stored operator, or such as "{kind: gaussian_blur, std: 1.3}".'
    return click.option("--operator", metavar="FILE|YAML", help=said)(command)


def plan_options(command: Command) -> Command:
    """How to sample."""
    samples = click.option(
        "--samples", default=16, show_default=True, help="Of each slice, 9 or more."
    )
    said = "Network calls per sample; left out as the model was calibrated."
    calls = click.option("--calls", type=int, help=said)
    seed = click.option("--seed", default=0, show_default=True)
    batch = click.option("--batch", default=8, show_default=True, help="Samples at once.")
    return samples(calls(seed(batch(command))))


def work_option(folder: str) -> Callable[[Command], Command]:
    """Where a long command keeps what is done."""
    kind = click.Path(path_type=Path, file_okay=False)
    said = "Where finished parts are kept."
    return click.option("--work", type=kind, default=Path(folder), show_default=True, help=said)


def output_folder(command: Command) -> Command:
    """Where results go; must be given."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option("-o", "--out", type=kind, required=True)(command)
