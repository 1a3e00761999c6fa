"""Training with an operator of one's own: an object in Python, or a file."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner
from torch import Tensor

import bcdm
from bcdm.assessment.calibrate import calibrate_model
from bcdm.checkpoint import save_operator
from bcdm.checkpoint.calibration import Calibration
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Dense, MatrixFree, PixelMask
from bcdm.trust.matching import UnfitError

SHAPE = (1, 8, 8)


def project(x: Tensor) -> Tensor:
    return torch.cat([x.sum(-1), x.sum(-2)], -1)


TOMOGRAPH = MatrixFree(project, shape=SHAPE)


def make_tomograph(size: tuple[int, int]) -> MatrixFree:
    assert size == SHAPE[-2:]
    return TOMOGRAPH


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    images = np.random.default_rng(0).random((300, 8, 8), np.float32)
    np.savez(tmp_path / "images.npz", images=images, subject=np.arange(300))
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({
        "name": "own", "data": {"path": str(tmp_path / "images.npz"), "source_range": [0, 1]},
        "operator": {"kind": "identity"}, "noise_std": 0.1,
        "network": {"width": 8, "multipliers": [1], "blocks": 1, "attention": [],
                    "progressive_input": "none", "progressive_output": "none"},
        "training": {"steps": 3, "batch": 4, "checkpoint_every": 2, "validate_every": 3,
                     "validation_images": 2},
    }))  # fmt: skip
    return path


def test_a_function_is_all_that_training_needs(settings: Path, tmp_path: Path) -> None:
    said: list[str] = []
    model = bcdm.train(settings, operator=TOMOGRAPH, out=tmp_path / "run", report=said.append)
    assert said[-1] == f"wrote {tmp_path / 'run/model'}"
    assert model.operator is TOMOGRAPH
    images = torch.rand(2, *SHAPE)
    measurement = Measurement.simulate(images, TOMOGRAPH, model.noise_std, seed=0)
    posterior = bcdm.reconstruct(model, measurement, samples=2, calls=2)
    assert posterior.samples.shape == (2, 2, *SHAPE)

    # A folder does not hold Python code: who loads it brings the operator, and the same one.
    folder = tmp_path / "run/model"
    assert not (folder / "operator.safetensors").exists()
    assert bcdm.load(folder, TOMOGRAPH).operator is TOMOGRAPH
    with pytest.raises(InputError, match="made of Python code, which no file holds"):
        _ = bcdm.load(folder).operator
    with pytest.raises(InputError, match="own was not trained with this operator"):
        bcdm.load(folder, MatrixFree(lambda x: 2 * project(x), shape=SHAPE))
    with pytest.raises(InputError, match="own was not trained with this operator"):
        bcdm.load(folder, MatrixFree(lambda x: project(x.flip(-1)), shape=SHAPE))

    # Loaded without it, what the settings say of it is held to what measures.
    alone = bcdm.load(folder)
    again = bcdm.reconstruct(alone, measurement, samples=2, calls=2)
    assert torch.equal(again.samples, posterior.samples)
    other = Measurement.simulate(images, PixelMask(torch.ones(SHAPE[-2:])), alone.noise_std, seed=0)
    with pytest.raises(UnfitError, match="own is made for one operator, MatrixFree, and the one"):
        bcdm.reconstruct(alone, other, samples=2, calls=2)

    # So does who calibrates it, by an import path.
    plan = {"data": tmp_path, "samples": 9, "calls": 2, "intervals": 10, "typical": 40}
    with pytest.raises(InputError, match="made of Python code"):
        calibrate_model(str(folder), **plan)
    found = calibrate_model(str(folder), operator=f"{__name__}:make_tomograph", **plan)
    stored = Calibration.of(bcdm.load(folder))
    assert stored is not None
    assert stored.to_plain() == found.to_plain()

    # The same call finds it done; with another operator it is another run.
    again = bcdm.train(settings, operator=TOMOGRAPH, out=tmp_path / "run", report=said.append)
    assert again.facts["hashes"] == model.facts["hashes"]
    with pytest.raises(InputError, match="holds a run with other settings"):
        bcdm.train(settings, operator=PixelMask(torch.ones(8, 8)), out=tmp_path / "run")


def test_a_stored_operator_comes_with_the_model(settings: Path, tmp_path: Path) -> None:
    matrix = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    operator = Dense(matrix, SHAPE)
    save_operator(operator, tmp_path / "a.safetensors")
    arguments = ["train", str(settings), "--operator", str(tmp_path / "a.safetensors")]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    model = bcdm.load(tmp_path / "run/model")
    image = torch.rand(1, *SHAPE)
    torch.testing.assert_close(model.operator.forward(image), operator.forward(image))
    assert "kind custom, name Dense, measured [5]" in (tmp_path / "run/model/README.md").read_text()
    done = CliRunner().invoke(cli, ["train", str(settings), "--operator", str(settings)])
    assert done.exit_code != 0
    assert "is not a readable operator file" in str(done.exception or done.output)


def test_an_operator_for_other_images_is_one_line(settings: Path) -> None:
    with pytest.raises(InputError, match=r"batches that end in \(5, 5\)"):
        bcdm.train(settings, operator=PixelMask(torch.ones(5, 5)))
    wrong = MatrixFree(lambda x: x @ torch.ones(5, 5), shape=SHAPE)
    with pytest.raises(InputError, match=r"operator does not take images \(1, 8, 8\): mat1"):
        bcdm.train(settings, operator=wrong)
