"""Batches: bounded, filled, of items that fit together, and smaller where memory does not last."""

import logging

import pytest
import torch
from torch import Tensor

from bcdm.checkpoint import Model
from bcdm.errors import Cancelled, MachineError
from bcdm.measurement import Measurement
from bcdm.methods import BayesianDenoiser
from bcdm.operators import BlockMean, CircularBlur, Dense, FourierMask, Identity, PixelMask, Sense
from bcdm.reconstruction import reconstruct
from bcdm.reconstruction.drawing import Drawer, Item, Progress, Sampling
from bcdm.reconstruction.joining import find_kind, join_measurements

DENSE = Dense(torch.eye(256), (1, 16, 16))


class Watched:
    """A method that remembers how many images it saw at once, and fails if more than `most`."""

    def __init__(self, model: Model, most: int = 1000) -> None:
        self.method, self.most = model.method, most
        self.seen: list[int] = []

    def condition(self, measurement: Measurement) -> "Watched.Bound":
        return self.Bound(self, self.method.condition(measurement))

    class Bound:
        def __init__(self, watched: "Watched", denoiser: BayesianDenoiser) -> None:
            self.watched, self.denoiser = watched, denoiser
            self.schedule, self.image = denoiser.schedule, denoiser.image

        def __call__(self, x_t: Tensor, level) -> Tensor:
            self.watched.seen.append(len(x_t))
            if len(x_t) > self.watched.most:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
            return self.denoiser(x_t, level)


@pytest.fixture
def items(masked_model: Model, images: Tensor) -> list[Item]:
    whole = Measurement.simulate(images, masked_model.operator, 0.05, seed=1)
    return [Item(f"item {k}", whole.select(torch.tensor([k]))) for k in range(3)]


def draw(drawer: Drawer, items: list[Item], samples: int) -> dict[tuple[str, int], Tensor]:
    drawn = [one for item in items for k in range(samples) for one in drawer.add(item, k)]
    drawn += drawer.flush()
    assert all(one.error is None for one in drawn)
    return {(one.item.id, one.number): one.image for one in drawn}


@pytest.mark.parametrize(("count", "samples", "batch"), [(10, 1, 4), (10, 3, 4), (2, 9, 4)])
def test_batches_bound_what_the_network_sees(
    masked_model: Model, images: Tensor, count: int, samples: int, batch: int
) -> None:
    """However many measurements there are."""
    seen: list[int] = []
    masked_model.method.network.register_forward_pre_hook(
        lambda network, given: seen.append(len(given[0]))
    )
    x = images[:1].expand(count, -1, -1, -1)
    measurement = Measurement.simulate(x, masked_model.operator, 0.05, seed=1)
    drawn = reconstruct(
        masked_model, measurement, samples=samples, calls=2, batch=batch, progress=False
    )
    assert drawn.samples.shape == (samples, count, 1, 16, 16)
    assert max(seen) == batch
    # Full batches, and previews in batches, too: no more calls than needed.
    assert len(seen) == 2 * -(-count * samples // batch) + -(-count // batch)


def test_bits_do_not_depend_on_what_else_is_drawn(masked_model: Model, items: list[Item]) -> None:
    sampling = Sampling(samples=5, calls=3, batch=4)
    whole = draw(Drawer(masked_model.method, sampling), items, 5)
    for some in (items[1:2], items[::-1]):
        part = draw(Drawer(masked_model.method, sampling), some, 5)
        assert all(torch.equal(image, whole[key]) for key, image in part.items())


def test_less_memory_means_smaller_batches(masked_model, items, caplog) -> None:
    watched = Watched(masked_model, most=2)
    drawer = Drawer(watched, Sampling(calls=2, batch=8))
    with caplog.at_level(logging.WARNING):
        less = draw(drawer, items, 5)
    assert drawer.size == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"out of memory: going on with batches of {size}" for size in (4, 2)
    ]
    # It stays small, and the samples are the same.
    assert [size for size in watched.seen if size > 2] == [8, 4]
    more = draw(Drawer(masked_model.method, Sampling(calls=2, batch=8)), items, 5)
    assert less.keys() == more.keys()
    for key, image in less.items():
        torch.testing.assert_close(image, more[key], rtol=1e-5, atol=1e-5)
    with pytest.raises(MachineError, match="a single image"):
        draw(Drawer(Watched(masked_model, most=0), Sampling(calls=2, batch=8)), items, 5)


def test_an_item_that_fails_does_not_spoil_its_batch(masked_model, items, images) -> None:
    class Failing(Watched):
        def condition(self, measurement: Measurement) -> Watched.Bound:
            if bool((measurement.y == items[1].measurement.y).flatten(1).all(1).any()):
                raise RuntimeError("something else")
            return super().condition(measurement)

    drawer = Drawer(Failing(masked_model), Sampling(calls=2, batch=6))
    drawn = [one for item in items for k in range(2) for one in drawer.add(item, k)]
    assert [(one.item.id, one.number) for one in drawn] == [
        (item.id, k) for item in items for k in range(2)
    ]
    assert [None if one.error is None else str(one.error) for one in drawn] == [
        None, None, "something else", "something else", None, None,
    ]  # fmt: skip


def test_who_listens_hears_every_call_and_may_stop(masked_model, items) -> None:
    heard: list[Progress] = []
    drawer = Drawer(masked_model.method, Sampling(calls=3, batch=4), heard.append)
    draw(drawer, items[:2], 3)
    assert [(one.samples, one.level, one.levels) for one in heard] == [
        (count, level, 3) for count in (0, 4) for level in (1, 2, 3)
    ]
    assert [one.items for one in heard[::3]] == [("item 0", "item 1"), ("item 1",)]

    def stop(progress: Progress) -> None:
        if progress.samples:
            raise Cancelled

    with pytest.raises(Cancelled):
        draw(Drawer(masked_model.method, Sampling(calls=3, batch=4), stop), items, 3)


def test_operators_of_one_kind_are_joined(images: Tensor) -> None:
    masks = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(0)) < 0.5
    kernels = torch.rand(3, 3, 3, generator=torch.Generator().manual_seed(0))
    for operators in (
        [PixelMask(mask) for mask in masks],
        [PixelMask(masks[0]), PixelMask(masks[1][None, None]), PixelMask(masks[2])],
        [FourierMask(mask, real=True) for mask in masks],
        [CircularBlur(kernel, (16, 16)) for kernel in kernels],
        [Identity() for _ in range(3)],
        [BlockMean((2, 2)) for _ in range(3)],
        [DENSE] * 3,
    ):
        parts = [
            Measurement.simulate(images[k : k + 1], operator, 0.1 * (k + 1), seed=k)
            for k, operator in enumerate(operators)
        ]
        assert len({find_kind(part) for part in parts}) == 1
        joined = join_measurements(parts)
        assert torch.equal(joined.std, torch.cat([part.std for part in parts]))
        for k, part in enumerate(parts):
            torch.testing.assert_close(joined.back_projection[k : k + 1], part.back_projection)
            torch.testing.assert_close(
                joined.operator.forward(images)[k], part.operator.forward(images[k : k + 1])[0]
            )


def test_coils_are_joined() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 1, 16, 16, dtype=torch.complex64, generator=generator)
    maps = torch.randn(3, 4, 16, 16, dtype=torch.complex64, generator=generator)
    masks = torch.rand(3, 16, 16, generator=generator) < 0.5
    operators = [Sense(maps[k], masks[k]) for k in range(3)]
    parts = [
        Measurement.simulate(x[k : k + 1], operator, 0.1, seed=k)
        for k, operator in enumerate(operators)
    ]
    assert len({find_kind(part) for part in parts}) == 1
    joined = join_measurements(parts)
    expected = torch.cat([part.back_projection for part in parts])
    torch.testing.assert_close(joined.back_projection, expected)


def test_rows_of_any_operator_share_a_batch(masked_model: Model, images: Tensor) -> None:
    """Where measurements come as a batch, it need not be one that can be joined."""
    matrices = torch.eye(256) * torch.tensor([1.0, 0.9, 0.8])[:, None, None]
    measurement = Measurement.simulate(images, Dense(matrices, (1, 16, 16)), 0.05, seed=1)
    seen: list[int] = []
    masked_model.method.network.register_forward_pre_hook(
        lambda network, given: seen.append(len(given[0]))
    )
    whole = reconstruct(masked_model, measurement, samples=1, calls=2, progress=False, force=True)
    assert seen == [3, 3, 3]
    one = measurement.select(torch.tensor([2]))
    alone = reconstruct(masked_model, one, samples=1, calls=2, progress=False, force=True)
    torch.testing.assert_close(whole.samples[:, 2:], alone.samples, rtol=1e-5, atol=1e-5)


def test_other_operators_are_not_joined(images: Tensor) -> None:
    mask = torch.ones(16, 16)
    operators = [
        PixelMask(mask),
        FourierMask(mask, real=True),
        FourierMask(mask, real=True, centered=False),
        CircularBlur(torch.ones(3, 3), (16, 16)),
        CircularBlur(torch.ones(5, 5), (16, 16)),
        Identity(),
        BlockMean((2, 2)),
        BlockMean((4, 4)),
        DENSE,
        Dense(torch.eye(256), (1, 16, 16)),
    ]
    parts = [Measurement.simulate(images[:1], operator, 0.1, seed=0) for operator in operators]
    assert len({find_kind(part) for part in parts}) == len(operators)
