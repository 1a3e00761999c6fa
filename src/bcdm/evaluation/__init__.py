"""How good, how calibrated, how close: measures on tensors, each with its convention named."""

from bcdm.evaluation.calibration import (
    ChiSquare,
    Coverage,
    SpreadSkill,
    TarpCurve,
    chi_square,
    compare_spread,
    count_samples_needed,
    coverage,
    crps,
    sbc_ranks,
    spread_skill,
    tarp,
)
from bcdm.evaluation.distance import frechet_distance, sliced_wasserstein, wasserstein_1d
from bcdm.evaluation.inception import Inception
from bcdm.evaluation.perceptual import LPIPS
from bcdm.evaluation.proportion import wilson
from bcdm.evaluation.quality import SSIMConvention, describe_ssim, nrmse, psnr, ssim
from bcdm.evaluation.uniformity import ks_uniformity, rank_uniformity

__all__ = [
    "LPIPS",
    "ChiSquare",
    "Coverage",
    "Inception",
    "SSIMConvention",
    "SpreadSkill",
    "TarpCurve",
    "chi_square",
    "compare_spread",
    "count_samples_needed",
    "coverage",
    "crps",
    "describe_ssim",
    "frechet_distance",
    "ks_uniformity",
    "nrmse",
    "psnr",
    "rank_uniformity",
    "sbc_ranks",
    "sliced_wasserstein",
    "spread_skill",
    "ssim",
    "tarp",
    "wasserstein_1d",
    "wilson",
]
