"""A model in the shape that deepinv asks of a reconstructor; deepinv itself is not imported."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bcdm.checkpoint import Model, load
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.identity import identify
from bcdm.measurement import Measurement
from bcdm.operators.adapters import Physics, from_deepinv
from bcdm.reconstruction.choice import Choice, choose_method
from bcdm.reconstruction.posterior import Posterior, reconstruct

__all__ = ["Reconstructor"]


class Reconstructor(nn.Module):
    """Gives reconstructions for (y, physics): for deepinv's `test`, `Trainer` and loops.

    Args:
        model: A model, its name or its folder.
        samples: 0 gives the posterior mean by one network call (a single sample where another
            method is taken); more, the mean of so many samples.
        calls: Network calls per sample; as the model was calibrated when left out.
        seed: Of all samples.
        noise_std: Of y in the units of the physics; that of its noise model when left out.
        value_range: Black and white of the images of the physics, as deepinv has them.
        method: What to take for physics that the model was not made for; see `bcdm.reconstruct`.
        force: Whether to take the model for them all the same.
        device: Where the network runs; where the model has it when left out.
    """

    def __init__(
        self,
        model: Model | str | Path,
        *,
        samples: int = 0,
        calls: int | None = None,
        seed: int = 0,
        noise_std: float | Tensor | None = None,
        value_range: tuple[float, float] = (0.0, 1.0),
        method: Choice = "model",
        force: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        loaded = model if isinstance(model, Model) else load(model)
        if loaded.config.data.phase:
            raise InputError(
                f"{loaded.name} makes complex images of coils, and deepinv has two channels: use "
                "bcdm.reconstruct"
            )
        self.model = loaded if device is None else loaded.to(device)
        # Registered, so that .to(device) and .eval() reach the network.
        self.network = self.model.method.network
        self.samples, self.calls, self.seed = samples, calls, seed
        self.noise_std, self.method, self.force = noise_std, method, force
        low, high = self.model.config.data.value_range
        black, white = value_range
        if not black < white:
            raise InputError(
                f"value_range must be (black, white) with black < white: {value_range}"
            )
        self.gain = (high - low) / (white - black)
        self.offset = low - self.gain * black

    def forward(self, y: Tensor, physics: Physics, **kwargs: Any) -> Tensor:
        """The reconstruction, in the units and channels of the physics.

        Args:
            y: Measurements (B, ...).
            physics: Linear, with `A` and `A_adjoint`.
            **kwargs: Ignored; deepinv passes some.
        """
        measurement = self.measure(y, physics)
        made = choose_method(self.model, measurement, self.method, force=self.force)
        if self.samples == 0 and isinstance(made, Model):
            denoiser = (
                made.condition(measurement) if self.force else made.method.condition(measurement)
            )
            x = posterior_mean(denoiser, seed=self.seed, items=identify(measurement))
        else:
            x = self._draw(measurement).samples.mean(0)
        image = (x - self.offset) / self.gain
        # Images of MRI have an imaginary part there; of a real image it is zero.
        split = physics.A_adjoint(y[:1]).shape[1] == 2 * image.shape[1]
        return torch.cat([image, torch.zeros_like(image)], 1) if split else image

    def posterior(self, y: Tensor, physics: Physics) -> Posterior:
        """Samples, intervals and trust card, in the model's units."""
        return self._draw(self.measure(y, physics))

    def measure(self, y: Tensor, physics: Physics) -> Measurement:
        """The data as a measurement in the model's units."""
        data, operator = from_deepinv(physics, y, tuple(self.model.shape))
        blank = torch.full((len(y), *self.model.shape), self.offset, device=y.device, dtype=y.dtype)
        std = self.noise_std
        if std is None:
            std = getattr(getattr(physics, "noise_model", None), "sigma", None)
        if std is None:
            raise InputError("the physics states no Gaussian noise: give noise_std")
        level = self.gain * torch.as_tensor(std, dtype=torch.float64).detach().cpu().reshape(-1)
        return Measurement(self.gain * data + operator.forward(blank), operator, level)

    def _draw(self, measurement: Measurement) -> Posterior:
        return reconstruct(
            self.model,
            measurement,
            samples=max(1, self.samples),
            calls=self.calls,
            seed=self.seed,
            progress=False,
            method=self.method,
            force=self.force,
        )
