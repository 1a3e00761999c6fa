import numpy as np
import pytest
import torch

from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import Sense
from bcdm.problems import DrawnProblems
from bcdm.problems.families import Holes, KSpace
from bcdm.problems.receivers import Receivers, cut_mask

SIZE = (24, 32)
MASKS = KSpace(acceleration=(2.0, 6.0), patterns=("equispaced_columns", "poisson"))


def make_problems(nothing: float = 0.0) -> DrawnProblems:
    family = Receivers(MASKS, (1, 8))
    return DrawnProblems((family,), SIZE, (0.01, 0.1), seed=0, nothing=nothing)


def test_a_batch_measures_as_its_samples_do() -> None:
    """Coils that others have are dark: they change nothing."""
    problems = make_problems()
    x = torch.randn(6, 1, *SIZE, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    operator, std = problems.draw(range(6))
    assert isinstance(operator, Sense)
    both = Measurement.simulate(x, operator, std, seed=1).estimate_linearly(0.5)
    for k in range(6):
        alone, own = problems.draw([k])
        assert float(own[0]) == float(std[k])
        y = operator.forward(x)[k : k + 1, : alone.maps.shape[-3]]
        torch.testing.assert_close(alone.forward(x[k : k + 1]), y)
        torch.testing.assert_close(
            alone.adjoint(y), operator.adjoint(operator.forward(x))[k : k + 1]
        )
    assert both.isfinite().all()


def test_numbers_of_coils_are_drawn_log_uniformly() -> None:
    family = Receivers(MASKS, (1, 15))
    counts = [len(family.draw(SIZE, np.random.default_rng(k)).maps) for k in range(400)]
    assert {min(counts), max(counts)} == {1, 15}
    # One of four octaves.
    assert np.mean(np.array(counts) == 1) == pytest.approx(0.25, abs=0.06)


def test_nothing_is_measured_in_a_fraction_of_the_draws() -> None:
    operator, _ = make_problems(nothing=0.3).draw(range(300))
    empty = ~operator.mask.flatten(1).any(1)
    assert float(empty.float().mean()) == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize("lines", ["columns", "rows", "points"])
def test_partial_fourier_leaves_out_one_end_of_an_axis(lines: str) -> None:
    """At least five eighths and the middle stay, of masks of whole lines across them."""
    size = (24, 32)
    mask = torch.ones(size, dtype=torch.bool)
    if lines == "columns":
        mask[:, 1::2] = False
    if lines == "rows":
        mask[1::2] = False
    shares, ends = set(), set()
    for seed in range(40):
        cut = cut_mask(mask, np.random.default_rng(seed))
        assert not bool((cut & ~mask).any())
        empty = [~cut.any(axis) for axis in (1, 0)]
        gone = [
            int(e.sum()) - int((~mask.any(a)).sum()) for e, a in zip(empty, (1, 0), strict=True)
        ]
        axis = 0 if gone[0] else 1
        assert gone[1 - axis] == 0
        if lines != "points":
            assert axis == ("rows", "columns").index(lines)
        assert bool(cut[12, 16]) == bool(mask[12, 16])
        shares.add(round(8 * gone[axis] * (2 if lines != "points" else 1) / size[axis]))
        ends.add(bool(empty[axis][2]))
    assert shares == {1, 2, 3}
    assert ends == {True, False}


def test_refuses() -> None:
    with pytest.raises(InputError, match="partial is a fraction"):
        Receivers(MASKS, partial=1.5)
    with pytest.raises(InputError, match="coils is a range"):
        Receivers(MASKS, (0, 4))
    with pytest.raises(InputError, match="cannot be mixed"):
        DrawnProblems((Receivers(MASKS), Holes()), SIZE, (0.01, 0.1), seed=0).draw([0])
