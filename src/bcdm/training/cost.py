"""What a training step costs, counted on one small image: no data and no GPU needed."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bcdm.networks import Backbone, Experts, UnrolledNetwork

__all__ = ["Cost", "count_cost"]


class Cost(NamedTuple):
    """Of one image in one step, all iterations.

    Attributes:
        operations: Floating-point operations of the network, forward and backward.
        activations: Bytes kept for the backward pass.
    """

    operations: float
    activations: float


def count_cost(network: UnrolledNetwork, size: tuple[int, int]) -> Cost:
    """Counts a small image through the network, and scales by pixels.

    Attention grows faster than that and is a small part; solves for the data are left out.
    """
    backbone = network.backbone
    if isinstance(backbone, Experts):
        # A sample goes through one of them, and they are alike.
        backbone = backbone.networks[0]
    assert isinstance(backbone, Backbone)
    config = backbone.config
    side = 2 * config.patch * 2 ** (len(config.multipliers) - 1)
    weights = {p.data_ptr() for p in backbone.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            out: Tensor = backbone(torch.zeros(1, config.channels_in, side, side), torch.zeros(1))
        forward = counter.get_total_flops()
        out.sum().backward()
    backbone.zero_grad()
    repeats = network.iterations * size[0] * size[1] / side**2
    operations, activations = counter.get_total_flops() * repeats, sum(kept.values()) * repeats
    if network.checkpointing:
        # Iterations are run again in the backward pass, where one is kept at a time.
        return Cost(operations + forward * repeats, activations / network.iterations)
    return Cost(operations, activations)
