"""From measurements that exist to images, what is uncertain in them, and what to trust."""

from bcdm.reconstruction.posterior import Posterior, Support, reconstruct

__all__ = ["Posterior", "Support", "reconstruct"]
