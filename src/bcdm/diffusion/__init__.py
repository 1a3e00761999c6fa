"""Diffusion: schedules, the denoiser contract, samplers. It knows no measurement."""

from bcdm.diffusion.denoiser import Denoiser, to_noise, to_score
from bcdm.diffusion.samplers import (
    DDIM,
    Ancestral,
    DPMSolver,
    EulerMaruyama,
    Heun,
    Memory,
    PredictorCorrector,
    Sampler,
    SelfSampled,
    Step,
    choose_sampler,
)
from bcdm.diffusion.sampling import NoiseSource, posterior_mean, run_chain, sample
from bcdm.diffusion.schedules import VE, VP, Bridge, NoiseLevel, Schedule, paper_grid

__all__ = [
    "DDIM",
    "VE",
    "VP",
    "Ancestral",
    "Bridge",
    "DPMSolver",
    "Denoiser",
    "EulerMaruyama",
    "Heun",
    "Memory",
    "NoiseLevel",
    "NoiseSource",
    "PredictorCorrector",
    "Sampler",
    "Schedule",
    "SelfSampled",
    "Step",
    "choose_sampler",
    "paper_grid",
    "posterior_mean",
    "run_chain",
    "sample",
    "to_noise",
    "to_score",
]
