"""Neural posterior estimation by sbi in bcdm's exam: an outside package, by its import path.

pip install sbi
PYTHONPATH=examples/sbi bcdm benchmark mixture --method sbi_methods:NPE --calls 1 --case 8/2

No diffusion: a normalising flow is trained on simulations, for all operators and noise levels of
the exam at once, and turns noise into a sample in one call. It gets what bcdm's network gets: the
posterior N(w, C) that a standard normal prior would give, and x_0 in its coordinates,
C^(-1/2) (x_0 - w).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryDirectory

import torch
from sbi import inference
from sbi.neural_nets import posterior_nn
from sbi.utils.tracking import TensorBoardTracker
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from bcdm.benchmark.instances import make_prior
from bcdm.benchmark.learned import RandomMatrices
from bcdm.diffusion import Denoiser, NoiseLevel
from bcdm.measurement import Measurement
from bcdm.methods.base import BoundDenoiser
from bcdm.tensors import fit

__all__ = ["NPE"]

SIMULATIONS, EPOCHS, BATCH, RATE, SEED = 200_000, 30, 1000, 1e-3, 0


@dataclass(frozen=True)
class NPE:
    """A flow for the whole family; trained once in a process.

    Args:
        prior: For its schedule and the shape of images; what it knows of images is not asked.
    """

    prior: Denoiser

    def condition(self, measurement: Measurement) -> Denoiser:
        """Binds a measurement."""
        flow = train(self.prior.image.shape[0])
        mean, spread = find_linear(measurement)
        seen = describe(mean, spread)

        def draw(x_t: Tensor, level: NoiseLevel) -> Tensor:
            (sigma,) = fit(x_t, level.sigma)
            white = flow(x_t / sigma, seen.expand(len(x_t), -1))
            return mean + torch.einsum("bij,bj->bi", spread, white)

        return BoundDenoiser(self.prior, draw, measurement)


def find_linear(measurement: Measurement) -> tuple[Tensor, Tensor]:
    """Mean w and root C^(1/2) of the posterior under a standard normal prior."""
    matrix = measurement.operator.matrix / measurement.std.reshape(-1, 1, 1)
    precision = matrix.mT @ matrix + torch.eye(matrix.shape[-1]).to(matrix)
    values, vectors = torch.linalg.eigh(precision)
    spread = vectors * values.rsqrt()[:, None] @ vectors.mT
    back = torch.einsum("bji,bj->bi", matrix, measurement.y / measurement.std.reshape(-1, 1))
    return torch.einsum("bij,bj->bi", spread @ spread, back), spread


def describe(mean: Tensor, spread: Tensor) -> Tensor:
    """What the flow sees of a measurement: w, and one half of the symmetric root."""
    rows, columns = torch.tril_indices(*spread.shape[1:])
    return torch.cat([mean, spread[:, rows, columns]], 1).float()


@cache
def train(
    dimension: int, simulations: int = SIMULATIONS, epochs: int = EPOCHS
) -> Callable[[Tensor, Tensor], Tensor]:
    """A map from standard normal noise and descriptions to x_0 in coordinates of N(w, C)."""
    operator, std = RandomMatrices(dimension, SEED).draw(range(simulations))
    x = make_prior(dimension).sample(simulations, seed=SEED)
    measurement = Measurement.simulate(x, operator, std, seed=SEED, indices=range(simulations))
    mean, spread = find_linear(measurement)
    white = torch.linalg.solve(spread, x - mean)
    torch.manual_seed(SEED)
    estimator = posterior_nn("nsf", hidden_features=64)
    with TemporaryDirectory() as logs:  # which would else lie in the current folder
        trainer = inference.NPE(
            density_estimator=estimator,
            tracker=TensorBoardTracker(SummaryWriter(logs)),
            show_progress_bars=False,
        )
        trainer.append_simulations(white.float(), describe(mean, spread))
        flow = trainer.train(
            training_batch_size=BATCH, learning_rate=RATE, max_num_epochs=epochs
        ).net.eval()

    @torch.no_grad()
    def draw(noise: Tensor, seen: Tensor) -> Tensor:
        context = flow._embedding_net(seen)
        return flow._transform.inverse(noise.float(), context=context)[0].to(noise)

    return draw
