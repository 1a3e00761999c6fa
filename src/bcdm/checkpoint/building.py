"""From settings to objects: the only place that turns configured names into classes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from bcdm.checkpoint import kinds, settings
from bcdm.data import Augmentation, Preparation
from bcdm.diffusion import VE, VP, Bridge, Schedule
from bcdm.errors import InputError
from bcdm.methods import Bayesian
from bcdm.networks import Backbone, Experts, NCSNpp, NCSNppConfig, PlainUNet, UnrolledNetwork
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    FourierMask,
    Identity,
    LinearOperator,
    PixelMask,
    Radon,
    space_angles,
)
from bcdm.problems import Cloud, DrawnProblems, Familiarity, OneProblem
from bcdm.problems.patterns import draw_centre_box, draw_gaussian_kernel, draw_variable_density

__all__ = [
    "build_augmentation",
    "build_familiarity",
    "build_method",
    "build_operator",
    "build_preparation",
    "build_problems",
    "build_schedule",
    "check_size",
]

_PER_PIXEL = 64  # numbers that are measured, at most: more would fill any memory


def build_preparation(config: settings.DataConfig) -> Preparation:
    """How source images become network images; `source_range` must be known by now."""
    assert config.source_range is not None
    return Preparation(
        size=config.size,
        channels=config.channels,
        value_range=config.value_range,
        crop=config.crop,
        source_range=config.source_range,
    )


def build_augmentation(config: settings.DataConfig) -> Augmentation:
    """The random changes of training images."""
    return Augmentation(
        flip=config.flip,
        shift=config.shift,
        lesions=config.lesions,
        value_range=config.value_range,
        contrast=config.contrast,
        turn=config.turn,
        zoom=config.zoom,
        phase=config.phase,
        shading=config.shading,
    )


def build_problems(
    config: settings.RunConfig,
    size: tuple[int, int],
    operator: LinearOperator | None = None,
    data: Path | None = None,
) -> OneProblem | DrawnProblems:
    """What a run measures images of `size` with: its settings say it, or an operator is given.

    Files that a family draws from lie in the folder `data`; BCDM_DATA when left out.
    """
    std = config.noise_std
    if isinstance(config.operator, kinds.FamilyConfig):
        bounds = std if isinstance(std, tuple) else (std, std)
        find = partial(settings.resolve_data_path, folder=data)
        return DrawnProblems(
            tuple(member.locate(find) for member in config.operator.members),
            size,
            bounds,
            config.training.seed,
            nothing=config.operator.nothing,
        )
    if isinstance(std, tuple):
        raise InputError("a range of noise_std needs an operator of kind family")
    if operator is None:
        if isinstance(config.operator, kinds.CustomConfig):
            raise InputError(f"{config.name} was trained with an operator of its own: give it")
        operator = build_operator(config.operator, size)
    return OneProblem(operator, std)


def build_familiarity(
    config: settings.RunConfig, shape: tuple[int, ...], stored: Cloud | None = None
) -> Familiarity | None:
    """Judges whether measurements are of a run's family; None for a single operator."""
    if config.operator.kind != "family":
        return None
    # A model is judged wherever it is used: files of its training may not be there.
    members = tuple(member.leave_files() for member in config.operator.members)
    operator = config.operator.model_copy(update={"members": members})
    config = config.model_copy(update={"operator": operator})
    problems = build_problems(config, (shape[-2], shape[-1]))
    assert isinstance(problems, DrawnProblems)
    return Familiarity(
        problems,
        config.parameterisation.prior_std,
        stored=stored,
        any_size=config.scope is not None,
    )


def build_operator(config: kinds.SingleOperatorConfig, size: tuple[int, int]) -> LinearOperator:
    """The operator for images of `size`."""
    if isinstance(config, kinds.FourierMaskConfig):
        mask = draw_variable_density(
            size, config.acceleration, centre=config.centre, seed=config.seed, lines=config.lines
        )
        return FourierMask(mask, real=True)
    if isinstance(config, kinds.PixelMaskConfig):
        return PixelMask(draw_centre_box(size, config.box))
    if isinstance(config, kinds.BlockMeanConfig):
        return BlockMean(config.factor, config.scaling)
    if isinstance(config, kinds.BlurConfig):
        if config.std > max(size):
            raise InputError(f"a blur of std {config.std:g} leaves nothing of {_show(size)} pixels")
        return CircularBlur(draw_gaussian_kernel(config.std), size)
    if isinstance(config, kinds.RadonConfig):
        count = config.angles * (config.detectors or max(size))
        if count > _PER_PIXEL * size[0] * size[1]:
            raise InputError(f"{count} numbers are too many to measure of {_show(size)} pixels")
        whole = 180.0 if config.source_distance is None else 360.0
        return Radon(
            space_angles(config.angles, config.arc or whole),
            size,
            detectors=config.detectors,
            spacing=config.spacing,
            centre=config.centre,
            source_distance=config.source_distance,
            detector_distance=config.detector_distance,
            scaling=config.scaling,
        )
    if isinstance(config, kinds.NothingConfig):
        return PixelMask(torch.zeros(size, dtype=torch.bool))
    return Identity()


def _show(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def build_schedule(config: settings.ScheduleConfig) -> Schedule:
    """VP, VE or a bridge."""
    kinds = {"VP": VP, "VE": VE, "bridge": Bridge}
    return kinds[config.kind](config.sigma_min, spread=config.spread)


def check_size(
    config: settings.RunConfig, shape: tuple[int, ...], weights: Mapping[str, Tensor]
) -> None:
    """Refuses settings of a network that is larger than its weights, before memory is taken."""
    network, channels = config.network, shape[0]
    blocks = network.blocks * len(network.multipliers)
    # Each block has a convolution from its channels to as many, each network one of its input.
    inner = network.blocks * sum(9 * (network.width * m) ** 2 for m in network.multipliers)
    first = 9 * channels * network.patch**2 * network.width
    numbers = sum(t.numel() for t in weights.values())
    if blocks > len(weights) or max(inner, first) > numbers:
        raise InputError(f"a network of these settings has more than the {numbers} numbers stored")


def build_method(config: settings.RunConfig, shape: tuple[int, ...]) -> Bayesian:
    """The untrained method for images of `shape` (C, H, W); weights follow from the seed."""
    network = config.network
    schedule = build_schedule(config.schedule)
    # The paper's iterations pass on the image alone; a residual needs to know what it is added to,
    # unless it is told how far it has moved.
    parameterisation = config.parameterisation
    passed_on = parameterisation.output == "image" or parameterisation.compare
    recall = network.iterations > 1 and not passed_on
    if parameterisation.statistic == "bridge" and config.schedule.kind != "bridge":
        raise InputError("the statistic bridge needs schedule.kind=bridge")
    images = 1 + int(recall) + parameterisation.extra_images
    # The network sees the real and the imaginary part of a complex image as channels of their own.
    channels = shape[0] * (2 if config.data.phase else 1)
    backbone = NCSNppConfig.of(
        network,
        channels_in=channels * images + parameterisation.extra_channels,
        channels_out=channels,
        image_size=shape[-1],
    )
    seed, split = config.training.seed, network.experts_below_t
    kinds: dict[str, type[Backbone]] = {"ncsnpp": NCSNpp, "plain": PlainUNet}
    build = kinds[network.kind]
    core: torch.nn.Module = build(backbone, seed=seed)
    if split is not None:
        # Each sample goes through one expert in all iterations.
        edge = schedule.log_snr(torch.tensor([split / 1000], dtype=torch.float64))
        core = Experts([core, build(backbone, seed=seed + 1)], [float(edge)])
    whole = UnrolledNetwork(core, network.iterations, network.checkpointing, recall)
    return Bayesian(whole, schedule, parameterisation)
