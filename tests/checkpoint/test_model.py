"""What a model says of measurements that it was not trained for."""

import warnings

import pytest
import torch

from bcdm.checkpoint import Model
from bcdm.checkpoint.building import build_method, build_preparation
from bcdm.checkpoint.settings import parse_config
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Identity, PixelMask
from bcdm.problems.familiarity import UnfamiliarWarning


@pytest.fixture(scope="module")
def family() -> Model:
    config = parse_config(
        {
            "name": "tiny",
            "data": {"path": "images", "channels": 1, "source_range": [0, 255]},
            "operator": {"kind": "family", "members": [{"kind": "holes", "hidden": [0.2, 0.6]}]},
            "noise_std": [0.01, 0.1],
            "network": {"width": 8, "multipliers": [1, 2], "attention": []},
            "training": {"steps": 1},
        }
    )
    method = build_method(config, (1, 16, 16))
    return Model(method, config, None, build_preparation(config.data), (1, 16, 16), {})


def measure(hidden: int, std: float) -> Measurement:
    mask = torch.ones(16, 16, dtype=torch.bool)
    mask[:hidden, :] = False
    return Measurement(torch.zeros(2, 1, 16, 16), PixelMask(mask), std)


def test_the_denoiser_carries_the_verdict_of_the_family(family: Model) -> None:
    strange = measure(6, 5.0)
    with pytest.warns(UnfamiliarWarning, match="noise_std"):
        denoiser = family.condition(strange)
    assert len(denoiser.unfamiliar) == 2
    assert all("noise_std" in reason for reason in denoiser.unfamiliar)
    # Warnings may be switched off, by anybody in the process; the verdict stays.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert family.condition(strange).unfamiliar == denoiser.unfamiliar
    assert [verdict.familiar for verdict in family.judge(strange)] == [False, False]


def test_the_family_s_own_measurements_are_familiar(family: Model) -> None:
    judge = family.familiarity
    assert judge is not None
    operator, std = judge.problems.draw(range(2))
    own = Measurement(torch.zeros(2, 1, 16, 16), operator, std)
    assert family.condition(own).unfamiliar == ("", "")


def test_nobody_judges_for_a_single_operator(family: Model) -> None:
    measurement = Measurement(torch.zeros(1, 1, 16, 16), Identity(), 0.1)
    assert family.method.condition(measurement).unfamiliar == ()


def test_objects_are_shown_in_a_line(family: Model) -> None:
    assert repr(family).startswith("Model('tiny': 1x16x16, holes, 0.0")
    assert len(repr(family)) < 100
    assert repr(measure(6, 0.05)) == "Measurement(y (2, 1, 16, 16) by PixelMask, noise_std 0.05)"
    assert len(repr(family.method.condition(measure(6, 0.05)))) < 500


def test_a_model_on_its_own_device_is_itself(family: Model) -> None:
    assert family.device == torch.device("cpu")
    assert family.to("cpu") is family
    with pytest.raises(InputError, match="is no device"):
        family.to("elsewhere")
