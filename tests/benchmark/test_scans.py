import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from experiments.scans import coverage

import bcdm
from bcdm.assessment.records import Record
from bcdm.benchmark.coilsets import Case, Slice, draw_mask, find_object, open_set
from bcdm.benchmark.contestants import list_sampled
from bcdm.benchmark.discscans import choose_slices, scan
from bcdm.benchmark.scans import Exam, judge, run
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import CONTROL
from bcdm.operators import Sense
from bcdm.problems.familiarity import UnfamiliarWarning

SIDE = 48
REAL = Path(os.environ.get("BCDM_DATA", "")) / "pulseq_brain_16coil_full"
CLASSICAL = ("root sum of squares", "CG-SENSE", "l1-wavelet")
SETTINGS = """
name: tiny
data: {path: brain_ixi_t1/ixi_t1_axial128.npz, channels: 1, value_range: [0.0, 1.0], phase: true}
operator:
  kind: family
  nothing: 0.2
  members: [{kind: receivers, masks: {kind: k_space, acceleration: [2.0, 4.0]}, coils: [1, 4]}]
noise_std: [0.01, 0.1]
network: {width: 4, multipliers: [1], blocks: 1, attention: [], progressive_input: none,
          progressive_output: none}
parameterisation: {prior_std: 0.15, probes: true}
training: {steps: 1, batch: 2, warmup: 0, validate_every: 9, checkpoint_every: 9}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Heads of a few subjects in the layout of IXI."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    heads = [
        200.0 * (np.hypot(rows, 1.2 * columns) < 17) + 50 * (np.hypot(rows - k, columns) < 6)
        for k in range(6)
    ]
    (tmp_path / "brain_ixi_t1").mkdir()
    np.savez(
        tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz",
        images=np.stack(heads).astype(np.uint8),
        subject=np.array([f"s{k}" for k in range(6)]),
        split=np.array(["train", "train", "val", "test", "test", "test"]),
    )
    return tmp_path


def make_exam(**changes: object) -> Exam:
    given = {"sets": ("ixi",), "patterns": ("equispaced",), "accelerations": (4.0,)}
    return Exam(**(given | {"limit": 2, "tuning": 1, "calls": 3} | changes))


def examine(data: Path, exam: Exam, model: str | None = None) -> list[Record]:
    work = data / "work"
    return run(model, data, work, "command", exam, report=lambda _: None, panel=data / "p.png")


def find(records: list[Record], method: str, name: str) -> float:
    (value,) = (r.value for r in records if r.case.get("method") == method and r.name == name)
    assert value is not None
    return value


def test_rivals_get_better_with_what_they_know(data: Path) -> None:
    exam = make_exam(patterns=("poisson",), methods=(*CLASSICAL, CONTROL), limit=1)
    records = examine(data, exam)
    errors = [find(records, name, "NRMSE in the head") for name in CLASSICAL]
    # Zero-filled, with maps, and with sparsity besides: the heads are flat.
    assert errors[0] > 1.2 * errors[1] > 1.2 * errors[2]
    assert find(records, "CG-SENSE", "slices") == 1
    assert find(records, CONTROL, "chi-square") == pytest.approx(1, abs=0.4)
    assert 0 < find(records, CONTROL, "coverage of 80 % intervals") < 1
    assert (data / "p.png").read_bytes().startswith(b"\x89PNG")
    # What is done is kept: the data are not needed again.
    (data / "brain_ixi_t1/ixi_t1_axial128.npz").unlink()
    assert [r.value for r in examine(data, exam)] == [r.value for r in records]


def add_patients(data: Path) -> None:
    """Two held-out patients of other hospitals, and one that was trained on."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - SIDE // 2
    head = 2000 * (np.hypot(rows, columns) < 18)
    for folder in ("brain_openms_raw", "hku_3T_brain"):
        (data / folder).mkdir()
    np.savez(
        data / "brain_openms_raw/openms_raw_axial256.npz",
        images=np.stack([head // 8] * 2).astype(np.uint8),
        subject=np.array(["patient01", "patient19"]),
    )
    large = np.kron(head, np.ones((4, 4), int)).astype(np.uint16)
    held = {f"{name}_T1w": np.stack([large] * 2) for name in ("F6A", "S6A")}
    np.savez(data / "hku_3T_brain/brain_3T_6patients.npz", **held)


def test_discs_are_put_into_what_coils_see(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    add_patients(data)
    Path("tiny.yaml").write_text(SETTINGS)
    model = bcdm.train("tiny.yaml", data=data)
    images = choose_slices(model, data, None, 0)
    new = ["test: s3", "test: s4", "test: s5", "others: patient19", "others: S6A", "val: s2"]
    assert sorted(images) == sorted(new)
    assert images["others: S6A"].shape == (1, 128, 128)
    first, second = (scan(model, images["test: s3"][None], "poisson 4x", 0.02, k) for k in (0, 1))
    assert isinstance(first.operator, Sense)
    assert not torch.equal(first.y, second.y)
    words = ["benchmark", "lesions", "runs/tiny/model", "--data", ".", "--radius", "1.5"]
    words += ["--contrast", "0.3", "--samples", "9", "--calls", "2", "--limit", "2"]
    words += ["--mask", "equispaced 4x", "--json", "r.json"]
    with pytest.warns(UnfamiliarWarning, match="those of training"):  # the large one
        ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    rows = {row["case"]["regions"]: row for row in json.loads(Path("r.json").read_text())}
    assert {"discs, equispaced 4x", "discs, radius 1.5", "healthy places"} <= set(rows)


def test_coverage_is_of_the_head_and_has_its_control(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    Path("tiny.yaml").write_text(SETTINGS)
    model = bcdm.train("tiny.yaml", data=data)
    records = coverage.run(model, data, "command", limit=2, calls=4)
    values = {r.name: r.value for r in records if r.case["mask"] == "all masks"}
    for text in ("", ", before calibration", f", {CONTROL}"):
        held = [values[f"{level} intervals hold{text}"] for level in ("50%", "80%", "90%")]
        assert 0 < held[0] < held[1] < held[2] <= 1
    assert values["80% intervals hold: off what is promised"] == pytest.approx(
        abs(values["80% intervals hold"] - 0.8)
    )
    assert {r.case["subjects"] for r in records} == {1, 2}


def test_a_model_is_examined_beside_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    Path("tiny.yaml").write_text(SETTINGS)
    model = bcdm.train("tiny.yaml", data=data)
    methods = ("CG-SENSE", "MMPS", "ours")
    exam = make_exam(methods=methods, limit=1, calls=2)
    records = examine(data, exam, "runs/tiny/model")
    assert {r.case["method"] for r in records if "method" in r.case} == set(methods)
    assert all(np.isfinite(find(records, name, "NRMSE in the head")) for name in methods)
    required = {r.name: r.required for r in records if r.required is not None}
    bound = find(records, "CG-SENSE", "NRMSE in the head")
    assert required["NRMSE beside CG-SENSE"] == f"< {bound:.5g}"
    assert required["intervals of 80 % that hold"] == "<= 0.9"
    # Samples of one slice of two: they stand beside rivals on that one, one call on both.
    one_call = "ours by one call"
    exam = make_exam(methods=("CG-SENSE", "ours", one_call), limit=2, sampled=1, calls=2)
    records = examine(data, exam, "runs/tiny/model")
    assert [find(records, name, "slices") for name in ("CG-SENSE", "ours", one_call)] == [2, 1, 2]
    beside = [r for r in records if r.name == "NRMSE beside CG-SENSE"]
    assert [(r.case["method"], r.case["slices"]) for r in beside] == [("ours", 1), (one_call, 2)]
    assert [r.value for r in beside] == [
        find(records, name, "NRMSE in the head") for name in ("ours", one_call)
    ]
    bounds = [
        find(records, "CG-SENSE", f"NRMSE in the head{few}") for few in (", sampled slices", "")
    ]
    assert [r.required for r in beside] == [f"< {bound:.5g}" for bound in bounds]
    assert bounds[0] != bounds[1]
    assert not any(
        r.name.startswith("coverage") for r in records if r.case.get("method") == one_call
    )
    family = model.config.operator.model_copy(update={"nothing": 0.0})
    blind = replace(model, config=model.config.model_copy(update={"operator": family}))
    with pytest.raises(InputError, match="knows no prior"):
        list_sampled(blind, 9, 2, 0)


def make_case(floor: float = 0.0) -> Case:
    reference = torch.zeros(SIDE, SIDE)
    reference[8:24, 8:24] = torch.linspace(0.5, 1, 16)
    mask = torch.ones(SIDE, SIDE, dtype=torch.bool)
    operator = Sense(torch.ones(1, SIDE, SIDE, dtype=torch.complex64), mask)
    x = reference.to(torch.complex64)[None, None]
    measurement = Measurement.simulate(x, operator, 0.1, seed=0)
    return Case(measurement, reference, reference > 0, floor)


def test_numbers_are_of_the_head_alone() -> None:
    case = make_case(floor=0.07)
    wrong = torch.where(case.inside, case.reference, 5.0)
    perfect = judge(case, wrong[None], 1j * wrong[None, None])
    assert perfect["NRMSE in the head"] == 0
    size = float(case.reference[case.inside].square().mean().sqrt())
    assert perfect["NRMSE of the reference's noise"] == pytest.approx(0.07 / size)
    off = judge(case, case.reference[None] * 1.1, case.reference[None, None].to(torch.complex64))
    assert off["NRMSE in the head"] == pytest.approx(0.1, rel=1e-4)


def test_intervals_and_data_of_samples_around_the_truth() -> None:
    """Of nine samples and the truth, all alike, the outermost hold the truth in 80 %."""
    case = make_case()
    generator = torch.Generator().manual_seed(0)
    noise = 0.02 * torch.randn(10, SIDE, SIDE, generator=generator)
    truth = Case(case.measurement, case.reference + noise[9], case.inside, 0.0)
    samples = case.reference + noise[:9]
    found = judge(
        truth, samples, samples[:, None].to(torch.complex64) * torch.exp(torch.tensor(0j))
    )
    assert found["coverage before calibration"] == pytest.approx(0.8, abs=0.06)
    wide = judge(truth, samples, samples[:, None] * (1 + 0j), 3.0)
    assert wide["coverage of 80 % intervals"] > 0.99
    exact = case.reference[None, None] * torch.exp(torch.tensor(1e-6j))
    assert judge(case, exact[0].abs(), exact)["chi-square"] == pytest.approx(1, abs=0.1)


def test_of_few_samples_no_interval_is_told() -> None:
    """Their scatter is taken off the error of their mean, whose own is known."""
    case, errors = make_case(), []
    size = float(case.reference[case.inside].square().mean().sqrt())
    for seed in range(40):
        noise = 0.02 * torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
        samples = case.reference + 0.01 + noise
        found = judge(case, samples, samples[:, None] * (1 + 0j))
        assert not any(name.startswith("coverage") for name in found)
        names = "NRMSE in the head", "NRMSE without the samples' scatter"
        errors.append([(size * found[name]) ** 2 for name in names])
    with_scatter, without = np.mean(errors, 0)
    # Of 40 x 256 pixels the scatter of both is 2 %.
    assert with_scatter == pytest.approx(0.01**2 + 0.02**2 / 3, rel=0.08)
    assert without == pytest.approx(0.01**2, rel=0.08)
    (control,) = list_sampled(None, 3, 1, 0)
    assert control.tune([case]) == 1


def test_the_control_needs_no_model() -> None:
    (control,) = list_sampled(None, 3, 1, 0)
    magnitudes, drawn = control.estimate(make_case(), 1.0)
    assert magnitudes.shape == (3, 48, 48)
    assert torch.equal(magnitudes, drawn[:, 0].abs())
    assert not torch.equal(drawn[0], drawn[1])


def test_masks_leave_out_lines_along_the_phase_encoding() -> None:
    kspace = np.ones((2, 48, 64), np.complex64)
    rows = Slice("a", kspace, 1.0, torch.ones(48, 64), lines=-2)
    mask = draw_mask("equispaced", 4, rows, 0)
    assert mask.any(1).sum() == 12
    assert bool((mask == mask[:, :1]).all())
    assert int(draw_mask("poisson", 4, rows, 0).sum()) == 48 * 64 // 4
    with pytest.raises(InputError, match="a pattern is one of"):
        draw_mask("spiral", 4, rows, 0)


def test_the_object_is_the_head_with_what_is_dark_in_it() -> None:
    rows, columns = torch.meshgrid(torch.arange(48) - 24, torch.arange(48) - 24, indexing="ij")
    radius = torch.hypot(rows.float(), columns.float())
    head = ((radius < 15) & (radius > 6)).float()
    head[0, 0] = 1.0  # a spike
    found = find_object(head)
    assert bool(found[radius < 13].all())
    assert not bool(found[radius > 19].any())
    with pytest.raises(InputError, match="without any object"):
        find_object(torch.zeros(32, 32))


@pytest.mark.data
@pytest.mark.skipif(not REAL.is_dir(), reason=f"BCDM_DATA names no folder with {REAL.name} in it")
def test_the_real_scan_has_white_noise_and_a_reference() -> None:
    (scan,) = open_set("brain16", None, 1, tuning=False, seed=0)
    assert scan.kspace.shape == (16, 128, 128)
    case = scan.undersample(torch.ones(128, 128, dtype=torch.bool))
    # In the reference, which the weights were not found from, air is as noisy as is said.
    air = case.reference[:5, 30:98]
    assert float(air.square().mean() / 2) ** 0.5 == pytest.approx(case.floor, rel=0.15)
    assert 0.2 < float(case.inside.float().mean()) < 0.5


def test_refuses_what_is_not_known(data: Path) -> None:
    with pytest.raises(InputError, match="a set is one of"):
        open_set("knees", data, 1, tuning=False, seed=0)
    ran = CliRunner().invoke(cli, ["benchmark", "scans", "--accelerations", "four"])
    assert isinstance(ran.exception, InputError)


def test_the_command_writes_records(data: Path) -> None:
    arguments = ["--sets", "ixi", "--data", str(data), "--limit", "1", "--tuning", "1"]
    arguments += ["--patterns", "poisson", "--accelerations", "2", "--methods", "CG-SENSE"]
    arguments += ["--work", str(data / "work"), "--json", str(data / "r.json")]
    ran = CliRunner().invoke(cli, ["benchmark", "scans", *arguments], catch_exceptions=False)
    assert ran.exit_code == 0
    rows = json.loads((data / "r.json").read_text())
    assert any(row["name"] == "NRMSE in the head" for row in rows)
    # Other rows may stay: of other sets, masks and methods.
    other = rows[0] | {"case": rows[0]["case"] | {"mask": "poisson 8x"}}
    rival = rows[0] | {"case": rows[0]["case"] | {"method": "MMPS"}}
    (data / "r.json").write_text(json.dumps([other, rival, *rows]))
    arguments.append("--add")
    ran = CliRunner().invoke(cli, ["benchmark", "scans", *arguments], catch_exceptions=False)
    assert ran.exit_code == 0
    again = json.loads((data / "r.json").read_text())
    assert again == [other, rival, *rows]
