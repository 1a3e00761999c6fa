"""Tests of ranks hold for exact samples, and say in which way others are wrong."""

import pytest
import torch

from bcdm.assessment.checks import Check, check_ranks

SHAPE = (1, 8, 8)
CASES, COUNT = 60, 20


def check(noise: float, seed: int = 0) -> dict[str, Check]:
    """Truths and samples are smooth images of one law, but for white noise on the samples."""
    seeded = torch.Generator().manual_seed(seed)
    coarse = torch.randn(COUNT + 1, CASES, 1, 4, 4, generator=seeded)
    fine = 0.1 * torch.randn(COUNT + 1, CASES, *SHAPE, generator=seeded)
    whole = coarse.repeat_interleave(2, -1).repeat_interleave(2, -2) + fine
    more = noise * torch.randn(COUNT, CASES, *SHAPE, generator=seeded)
    found = check_ranks(whole[1:] + more, whole[0], torch.zeros(CASES, *SHAPE), seed=0)
    return {one.name: one for one in found}


def test_exact_samples_pass() -> None:
    found = check(0.0)
    tarp, half = found["TARP distance from diagonal"], found["TARP 95 % half width"]
    assert tarp.value <= half.value
    assert tarp.says.startswith("within its band")
    for name in ("a random projection", "roughness"):
        assert found[f"rank test of {name}, p"].says.startswith("nothing against the samples")


@pytest.mark.parametrize("name", ["a random projection", "roughness"])
def test_exact_samples_fail_as_rarely_as_stated(name: str) -> None:
    """Of 60 sets 6 are expected below .1; more than 13 come in 1 of 500 such trials."""
    alarms = [check(0.0, seed)[f"rank test of {name}, p"].value < 0.1 for seed in range(60)]
    assert 1 <= sum(alarms) <= 13


def test_noise_on_the_samples_is_noticed_and_named() -> None:
    found = check(1.0)
    tarp = found["TARP distance from diagonal"]
    assert tarp.value > 2 * found["TARP 95 % half width"].value
    assert "nearer to the linear estimate" in tarp.says
    rough = found["rank test of roughness, p"]
    assert rough.value == pytest.approx(0, abs=1e-6)
    assert rough.says.startswith("it speaks against the samples: ")
    assert int(rough.says.split(": ")[1].split()[0]) > CASES / 2
    assert "truths are smoother than all samples, 0 rougher than all" in rough.says
