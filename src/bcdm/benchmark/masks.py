"""Which k-space masks a model of a family takes, and which it refuses.

A gate depends on a model's settings alone, so a file of settings is judged as well: before a
training that may take hours.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Column, Record
from bcdm.assessment.statistics import bootstrap_rate
from bcdm.checkpoint import Model, load
from bcdm.checkpoint.building import build_problems
from bcdm.checkpoint.settings import load_config
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask, LinearOperator, Sense
from bcdm.problems import DrawnProblems, Familiarity
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.families import KSpace
from bcdm.problems.receivers import Receivers, cut_mask

__all__ = ["COLUMNS", "KEYS", "draw_coin_lines", "find_family", "judge_masks", "list_bad", "run"]

KEYS = ("masks",)
COLUMNS = (Column("accepted", "fraction of masks accepted"),)

Draw = Callable[[np.random.Generator], Tensor]
_SPARSE = 20.0  # acceleration that is beyond what is trained for
_TRIES = 1000  # until a mask of partial Fourier is found that is slow enough
_COILS = 8  # around a mask, where a model is for several


def run(
    model: str,
    command: str,
    *,
    draws: int,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    report: Callable[[str], None],
) -> list[Record]:
    """The fraction of masks that are accepted: of each pattern of training, of others, of bad ones.

    Args:
        model: A model of a family with k-space masks, or a YAML file of settings.
        command: For the records.
        draws: Masks of each kind.
        size: Of the masks; that of training when left out.
        seed: Of all draws.
        report: Takes a line a kind.
    """
    judge = _open_gate(model)
    size = size or judge.problems.size
    family = _find_k_space(judge, model)
    records = []
    kinds = _list_own(family, size) | _list_others(family, size) | list_bad(family, size)
    if any(isinstance(one, Receivers) and one.partial for one in judge.problems.families):
        kinds |= {
            f"{name}, partial Fourier": (partial(_cut, draw, family.acceleration[1]), required)
            for name, (draw, required) in _list_own(family, size).items()
        }
    for number, (name, (draw, required)) in enumerate(kinds.items()):
        masks = torch.stack([draw(np.random.default_rng([seed, number, k])) for k in range(draws)])
        taken = judge_masks(judge, masks, math.sqrt(math.prod(judge.problems.noise_std)))
        case: dict[str, object] = {"model": Path(model).name, "masks": name, "draws": draws}
        case |= {"size": list(size)} if size != judge.problems.size else {}
        value = float(taken.mean())
        report(f"{name}: {value:.1%} of {draws} accepted")
        interval = bootstrap_rate(taken)
        records.append(
            Record("fraction of masks accepted", case, value, "", interval, required, seed, command)
        )
    return records


def find_family(model: Model) -> KSpace:
    """The k-space masks that a model of real images was trained for."""
    if model.familiarity is None:
        raise InputError(f"{model.config.name} was trained for one operator, not for a family")
    if model.familiarity.problems.image_dtype.is_complex:
        raise InputError(f"{model.config.name} is for coils: bcdm benchmark scans scores its masks")
    return _find_k_space(model.familiarity, model.config.name)


def _find_k_space(judge: Familiarity, name: str) -> KSpace:
    for family in judge.problems.families:
        if isinstance(family, KSpace):
            return family
        if isinstance(family, Receivers):
            return family.masks
    raise InputError(f"{name} was trained for no k-space masks")


def draw_coin_lines(
    size: tuple[int, int], acceleration: float, centre: float, rng: np.random.Generator
) -> Tensor:
    """Columns by tosses of a coin, as fastMRI's masks are: their number varies."""
    columns = size[1]
    low = round(columns * centre)
    first = columns // 2 - low // 2
    lines = rng.uniform(size=columns) < (columns / acceleration - low) / (columns - low)
    lines[first : first + low] = True
    return torch.from_numpy(np.tile(lines, (size[0], 1)))


def _list_others(family: KSpace, size: tuple[int, int]) -> dict[str, tuple[Draw, str | None]]:
    """Masks of others: they must be taken where training drew masks of scanners."""
    required = ">= 0.95" if "random_columns" in family.patterns else None

    def draw_regular(spacing: int, centre: float, rng: np.random.Generator) -> Tensor:
        lines = np.zeros(size[1], bool)
        lines[int(rng.integers(spacing)) :: spacing] = True
        low = round(centre * size[1])
        first = size[1] // 2 - low // 2
        lines[first : first + low] = True
        return torch.from_numpy(np.tile(lines, (size[0], 1)))

    return {
        "fastMRI 4x, centre .08": (lambda rng: draw_coin_lines(size, 4, 0.08, rng), required),
        "fastMRI 8x, centre .04": (lambda rng: draw_coin_lines(size, 8, 0.04, rng), required),
        "every 4th column, centre .08": (partial(draw_regular, 4, 0.08), required),
        "every 8th column, centre .04": (partial(draw_regular, 8, 0.04), required),
    }


def list_bad(family: KSpace, size: tuple[int, int]) -> dict[str, tuple[Draw, str | None]]:
    """Masks that no network could make a good image of."""

    def leave_out_middle(pattern: str, rng: np.random.Generator) -> Tensor:
        mask = family.draw_pattern(pattern, size, 4.0, rng)
        rows, columns = (slice(side // 2 - 3, side // 2 + 4) for side in size)
        mask[slice(None) if pattern.endswith("columns") else rows, columns] = False
        return mask

    def draw_sparse(pattern: str, rng: np.random.Generator) -> Tensor:
        return family.draw_pattern(pattern, size, _SPARSE, rng)

    patterns = ("free_points", "free_columns", "random_columns", "poisson")
    bad: dict[str, tuple[Draw, str | None]] = {
        f"{name} 20x": (partial(draw_sparse, name), "<= 0.05") for name in patterns
    }
    bad |= {
        f"{name} 4x without a middle": (partial(leave_out_middle, name), "<= 0.05")
        for name in ("free_points", "random_columns")
    }
    return bad


def _list_own(family: KSpace, size: tuple[int, int]) -> dict[str, tuple[Draw, str | None]]:
    """Masks as training draws them."""
    return {name: (partial(_draw_own, family, name, size), ">= 0.95") for name in family.patterns}


def _cut(draw: Draw, fastest: float, rng: np.random.Generator) -> Tensor:
    """A mask of which a part is left out, no faster in all than those that are whole."""
    for _ in range(_TRIES):
        mask = cut_mask(draw(rng), rng)
        if mask.sum() * fastest >= mask.numel():
            return mask
    raise InputError(
        f"no mask is left within {fastest:g}x after partial Fourier: the family has no room for it"
    )


def _draw_own(
    family: KSpace, pattern: str, size: tuple[int, int], rng: np.random.Generator
) -> Tensor:
    low, high = (math.log(bound) for bound in family.acceleration)
    return family.draw_pattern(pattern, size, math.exp(rng.uniform(low, high)), rng)


def judge_masks(judge: Familiarity, masks: Tensor, noise_std: float) -> np.ndarray:
    """1 for each mask (N, H, W) that is accepted, else 0; of complex images, as coils see them."""
    size = (masks.shape[1], masks.shape[2])
    dtype = judge.problems.image_dtype
    operator: LinearOperator = FourierMask(masks[:, None], real=True)
    if dtype.is_complex:
        maps = draw_birdcage(size, _COILS, rng=np.random.default_rng(0))
        operator = Sense(maps.expand(len(masks), -1, -1, -1), masks[:, None])
    blank = torch.zeros(len(masks), 1, *size, dtype=dtype)
    verdicts = judge.judge(Measurement(operator.forward(blank), operator, noise_std))
    return np.array([verdict.familiar for verdict in verdicts], float)


def _open_gate(model: str) -> Familiarity:
    if not model.endswith((".yaml", ".yml")):
        judge = load(model).familiarity
        if judge is None:
            raise InputError(f"{model} was trained for one operator, not for a family")
        return judge
    config = load_config(model)
    problems = build_problems(config, config.data.size or (64, 64))
    if not isinstance(problems, DrawnProblems):
        raise InputError(f"{model} has one operator, not a family")
    return Familiarity(problems, config.parameterisation.prior_std)
