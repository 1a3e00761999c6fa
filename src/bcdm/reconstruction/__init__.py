"""From measurements that exist to images, what is uncertain in them, and what to trust."""

from bcdm.reconstruction.features import Support
from bcdm.reconstruction.fitting import Fitted, fit_scan
from bcdm.reconstruction.items import Outcome, Plan, reconstruct_items
from bcdm.reconstruction.posterior import Posterior, reconstruct
from bcdm.reconstruction.reconstructor import Reconstructor

__all__ = [
    "Fitted",
    "Outcome",
    "Plan",
    "Posterior",
    "Reconstructor",
    "Support",
    "fit_scan",
    "reconstruct",
    "reconstruct_items",
]
