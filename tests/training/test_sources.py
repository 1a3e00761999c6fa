"""Images of several sizes and strips of them in one run, which goes on to the bit."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.checkpoint.settings import RunConfig, load_config, parse_config
from bcdm.data import open_images
from bcdm.diffusion import posterior_mean
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.training.sources import Turns, open_source
from bcdm.training.train import Processes, Trainer
from bcdm.training.validation import validate

SETTINGS = """
name: sizes
data: {path: small.npz, channels: 1, value_range: [0.0, 1.0], phase: true}
operator:
  kind: family
  nothing: 0.1
  members:
    - kind: receivers
      coils: [1, 2]
      masks: {kind: k_space, acceleration: [2.0, 3.0], patterns: [poisson]}
noise_std: [0.01, 0.1]
network: {width: 4, multipliers: [1, 1], blocks: 1, attention: [], bottleneck_attention: false,
          progressive_input: none, progressive_output: none}
parameterisation: {prior_std: 0.3, probes: true}
training: {steps: 7, batch: 2, warmup: 0, checkpoint_every: 2, log_every: 1}
sources:
  - data: {path: large.npz, channels: 1, value_range: [0.0, 1.0], phase: true}
    batch: 1
    share: 2
  - data: {path: large.npz, channels: 1, value_range: [0.0, 1.0], phase: true}
    batch: 3
    strip: 4
    operator:
      kind: family
      members:
        - kind: receivers
          coils: [1, 2]
          masks: {kind: k_space, acceleration: [2.0, 3.0], patterns: [equispaced_columns]}
"""


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    rng = np.random.default_rng(0)
    for name, size in (("small", (12, 12)), ("large", (20, 18))):
        images = rng.integers(0, 255, (10, *size), np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, subject=[f"s{k}" for k in range(10)])
    (tmp_path / "sizes.yaml").write_text(SETTINGS)
    return load_config(tmp_path / "sizes.yaml")


def make_trainer(config: RunConfig, folder: Path, data: Path) -> Trainer:
    images = open_images(data / "small.npz")
    return Trainer(config, images, None, folder, Processes(), data=data)


def test_each_source_has_its_turns_in_order() -> None:
    turns = Turns((1, 2, 1))
    found = [turns.find(step) for step in range(40)]
    for source, share in enumerate((1, 2, 1)):
        own = [turn for number, turn in found if number == source]
        assert own == list(range(10 * share))
    # Both turns of the second are not in a row.
    assert [number for number, _ in found[:4]] in ([1, 0, 2, 1], [1, 2, 0, 1])


def test_sizes_take_turns_and_a_run_goes_on_to_the_bit(config: RunConfig, tmp_path: Path) -> None:
    whole = make_trainer(config, tmp_path / "whole", tmp_path)
    seen = []
    advance = whole.advance

    def look(model, images, counters, part):
        seen.append((part, tuple(images.shape)))
        return advance(model, images, counters, part)

    whole.advance = look
    assert whole.run()
    assert dict(seen) == {
        0: (2, 1, 12, 12),
        1: (1, 1, 20, 18),
        2: (3, 1, 20, 18),
    }
    cut = make_trainer(config, tmp_path / "cut", tmp_path)
    go = cut.advance

    def stop(model, images, counters, part):
        if cut.state.step == 5:
            raise KeyboardInterrupt
        return go(model, images, counters, part)

    cut.advance = stop
    with pytest.raises(KeyboardInterrupt):
        cut.run()
    again = make_trainer(config, tmp_path / "cut", tmp_path)
    assert again.run()
    for one, other in zip(
        whole.state.network.parameters(), again.state.network.parameters(), strict=True
    ):
        assert torch.equal(one, other)


def test_a_network_without_attention_serves_other_sizes(config: RunConfig, tmp_path: Path) -> None:
    method = make_trainer(config, tmp_path / "run", tmp_path).objective.method
    for size in ((23, 17), (9, 40)):
        maps = draw_birdcage(size, 3, rng=np.random.default_rng(0))
        mask = torch.ones(size, dtype=torch.bool)
        mask[:, 1::2] = False
        x = torch.ones(1, 1, *size, dtype=torch.complex64)
        measurement = Measurement.simulate(x, Sense(maps, mask), 0.01, seed=0)
        mean = posterior_mean(method.condition(measurement), count=2)
        assert mean.shape == (2, 1, *size)
        # An untrained network gives what is linear, which here is nearly all.
        assert float((mean - x).abs().mean()) < 0.1


def test_data_may_be_cut_and_is_validated_whole(config: RunConfig, tmp_path: Path) -> None:
    stored = config.model_dump(mode="json") | {"sources": [], "strip": 4}
    stored["operator"] = config.sources[1].model_dump(mode="json")["operator"]
    trainer = make_trainer(parse_config(stored), tmp_path / "run", tmp_path)
    batch = trainer.make_batches(0).batch(0)
    sizes = []
    trainer.objective.network.register_forward_pre_hook(
        lambda _, given: sizes.append(tuple(given[0].shape[-2:]))
    )
    trainer.objective(batch.images, batch.counters)
    network = trainer.state.average.module
    network.register_forward_pre_hook(lambda _, given: sizes.append(tuple(given[0].shape[-2:])))
    validate(trainer.objective, network, batch.images, tmp_path, (0.0, 1.0))
    assert sizes[0] == (4, 12)
    assert set(sizes[1:]) == {(12, 12)}


def test_settings_hold_sources_where_there_are_some(config: RunConfig) -> None:
    stored = config.model_dump(mode="json")
    assert parse_config(stored) == config
    plain = {name: value for name, value in stored.items() if name != "sources"}
    assert "sources" not in parse_config(plain).model_dump(mode="json")


def test_sources_are_of_the_same_kind(config: RunConfig, tmp_path: Path) -> None:
    stored = config.model_dump(mode="json")
    stored["sources"][0]["data"]["value_range"] = [0.0, 2.0]
    with pytest.raises(InputError, match=r"sources.0.data.value_range is another"):
        open_source(parse_config(stored), 0, tmp_path, rank=0, world_size=1)
