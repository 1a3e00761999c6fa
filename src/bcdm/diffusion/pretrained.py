"""Networks that others trained as denoisers: they predict noise, v or the image, by any table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from bcdm.diffusion.schedules import VE, NoiseLevel, Schedule, Tabled
from bcdm.errors import InputError, ShapeError
from bcdm.tensors import ImageSpec, fit

__all__ = ["Prediction", "Pretrained", "from_diffusers", "from_edm", "from_table"]

Prediction = Literal["noise", "v", "image"]
_DIFFUSERS: dict[str, Prediction] = {"epsilon": "noise", "v_prediction": "v", "sample": "image"}


@dataclass(frozen=True, eq=False, repr=False)
class Pretrained:
    r"""$E[x_0 \mid x_t]$ by a network that somebody else trained; guided methods take it as prior.

    Images are brought to the network's device and number type, and back.

    Args:
        network: Called as network(x_t, time), with one time for each image (B,).
        schedule: The noise levels it was trained on.
        image: What one image is.
        predicts: The noise $n$, $v = \alpha n - \sigma x_0$, or the image $x_0$.
        find_time: What the network is told of a level: a number for each of its entries.
        value_range: Means are clipped to it, as samplers of such networks mostly do; None leaves
            them.
    """

    network: Callable[[Tensor, Tensor], Tensor]
    schedule: Schedule
    image: ImageSpec
    predicts: Prediction
    find_time: Callable[[NoiseLevel], Tensor]
    value_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.predicts not in get_args(Prediction):
            raise InputError(f"predicts is one of {get_args(Prediction)}, not {self.predicts!r}")

    def __repr__(self) -> str:
        size = "x".join(map(str, self.image.shape))
        return f"Pretrained({size}, predicts {self.predicts}, {self.schedule})"

    def __call__(self, x_t: Tensor, level: NoiseLevel) -> Tensor:
        """The mean of x_0, like x_t (B, C, H, W)."""
        if tuple(x_t.shape[1:]) != self.image.shape:
            raise ShapeError(f"the network makes {self.image.shape}, got {tuple(x_t.shape)}")
        time = self.find_time(level).expand(len(x_t))
        found = self.network(x_t, time)
        # Some give variances, too, as further channels.
        out = found[:, : x_t.shape[1]]
        if out.shape != x_t.shape:
            raise ShapeError(f"of {tuple(x_t.shape)} the network made {tuple(found.shape)}")
        alpha, sigma = fit(x_t, *level)
        mean = {
            "noise": lambda: (x_t - sigma * out) / alpha,
            "v": lambda: alpha * x_t - sigma * out,
            "image": lambda: out,
        }[self.predicts]()
        return mean if self.value_range is None else mean.clamp(*self.value_range)


def from_table(
    network: Callable[[Tensor, Tensor], Tensor],
    abar: Tensor,
    shape: tuple[int, ...],
    *,
    predicts: Prediction = "noise",
    value_range: tuple[float, float] | None = None,
) -> Pretrained:
    r"""A network over a table of $\bar\alpha$, as those of DDPM and guided-diffusion.

    It is told places of the table, between its entries as fractions; a network that takes whole
    ones only has to round them itself. Channels beyond those of the image, learned variances, are
    left out.

    Args:
        network: Called as network(x_t, place) with x_t (B, C, H, W) and places (B,).
        abar: $\bar\alpha_k$, (T,): the running product of 1 - beta.
        shape: Of an image, (C, H, W).
        predicts: What the network gives.
        value_range: Means are clipped to it.
    """
    schedule = Tabled(abar)
    return Pretrained(
        _place(network),
        schedule,
        ImageSpec(tuple(shape)),
        predicts,
        lambda level: schedule.find_position(level.log_snr),
        value_range,
    )


def from_diffusers(
    network: Any,
    scheduler: Any,
    shape: tuple[int, ...] | None = None,
    *,
    value_range: tuple[float, float] | None = None,
) -> Pretrained:
    """A UNet of diffusers with the scheduler it was trained with; diffusers is not imported.

    Args:
        network: Such as a UNet2DModel: called as network(x_t, time).sample.
        scheduler: With `alphas_cumprod` and `config.prediction_type`.
        shape: Of an image, (C, H, W); that of the network's settings when left out.
        value_range: Means are clipped to it.
    """
    kind = getattr(scheduler.config, "prediction_type", "epsilon")
    if kind not in _DIFFUSERS:
        raise InputError(f"prediction_type {kind!r} is not known: {', '.join(_DIFFUSERS)}")
    if shape is None:
        side = network.config.sample_size
        rows, columns = (side, side) if isinstance(side, int) else side
        shape = (network.config.in_channels, rows, columns)

    def predict(x_t: Tensor, time: Tensor) -> Tensor:
        return network(x_t, time).sample

    return from_table(
        _place(predict, network),
        scheduler.alphas_cumprod,
        shape,
        predicts=_DIFFUSERS[kind],
        value_range=value_range,
    )


def from_edm(
    network: Any,
    shape: tuple[int, ...] | None = None,
    *,
    sigma_min: float = 0.002,
    sigma_max: float = 80.0,
    value_range: tuple[float, float] | None = None,
) -> Pretrained:
    """A preconditioned network of EDM: it takes x_0 + sigma n and sigma, and gives the mean of x_0.

    Args:
        network: Called as network(x, sigma).
        shape: Of an image, (C, H, W); that of the network's own attributes when left out.
        sigma_min: The last noise level.
        sigma_max: The first.
        value_range: Means are clipped to it.
    """
    if shape is None:
        side = network.img_resolution
        shape = (network.img_channels, side, side)
    schedule = VE(sigma_min, sigma_max)
    return Pretrained(
        _place(network),
        schedule,
        ImageSpec(tuple(shape)),
        "image",
        lambda level: level.sigma,
        value_range,
    )


def _place(call: Callable[[Tensor, Tensor], Tensor], network: Any = None) -> Any:
    """A call that brings images to where the network's weights are, and what it gives back."""
    network = call if network is None else network
    if not isinstance(network, nn.Module):
        return lambda x_t, time: call(x_t, time.to(x_t.device, torch.float32))
    if network.training:
        raise InputError("the network is in training mode, which may drop parts: network.eval()")

    def placed(x_t: Tensor, time: Tensor) -> Tensor:
        weight = next((w for w in network.parameters() if w.is_floating_point()), None)
        if weight is None:
            return call(x_t, time.to(x_t.device, torch.float32))
        found = call(x_t.to(weight), time.to(weight.device, torch.float32))
        return found.to(x_t.device, x_t.dtype)

    return placed
