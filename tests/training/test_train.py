"""The loop by what the optimiser is given: learning rates, gradients, averages."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bcdm.checkpoint.settings import parse_config
from bcdm.data import ArrayFile
from bcdm.training.train import Processes, Trainer

RATE = 2e-3
Make = Callable[..., Trainer]


@pytest.fixture
def make_trainer(tmp_path: Path) -> Make:
    images = np.random.default_rng(0).integers(0, 255, (16, 8, 8), np.uint8)
    np.save(tmp_path / "images.npy", images)

    def make(dropout: float = 0.0, **training: object) -> Trainer:
        config = parse_config({
            "name": "tiny",
            "data": {"path": str(tmp_path / "images.npy"), "channels": 1},
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


def test_dropout_is_a_function_of_seed_and_step(make_trainer: Make) -> None:
    """The same whatever was drawn before, and another in each step and for each seed."""
    torch.manual_seed(1)
    one = watch(make_trainer(dropout=0.5, steps=2))
    torch.manual_seed(2)
    before = torch.get_rng_state()
    same = watch(make_trainer(dropout=0.5, steps=2))
    assert torch.equal(torch.get_rng_state(), before)
    for (_, a), (_, b) in zip(one, same, strict=True):
        assert torch.equal(a, b)
