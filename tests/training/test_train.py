"""The loop by what the optimiser is given: learning rates, gradients, averages."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bcdm.checkpoint.settings import parse_config
from bcdm.data import ArrayFile
from bcdm.errors import InputError, ShapeError
from bcdm.training.run import run_settings
from bcdm.training.train import Processes, Trainer, open_processes

RATE = 2e-3
Make = Callable[..., Trainer]


@pytest.fixture
def make_trainer(tmp_path: Path) -> Make:
    images = np.random.default_rng(0).integers(0, 255, (16, 8, 8), np.uint8)
    np.save(tmp_path / "images.npy", images)

    def make(dropout: float = 0.0, shift: int = 0, **training: object) -> Trainer:
        config = parse_config({
            "name": "tiny",
            "data": {"path": str(tmp_path / "images.npy"), "channels": 1, "shift": shift},
            "operator": {"kind": "identity"},
            "noise_std": 0.1,
            "network": {"width": 4, "multipliers": [1], "blocks": 1, "attention": [],
                        "dropout": dropout, "progressive_input": "none",
                        "progressive_output": "none"},
            "training": {"steps": 8, "batch": 4, "learning_rate": RATE, "warmup": 0,
                         "validate_every": 100, "checkpoint_every": 100, **training},
        })  # fmt: skip
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        return Trainer(config, ArrayFile(tmp_path / "images.npy"), None, folder, Processes())

    return make


def watch(trainer: Trainer) -> list[tuple[float, Tensor]]:
    """The learning rate and the gradient of each step, as the optimiser gets them."""
    steps: list[tuple[float, Tensor]] = []

    def look(optimizer: torch.optim.Optimizer, *_: object) -> None:
        (group,) = optimizer.param_groups
        gradients = [p.grad.flatten() for p in group["params"] if p.grad is not None]
        steps.append((group["lr"], torch.cat(gradients)))

    trainer.state.optimizer.register_step_pre_hook(look)
    trainer.run()
    return steps


@pytest.mark.parametrize(
    ("warmup", "decay", "steps"), [(0, False, 4), (0, True, 8), (4, False, 6), (4, True, 8)]
)
def test_learning_rates(make_trainer: Make, warmup: int, decay: bool, steps: int) -> None:
    """A warm-up by equal steps to the rate of the settings, and a cosine from it to zero."""
    seen = [rate for rate, _ in watch(make_trainer(warmup=warmup, decay=decay, steps=steps))]
    expected = []
    for step in range(steps):
        warm = (step + 1) / warmup if step < warmup else 1.0
        expected.append(RATE * warm * (math.cos(math.pi / 2 * step / steps) ** 2 if decay else 1))
    assert seen == pytest.approx(expected)


def test_a_run_that_goes_on_has_the_rates_of_its_steps(make_trainer: Make) -> None:
    trainer = make_trainer(warmup=4)
    trainer.state.step = 5
    seen = [rate for rate, _ in watch(trainer)]
    assert seen == pytest.approx([RATE * math.cos(math.pi / 16 * k) ** 2 for k in (5, 6, 7)])


@pytest.mark.parametrize("part", [0.5, 0.01])
def test_a_long_gradient_is_shortened_and_not_turned(make_trainer: Make, part: float) -> None:
    ((_, free),) = watch(make_trainer(steps=1, clip=1e9))
    length = float(free.norm())
    ((_, clipped),) = watch(make_trainer(steps=1, clip=part * length))
    torch.testing.assert_close(clipped, part * free)
    ((_, kept),) = watch(make_trainer(steps=1, clip=2 * length))
    assert torch.equal(kept, free)


@pytest.mark.parametrize("accumulation", [2, 4])
def test_a_step_in_parts_is_the_same_step(make_trainer: Make, accumulation: int) -> None:
    """Gradients are of the mean over the batch, and of this step alone."""
    whole = watch(make_trainer(steps=3, clip=1e9))
    parts = watch(make_trainer(steps=3, clip=1e9, accumulation=accumulation))
    for (_, one), (_, other) in zip(whole, parts, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)


def test_processes_share_gradients_once_a_step(make_trainer: Make) -> None:
    """With the last part of it."""
    said: list[str] = []

    class Joined(DistributedDataParallel):
        def __init__(self, objective: nn.Module) -> None:
            nn.Module.__init__(self)
            self.objective = objective

        def forward(self, *inputs: Tensor) -> Tensor:
            said.append("work")
            return self.objective(*inputs)

        @contextmanager
        def no_sync(self) -> Iterator[None]:
            said.append("alone")
            yield

    trainer = make_trainer(accumulation=4)
    trainer.advance(Joined(trainer.objective), *trainer.make_batches(0).batch(0))
    assert said == [*["alone", "work"] * 3, "work"]


def test_the_gradient_is_that_of_the_mean_loss(make_trainer: Make) -> None:
    trainer = make_trainer(steps=1, clip=1e9, accumulation=2)
    (batch,) = trainer.make_batches(0)
    losses = trainer.objective(batch.images, batch.counters)
    parameters = list(trainer.state.network.parameters())
    expected = torch.autograd.grad(losses.mean(), parameters, allow_unused=True)
    ((_, found),) = watch(trainer)
    flat = torch.cat([g.flatten() for g in expected if g is not None])
    torch.testing.assert_close(found, flat, rtol=1e-4, atol=1e-6)
    (row,) = (trainer.folder / "log.jsonl").read_text().splitlines()
    assert json.loads(row)["loss"] == pytest.approx(float(losses.detach().mean()), rel=1e-5)


def test_the_average_forgets_its_start_and_keeps_what_is_set(make_trainer: Make) -> None:
    """Weights 1, 2, 3, ... after each step: their average by hand."""
    trainer = make_trainer()
    state = trainer.state
    weight = next(state.network.parameters())
    average = next(state.average.module.parameters()).detach().flatten()
    expected = float(average[0])
    for step in range(30):
        state.step = step
        with torch.no_grad():
            weight.fill_(step + 1.0)
        state.move_average(0.6)
        keep = min(0.6, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * (step + 1)
        assert float(average[0]) == pytest.approx(expected, rel=1e-5)


def test_dropout_is_a_function_of_seed_step_and_part(make_trainer: Make) -> None:
    """The same whatever was drawn before, and another for each; the global generator is kept."""

    def list_seeds(**training: int) -> list[int]:
        trainer = make_trainer(dropout=0.5, accumulation=2, **training)
        seeds: list[int] = []
        trainer.state.network.register_forward_pre_hook(
            lambda *_: seeds.append(torch.initial_seed())
        )
        before = torch.get_rng_state()
        trainer.run()
        assert torch.equal(torch.get_rng_state(), before)
        return seeds

    torch.manual_seed(1)
    one = list_seeds(steps=2)
    torch.manual_seed(2)
    assert list_seeds(steps=2) == one
    assert len({*one, *list_seeds(steps=2, seed=9)}) == 8


def test_without_dropout_the_global_generator_is_left_alone(make_trainer: Make) -> None:
    trainer = make_trainer(steps=1)
    torch.manual_seed(123)
    seeds: list[int] = []
    trainer.state.network.register_forward_pre_hook(lambda *_: seeds.append(torch.initial_seed()))
    trainer.run()
    assert {*seeds} == {123}


def read_log(trainer: Trainer, name: str) -> list[int]:
    rows = map(json.loads, (trainer.folder / "log.jsonl").read_text().splitlines())
    return [row["step"] for row in rows if name in row]


@pytest.mark.parametrize(("every", "due"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (9, [5])])
def test_what_is_due_is_done_and_the_last_step_always(
    make_trainer: Make, every: int, due: list[int]
) -> None:
    """Losses, validations and checkpoints; validation takes as many images as are asked for."""
    cadence = {"log_every": every, "validate_every": every, "checkpoint_every": every, "keep": 9}
    trainer = make_trainer(steps=5, validation_images=3, **cadence)
    trainer.validation = trainer.images
    assert trainer.run()
    assert read_log(trainer, "loss") == due
    assert read_log(trainer, "psnr") == due
    assert [int(path.name[5:]) for path in trainer.checkpoints.list()] == due
    with Image.open(trainer.folder / "validation.png") as shown:
        assert shown.size == (3 * 8, 3 * 8)
    # Once it is done, it is done.
    assert not trainer.run()
    assert read_log(trainer, "loss") == due


def test_half_precision_is_close_and_not_the_same(make_trainer: Make) -> None:
    ((_, whole),) = watch(make_trainer(steps=1, clip=1e9))
    ((_, half),) = watch(make_trainer(steps=1, clip=1e9, precision="bfloat16"))
    assert half.dtype == whole.dtype
    assert 1e-5 < float((half - whole).norm() / whole.norm()) < 0.1


def test_one_process_joins_nobody(monkeypatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with open_processes() as processes:
        assert (processes.rank, processes.world) == (0, 1)
        # Nobody to wait for.
        processes.wait()
    assert not dist.is_initialized()


def test_several_processes_join_and_leave(make_trainer: Make, monkeypatch) -> None:
    """Whether or not the work between ends well; what each has is summed up and shared out."""
    said: list[str] = []
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr(dist, "init_process_group", lambda kind: said.append(f"join by {kind}"))
    monkeypatch.setattr(dist, "get_rank", lambda: 2)
    monkeypatch.setattr(dist, "barrier", lambda: said.append("wait"))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: said.append("leave"))
    monkeypatch.setattr(dist, "all_reduce", lambda loss: loss.mul_(6))
    trainer = make_trainer(steps=1)

    def work() -> None:
        with open_processes() as processes:
            assert (processes.rank, processes.world) == (2, 4)
            processes.wait()
            trainer.processes = processes
            assert trainer._average_over_processes(torch.tensor(2.0)) == 3.0
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert said == [f"join by {'nccl' if torch.cuda.is_available() else 'gloo'}", "wait", "leave"]


def test_each_of_two_processes_has_its_half_of_a_batch(make_trainer: Make) -> None:
    trainer = make_trainer(steps=2)
    whole = [batch.counters.tolist() for batch in trainer.make_batches(0)]
    parts = []
    for rank in range(2):
        trainer.processes = Processes(rank, 2)
        parts.append([batch.counters.tolist() for batch in trainer.make_batches(0)])
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == [sorted(w) for w in whole]
    trainer.processes = Processes()
    assert [batch.counters.tolist() for batch in trainer.make_batches(1)] == whole[1:]


def test_images_are_moved_as_the_settings_say(make_trainer: Make) -> None:
    plain, moved = (make_trainer(steps=1, shift=shift) for shift in (0, 2))
    ((still,), (shifted,)) = (list(trainer.make_batches(0)) for trainer in (plain, moved))
    prepared = {tuple(plain.preparation(plain.images[k]).flatten().tolist()) for k in range(16)}
    assert {tuple(image.flatten().tolist()) for image in still.images} <= prepared
    assert not {tuple(image.flatten().tolist()) for image in shifted.images} <= prepared


def test_all_processes_wait_for_a_validation(make_trainer: Make) -> None:
    class Waiting(Processes):
        def wait(self) -> None:
            waits.append(self.rank)

    waits: list[int] = []
    trainer = make_trainer(steps=2, validate_every=1)
    trainer.processes = Waiting()
    trainer.run()
    assert waits == [0, 0]


def test_the_optimiser_is_the_one_of_the_settings(make_trainer: Make) -> None:
    (group,) = make_trainer(betas=(0.5, 0.75)).state.optimizer.param_groups
    assert tuple(group["betas"]) == (0.5, 0.75)


def test_maps_of_coils_are_looked_for_beside_the_data(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("BCDM_DATA", raising=False)
    folder = tmp_path / "data"
    folder.mkdir()
    np.save(tmp_path / "images.npy", np.full((4, 8, 8), 9, np.uint8))
    np.save(folder / "maps.npy", np.ones((2, 8, 8), np.complex64))
    masks = {"acceleration": [2, 4]}
    receivers = {"kind": "receivers", "coils": [2, 2], "masks": masks, "maps": "maps.npy"}
    config = parse_config({
        "name": "tiny",
        "data": {"path": "images.npy", "phase": True, "value_range": [0, 1]},
        "operator": {"kind": "family", "members": [receivers]},
        "noise_std": [0.01, 0.1],
        "network": {"width": 4, "multipliers": [1], "blocks": 1, "attention": [],
                    "progressive_input": "none", "progressive_output": "none"},
        "training": {"steps": 1},
    })  # fmt: skip
    images = ArrayFile(tmp_path / "images.npy")
    trainer = Trainer(config, images, None, tmp_path / "run", Processes(), data=folder)
    assert trainer.problems.draw(range(4))


def draw_pictures(folder: Path, count: int, side: int = 8) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 255, (side, side), np.uint8)
        Image.fromarray(pixels).save(folder / f"{side}-{number}.png")


def train_on(folder: Path, out: Path, **training: object) -> list[str]:
    """Trains on a folder of pictures; returns the lines that a user sees."""
    config = parse_config({
        "name": "tiny",
        "data": {"path": str(folder), "channels": 1},
        "operator": {"kind": "identity"},
        "noise_std": 0.1,
        "network": {"width": 4, "multipliers": [1], "blocks": 1, "attention": []},
        "training": {"steps": 3, "batch": 2, "validate_every": 2, "checkpoint_every": 1,
                     **training},
    })  # fmt: skip
    said: list[str] = []
    run_settings(config, None, out, dry_run=False, report=said.append)
    return said


def test_a_run_says_what_it_trains_on_and_refuses_other_images(tmp_path: Path) -> None:
    pictures, out = tmp_path / "pictures", tmp_path / "pictures/runs/tiny"
    draw_pictures(pictures / "train/anna", 4)
    draw_pictures(pictures / "val/ben", 2)
    said = train_on(pictures, out)
    assert "images: 4 of 1 subjects to train, 2 of 1 subjects to validate" in said
    # The picture of the validation lies within the folder, and is none of its images.
    assert (out / "validation.png").exists()
    train_on(pictures, out)
    draw_pictures(pictures / "train/anna", 5)
    with pytest.raises(InputError, match="other images"):
        train_on(pictures, out)


def test_without_validation_and_subjects_a_run_says_so(tmp_path: Path) -> None:
    draw_pictures(tmp_path / "flat/train", 3)
    assert "none to validate" in train_on(tmp_path / "flat", tmp_path / "run")[0]
    draw_pictures(tmp_path / "flat/val", 2)
    assert "a subject of its own" in train_on(tmp_path / "flat", tmp_path / "other")[0]


def test_a_validation_image_of_another_size_is_found_at_once(tmp_path: Path) -> None:
    draw_pictures(tmp_path / "pictures/train", 3)
    draw_pictures(tmp_path / "pictures/val", 1, side=12)
    with pytest.raises(ShapeError, match=r"validation image 0 has shape \(1, 12, 12\)"):
        train_on(tmp_path / "pictures", tmp_path / "run", validate_every=1000)
