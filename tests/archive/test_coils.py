"""An archive of scans of several coils and sizes: what `bcdm reconstruct` gives of each."""

from pathlib import Path

import numpy as np
import pytest
from tests.archive.cases import open_job
from tests.commands.test_coils import make_kspace, make_mask

from bcdm.archive.job import Job
from bcdm.archive.markers import list_markers
from bcdm.archive.store import open_group, read_lines
from bcdm.archive.verification import verify
from bcdm.checkpoint import load
from bcdm.errors import InputError
from bcdm.reconstruction.features import crop_middle, judge_stored, parse_feature
from bcdm.reconstruction.files import reconstruct_scan
from bcdm.reconstruction.fitting import fit_scan
from bcdm.reconstruction.items import Plan
from bcdm.scans import read_scan

pytestmark = pytest.mark.filterwarnings("ignore::bcdm.problems.familiarity.UnfamiliarWarning")
SIZES = {"a": (20, 18), "b": (32, 24), "c": (48, 20)}
PLAN = {"samples": 9, "calls": 2, "batch": 9, "force": True}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Scans whose coils are not equally noisy; the model is for sides up to 40."""
    (tmp_path / "scans").mkdir()
    for name, size in SIZES.items():
        noise = np.random.default_rng(5).standard_normal((2, 3, *size))
        louder = np.array([0, 6, 12])[:, None, None] * (noise[0] + 1j * noise[1])
        kspace = (make_kspace(size=size)[0] + louder) * make_mask(size)
        np.savez(tmp_path / "scans" / f"{name}.npz", kspace=kspace.astype(np.complex64))
    return tmp_path / "scans"


def test_units_sizes_and_samples(folder: Path, receivers: Path, tmp_path: Path) -> None:
    job = Job(str(folder), str(tmp_path / "out"), str(receivers), shard=9, keep=True, **PLAN)
    unit, model = open_job(job), load(receivers)
    finished = unit.run(0)
    assert finished.counts is not None
    assert finished.counts.status == {"done": 2, "failed": 1}
    marker = next(list_markers(unit.place, 1, unit.head.id))
    group = open_group(unit.place, marker.stem)
    lines = list(read_lines(unit.place, marker.stem))
    assert "holds up to 40x40" in lines[2]["reason"]
    assert group["mean"].shape[1:] == (1, 40, 40)
    for row, name in enumerate("ab"):
        fitted = fit_scan(read_scan(folder / f"{name}.npz"), model)
        assert fitted.weights is not None
        assert fitted.weights.max() > 1.2 * fitted.weights.min()
        out = tmp_path / name
        done = reconstruct_scan(model, fitted, out, Plan(**PLAN), say=print)
        with np.load(out / f"{name}_results.npz") as whole:
            for key in ("mean", "std", "low", "high"):
                stored = np.asarray(group[key][row])
                own = crop_middle(stored, SIZES[name])
                np.testing.assert_allclose(own, whole[key].reshape(own.shape), rtol=1e-3, atol=1e-2)
                assert np.isnan(stored).sum() == 1600 - own.size
        shown = fitted.to_file(done.posteriors[0].samples[:, 0].abs(), 0)
        own = crop_middle(np.asarray(group["samples"][row]), SIZES[name])
        np.testing.assert_allclose(own, shown, rtol=1e-3, atol=1e-2)
        checks = {one.name for one in done.cards[0].checks}
        assert "pixel spacing" in checks
    found = list(verify(job.out, draw=2, report=print))
    assert all(one.right for one in found)
    assert sum(one.name.startswith("item ") for one in found) == 2


def test_features_are_the_same_later(folder: Path, receivers: Path, tmp_path: Path) -> None:
    model = load(receivers)
    fitted = fit_scan(read_scan(folder / "a.npz"), model)
    box = parse_feature("8:12,8:12", 1, fitted.scan.size)
    done = reconstruct_scan(model, fitted, tmp_path, Plan(**PLAN), features=[box], say=print)
    (stored,) = judge_stored(tmp_path, ["8:12,8:12"])
    for key in ("contrast", "contrast low", "contrast high"):
        assert stored[key] == pytest.approx(done.features[0][key], rel=1e-4)
    kept = tmp_path / "measurement.npz"
    kept.write_bytes(kept.read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read: reconstruct it anew"):
        judge_stored(tmp_path, ["8:12,8:12"])
