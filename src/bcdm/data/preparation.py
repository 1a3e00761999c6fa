"""From stored pictures to the tensors a network sees, and back to native units."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from bcdm.data.appearance import change_contrast, turn_image
from bcdm.data.lesions import add_lesions
from bcdm.data.phase import draw_local_phase, draw_phase, draw_shading
from bcdm.errors import InputError, ShapeError

__all__ = ["Augmentation", "Preparation"]

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601


@dataclass(frozen=True)
class Preparation:
    r"""Crop, resize, channels and range: what turns a stored image into a network's image.

    The range is mapped affinely and never clipped. With the source range $[a, b]$ and the
    network's range $[c, d]$,

    $$ x = c + (d - c) \frac{\text{native} - a}{b - a}. $$

    Attributes:
        size: Height and width after the resize, or None to keep them. The image is stretched if
            the aspect differs: crop first to avoid it.
        channels: 1 (grey), 3 (RGB), or None to keep them.
        value_range: The network's numbers for black and white, $[c, d]$.
        crop: Top, left, height and width of the part kept, in stored pixels, or None for all.
        source_range: The stored numbers of black and white, $[a, b]$: a source's `value_range`.
    """

    size: tuple[int, int] | None = None
    channels: Literal[1, 3] | None = None
    value_range: tuple[float, float] = (-1.0, 1.0)
    crop: tuple[int, int, int, int] | None = None
    source_range: tuple[float, float] = (0.0, 255.0)

    def __post_init__(self) -> None:
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise InputError(f"size {self.size} must be (height, width), both at least 1")
        if self.channels not in (None, 1, 3):
            raise InputError(f"channels {self.channels} must be 1, 3 or None")
        for name in ("value_range", "source_range"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not -np.inf < bounds[0] < bounds[1] < np.inf:
                raise InputError(f"{name} {bounds} must be (low, high) with low < high")
        if self.crop is not None and (
            len(self.crop) != 4 or min(self.crop[:2]) < 0 or min(self.crop[2:]) < 1
        ):
            raise InputError(f"crop {self.crop} must be (top, left, height, width) in pixels")

    def __call__(self, image: Tensor) -> Tensor:
        """Prepares an image.

        Args:
            image: (C, H, W), in the numbers of the source.

        Returns:
            The image (channels, *size), in the numbers of the network.
        """
        return self.rescale(self.arrange(image))

    def arrange(self, image: Tensor) -> Tensor:
        """Crops, resizes and sets the channels of an image (C, H, W), in the source's numbers."""
        if image.ndim != 3:
            raise ShapeError(f"image has shape {tuple(image.shape)}: give one image (C, H, W)")
        return _resize(_set_channels(_crop(image, self.crop), self.channels), self.size)

    def list_changes(self, rows: int, columns: int) -> list[str]:
        """What cropping and resizing do to stored images of these sides, in words.

        >>> Preparation(size=(64, 64)).list_changes(100, 150)
        ['resized from 100 x 150 to 64 x 64 pixels, which stretches it']
        """
        stored = (rows, columns)
        kept = stored if self.crop is None else self.crop[2:]
        size = kept if self.size is None else self.size
        steps = []
        if kept != stored:
            steps.append(f"cut from {_show(stored)} to {_show(kept)} pixels")
        if size != kept:
            uneven = "" if size[0] * kept[1] == size[1] * kept[0] else ", which stretches it"
            steps.append(f"resized from {_show(kept)} to {_show(size)} pixels{uneven}")
        return steps

    def rescale(self, native: Tensor) -> Tensor:
        """Maps the source's numbers (any shape) to the network's."""
        return _map_range(native, self.source_range, self.value_range)

    def restore(self, x: Tensor) -> Tensor:
        """Maps the network's numbers (any shape) back to native units; inverts `rescale`."""
        return _map_range(x, self.value_range, self.source_range)

    @property
    def unit(self) -> float:
        """Native units per unit of the network: the factor of standard deviations."""
        (a, b), (c, d) = self.source_range, self.value_range
        return (b - a) / (d - c)


def _show(size: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in size)


@dataclass(frozen=True)
class Augmentation:
    """Random changes that leave the meaning of a training image alone.

    Attributes:
        flip: Mirror left and right in half of the cases.
        shift: Move by up to this many pixels along each axis; edge pixels fill the gap.
        lesions: The fraction of images that get lesions; see data/lesions.py.
        value_range: The numbers of black and white, which lesions are measured by.
        contrast: The fraction of images that get other grey levels; see data/appearance.py.
        turn: Turn by up to so many degrees.
        zoom: Scale by a factor of up to 1 + zoom, and down to its inverse.
        phase: Make images complex by a random phase; see data/phase.py. Black must be 0.
            Images that are complex keep their phase.
        shading: How far a smooth factor varies at most, as a standard deviation of its logarithm;
            the brightest pixel keeps its value. Black must be 0.
    """

    flip: bool = False
    shift: int = 0
    lesions: float = 0.0
    value_range: tuple[float, float] = (-1.0, 1.0)
    contrast: float = 0.0
    turn: float = 0.0
    zoom: float = 0.0
    phase: bool = False
    shading: float = 0.0

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise InputError(f"shift {self.shift} must be 0 or more pixels")
        if not 0 <= self.lesions <= 1:
            raise InputError(f"lesions {self.lesions} is a fraction from 0 to 1")
        if not 0 <= self.contrast <= 1 or min(self.turn, self.zoom) < 0:
            raise InputError("contrast is a fraction from 0 to 1, turn and zoom are 0 or more")
        if (self.phase or self.shading) and self.value_range[0] != 0:
            raise InputError("images with a phase need value_range from 0: black has no phase")

    def augment(self, image: Tensor, generator: np.random.Generator) -> Tensor:
        """Changes an image (C, H, W) as the generator's next numbers say."""
        if image.is_complex() and not self.phase:
            raise InputError("the images are complex: set data.phase to true")
        # All are drawn in any case, so that one setting does not alter what another does.
        mirrored = bool(generator.integers(2))
        down, right = (int(generator.integers(-self.shift, self.shift + 1)) for _ in "yx")
        if self.flip and mirrored:
            image = image.flip(-1)
        if down or right:
            height, width = image.shape[-2:]
            top, left = self.shift - down, self.shift - right
            wide = _by_parts(image, lambda part: pad(part[None], [self.shift] * 4, "replicate")[0])
            image = wide[:, top : top + height, left : left + width]
        # New ones come last: images without them are what they were before there were any.
        if generator.uniform() < self.lesions:
            image = _by_size(image, lambda x: add_lesions(x, self.value_range, generator))
        if generator.uniform() < self.contrast:
            image = _by_size(image, lambda x: change_contrast(x, self.value_range, generator))
        image = turn_image(image, self.turn, self.zoom, generator)
        if self.shading:
            image = _by_size(image, lambda x: _shade(x, self.shading, generator))
        if image.is_complex():
            # Their own phase is a true one; only its origin is arbitrary.
            angle = torch.tensor(generator.uniform(-np.pi, np.pi), dtype=torch.float32)
            image = image * torch.polar(torch.ones(()), angle)
        elif self.phase:
            phase = draw_phase((image.shape[-2], image.shape[-1]), rng=generator)
            phase = phase + draw_local_phase(image.amax(0), rng=generator)
            image = torch.polar(image.clamp_min(0), phase.expand_as(image).to(image))
        return image


def _by_parts(image: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """What is linear, also of complex images."""
    if not image.is_complex():
        return change(image)
    return torch.complex(change(image.real), change(image.imag))


def _by_size(image: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Changes magnitudes, and leaves phases."""
    if not image.is_complex():
        return change(image)
    return torch.polar(change(image.abs()).clamp_min(0), image.angle())


def _shade(image: Tensor, strength: float, generator: np.random.Generator) -> Tensor:
    shading = draw_shading((image.shape[-2], image.shape[-1]), strength, rng=generator)
    dimmer = image * shading.to(image)
    return dimmer * (image.amax() / dimmer.amax().clamp_min(1e-6))


def _crop(image: Tensor, crop: tuple[int, int, int, int] | None) -> Tensor:
    if crop is None:
        return image
    top, left, height, width = crop
    if top + height > image.shape[-2] or left + width > image.shape[-1]:
        raise ShapeError(f"crop {crop} reaches beyond the image {tuple(image.shape)}: shrink it")
    return image[..., top : top + height, left : left + width]


def _set_channels(image: Tensor, channels: int | None) -> Tensor:
    count = image.shape[0]
    if channels is None or count == channels:
        return image
    if (count, channels) == (1, 3):
        return image.expand(3, -1, -1)
    if (count, channels) == (3, 1):
        weights = torch.tensor(LUMA, dtype=torch.float64, device=image.device)
        # Double precision keeps a grey RGB picture at its own values.
        return torch.einsum("c,chw->hw", weights, image.double())[None].to(image.dtype)
    raise ShapeError(f"an image of {count} channels cannot become {channels}: give 1 or 3")


def _resize(image: Tensor, size: tuple[int, int] | None) -> Tensor:
    _, height, width = image.shape
    if size is None or size == (height, width):
        return image
    return _by_parts(image, lambda part: _resize_part(part, size))


def _resize_part(image: Tensor, size: tuple[int, int]) -> Tensor:
    (height, width), (rows, columns) = image.shape[-2:], size
    if height % rows == 0 and width % columns == 0:
        # In float32 a sum of 16-bit pixels could round.
        block = (height // rows, width // columns)
        return avg_pool2d(image.double()[None], block)[0].to(image.dtype)
    return interpolate(image[None], size=size, mode="bilinear", antialias=True)[0]


def _map_range(values: Tensor, source: tuple[float, float], target: tuple[float, float]) -> Tensor:
    if values.is_complex() and (source[0] or target[0]):
        raise InputError("complex images need source_range and value_range from 0: black is 0")
    # Dividing by the span, not multiplying by its inverse, maps both ends exactly.
    unit = (values - source[0]) / (source[1] - source[0])
    return unit * (target[1] - target[0]) + target[0]
