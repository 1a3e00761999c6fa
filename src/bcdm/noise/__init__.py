"""How strong is the noise? Estimates from the measurement itself, each with its error.

White noise of one level is assumed. Where a noise scan exists it is the best source: it needs no
assumption about the object.
"""

from bcdm.noise.coils import counts_signal, estimate_from_coils, find_filter, undo_filter
from bcdm.noise.estimate import NoiseEstimate
from bcdm.noise.image import estimate_from_image
from bcdm.noise.kspace import estimate_from_k_space, find_phase
from bcdm.noise.scan import NoiseScan, estimate_from_noise_scan

__all__ = [
    "NoiseEstimate",
    "NoiseScan",
    "counts_signal",
    "estimate_from_coils",
    "estimate_from_image",
    "estimate_from_k_space",
    "estimate_from_noise_scan",
    "find_filter",
    "find_phase",
    "undo_filter",
]
