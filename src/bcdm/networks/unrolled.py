"""Networks around a backbone: unrolled data consistency, and experts by noise level.

Both call their backbone as `backbone(x, log_snr)` and know nothing else about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bcdm.errors import DtypeError, InputError, ShapeError
from bcdm.networks.layers import channels_to_complex, complex_to_channels, to_full_precision

__all__ = ["Experts", "Projection", "UnrolledNetwork"]

Projection = Callable[[Tensor], Tensor]
"""Data consistency: an image (B, C, H, W) to one that fits the measurement better."""


class UnrolledNetwork(nn.Module):
    r"""Alternates a backbone $f_\theta$ with data consistency $P$ (paper, Sec. 4).

    $$ x_{DC,0} = x, \quad x_{d,i+1} = f_\theta(x_{DC,i}, t), \quad x_{DC,i+1} = P(x_{d,i+1}),
       \quad i = 0 \dots N_{it} - 1 $$

    The weights are shared over the iterations. Complex images pass through the backbone as twice
    as many real channels, and through $P$ as they are.

    >>> from bcdm.networks import NCSNpp, NCSNppConfig
    >>> network = UnrolledNetwork(NCSNpp(NCSNppConfig(width=4, multipliers=(1, 2))), iterations=2)
    >>> image = torch.ones(1, 1, 8, 8)
    >>> network(image, torch.zeros(1), project=lambda x: x + image).mean().item()
    1.0
    """

    def __init__(
        self,
        backbone: nn.Module,
        iterations: int,
        checkpointing: bool = False,
        recall: bool = False,
    ) -> None:
        """Wraps a backbone.

        Args:
            backbone: Module called as `backbone(x, log_snr)`.
            iterations: Number of iterations, $N_{it}$.
            checkpointing: Whether each iteration is recomputed in the backward pass to save memory.
            recall: Whether the backbone sees the first input again, as more channels after those
                of the current image, in every iteration.
        """
        super().__init__()
        if iterations < 1:
            raise InputError(f"iterations must be 1 or more, not {iterations}")
        self.backbone = backbone
        self.iterations = iterations
        self.checkpointing = checkpointing
        self.recall = recall

    def forward(
        self,
        x: Tensor,
        log_snr: Tensor,
        project: Projection | None,
        extra: Tensor | None = None,
        compare: Projection | None = None,
        settle: Projection | None = None,
    ) -> Tensor:
        r"""Applies all iterations.

        Args:
            x: First input $x_{DC,0}$, real or complex, of shape `(B, C, H, W)`.
            log_snr: $\log(\alpha^2 / \sigma^2)$ of shape `(B,)` or `(1,)`.
            project: Data consistency, from image to image of the shape and kind of `x`. It runs in
                float32 (or better), also under autocast. None leaves it out.
            extra: Channels of shape `(B or 1, C', H, W)`, real or complex, which the backbone sees
                after those of the image in every iteration.
            compare: From how far the current image is from the first one to channels that the
                backbone sees last, real or complex: what the data say of it. With it, iterations
                move the current image on: $x_{DC,i+1} = x_{DC,i} + P(x_{d,i+1}) - x_{DC,0}$.
            settle: What each iteration ends with, from image to image, in float32 as `project`.

        Returns:
            The last $x_{DC}$, of the shape and kind of `x`.
        """
        if extra is not None:
            extra = _match(extra, x)
        if self.recall:
            first = complex_to_channels(x) if x.is_complex() else x
            extra = first if extra is None else torch.cat([first, extra], dim=1)
        start = x
        for _ in range(self.iterations):
            more, then = extra, project
            if compare is not None:
                with torch.autocast(x.device.type, enabled=False):
                    more = _append(extra, _match(compare(x - start), x))
                then = _move_on(project, x - start)
            if settle is not None:
                then = _chain(then, settle)
            if self.checkpointing and torch.is_grad_enabled():
                # The reentrant kind gives wrong gradients for weights that are used more than once.
                x = checkpoint(self._iterate, x, log_snr, then, more, use_reentrant=False)
            else:
                x = self._iterate(x, log_snr, then, more)
        return x

    def _iterate(
        self, x: Tensor, log_snr: Tensor, project: Projection | None, extra: Tensor | None
    ) -> Tensor:
        """One pass of backbone and data consistency."""
        image = complex_to_channels(x) if x.is_complex() else x
        seen = image if extra is None else torch.cat([image, extra], dim=1)
        out: Tensor = self.backbone(seen, log_snr)
        if out.shape != image.shape:
            raise ShapeError(
                f"the backbone made {tuple(out.shape)} of an image {tuple(image.shape)}; "
                f"give it {image.shape[1]} output channels"
            )
        # FFTs and solves do not exist in half precision, and would lose the data if they did.
        with torch.autocast(x.device.type, enabled=False):
            out = channels_to_complex(out) if x.is_complex() else to_full_precision(out)
            return out if project is None else project(out)


def _append(extra: Tensor | None, more: Tensor) -> Tensor:
    return more if extra is None else torch.cat([extra, more], dim=1)


def _move_on(project: Projection | None, moved: Tensor) -> Projection:
    """The projection, from an image that was moved before."""
    return lambda out: moved + (out if project is None else project(out))


def _chain(first: Projection | None, second: Projection) -> Projection:
    """One projection after the other."""
    return second if first is None else lambda out: second(first(out))


def _match(extra: Tensor, x: Tensor) -> Tensor:
    """Makes extra channels real and gives them the batch size of `x`."""
    if extra.is_complex():
        extra = complex_to_channels(extra)
    if extra.ndim != 4 or extra.shape[2:] != x.shape[2:] or extra.shape[0] not in (1, x.shape[0]):
        raise ShapeError(
            f"extra channels {tuple(extra.shape)} do not fit the image {tuple(x.shape)}; "
            "give them its batch, height and width"
        )
    return extra.expand(x.shape[0], -1, -1, -1)


class Experts(nn.Module):
    r"""Several networks, each for one range of the noise level.

    Network $k$ serves the samples with $e_{k-1} \le \log\mathrm{SNR} < e_k$: the first one the
    noisiest samples. The paper has two, split at t = 50 of T = 1000. As the backbone of an
    `UnrolledNetwork` it sends each sample through one expert in all iterations; it cannot hold
    unrolled networks itself, because a projection serves the whole batch.
    """

    edges: Tensor

    def __init__(self, networks: Sequence[nn.Module], log_snr_edges: Sequence[float]) -> None:
        """Joins the networks.

        Args:
            networks: Modules called as `network(x, log_snr)`, the one for the lowest log-SNR first.
            log_snr_edges: Where one range ends and the next begins, ascending; one less than
                networks.
        """
        super().__init__()
        edges = [float(edge) for edge in log_snr_edges]
        if len(edges) != len(networks) - 1 or sorted(set(edges)) != edges:
            raise InputError(f"{len(networks)} networks need {len(networks) - 1} ascending edges")
        self.networks = nn.ModuleList(networks)
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float64))

    def forward(self, x: Tensor, log_snr: Tensor) -> Tensor:
        """Sends each sample to its expert.

        Args:
            x: Batch of shape `(B, ...)`.
            log_snr: Floating-point tensor of shape `(B,)` or `(1,)`.

        Returns:
            The experts' results in the order of the batch.
        """
        if not log_snr.is_floating_point():
            raise DtypeError("log_snr must be a floating-point tensor")
        if log_snr.ndim != 1 or log_snr.shape[0] not in (1, x.shape[0]):
            raise ShapeError(f"log_snr must have shape ({x.shape[0]},) or (1,)")
        log_snr = log_snr.expand(x.shape[0]).contiguous()
        expert = torch.bucketize(log_snr, self.edges.to(log_snr.dtype), right=True)
        rows, parts = [], []
        for index, network in enumerate(self.networks):
            row = (expert == index).nonzero().flatten()
            # An empty batch makes the gradients zero instead of missing, for which DDP would wait.
            if len(row) or torch.is_grad_enabled():
                rows.append(row)
                parts.append(network(x[row], log_snr[row]))
        return torch.cat(parts)[torch.cat(rows).argsort()]
