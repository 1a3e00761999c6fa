r"""The paper's illustration: why an affine correction of an unconditional score is not enough.

Twelve points in the plane are equally likely; $A = [1\ 0]$ measures the first coordinate as -4 with
noise .1. Drawn are the magnitudes of three score fields at several noise levels, and what each
method samples.

    python -m experiments.illustration DIR
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bcdm.diffusion import VP, Ancestral, Denoiser, DPMSolver, NoiseLevel, sample, to_score
from bcdm.measurement import Measurement
from bcdm.methods import (
    DMPS,
    DPS,
    ExactDenoiser,
    ExactPosterior,
    GaussianMixture,
    Method,
    PiGDM,
    PostConditioned,
)
from bcdm.operators import Dense

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["make_problem", "plot"]

ABAR = (0.9, 0.5, 0.1, 0.01)
EDGE = 8.0
COUNT = 400


def make_problem(seed: int) -> tuple[GaussianMixture, Measurement]:
    """The twelve points (ten around the origin, two far out) and the measurement."""
    generator = torch.Generator().manual_seed(seed)
    near = torch.randn(10, 2, generator=generator, dtype=torch.float64)
    far = torch.tensor([[-5.0, -5.0], [3.0, 3.0]], dtype=torch.float64)
    y = torch.tensor([[-4.0]], dtype=torch.float64)
    A = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    return GaussianMixture.points(torch.cat([near, far])), Measurement(y, Dense(A), 0.1)


def magnitude(denoiser: Denoiser, abar: float, side: int = 121) -> Tensor:
    """The score's magnitude over the plane at one noise level, (side, side)."""
    axis = torch.linspace(-EDGE, EDGE, side, dtype=torch.float64)
    x_t = torch.cartesian_prod(axis, axis)
    level = NoiseLevel(
        *(torch.tensor([value], dtype=torch.float64).sqrt() for value in (abar, 1 - abar))
    )
    score = to_score(denoiser(x_t, level), x_t, level)
    return score.norm(dim=1).reshape(side, side).mT


def plot(out: Path, *, seed: int = 0) -> Path:
    """Writes figure.png into `out` and returns its path."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    prior, measurement = make_problem(seed)
    schedule = VP()
    unconditional = ExactDenoiser(prior, schedule)
    bayesian = ExactPosterior(prior, schedule)
    post = PostConditioned(unconditional)
    fields: dict[str, Denoiser] = {
        "unconditional\n$\\nabla \\log q(x_t)$": unconditional,
        "post-conditioned\n$+\\nabla \\log q(y \\mid x_0 = x_t)$": post.condition(measurement),
        "Bayesian (true)\n$\\nabla \\log q(x_t \\mid y)$": bayesian.condition(measurement),
    }
    figure: Figure = plt.figure(figsize=(15, 6.1), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1, 1.02])[0]
    _plot_fields(left, fields)
    methods: dict[str, Method | None] = {
        "exact posterior": None,
        "BCDM, 20 calls": bayesian,
        "post-conditioned, 1000 calls": post,
        "DPS, 1000 calls": DPS(unconditional),
        "DMPS, 1000 calls": DMPS(unconditional),
        "PiGDM, 1000 calls": PiGDM(unconditional),
    }
    _plot_samples(right, prior, measurement, methods, seed)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "figure.png"
    figure.savefig(path, dpi=80)
    plt.close(figure)
    return path


def _plot_fields(figure: "Figure", fields: dict[str, Denoiser]) -> None:
    axes = figure.subplots(len(fields), len(ABAR), sharex=True, sharey=True)
    for row, (name, denoiser) in zip(axes, fields.items(), strict=True):
        row[0].set_ylabel(name)
        for axis, abar in zip(row, ABAR, strict=True):
            image = axis.imshow(
                magnitude(denoiser, abar).clamp_min(1e-2).log10().numpy(),
                origin="lower",
                extent=(-EDGE, EDGE, -EDGE, EDGE),
                cmap="viridis",
                vmin=-1,
                vmax=3,
            )
    for axis, abar in zip(axes[0], ABAR, strict=True):
        axis.set_title(f"$\\bar\\alpha_t = {abar}$")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("$\\log_{10}$ magnitude of the score")


def _plot_samples(
    figure: "Figure",
    prior: GaussianMixture,
    measurement: Measurement,
    methods: dict[str, Method | None],
    seed: int,
) -> None:
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    posterior = prior.condition(measurement)
    for axis, (name, method) in zip(axes.flat, methods.items(), strict=True):
        if method is None:
            points = posterior.sample(COUNT, seed)
        else:
            bound, few = method.condition(measurement), "20" in name
            points = sample(
                bound,
                DPMSolver() if few else Ancestral(),
                seed=seed,
                indices=range(COUNT),
                grid=bound.schedule.grid(20) if few else bound.schedule.time_grid(1000),
                progress=False,
            )
        _scatter(axis, prior, points, name)
    figure.suptitle(
        f"{COUNT} samples each; circles: the 12 possible images; line: $y = -4$", fontsize=11
    )


def _scatter(axis: "Axes", prior: GaussianMixture, points: Tensor, name: str) -> None:
    hit = torch.cdist(points, prior.means).argmin(1) == len(prior.means) - 2
    axis.axvline(-4.0, color="0.8", lw=1)
    centres = prior.means.numpy()
    axis.scatter(
        centres[:, 0],
        centres[:, 1],
        s=60,
        facecolors="none",
        edgecolors="0.35",
        linewidths=1.2,
    )
    inside = points.abs().amax(1) <= EDGE
    shown = points[inside].numpy()
    axis.scatter(shown[:, 0], shown[:, 1], s=9, alpha=0.4, color="tab:red", linewidths=0)
    axis.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE), aspect="equal")
    outside = len(points) - int(inside.sum())
    note = f", {outside} off the plot" if outside else ""
    axis.set_title(
        f"{name}\n{100 * float(hit.float().mean()):.0f} % at $(-5,-5)${note}", fontsize=10
    )


if __name__ == "__main__":
    sys.stdout.write(f"wrote {plot(Path(sys.argv[1]), seed=0)}\n")
