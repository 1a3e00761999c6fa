"""The features FID is defined on: torch-fidelity's Inception, with weights from a local file."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from bcdm.errors import InputError

__all__ = ["Inception"]


@dataclass(frozen=True)
class Inception:
    """Inception v3 as FID has it: images of 8 bits, resized as TensorFlow 1 did.

    Nothing is downloaded. Needs the extra "fid".
    """

    network: nn.Module

    @classmethod
    def load(cls, path: Path) -> "Inception":
        """Reads weights-inception-2015-12-05-6726825d.pth, as torch-fidelity and others ship it."""
        try:
            from torch_fidelity import FeatureExtractorInceptionV3
        except ImportError:
            raise InputError("FID needs torch-fidelity: pip install 'bcdm[fid]'") from None
        try:
            # torch-fidelity would run what a pickle holds; this reads tensors and nothing else.
            torch.load(path, map_location="cpu", weights_only=True)
            network = FeatureExtractorInceptionV3(
                "inception", ["2048"], feature_extractor_weights_path=str(path)
            )
        except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, TypeError) as error:
            said = " ".join(str(error).split())[:200]
            raise InputError(f"{path} holds no weights of FID's Inception: {said}") from None
        return cls(network)

    def features(self, images: Tensor) -> Tensor:
        """The 2048 pooled features of images on [-1, 1], (B, 1 or 3, H, W)."""
        levels = (127.5 * (images.float() + 1)).round().clamp(0, 255).to(torch.uint8)
        with torch.no_grad():
            (found,) = self.network(levels.expand(-1, 3, -1, -1))
        return found
