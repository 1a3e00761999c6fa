"""Networks on another device than their data. There is none here: torch's "meta" stands for it."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

import bcdm
from bcdm.checkpoint import Model
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import MMPS, Bayesian
from bcdm.training.train import open_processes


def put_elsewhere(model: Model) -> tuple[Bayesian, list[set[str]]]:
    """The method with its network on "meta", and where what reaches it lies."""
    network = deepcopy(model.method.network).to("meta")
    seen: list[set[str]] = []

    def note(module: nn.Module, given: tuple[object, ...]) -> None:
        seen.append({one.device.type for one in given if isinstance(one, Tensor)})

    network.register_forward_pre_hook(note)
    return replace(model.method, network=network), seen


@pytest.mark.parametrize("name", ["masked", "scanner", "coarse"])
def test_all_that_a_network_is_given_is_where_it_is(
    name: str, images: Tensor, request: pytest.FixtureRequest
) -> None:
    """A tensor left behind would end in an error of its own before the network is reached."""
    model = bcdm.load(request.getfixturevalue(name))
    method, seen = put_elsewhere(model)
    measurement = Measurement.simulate(images, model.operator, 0.05, seed=0)
    denoiser = method.condition(measurement)
    assert denoiser.image.device.type == "cpu"
    level = denoiser.schedule.level(torch.zeros(1, dtype=torch.float64))
    # All is computed there; only that nothing can come back from "meta" ends it.
    with pytest.raises(NotImplementedError, match="meta"):
        denoiser(images, level)
    assert seen == [{"meta"}]


def test_a_guided_method_reaches_its_prior_there(masked_model: Model, images: Tensor) -> None:
    method, seen = put_elsewhere(masked_model)
    measurement = Measurement.simulate(images, masked_model.operator, 0.05, seed=0)
    prior = method.condition(measurement)
    level = prior.schedule.level(torch.zeros(1, dtype=torch.float64))
    with pytest.raises(NotImplementedError, match="meta"):
        MMPS(prior).condition(measurement)(images, level)
    assert seen == [{"meta"}]


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
    for arguments in (
        ["reconstruct", tmp_path / "scan.png", "--model", masked, "-o", tmp_path / "out"],
        ["evaluate", masked],
        ["calibrate", masked],
        ["benchmark", "trust", masked],
        ["benchmark", "calls", masked],
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
    ):
        CliRunner().invoke(cli, [*map(str, arguments), "--device", "cpu"])
    assert asked == ["cpu"] * 4
