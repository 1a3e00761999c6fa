"""Networks: backbones, their unrolled form, and experts; they know no operator."""

from bcdm.networks.backbone import Backbone, NCSNppConfig, Structure
from bcdm.networks.layers import channels_to_complex, complex_to_channels
from bcdm.networks.ncsnpp import NCSNpp
from bcdm.networks.plain import PlainUNet
from bcdm.networks.unrolled import Experts, Projection, UnrolledNetwork

__all__ = [
    "Backbone",
    "Experts",
    "NCSNpp",
    "NCSNppConfig",
    "PlainUNet",
    "Projection",
    "Structure",
    "UnrolledNetwork",
    "channels_to_complex",
    "complex_to_channels",
]
