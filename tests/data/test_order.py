"""Order: a fair permutation per epoch, the same content for any resume and any number of ranks."""

import itertools
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader

from bcdm.data import (
    Augmentation,
    Batch,
    ImageBatches,
    Preparation,
    open_images,
    sample_counters,
    sample_index,
    select_split,
    shard,
)
from bcdm.errors import InputError, ShapeError

LENGTH = 23
AUGMENTATION = Augmentation(flip=True, shift=2, lesions=0.5)


def order_epoch(seed: int, epoch: int, length: int) -> np.ndarray:
    return sample_index(seed, np.arange(epoch * length, (epoch + 1) * length), length)


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_each_epoch_is_a_permutation(length: int, seed: int, epoch: int) -> None:
    assert np.array_equal(np.sort(order_epoch(seed, epoch, length)), np.arange(length))


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 1_000_003])
def test_long_epochs_are_permutations(length: int) -> None:
    assert (np.bincount(order_epoch(3, 2, length), minlength=length) == 1).all()


@pytest.mark.parametrize(
    ("length", "share"), [(1, 9), (2, 900), (3, 900), (4, 500), (5, 150), (6, 20), (7, 2)]
)
def test_all_permutations_of_few_items_are_equally_likely(length: int, share: int) -> None:
    permutations = math.factorial(length)
    epochs = share * permutations
    items = sample_index(0, np.arange(epochs * length), length).reshape(epochs, length)
    found = Counter(map(tuple, items.tolist()))
    counts = np.zeros(permutations)
    counts[: len(found)] = list(found.values())
    # Poisson counts of mean m: (count - m)^2 / m has mean 1 and variance 2 + 1 / m.
    statistic = ((counts - share) ** 2 / share).sum()
    spread = math.sqrt(permutations * (2 + 1 / share))
    assert abs(statistic - (permutations - 1)) < 4 * spread


@pytest.mark.parametrize("length", [16, 37])
@pytest.mark.parametrize("by", ["epoch", "seed"])
def test_every_item_is_equally_likely_at_every_place(length: int, by: str) -> None:
    draws = 2000
    pairs = [(0, k) if by == "epoch" else (k, 0) for k in range(draws)]
    orders = np.stack([order_epoch(seed, epoch, length) for seed, epoch in pairs])
    expected = draws / length
    counts = np.zeros((length, length))
    np.add.at(counts, (np.arange(length), orders), 1)
    # Rows and columns of the counts have fixed sums, which leaves (n - 1)^2 free cells; a cell has
    # variance expected * (n - 1) / n, so the scaled statistic has mean (n - 1)^2.
    statistic = ((counts - expected) ** 2).sum() / expected * (length - 1) / length
    freedom = (length - 1) ** 2
    assert abs(statistic - freedom) < 4.5 * math.sqrt(2 * freedom)
    # Neighbours: the step between consecutive places is uniform over the non-zero residues.
    steps = np.bincount(((orders[:, 1:] - orders[:, :-1]) % length).reshape(-1), minlength=length)
    assert steps[0] == 0
    assert ((steps[1:] - draws) ** 2).sum() / draws < length + 5 * math.sqrt(2 * length)


def test_orders_of_epochs_and_seeds_are_unrelated() -> None:
    length = 10_000
    orders = [order_epoch(s, e, length) for s, e in [(0, 0), (0, 1), (1, 0), (2**64 - 1, 0)]]
    for a, b in itertools.combinations(orders, 2):
        # Matches of two random permutations are Poisson with mean 1.
        assert (a == b).sum() <= 8
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / math.sqrt(length)


def test_huge_lengths_need_no_permutation() -> None:
    length = 10**8
    items = sample_index(0, np.arange(200_000) + 3 * length, length)
    assert len(np.unique(items)) == 200_000
    assert items.min() >= 0
    assert items.max() < length
    tenths = np.bincount(items // 10**7, minlength=10)
    assert ((tenths - 20_000) ** 2 / 20_000).sum() < 9 + 4 * math.sqrt(18)
    far = sample_index(0, np.arange(10**18, 10**18 + 50), 10**15)
    assert len(np.unique(far)) == 50


def test_a_sample_does_not_depend_on_its_company() -> None:
    counters = np.arange(5 * LENGTH)
    together = sample_index(9, counters, LENGTH)
    alone = [int(sample_index(9, np.array(g), LENGTH)) for g in counters]
    assert together.tolist() == alone
    assert np.array_equal(sample_index(9, counters.reshape(5, LENGTH), LENGTH).ravel(), together)


def test_the_order_is_pinned() -> None:
    # A change here would break the resume of every run made before.
    assert sample_index(7, np.arange(8), 1000).tolist() == [246, 862, 408, 64, 390, 571, 322, 42]


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 1000))
def test_shards_are_consecutive_and_complete(share: int, world_size: int, step: int) -> None:
    positions = sample_counters(step, share * world_size)
    parts = [shard(positions, rank, world_size) for rank in range(world_size)]
    assert {len(part) for part in parts} == {share}
    assert np.array_equal(np.concatenate(parts), positions)
    assert positions[0] == step * share * world_size


def test_bad_numbers_are_refused() -> None:
    positions = sample_counters(0, 10)
    for rank, world_size, match in [
        (0, 4, "multiple"),
        (2, 2, "rank"),
        (-1, 2, "rank"),
        (0, 0, "rank"),
    ]:
        with pytest.raises(InputError, match=match):
            shard(positions, rank, world_size)
    for seed, counters, length in [(0, [0], 0), (0, [-1], 5), (-1, [0], 5), (2**64, [0], 5)]:
        with pytest.raises(InputError):
            sample_index(seed, np.array(counters), length)


@pytest.fixture(scope="module")
def images_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "images.npy"
    rng = np.random.default_rng(0)
    np.save(path, rng.integers(0, 256, (LENGTH, 8, 12, 3), dtype=np.uint8))
    return path


def make_batches(
    path: Path, preparation: Preparation | None = None, **changes: object
) -> ImageBatches:
    settings: dict[str, object] = {"seed": 4, "global_batch": 8, "stop_step": 10} | changes
    preparation = preparation or Preparation(size=(4, 6))
    return ImageBatches(open_images(path), preparation, AUGMENTATION, **settings)  # type: ignore[arg-type]


def assert_same(found: list[Batch], expected: list[Batch]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.counters, b.counters)


def test_batches_hold_the_prepared_images_in_order(images_path: Path) -> None:
    source, preparation = open_images(images_path), Preparation(size=(4, 6))
    batches = ImageBatches(source, preparation, seed=4, global_batch=8, stop_step=10)
    seen = []
    for step, batch in enumerate(batches):
        assert batch.images.shape == (8, 3, 4, 6)
        assert batch.images.dtype == torch.float32
        assert batch.counters.dtype == torch.int64
        assert batch.counters.tolist() == list(range(step * 8, step * 8 + 8))
        items = sample_index(4, batch.counters.numpy(), LENGTH)
        for image, item in zip(batch.images, items, strict=True):
            assert torch.equal(image, preparation(source[int(item)]))
        seen.extend(items.tolist())
    # 80 samples are 3 whole epochs and a part of the fourth: batches run on over the border.
    assert Counter(seen[: 3 * LENGTH]) == dict.fromkeys(range(LENGTH), 3)


def test_augmentation_depends_on_seed_and_counter_alone(images_path: Path) -> None:
    plain = ImageBatches(open_images(images_path), Preparation(), seed=4, global_batch=8)
    changed = make_batches(images_path, Preparation())
    other_split = make_batches(images_path, Preparation(), global_batch=4)
    other_seed = make_batches(images_path, Preparation(), seed=5)
    first, again = other_split.batch(6), other_split.batch(7)
    assert torch.equal(torch.cat([first.images, again.images]), changed.batch(3).images)
    assert not torch.equal(plain.batch(3).images, changed.batch(3).images)
    assert not torch.equal(other_seed.batch(3).images, changed.batch(3).images)
    # The same item in another epoch is changed in another way.
    versions = {}
    for step in range(40):
        batch = changed.batch(step)
        for g, image in zip(batch.counters.numpy(), batch.images, strict=True):
            item = int(sample_index(4, g, LENGTH))
            versions.setdefault(item, set()).add(image.numpy().tobytes())
    assert min(len(found) for found in versions.values()) > 5


@pytest.mark.parametrize("start", [1, 2, 3, 7, 9, 10])
def test_resume_is_exact_to_the_bit(images_path: Path, start: int) -> None:
    whole = list(make_batches(images_path))
    assert_same(list(make_batches(images_path, start_step=start)), whole[start:])


@pytest.mark.parametrize("world_size", [2, 4])
def test_content_does_not_depend_on_the_number_of_ranks(images_path: Path, world_size: int) -> None:
    whole = list(make_batches(images_path))
    ranks = [
        list(make_batches(images_path, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    joined = [
        Batch(torch.cat([p.images for p in parts]), torch.cat([p.counters for p in parts]))
        for parts in zip(*ranks, strict=True)
    ]
    assert_same(joined, whole)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # a machine of one core
@pytest.mark.parametrize("workers", [1, 2])
def test_loader_workers_keep_the_order(images_path: Path, workers: int) -> None:
    loader = DataLoader(make_batches(images_path), batch_size=None, num_workers=workers)
    found = list(loader)
    assert isinstance(found[0], Batch)
    assert_same(found, list(make_batches(images_path)))


def write_copies(path: Path, folder: Path) -> list[Path]:
    stack = np.load(path)
    with h5py.File(folder / "images.h5", "w") as file:
        file.create_dataset("images", data=stack, chunks=(1, *stack.shape[1:]))
    (folder / "pictures").mkdir()
    for index, pixels in enumerate(stack):
        Image.fromarray(pixels).save(folder / "pictures" / f"{index:04d}.png")
    return [folder / "images.h5", folder / "pictures"]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # a machine of one core
def test_every_format_streams_the_same_batches(images_path: Path, tmp_path: Path) -> None:
    expected = list(make_batches(images_path))
    for copy in write_copies(images_path, tmp_path):
        batches = make_batches(copy)
        assert_same(list(batches), expected)
        assert_same(list(DataLoader(batches, batch_size=None, num_workers=2)), expected)


@pytest.mark.parametrize(
    ("preparation", "dtype"),
    [
        (Preparation(), torch.uint8),
        (Preparation(crop=(1, 2, 5, 6)), torch.uint8),
        (Preparation(size=(4, 6)), torch.float32),
        (Preparation(channels=1, value_range=(0.0, 1.0)), torch.float32),
    ],
)
def test_the_cache_changes_no_bit(
    images_path: Path, preparation: Preparation, dtype: torch.dtype
) -> None:
    cached = make_batches(images_path, preparation, cache=True)
    assert cached.cache is not None
    assert cached.cache.dtype == dtype
    assert_same(list(cached), list(make_batches(images_path, preparation)))


def test_the_cache_grows_to_floats_at_the_first_fraction(tmp_path: Path) -> None:
    stack = np.arange(6, dtype=np.float32).reshape(6, 1, 1).repeat(4, 1).repeat(4, 2)
    stack[4] += 0.25
    np.save(tmp_path / "a.npy", stack)
    source = open_images(tmp_path / "a.npy", value_range=(0, 5))
    batches = ImageBatches(
        source, Preparation(source_range=(0, 5)), seed=0, global_batch=6, cache=True
    )
    assert batches.cache is not None
    assert torch.equal(batches.cache[:, 0], torch.from_numpy(stack))


@pytest.mark.parametrize("size", [None, (4, 6)])
def test_a_cache_that_does_not_fit_gives_way(
    images_path: Path, size: tuple[int, int] | None
) -> None:
    preparation = Preparation(size=size)
    needed = LENGTH * 3 * (8 * 12 if size is None else 4 * 6 * 4)
    fitting = make_batches(images_path, preparation, cache=True, cache_limit=needed)
    assert fitting.cache is not None
    assert fitting.cache.nbytes == needed
    with pytest.warns(RuntimeWarning, match="cache_limit"):
        batches = make_batches(images_path, preparation, cache=True, cache_limit=needed - 1)
    assert batches.cache is None
    assert_same(list(batches), list(fitting))


def test_mixed_shapes_in_one_batch_are_refused(tmp_path: Path) -> None:
    for name, shape in {"a.png": (8, 8), "b.png": (8, 6, 3)}.items():
        Image.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / name)
    source = open_images(tmp_path)
    with pytest.raises(ShapeError, match="set size and channels"):
        ImageBatches(source, Preparation(), seed=0, global_batch=2).batch(0)
    with pytest.raises(ShapeError, match="set size and channels"):
        ImageBatches(source, Preparation(), seed=0, global_batch=2, cache=True)
    uniform = Preparation(size=(8, 8), channels=1)
    assert ImageBatches(source, uniform, seed=0, global_batch=2).batch(0).images.shape[0] == 2


def test_bad_settings_are_refused_before_training(images_path: Path) -> None:
    for changes in (
        {"global_batch": 0},
        {"start_step": -1},
        {"seed": -1},
        {"world_size": 3},
        {"rank": 1},
    ):
        with pytest.raises(InputError):
            make_batches(images_path, **changes)
    wrong = replace(Preparation(), source_range=(0.0, 65535.0))
    with pytest.raises(InputError, match=r"set source_range=\(0.0, 255.0\)"):
        make_batches(images_path, wrong)


@pytest.mark.data
@pytest.mark.skipif("BCDM_DATA" not in os.environ, reason="BCDM_DATA names no image folder")
def test_brain_slices_train_without_test_subjects() -> None:
    source = open_images(Path(os.environ["BCDM_DATA"]) / "brain_ixi_t1" / "ixi_t1_axial128.npz")
    assert source.split_labels is not None
    train, test = (select_split(source, source.split_labels, name) for name in ("train", "test"))
    assert train.subjects is not None
    assert test.subjects is not None
    assert not set(train.subjects) & set(test.subjects)
    batches = ImageBatches(train, Preparation(size=(64, 64)), seed=0, global_batch=16)
    images, counters = batches.batch(100)
    assert images.shape == (16, 1, 64, 64)
    assert images.min() >= -1
    assert images.max() <= 1
    item = int(sample_index(0, counters.numpy()[:1], len(train))[0])
    blocks = train[item].reshape(1, 64, 2, 64, 2).double().mean((2, 4))
    torch.testing.assert_close(images[0].double(), blocks / 127.5 - 1, atol=1e-6, rtol=0)
