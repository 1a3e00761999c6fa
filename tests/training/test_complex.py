"""Complex images and several coils, from settings through training to samples."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import bcdm
from bcdm.checkpoint.settings import RunConfig
from bcdm.data import open_images
from bcdm.diffusion import DPMSolver, sample
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.training.train import Processes, Trainer
from bcdm.trust import find_unfamiliar

SETTINGS = """
name: coils
data: {path: PATH, channels: 1, value_range: [0.0, 1.0], flip: true, contrast: 0.5, turn: 20,
       zoom: 0.1, phase: true}
operator:
  kind: family
  nothing: 0.2
  members:
    - kind: receivers
      masks: {kind: k_space, acceleration: [2.0, 4.0], patterns: [equispaced_columns, poisson]}
      coils: [1, 4]
noise_std: [0.01, 0.1]
network: {width: 8, multipliers: [1, 2], blocks: 1, attention: [], progressive_input: none,
          progressive_output: none}
parameterisation: {statistic: wiener, output: residual, prior_std: 0.3, probes: true}
training: {steps: 40, batch: 8, learning_rate: 0.01, warmup: 0, seed: 0, validate_every: 20,
           checkpoint_every: 20, log_every: 1, validation_images: 4}
"""


def write_discs(path: Path, count: int = 40, side: int = 16) -> None:
    rng = np.random.default_rng(0)
    row, column = np.mgrid[:side, :side]
    discs = []
    for _ in range(count):
        place, radius = rng.uniform(6, 10, 2), rng.uniform(3, 5)
        inside = np.hypot(row - place[0], column - place[1]) < radius
        discs.append(np.where(inside, rng.integers(120, 255), 0))
    names = np.array([f"disc {k}" for k in range(count)])
    np.savez(path, images=np.stack(discs).astype(np.uint8), subject=names)


def test_from_settings_to_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_discs(tmp_path / "discs.npz")
    (tmp_path / "coils.yaml").write_text(SETTINGS.replace("PATH", str(tmp_path / "discs.npz")))
    model = bcdm.train("coils.yaml")
    log = (tmp_path / "runs/coils/log.jsonl").read_text()
    assert any("psnr" in json.loads(line) for line in log.splitlines())
    before, after = (find_loss(model.config, Path(folder)) for folder in ("empty", "runs/coils"))
    # The first network gives zero: its loss is that of the linear estimate.
    assert after < 0.95 * before
    disc = torch.from_numpy(np.load("discs.npz")["images"][:1, None]).to(torch.complex64) / 255
    maps = draw_birdcage((16, 16), 3, rng=np.random.default_rng(1))
    mask = torch.zeros(16, 16, dtype=torch.bool)
    mask[:, ::2] = True
    measurement = Measurement.simulate(disc, Sense(maps, mask), 0.02, seed=0)
    drawn = sample(model.method.condition(measurement), DPMSolver(), steps=10, indices=range(2))
    assert drawn.dtype == torch.complex64
    assert drawn.shape == (2, 1, 16, 16)
    # The data fix most of the image: samples are near it although the network is hardly trained.
    assert float((drawn - disc).abs().square().mean().sqrt()) < 0.1
    # Nothing measured is a tenth of training: the same network is a prior of complex images.
    free = sample(model.prior, DPMSolver(), steps=5, indices=range(2))
    assert free.dtype == torch.complex64
    assert bool(free.isfinite().all())


def find_loss(config: RunConfig, folder: Path) -> float:
    """That of the last checkpoint in a folder, or of the first network, on the first batches."""
    trainer = Trainer(config, open_images("discs.npz"), None, folder, Processes())
    trainer.checkpoints.restore_latest(trainer.state)
    batches = trainer.make_batches(0)
    with torch.no_grad():
        losses = [trainer.objective(*batches.batch(number)).mean() for number in range(4)]
    return float(torch.stack(losses).mean())


def test_an_operator_of_complex_images_trains_too(tmp_path: Path) -> None:
    write_discs(tmp_path / "discs.npz")
    settings = SETTINGS.replace("PATH", str(tmp_path / "discs.npz"))
    for old, new in (("steps: 40", "steps: 2"), ("[0.01, 0.1]", "0.05")):
        settings = settings.replace(old, new)
    (tmp_path / "own.yaml").write_text(settings)
    maps = draw_birdcage((16, 16), 3, rng=np.random.default_rng(0))
    mask = (torch.arange(16) % 2 == 0).expand(16, 16)
    operator = Sense(maps, mask)
    model = bcdm.train(tmp_path / "own.yaml", operator=operator, out=tmp_path / "run")
    found = model.config.operator
    assert (found.kind, found.name, found.measured) == ("custom", "Sense", (3, 16, 16))
    assert bcdm.load(tmp_path / "run/model").operator.maps.shape == maps.shape

    disc = np.load(tmp_path / "discs.npz")["images"][:1, None] / 255
    image = torch.from_numpy(disc).to(torch.complex64)
    measurement = Measurement.simulate(image, operator, 0.05, seed=0)
    assert find_unfamiliar(model, measurement) == [""]
    posterior = bcdm.reconstruct(model, measurement, samples=2, calls=2)
    assert posterior.samples.dtype == torch.complex64

    # Only complex images tell these two apart.
    turned = Sense(maps * torch.exp(torch.tensor(0.5j)), mask)
    other = Measurement.simulate(image, turned, 0.05, seed=0)
    assert "measures something else" in find_unfamiliar(model, other)[0]
