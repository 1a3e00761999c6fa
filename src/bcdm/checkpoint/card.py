"""The model card: what a model is for, and how well it does, in words."""

from pathlib import PurePath
from typing import Any

from bcdm.checkpoint.lesions import describe_lesions

__all__ = ["format_card"]


def format_card(content: dict[str, Any], *, named: bool = True) -> str:
    """The README.md of a model folder, from its config.json.

    Args:
        content: Of config.json.
        named: Whether the model is found by its name; others are loaded by their folder.
    """
    place, note = (content["name"], "") if named else (".", "  # this folder; elsewhere, its path")
    config, facts = content["config"], content["facts"]
    data, training = config["data"], config["training"]
    family = config["operator"]["kind"] == "family"
    members = config["operator"]["members"] if family else [config["operator"]]
    operator = "; ".join(
        ", ".join(f"{k} {v}" for k, v in one.items() if k != "projections") for one in members
    )
    given = "operator" if family else "model.operator"
    channels, rows, columns = content["shape"]
    lines = [
        "---",
        "library_name: bcdm",
        f"license: {facts.get('licence', 'other')}",
        "tags: [inverse-problems, diffusion, posterior-sampling]",
        "---",
        "",
        f"# {content['name']}",
        "",
        "A network that samples the posterior of images given measurements of them.",
        "",
        "| | |",
        "| --- | --- |",
        f"| images | {channels} x {rows} x {columns}, values in {data['value_range']}"
        f"{', complex: of the magnitude' if data.get('phase') else ''} |",
        *_describe_scope(config.get("scope")),
        f"| trained on | {facts.get('training_images', '?')} images of {_list_paths(config)} |",
        f"| operator | {operator} |",
        f"| noise_std | {config['noise_std']}, in the units of the values above |",
        f"| network | {facts.get('parameters', 0) / 1e6:.2f} M parameters |",
        f"| parameterisation | {config['parameterisation']['statistic']} statistic, "
        f"{config['parameterisation']['output']} output |",
        *_tell_training(training, facts),
        *[f"| sha256 of {name} | `{value}` |" for name, value in content["hashes"].items()],
        "",
        "```",
        f"model = bcdm.load({place!r})".replace("'", '"') + note,
        f"posterior = model.condition(bcdm.Measurement(y, {given}, noise_std))",
        "```",
        "",
        "It answers for operators and noise levels as above, and images like its training's.",
        *_tell_prior(config["operator"]),
        *_describe_masks(members),
        *_tell_lesions(facts, members),
    ]
    if facts.get("metrics"):
        metrics = facts["metrics"]
        lines += ["", "## Measured", "", f"On {metrics['on']}, by `{metrics['command']}`.", ""]
        lines += ["| metric | value |", "| --- | --- |"]
        lines += [f"| {name} | {value} |" for name, value in metrics["rows"].items()]
        lines += [
            "",
            "Intervals are 95 %, resampling subjects, or images where no subjects are known.",
        ]
    return "\n".join(lines) + "\n"


def _list_paths(config: dict[str, Any]) -> str:
    """Where training images were."""
    parts = [config["data"], *(source["data"] for source in config.get("sources", []))]
    return ", ".join(dict.fromkeys(f"`{part['path']}`" for part in parts))


def _tell_training(training: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Steps, what they began with, and where it is told what came of them."""
    steps = f"{training['steps']} steps of {training['batch']} images, seed {training['seed']}"
    rows = []
    if "trained" in facts:
        rows += [f"| training | {facts['trained']} |", f"| its last part | {steps} |"]
    else:
        start = training.get("start_from")
        begun = "" if start is None else f", from the weights of {PurePath(start).name}"
        rows.append(f"| training | {steps}{begun} |")
    if specialised := facts.get("specialised"):
        rows.append(f"| specialised | from {specialised['from']}, for {specialised['operator']} |")
    if "record" in facts:
        rows.append(f"| what was measured | {facts['record']} in the repository of bcdm |")
    return rows


def _tell_prior(operator: dict[str, Any]) -> list[str]:
    """Whether it serves outside of its family, too, and by what."""
    nothing = operator.get("nothing", 0)
    if not nothing:
        return []
    return [
        f"It is also a prior: nothing was measured in {nothing:g} of the draws of its training. "
        "For operators outside of its family `--method auto` takes guarded MMPS with it, which is "
        "slower."
    ]


def _describe_scope(scope: dict[str, Any] | None) -> list[str]:
    """Which other sizes a model is for."""
    if scope is None:
        return []
    sides, spacing = ([str(bound) for bound in scope[name]] for name in ("sides", "spacing"))
    return [f"| for | sides of {' to '.join(sides)} pixels, {' to '.join(spacing)} mm apart |"]


def _tell_lesions(facts: dict[str, Any], members: list[dict[str, Any]]) -> list[str]:
    if "lesions" not in facts:
        return []
    told = describe_lesions(facts, [one["kind"] for one in members])
    return [] if told is None else ["", "## Small lesions", "", told]


def _describe_masks(members: list[dict[str, Any]]) -> list[str]:
    """What names of k-space patterns do not say: whether masks of scanners are among them."""
    masks = [one.get("masks", one) for one in members]
    patterns = [p for one in masks if one["kind"] == "k_space" for p in one["patterns"]]
    if not patterns:
        return []
    if set(patterns) <= {"points", "lines", "radial"}:
        return [
            "Its k-space masks hold each frequency together with its mirror image (conjugate "
            "symmetry), denser in the middle. Masks of scanners do not: fastMRI's, equispaced "
            "lines and Poisson discs are warned about.",
        ]
    return [
        "Its k-space masks may lack conjugate symmetry, as those of scanners do: "
        f"{', '.join(patterns)}.",
    ]
