"""Methods of azula through the door for others; ours of the same name are the same."""

from pathlib import Path

import pytest
import torch

from bcdm.benchmark.instances import load_instances, make_prior
from bcdm.benchmark.mixture import Contestant, examine
from bcdm.diffusion import VP
from bcdm.methods import MMPS, ExactDenoiser

pytest.importorskip("azula", reason="azula is not installed: make test-azula")
FOLDER = Path(__file__).resolve().parents[2] / "examples/azula"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)


@pytest.mark.parametrize("time", [0.1, 0.5, 0.9])
def test_our_mmps_is_that_of_its_authors(time: float) -> None:
    import azula_methods

    prior, (one, *_) = ExactDenoiser(make_prior(8), VP()), load_instances(8, 4)
    level = VP().level(torch.tensor([time]).double())
    x_t = torch.randn(5, 8, generator=torch.Generator().manual_seed(0)).double()
    ours, theirs = (
        method(prior).condition(one.measurement)(x_t, level)
        for method in (MMPS, azula_methods.MMPS)
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_they_take_the_exam() -> None:
    import azula_methods

    others = [Contestant(name, getattr(azula_methods, name), calls=5) for name in ("MMPS", "TMPD")]
    rows = examine(others, smoke=True, report=lambda _: None)
    assert {"MMPS", "TMPD"} <= {row.case["method"] for row in rows}
