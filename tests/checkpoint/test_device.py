"""Networks on another device than their data; torch's "meta" stands for one here."""

from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import bcdm
import bcdm.measurement as measurement_module
from bcdm.checkpoint import Model
from bcdm.commands import cli
from bcdm.conditioning import Conditioning
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import Bayesian
from bcdm.operators import PixelMask
from bcdm.training.train import open_processes


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where all that is computed with lies: the network is on "meta", which computes nothing."""
    seen: list[str] = []

    def note(self: Bayesian, conditioning: Conditioning, x_t: Tensor) -> Tensor:
        measurement = conditioning.measurement
        given = [x_t, measurement.y, *measurement.operator.tensors().values()]
        seen.extend(one.device.type for one in given)
        return torch.zeros(x_t.shape)

    monkeypatch.setattr(Bayesian, "device", torch.device("meta"))
    monkeypatch.setattr(Bayesian, "estimate", note)
    # Nobody can look whether data on "meta" are numbers.
    monkeypatch.setattr(measurement_module, "_check_data", lambda y, operator: y)
    return seen


def measure(images: Tensor) -> Measurement:
    return Measurement.simulate(images, PixelMask(torch.ones(16, 16)), 0.05, seed=0)


def test_all_is_brought_to_the_network_and_back(
    masked_model: Model, images: Tensor, elsewhere: list[str]
) -> None:
    denoiser = masked_model.method.condition(measure(images))
    assert denoiser.image.device.type == "cpu"
    level = denoiser.schedule.level(torch.zeros(1, dtype=torch.float64))
    assert denoiser(images, level).device.type == "cpu"
    assert elsewhere == ["meta"] * 3


def test_the_processor_by_its_name_is_what_is_taken_without(
    masked_model: Model, images: Tensor
) -> None:
    measurement = Measurement.simulate(images, masked_model.operator, 0.05, seed=0)
    one, two = (
        bcdm.reconstruct(masked_model, measurement, samples=2, calls=2, progress=False, **more)
        for more in ({}, {"device": torch.device("cpu")})
    )
    assert torch.equal(one.samples, two.samples)
    with pytest.raises(InputError, match="is no device"):
        bcdm.reconstruct(masked_model, measurement, device="elsewhere")
    with pytest.raises(InputError, match="device is for trained models"):
        bcdm.reconstruct(masked_model.method, measurement, device="cpu")
    with open_processes("cpu") as processes:
        assert processes.device == torch.device("cpu")


def test_an_unknown_device_is_one_line(masked: Path, tmp_path: Path) -> None:
    (tmp_path / "scan.png").touch()
    comparison = tmp_path / "comparison.yaml"
    case = '{operator: "{kind: centre_box, box: [4, 4]}", noise_std: [0.05]}'
    comparison.write_text(f"model: {masked}\ncases: {{box: {case}}}\n")
    for arguments in (
        ["reconstruct", tmp_path / "scan.png", "--model", masked, "-o", tmp_path / "out"],
        ["evaluate", masked],
        ["calibrate", masked],
        ["benchmark", "trust", masked],
        ["benchmark", "calls", masked],
        ["benchmark", "lesions", masked],
        ["benchmark", "patterns", masked],
        ["benchmark", "scans", "--model", masked],
        ["benchmark", "family", comparison, "--work", tmp_path / "work"],
        ["demo", "--out", tmp_path / "demo", "--no-open"],
    ):
        done = CliRunner().invoke(cli, [*map(str, arguments), "--device", "elsewhere"])
        assert isinstance(done.exception, InputError), (arguments, done.output, done.exception)
        assert "'elsewhere' is no device: choose among ['cpu'" in str(done.exception)
    with pytest.raises(InputError, match="is no device"), open_processes("elsewhere"):
        pass


def test_the_option_reaches_the_model(
    masked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    whole = Model.to

    def note(self: Model, device: str) -> Model:
        asked.append(device)
        return whole(self, device)

    monkeypatch.setattr(Model, "to", note)
    for arguments in (
        ["reconstruct", tmp_path / "none.png", "--model", masked, "-o", tmp_path / "out"],
        ["evaluate", masked, "--data", tmp_path],
        ["calibrate", masked, "--data", tmp_path],
        ["benchmark", "trust", masked, "--data", tmp_path],
        ["benchmark", "lesions", masked, "--data", tmp_path],
        ["benchmark", "patterns", masked, "--data", tmp_path],
        ["benchmark", "scans", "--model", masked, "--data", tmp_path],
    ):
        CliRunner().invoke(cli, [*map(str, arguments), "--device", "cpu"])
    assert asked == ["cpu"] * 7


def test_every_command_that_runs_a_network_has_the_option() -> None:
    """But for exams of what networks cost beside the processor, and those that run none."""
    without = {"mixture", "moments", "learned", "overhead", "service", "archive", "noise", "masks"}
    group = cli.commands["benchmark"]
    assert isinstance(group, click.Group)
    commands = {name: one for name, one in group.commands.items() if name not in without}
    named = ("reconstruct", "verify", "demo", "train", "specialise", "evaluate", "calibrate")
    commands |= {name: cli.commands[name] for name in (*named, "study", "serve")}
    for name, command in commands.items():
        assert "device" in {one.name for one in command.params}, name
