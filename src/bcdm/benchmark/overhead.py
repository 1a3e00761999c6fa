"""What the library costs beside what it wraps: the bare network, the bare FFT pair.

Every comparison is one interleaved run on one thread: each candidate's turn stands right beside one
of the bare reference, and the median of their ratios counts, so that a change of the machine's
speed meets both alike.
"""

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from bcdm.assessment.records import Record
from bcdm.assessment.statistics import bootstrap
from bcdm.checkpoint.settings import parse_config
from bcdm.diffusion import VP, DPMSolver, Memory, Step
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian, Parameterisation
from bcdm.networks import NCSNpp, NCSNppConfig, UnrolledNetwork
from bcdm.operators import CircularBlur, FourierMask, LinearOperator, PixelMask
from bcdm.tensors import ImageSpec, SeededNoise
from bcdm.training.train import Processes, Trainer

__all__ = ["Pictures", "interleave", "run", "summarise"]

STEP_LIMIT, SOLVE_LIMIT = "<= 1.05", "<= 1.6"
NETWORK = NCSNppConfig(
    channels_in=3, channels_out=3, image_size=64, width=32, multipliers=(1, 1, 2, 2), blocks=1
)


class Summary(TypedDict):
    """What a record says of ratios."""

    value: float
    interval: tuple[float, float] | None


def interleave(
    base: Callable[[], object], candidates: dict[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """How many times longer than `base` each candidate takes, in each round.

    Which of the two goes first changes from round to round. Two rounds of warming up come before.
    """
    ratios: dict[str, list[float]] = {name: [] for name in candidates}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds + 2):
            for name, candidate in candidates.items():
                if turn % 2:
                    bare, own = _time(base), _time(candidate)
                else:
                    own, bare = _time(candidate), _time(base)
                if turn >= 2:
                    ratios[name].append(own / bare)
            gc.collect(0)
    finally:
        if collecting:
            gc.enable()
    return ratios


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def summarise(ratios: list[float]) -> Summary:
    """The median ratio and its interval over rounds."""
    return {"value": median(ratios), "interval": bootstrap(ratios, statistic=np.median)}


def run(
    command: str, *, smoke: bool = False, report: Callable[[str], None] = print
) -> list[Record]:
    """All records; `smoke` takes few rounds and requires nothing, for a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        record = partial(Record, command=command, seed=0)
        with torch.no_grad():
            records = _measure_steps(record, 3 if smoke else 200)
            report("overhead: sampler steps")
            records += _measure_solves(record, 5 if smoke else 200)
            report("overhead: solves")
        records += _measure_training(record, 2 if smoke else 60)
        report("overhead: training step")
    finally:
        torch.set_num_threads(threads)
    if smoke:
        records = [replace(record, required=None) for record in records]
    return records


def _measure_steps(record: Callable[..., Record], rounds: int) -> list[Record]:
    """A whole sampler step, statistic and noise included, over the bare network call."""
    network = UnrolledNetwork(NCSNpp(NETWORK, seed=0).eval(), 1).eval()
    parameters = sum(p.numel() for p in network.parameters())
    method = Bayesian(network, VP(), Parameterisation())
    mask = torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) < 0.3
    operators: dict[str, LinearOperator] = {
        "inpainting": PixelMask(mask),
        "MRI": FourierMask(mask, real=True),
    }
    image = ImageSpec((3, 64, 64))
    noise = SeededNoise(0, range(1))
    x = noise.normal(image, step=0)
    log_snr = torch.zeros(1)
    t, s = (VP().level(torch.tensor([value], dtype=torch.float64)) for value in (0.0, 1.0))
    last = Memory(x, s.log_snr - t.log_snr)
    candidates: dict[str, Callable[[], object]] = {}
    for name, operator in operators.items():
        denoiser = method.condition(Measurement.simulate(x, operator, 0.05, seed=0))
        for sampler in (DPMSolver(), DPMSolver(churn=1.0)):
            form = "SDE" if sampler.churn else "ODE"
            candidates[f"{name} {form}"] = partial(
                sampler.advance, denoiser, x, Step(t, s, partial(_draw, noise, image), last)
            )
    times = interleave(lambda: network(x, log_snr, None), candidates, rounds)
    case = {"image": "3x64x64", "parameters": parameters, "threads": 1}
    return [
        record(
            "step / bare network", {"step": name} | case, required=STEP_LIMIT, **summarise(ratios)
        )
        for name, ratios in times.items()
    ]


def _draw(noise: SeededNoise, image: ImageSpec, number: int) -> Tensor:
    return noise.normal(image, step=1, draw=number)


def _measure_solves(record: Callable[..., Record], rounds: int) -> list[Record]:
    """A solve over one bare FFT pair of the same kind, beside deepinv where it is installed."""
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(4, 1, 256, 256, generator=generator)
    many = torch.complex(real, real.flip(0))
    mask = torch.rand(256, 256, generator=generator) < 0.3
    kernel = torch.rand(9, 9, generator=generator)
    cases: dict[str, tuple[LinearOperator, Tensor]] = {
        "FourierMask, complex": (FourierMask(mask), many),
        "FourierMask, real": (FourierMask(mask, real=True), real),
        "CircularBlur": (CircularBlur(kernel / kernel.sum(), (256, 256)), real),
    }
    rows = []
    for name, (operator, x) in cases.items():
        candidates: dict[str, Callable[[], object]] = {
            "bcdm": partial(operator.solve, 0.5, 2.0, x)
        } | _deepinv(name, mask, kernel, x)
        times = interleave(partial(_fft_pair, x), candidates, rounds)
        for library, ratios in times.items():
            case = {"operator": name, "library": library, "image": "4x1x256x256", "threads": 1}
            required = SOLVE_LIMIT if library == "bcdm" else None
            rows.append(
                record("solve / bare FFT pair", case, required=required, **summarise(ratios))
            )
    return rows


@dataclass(frozen=True)
class Pictures:
    """Random pictures in memory, as a source of training images."""

    pixels: Tensor

    subjects: None = None
    split_labels: None = None
    value_range: tuple[float, float] = (0.0, 255.0)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Tensor:
        return self.pixels[index]


def _measure_training(record: Callable[..., Record], rounds: int) -> list[Record]:
    """A whole training step (data, noise, statistic, clipping, average) over the bare loop."""
    config = parse_config(
        {
            "name": "overhead",
            "data": {"path": "", "channels": 3, "flip": True},
            "operator": {"kind": "fourier_mask", "acceleration": 8},
            "noise_std": 0.02,
            "network": {
                key: value
                for key, value in asdict(NETWORK).items()
                if key not in ("channels_in", "channels_out", "image_size")
            },
            "training": {"steps": 1000, "batch": 8},
        }
    )
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (64, 3, 64, 64), generator=generator).float()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, Pictures(pixels), None, Path(folder), Processes())
        batches = trainer.make_batches(0)
        network = UnrolledNetwork(NCSNpp(NETWORK, seed=0), 1)
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-4)
        x, log_snr = pixels[:8] / 127.5 - 1, torch.zeros(8)

        def bare() -> None:
            optimizer.zero_grad(set_to_none=True)
            (network(x, log_snr, None) - x).square().mean().backward()
            optimizer.step()

        def ours() -> None:
            batch = batches.batch(trainer.state.step)
            trainer.advance(trainer.objective, batch.images, batch.counters)
            trainer.state.step += 1

        ratios = interleave(bare, {"ours": ours}, rounds)["ours"]
    case = {"image": "3x64x64", "batch": 8, "precision": "float32", "threads": 1}
    name = "training step / bare loop"
    return [record(name, case, required=STEP_LIMIT, **summarise(ratios))]


def _fft_pair(x: Tensor) -> Tensor:
    if x.is_complex():
        return torch.fft.ifft2(torch.fft.fft2(x, norm="ortho"), norm="ortho")
    return torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=x.shape[-2:], norm="ortho")


def _deepinv(name: str, mask: Tensor, kernel: Tensor, x: Tensor) -> dict[str, Callable[[], object]]:
    """The prox of the same data term by deepinv, if that library is there."""
    try:
        import deepinv
    except ImportError:
        return {}
    if name == "CircularBlur":
        physics = deepinv.physics.BlurFFT((1, 256, 256), filter=kernel[None, None])
        y = physics(x)
    elif name == "FourierMask, complex":
        physics = deepinv.physics.MRI(mask=mask[None, None].float(), img_size=(2, 256, 256))
        x = torch.view_as_real(x[:, 0]).movedim(-1, 1).contiguous()
        y = physics(x)
    else:
        return {}
    return {"deepinv": partial(physics.prox_l2, x, y, 2.0)}
