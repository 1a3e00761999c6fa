"""Networks: the NCSN++ backbone, its unrolled form, and experts; they know no operator."""

from bcdm.networks.layers import channels_to_complex, complex_to_channels
from bcdm.networks.ncsnpp import NCSNpp, NCSNppConfig, Structure
from bcdm.networks.unrolled import Experts, Projection, UnrolledNetwork

__all__ = [
    "Experts",
    "NCSNpp",
    "NCSNppConfig",
    "Projection",
    "Structure",
    "UnrolledNetwork",
    "channels_to_complex",
    "complex_to_channels",
]
