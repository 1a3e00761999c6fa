"""What is wrong with scans of several coils, and what the card says of it."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.scans import trust
from PIL import Image

from bcdm.assessment.records import write_records
from bcdm.benchmark.coilsets import open_set
from bcdm.checkpoint import load
from bcdm.operators import Sense

SIDE = 48
pytestmark = pytest.mark.filterwarnings("ignore::bcdm.problems.familiarity.UnfamiliarWarning")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Heads in the layout of IXI, and faces."""
    monkeypatch.setattr(trust, "MASKS", [("equispaced", 4.0), ("poisson", 4.0)])
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    heads = [200.0 * (np.hypot(rows - k, 1.2 * columns) < 17) for k in range(4)]
    for folder in ("brain_ixi_t1", "faces_public_domain"):
        (tmp_path / folder).mkdir()
    np.savez(
        tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz",
        images=np.stack(heads).astype(np.uint8),
        subject=np.array(list("abcd")),
        split=np.array(["test"] * 4),
    )
    packed = []
    for k in range(2):
        stream = io.BytesIO()
        Image.fromarray(np.full((SIDE, SIDE, 3), 90 + k, np.uint8)).save(stream, "JPEG")
        packed.append(np.frombuffer(stream.getvalue(), np.uint8))
    np.savez(tmp_path / "faces_public_domain/faces64.npz", split=np.array(["test", "test"]))
    np.savez(
        tmp_path / "faces_public_domain/faces128_jpeg.npz",
        offsets=np.cumsum([0, *map(len, packed)]),
        blob=np.concatenate(packed),
    )
    return tmp_path


def test_each_defect_changes_one_thing(data: Path) -> None:
    slices = open_set("ixi", data, 2, tuning=False, seed=0)
    (case, other) = trust.undersample(slices)
    right, operator = case.measurement, case.measurement.operator
    assert isinstance(operator, Sense)
    rng = np.random.default_rng(0)
    swapped = trust.swap_coils(right, operator, rng)
    assert not torch.equal(swapped.y, right.y)
    torch.testing.assert_close(swapped.y.sum(1), right.y.sum(1))
    spiked = trust.add_spike(right, operator, rng)
    away = (spiked.y - right.y).abs()
    assert int((away > 0).sum()) == 1
    assert float(away.max()) == pytest.approx(0.05 * SIDE, rel=1e-3)
    # The noise is twice what is stated if half of it is stated.
    assert float(trust.misstate(2.0)(right, operator, rng).std[0]) == pytest.approx(0.01)
    first, second = trust._exchange_maps([case, other])
    assert torch.equal(first.operator.maps, other.measurement.operator.maps)
    assert torch.equal(second.operator.maps, operator.maps)
    assert torch.equal(first.operator.mask, operator.mask)
    assert torch.equal(first.y, right.y)


def test_a_record_for_each_case(
    data: Path, receivers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is of 16x16 pixels: what is drawn as in its training is left to others."""
    spare = trust.undersample(open_set("ixi", data, 2, tuning=False, seed=5))
    monkeypatch.setattr(trust, "simulate", lambda *_: next(spare).measurement)
    records = trust.run(load(receivers), data, "command", right=2, wrong=2, calls=2)
    assert [record.name for record in records] == ["false alarms"] * 2 + ["noticed"] * 6
    assert all(record.case["measurements"] == 2 for record in records)
    assert all(0 <= (record.value or 0) <= 1 for record in records)
    write_records(data / "trust.json", records)
    faces = json.loads((data / "trust.json").read_text())[-1]
    assert faces["case"]["wrong"] == "a face"
