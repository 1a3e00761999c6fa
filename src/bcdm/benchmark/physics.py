"""Physics of deepinv as operators here: are they exact, fast, and reconstructed as they should?"""

import importlib.resources
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Column, Record
from bcdm.checkpoint import Guest, Model, load
from bcdm.evaluation import psnr
from bcdm.operators import Physics, from_deepinv
from bcdm.operators.adapters import FEW
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.patterns import draw_gaussian_kernel
from bcdm.problems.scanner import draw_equispaced
from bcdm.reconstruction import Reconstructor
from bcdm.reconstruction.choice import choose_method
from bcdm.scans import read_scan
from bcdm.trust import UnfitError

__all__ = ["COLUMNS", "KEYS", "compare_with_dense", "make_physics", "run"]

MODEL = "ixi64-mri-scanner"
NOISE, SMALL, SIDE, SAMPLES, CALLS = 0.02, 32, 64, 4, 20
KEYS = ("physics", "operator", "by")
COLUMNS = (
    Column("f(A^T A) beside dense", "f(A^T A) beside dense, relative", digits=8),
    Column("seconds of a call", "time of a call", digits=3),
    Column("PSNR, linear estimate (dB)", "PSNR", "linear estimate"),
    Column("PSNR, mean of samples (dB)", "PSNR", "sample mean"),
)


def make_physics(side: int) -> dict[str, Physics]:
    """The physics of the exam for one image of `side` x `side`, in deepinv's own classes."""
    from deepinv import physics as theirs

    size, image = (side, side), (1, side, side)
    lines = draw_equispaced(size, 4.0, centre=0.08, seed=0).float()
    kept = (torch.rand(size, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    maps = draw_birdcage(size, 4, rng=np.random.default_rng(0))
    kernel = draw_gaussian_kernel(1.0)[None, None]
    split = {"img_size": (2, *size), "noise_model": theirs.GaussianNoise(NOISE)}
    plain = {"img_size": image, "noise_model": theirs.GaussianNoise(NOISE)}
    noise = {"noise_model": theirs.GaussianNoise(NOISE)}
    quarter = side * side // 4
    with _seeded():
        return {
            "MRI": theirs.MRI(mask=lines, **split),
            "Inpainting": theirs.Inpainting(mask=kept[None], **plain),
            "BlurFFT": theirs.BlurFFT(filter=kernel, **plain),
            "Blur, valid": theirs.Blur(filter=kernel, padding="valid", **noise),
            "Downsampling": theirs.Downsampling(filter="gaussian", factor=2, **plain),
            "Tomography": theirs.Tomography(angles=30, img_width=side, normalize=True, **noise),
            "MultiCoilMRI": theirs.MultiCoilMRI(mask=lines, coil_maps=maps[None], **split),
            "CompressedSensing": theirs.CompressedSensing(m=quarter, **plain),
            "SinglePixelCamera": theirs.SinglePixelCamera(m=quarter, fast=True, **plain),
        }


@contextmanager
def _seeded() -> Iterator[None]:
    """For what draws from the global generator, as deepinv does: it is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def run(
    command: str,
    *,
    only: tuple[str, ...] = (),
    fallback: bool = False,
    device: str = "cpu",
    report: Callable[[str], None] = print,
) -> list[Record]:
    """All records: precision on small images, time and quality on one slice of 64 x 64.

    Args:
        command: For the records.
        only: Names of physics; left out: all.
        fallback: Whether those that the model was not made for are reconstructed by MMPS.
        device: Where networks run.
        report: Hears of progress.
    """
    model, record = load(MODEL).to(device), partial(Record, command=command, seed=0)
    truth = _read_slice(model)
    small, large = make_physics(SMALL), make_physics(truth.shape[-1])
    records: list[Record] = []
    for name in only or tuple(large):
        records += _examine(name, small[name], large[name], model, truth, record, fallback)
        report(f"physics: {name}")
    return records


def _examine(
    name: str,
    small: Physics,
    large: Any,
    model: Model,
    truth: Tensor,
    record: Callable[..., Record],
    fallback: bool,
) -> list[Record]:
    with _seeded():
        y = large(_split(large, truth))
    reconstruct = Reconstructor(model, samples=SAMPLES, calls=CALLS, method="auto")
    measurement = reconstruct.measure(y, large)
    taken = choose_method(model, measurement, "auto")
    case: dict[str, object] = {
        "physics": name,
        "operator": type(measurement.operator).__name__,
        "by": "MMPS" if isinstance(taken, Guest) else "the model",
        "the model alone": _find_refusal(model, measurement) or "takes it",
        "image": "x".join(map(str, truth.shape[1:])),
        "noise_std": NOISE,
    }
    case |= {} if model.device.type == "cpu" else {"device": str(model.device)}
    found = [
        record(
            "f(A^T A) beside dense, relative",
            case | {"image": f"1x{SMALL}x{SMALL}"},
            compare_with_dense(small)[0],
            required="<= 1e-5",
        ),
        record("time of a call", case, _time_call(taken, measurement), "s"),
    ]
    if isinstance(taken, Guest) and not fallback:
        return found
    low, high = model.value_range
    posterior = reconstruct.posterior(y, large)
    estimates = {"linear estimate": posterior.linear, "sample mean": posterior.mean}
    scale = reconstruct.gain * truth + reconstruct.offset
    values = {key: float(psnr(x, scale, data_range=high - low)) for key, x in estimates.items()}
    settings = {"samples": SAMPLES, "calls": CALLS}
    found += [
        record("PSNR", case | {"estimate": key} | settings, value, "dB")
        for key, value in values.items()
    ]
    gain = values["sample mean"] - values["linear estimate"]
    return [
        *found,
        record("PSNR above the linear estimate's", case, gain, "dB", required=">= -0.1"),
    ]


def _find_refusal(model: Model, measurement: Any) -> str:
    try:
        choose_method(model, measurement)
    except UnfitError as error:
        return str(error)
    return ""


def _split(physics: Any, x: Tensor) -> Tensor:
    """Real images as the physics has them: for MRI with an imaginary channel."""
    return torch.cat([x, torch.zeros_like(x)], 1) if "MRI" in type(physics).__name__ else x


@torch.no_grad()
def compare_with_dense(physics: Any) -> tuple[float, str]:
    """The largest relative error of two functions beside a matrix written out; the operator's kind.

    In float32, on images of 32 x 32.
    """
    x = torch.randn(1, 1, SMALL, SMALL, generator=torch.Generator().manual_seed(1))
    # As few data in relation to the image as of the images that are reconstructed.
    few = FEW * SMALL**2 // SIDE**2
    y = physics.A(_split(physics, x))
    _, operator = from_deepinv(physics, y, (1, SMALL, SMALL), few=few)
    units = torch.eye(SMALL**2).reshape(-1, 1, SMALL, SMALL)
    rows = physics.A(_split(physics, units)).flatten(1).double()
    eigenvalues, vectors = torch.linalg.eigh(rows @ rows.mT)
    top = float(eigenvalues.max())
    worst = 0.0
    for power in (-1.0, -0.5):

        def f(e: Tensor, power: float = power) -> Tensor:
            return (0.01 + e.clamp_min(0) / top) ** power

        exact = vectors @ (f(eigenvalues) * (vectors.mT @ x.double().flatten()))
        found = operator.gram_function(f, x).double().flatten()
        worst = max(worst, float((found - exact).norm() / exact.norm()))
    return worst, type(operator).__name__


@torch.no_grad()
def _time_call(taken: Model | Guest, measurement: Any, rounds: int = 2) -> float:
    """Median seconds of a processor for one call of the denoiser on one image, on one thread."""
    denoiser = taken.method.condition(measurement)
    level = denoiser.schedule.level(denoiser.schedule.grid(CALLS)[CALLS // 2, None])
    x_t = torch.randn(1, *denoiser.image.shape, generator=torch.Generator().manual_seed(0))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = []
    for _ in range(rounds + 1):
        start = time.process_time()
        denoiser(x_t, level)
        times.append(time.process_time() - start)
    torch.set_num_threads(threads)
    return median(times[1:])


def _read_slice(model: Model) -> Tensor:
    """The slice of `bcdm demo` on [0, 1], (1, 1, H, W); the model never saw it."""
    picture = importlib.resources.files("bcdm") / "demo" / "brain.png"
    with importlib.resources.as_file(picture) as path:
        data = torch.from_numpy(read_scan(path).data)
    native = torch.stack([model.preparation.arrange(one) for one in data])
    return (native / native.max()).clamp(0, 1).float()
