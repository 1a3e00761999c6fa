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
    tarp, band = found["TARP distance from diagonal"], found["TARP 95 % band"]
    assert tarp.value <= band.value
    assert tarp.says.startswith("within its band")
    for name in ("a random projection", "roughness"):
        assert found[f"rank test of {name}, p"].says.startswith("nothing against the samples")


@pytest.mark.parametrize("name", ["a random projection", "roughness"])
def test_exact_samples_fail_as_rarely_as_stated(name: str) -> None:
    """Of 60 sets 6 are expected below .1; more than 13 come in 1 of 500 such trials."""
    alarms = [check(0.0, seed)[f"rank test of {name}, p"].value < 0.1 for seed in range(60)]
    assert 1 <= sum(alarms) <= 13


def test_tarp_fails_as_rarely_as_stated() -> None:
    """Of 60 sets 3 are expected; more than 9 come in 1 of 700 such trials."""
    alarms = [
        "off by more" in check(0.0, seed)["TARP distance from diagonal"].says for seed in range(60)
    ]
    assert sum(alarms) <= 9


def test_few_subjects_do_not_accuse_right_samples() -> None:
    """Of 60 sets of six subjects 3 are expected at most; one subject tells nothing."""
    alarms = 0
    for seed in range(60):
        seeded = torch.Generator().manual_seed(seed)
        samples, truth = (
            torch.randn(*first, 24, *SHAPE, generator=seeded) for first in ((COUNT,), ())
        )
        names = [str(k // 4) for k in range(24)]
        found = check_ranks(samples, truth, torch.zeros_like(truth), seed, names)
        alarms += "off by more" in found[0].says
    assert alarms <= 9
    alone = check_ranks(samples, truth, torch.zeros_like(truth), 0, ["one"] * 24)
    assert alone[0].says.startswith("not judged")


def test_images_of_one_subject_count_once() -> None:
    """Copies of the same cases say nothing new: neither the band nor p gets smaller."""
    seeded = torch.Generator().manual_seed(0)
    samples = torch.randn(COUNT, 12, *SHAPE, generator=seeded)
    truth = torch.randn(12, *SHAPE, generator=seeded)
    linear = torch.zeros_like(truth)
    names = [f"subject {k}" for k in range(12)]
    alone = check_ranks(samples, truth, linear, 0, names)
    copies = [torch.cat([part] * 10, -4) for part in (samples, truth, linear)]
    together, apart = (check_ranks(*copies, 0, who) for who in (names * 10, None))
    bands = [
        {one.name: one.value for one in found}["TARP 95 % band"]
        for found in (alone, together, apart)
    ]
    assert bands[1] == pytest.approx(bands[0], rel=0.4)
    assert bands[2] < 0.5 * bands[0]
    assert "of 12 truths" in together[-1].says
    assert "of 120 truths" in apart[-1].says


def test_noise_on_the_samples_is_noticed_and_named() -> None:
    found = check(1.0)
    tarp = found["TARP distance from diagonal"]
    assert tarp.value > 2 * found["TARP 95 % band"].value
    assert "nearer to the linear estimate" in tarp.says
    rough = found["rank test of roughness, p"]
    assert rough.value == pytest.approx(0, abs=1e-6)
    assert rough.says.startswith("it speaks against the samples: ")
    assert int(rough.says.split(": ")[1].split()[0]) > CASES / 2
    assert "truths are smoother than all samples, 0 rougher than all" in rough.says
