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
    """How source images become network images."""
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
    seeds = [config.training.seed]
    if network.experts_below_t is not None:
        seeds.append(config.training.seed + 1)
    parts = [UnrolledNetwork(NCSNpp(backbone, seed=s), network.iterations) for s in seeds]
    whole: torch.nn.Module = parts[0]
    if network.experts_below_t is not None:
        time = torch.tensor([network.experts_below_t / 1000], dtype=torch.float64)
        whole = Experts(parts, [float(schedule.log_snr(time))])
    return Bayesian(whole, schedule, Parameterisation(**config.parameterisation.model_dump()))
