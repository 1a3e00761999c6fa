"""Complex images as files: what magnitudes leave out."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import torch

from bcdm.errors import InputError
from bcdm.files import replacing
from bcdm.reconstruction.features import crop_middle
from bcdm.reconstruction.fitting import Fitted
from bcdm.reconstruction.posterior import Posterior
from bcdm.spool import release

__all__ = ["MEAN", "SAMPLES", "write_complex"]

MEAN, SAMPLES = "complex_mean.npy", "complex_samples.npy"


def write_complex(
    out: Path, fitted: Fitted, posteriors: Sequence[Posterior], left_out: Collection[int]
) -> list[Path]:
    """Writes the complex mean (slices, 1, H, W) and samples (slices, S, 1, H, W), complex64.

    In the units of the file, a slice at a time; nan where a slice is left out. Phases are relative
    to what all coils see together.
    """
    if not posteriors[0].samples.is_complex():
        raise InputError(f"{posteriors[0].model.name} makes real images: leave out --complex")
    size = fitted.scan.size
    count, samples = len(posteriors), len(posteriors[0].samples)
    written = [out / MEAN, out / SAMPLES]
    with replacing(written[0]) as one, replacing(written[1]) as other:
        means = np.lib.format.open_memmap(
            one, mode="w+", dtype=np.complex64, shape=(count, 1, *size)
        )
        drawn = np.lib.format.open_memmap(
            other, mode="w+", dtype=np.complex64, shape=(count, samples, 1, *size)
        )
        for number, posterior in enumerate(posteriors):
            if number in left_out:
                means[number], drawn[number] = np.nan, np.nan
                continue
            for target, part in ((means, posterior.mean[0]), (drawn, posterior.samples[:, 0])):
                whole = torch.from_numpy(fitted.to_file(part, number))
                target[number] = crop_middle(whole, size).numpy()
                release(target)
        means.flush()
        drawn.flush()
    return written
