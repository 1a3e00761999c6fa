"""The seam: an outcome for every item, the bits of the other doors, bounded memory."""

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr
from torch import Tensor

from bcdm.checkpoint import Model, load
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.usual import Usual
from bcdm.errors import Cancelled, InputError, MachineError
from bcdm.measurement import Measurement
from bcdm.noise import NoiseEstimate
from bcdm.operators import FourierMask, PixelMask
from bcdm.reconstruction import Outcome, Plan, reconstruct, reconstruct_items
from bcdm.reconstruction.drawing import Progress
from bcdm.reconstruction.files import reconstruct_scan
from bcdm.reconstruction.fitting import Fitted, Units
from bcdm.reconstruction.items import Given
from bcdm.reconstruction.provenance import hash_path
from bcdm.scans import Scan

PLAN = Plan(samples=9, calls=2, batch=4, force=True, keep=True)


@pytest.fixture
def measured(masked_model: Model, images: Tensor) -> list[Measurement]:
    whole = Measurement.simulate(images, masked_model.operator, 0.05, seed=1)
    return [whole.select(torch.tensor([k])) for k in range(3)]


def by_id(outcomes: Iterator[Outcome]) -> dict[str, Outcome]:
    return {one.id: one for one in outcomes}


def test_every_item_has_an_outcome(masked_model: Model, measured, images) -> None:
    items = [(f"{k}", one) for k, one in enumerate(measured)]
    found = list(reconstruct_items(masked_model, items, PLAN))
    assert [(one.id, one.status, one.fault) for one in found] == [
        (name, "done", None) for name, _ in items
    ]
    for one in found:
        assert one.samples.shape == (9, 1, 16, 16)
        torch.testing.assert_close(one.mean, one.samples.mean(0))
        torch.testing.assert_close(one.std, one.samples.std(0))
        assert bool((one.low < one.high).all())
        assert one.preview.shape == one.mean.shape
        assert one.light == one.trust.light
    few = next(reconstruct_items(masked_model, items, Plan(samples=9, calls=2, force=True)))
    assert few.samples is None


@pytest.fixture
def odd(scanner: Path) -> Model:
    """A model whose card is red where the scale was taken from the data, and only there."""
    model = load(scanner)
    calibration = Calibration.of(model)
    assert calibration is not None
    easy, hard = (Usual({"residual": [at - 9.0, at, at + 9.0]}, 0.0) for at in (0.0, -90.0))
    told = replace(calibration, usual=easy, taken=hard).to_plain()
    return replace(model, facts=model.facts | {"calibration": told})


@pytest.mark.parametrize("taken", [False, True])
def test_every_door_tells_the_card_how_the_scale_was_found(
    odd: Model, images: Tensor, taken: bool, tmp_path: Path
) -> None:
    measured = Measurement.simulate(images[:1], odd.operator, 0.05, seed=1)
    plan = replace(PLAN, force=False)
    given = Given(measured, taken) if taken else measured
    lights = [
        one.light for one in reconstruct_items(odd, [("a", given), ("b", lambda: given)], plan)
    ]
    posterior = reconstruct(odd, measured, samples=9, calls=2, progress=False, scale_taken=taken)
    lights += [posterior.trust[0].light, posterior.split()[0].trust[0].light]
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=measured.y.numpy())
    scan = Scan(path, "npz", "k-space", measured.y.numpy(), None, None, (16, 16), {})
    noise = NoiseEstimate(0.05, 0.0, "stated", 0)
    fitted = Fitted(scan, odd.operator, noise, Units(taken=taken))
    done = reconstruct_scan(odd, fitted, tmp_path / "out", PLAN, say=print)
    lights.append(done.cards[0].light)
    assert [light == "red" for light in lights] == [taken] * 5


def test_three_doors_give_the_same_bits(masked: Path, measured, images, tmp_path: Path) -> None:
    """Python, seam and command, for the same item, whatever stands beside it."""
    model, path = load(masked), tmp_path / "scan.npz"
    y = torch.cat([one.y for one in measured]).numpy()
    np.savez(path, image=y)
    scan = Scan(path, "npz", "image", y, None, None, (16, 16), {})
    noise, plan = NoiseEstimate(0.05, 0.0, "stated", 0), PLAN
    fitted = Fitted(scan, model.operator, noise, Units())
    reconstruct_scan(model, fitted, tmp_path / "out", plan, say=print)
    stored = np.asarray(zarr.open_array(tmp_path / "out/samples.zarr", mode="r"))
    names = [f"{hash_path(path)}/{k}" for k in range(3)]
    given = [fitted.measure(k) for k in range(3)]
    mixed = [("other", measured[2]), *zip(names, given, strict=True)][::-1]
    found = by_id(reconstruct_items(model, mixed, plan))
    whole = reconstruct(
        model,
        Measurement(torch.from_numpy(y), model.operator, 0.05),
        samples=9,
        calls=2,
        batch=4,
        items=names,
        progress=False,
    )
    for k, name in enumerate(names):
        np.testing.assert_array_equal(found[name].samples.numpy(), stored[k])
        np.testing.assert_array_equal(whole.samples[:, k].numpy(), stored[k])
        torch.testing.assert_close(whole.preview[k], found[name].preview, rtol=1e-5, atol=1e-5)


def test_mixed_masks_and_noise_levels_agree_with_one_by_one(scanner: Path, images) -> None:
    model = load(scanner)
    generator = torch.Generator().manual_seed(0)
    items = []
    for k in range(3):
        operator = FourierMask(torch.rand(16, 16, generator=generator) < 0.6, real=True)
        one = Measurement.simulate(images[k : k + 1], operator, 0.03 * (k + 1), seed=k)
        items.append((f"{k}", one))
    together = by_id(reconstruct_items(model, items, PLAN))
    for name, one in items:
        alone = reconstruct(
            model, one, samples=9, calls=2, items=[name], force=True, progress=False
        )
        away = (together[name].samples - alone.samples[:, 0]).abs().max()
        assert float(away) < 5e-6


def test_a_bad_item_stops_nothing(masked_model: Model, measured, images) -> None:
    def fail() -> Measurement:
        raise KeyError("no such slice")

    def absent() -> Measurement:
        raise FileNotFoundError(errno.ENOENT, "No such file", "scan.h5")

    y = measured[0].y.clone()
    y[0, 0, 0, 0] = torch.nan
    small = Measurement(torch.zeros(1, 1, 8, 8), PixelMask(torch.ones(8, 8)), 0.1)
    other = Measurement(torch.zeros(1, 1, 16, 16), PixelMask(torch.ones(16, 16)), 0.1)
    several = Measurement(torch.cat([measured[0].y] * 2), masked_model.operator, 0.05)
    items = [
        ("first", measured[0]),
        ("nan", lambda: Measurement(y, masked_model.operator, 0.05)),
        ("small", small),
        ("several", several),
        ("code", fail),
        ("absent", absent),
        ("other", other),
        ("last", lambda: measured[1]),
    ]
    outcomes = by_id(reconstruct_items(masked_model, items, PLAN))
    assert list(outcomes) == ["nan", "small", "several", "code", "absent", "first", "other", "last"]
    said = {
        "nan": "non-finite values",
        "small": "is for those of",
        "several": "one measurement, not 2",
        "code": "KeyError: 'no such slice'",
        "absent": "FileNotFoundError: [Errno 2] No such file",
    }
    for name, words in said.items():
        one = outcomes[name]
        assert (one.status, one.fault) == ("failed", "input")
        assert words in one.reason
        assert one.mean is None
        assert one.light is None
    assert {outcomes[name].status for name in ("first", "other", "last")} == {"done"}
    assert outcomes["other"].light == "red"  # forced
    alone = next(reconstruct_items(masked_model, items[:1], PLAN))
    assert torch.equal(outcomes["first"].samples, alone.samples)


def test_what_the_model_was_not_made_for_is_refused(masked_model: Model, measured, images) -> None:
    other = Measurement(torch.zeros(1, 1, 16, 16), PixelMask(torch.ones(16, 16)), 0.1)
    wrong = Measurement(measured[0].y + 40, masked_model.operator, 0.05)
    plan = Plan(samples=9, calls=2)
    calls: list[Progress] = []
    items = [("operator", other), ("data", wrong)]
    operator, data = reconstruct_items(masked_model, items, plan, calls.append)
    assert (operator.status, operator.fault, operator.trust) == ("refused", "input", None)
    assert "made for one operator" in operator.reason
    # Nothing was drawn for it.
    assert {one.items for one in calls} == {("data",)}
    assert (data.status, data.fault, data.light, data.mean) == ("refused", "input", "red", None)


def test_values_that_are_not_finite_are_the_models_fault(masked: Path, measured) -> None:
    model = load(masked)
    with torch.no_grad():
        next(iter(model.method.network.parameters())).fill_(torch.nan)
    (found,) = reconstruct_items(model, [("a", measured[0])], PLAN)
    assert (found.status, found.fault) == ("failed", "model")
    assert "not finite" in found.reason


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.ENOSPC, "No space left on device")], ids=["RAM", "disk"]
)
def test_a_fault_of_the_machine_is_raised(masked_model: Model, measured, error) -> None:
    def fail() -> Measurement:
        raise error

    with pytest.raises(MachineError) as raised:
        list(reconstruct_items(masked_model, [("a", fail), ("b", measured[0])], PLAN))
    assert raised.value.fault == "machine"


def test_items_are_taken_as_they_are_needed(masked_model: Model, measured) -> None:
    """An archive does not fit into memory: of what was taken, little is not given yet."""
    taken, waiting = 0, []

    def stream() -> Iterator[tuple[str, Measurement]]:
        nonlocal taken
        for k in range(12):
            taken += 1
            yield f"{k}", measured[k % 3]

    plan = Plan(samples=9, calls=1, batch=16, force=True)
    for given, _ in enumerate(reconstruct_items(masked_model, stream(), plan)):
        waiting.append(taken - given)
    assert given == 11
    assert max(waiting) <= 3


def test_a_run_can_be_stopped(masked_model: Model, measured) -> None:
    given: list[Outcome] = []

    def stop(progress: Progress) -> None:
        if given:
            raise Cancelled

    items = [(f"{k}", one) for k, one in enumerate(measured)]

    def run() -> None:
        for one in reconstruct_items(masked_model, items, PLAN, stop):
            given.append(one)

    with pytest.raises(Cancelled):
        run()
    assert [one.id for one in given] == ["0"]


def test_a_plan_says_what_it_needs() -> None:
    with pytest.raises(InputError, match="need 9 samples or more"):
        Plan(samples=8)
    with pytest.raises(InputError, match="batch must be 1 or more, got 0"):
        Plan(batch=0)
    assert Plan().to_plain() == {
        "samples": 16, "calls": 20, "churn": 1.0, "seed": 0, "batch": 8,
        "noise": "by seed, item and sample",
    }  # fmt: skip
