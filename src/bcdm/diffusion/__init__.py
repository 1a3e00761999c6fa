"""Diffusion: schedules, the denoiser contract, samplers. It knows no measurement."""

from bcdm.diffusion.denoiser import Denoiser, to_noise, to_score
from bcdm.diffusion.pretrained import Pretrained, from_diffusers, from_edm, from_table
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
from bcdm.diffusion.schedules import VE, VP, Bridge, NoiseLevel, Schedule, Tabled, paper_grid

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
    "Pretrained",
    "Sampler",
    "Schedule",
    "SelfSampled",
    "Step",
    "Tabled",
    "choose_sampler",
    "from_diffusers",
    "from_edm",
    "from_table",
    "paper_grid",
    "posterior_mean",
    "run_chain",
    "sample",
    "to_noise",
    "to_score",
]
