"""From settings to objects: the only place that turns configured names into classes."""

import torch

from bcdm import config as settings
from bcdm.data import Preparation
from bcdm.diffusion import VE, VP, Schedule
from bcdm.methods import Bayesian, Parameterisation
from bcdm.networks import Experts, NCSNpp, NCSNppConfig, UnrolledNetwork
from bcdm.operators import BlockMean, CircularBlur, FourierMask, Identity, LinearOperator, PixelMask
from bcdm.operators.patterns import draw_centre_box, draw_gaussian_kernel, draw_variable_density

__all__ = ["build_method", "build_operator", "build_preparation", "build_schedule"]


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


def build_operator(config: settings.OperatorConfig, size: tuple[int, int]) -> LinearOperator:
    """The operator for images of `size`."""
    if isinstance(config, settings.FourierMaskConfig):
        mask = draw_variable_density(
            size, config.acceleration, centre=config.centre, seed=config.seed, lines=config.lines
        )
        return FourierMask(mask, real=True)
    if isinstance(config, settings.PixelMaskConfig):
        return PixelMask(draw_centre_box(size, config.box))
    if isinstance(config, settings.BlockMeanConfig):
        return BlockMean(config.factor, config.scaling)
    if isinstance(config, settings.BlurConfig):
        return CircularBlur(draw_gaussian_kernel(config.std), size)
    return Identity()


def build_schedule(config: settings.ScheduleConfig) -> Schedule:
    """VP or VE."""
    return VP(config.sigma_min) if config.kind == "VP" else VE(config.sigma_min)


def build_method(config: settings.RunConfig, shape: tuple[int, ...]) -> Bayesian:
    """The untrained method for images of `shape` (C, H, W); weights follow from the seed."""
    network, schedule = config.network, build_schedule(config.schedule)
    plain = network.model_dump(exclude={"iterations", "experts_below_t"})
    backbone = NCSNppConfig(
        channels_in=shape[0], channels_out=shape[0], image_size=shape[-1], **plain
    )
    seed, split = config.training.seed, network.experts_below_t
    core: torch.nn.Module = NCSNpp(backbone, seed=seed)
    if split is not None:
        # Each sample goes through one expert in all iterations.
        edge = schedule.log_snr(torch.tensor([split / 1000], dtype=torch.float64))
        core = Experts([core, NCSNpp(backbone, seed=seed + 1)], [float(edge)])
    whole = UnrolledNetwork(core, network.iterations, network.checkpointing)
    return Bayesian(whole, schedule, Parameterisation(**config.parameterisation.model_dump()))
