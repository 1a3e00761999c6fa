"""From a tiny family to one operator: trained, calibrated, refused elsewhere, resumed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import bcdm
from bcdm.checkpoint import load, save_operator
from bcdm.checkpoint.calibration import Calibration
from bcdm.checkpoint.given import read_operator_for
from bcdm.checkpoint.settings import parse_config
from bcdm.commands import cli
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.operators import CircularBlur, FourierMask, PixelMask
from bcdm.training import specialising
from bcdm.training.specialising import derive_settings, specialise
from bcdm.training.train import Trainer

SIZE = (12, 12)


def hide(rows: slice) -> torch.Tensor:
    mask = torch.ones(SIZE, dtype=torch.bool)
    mask[rows, 4:8] = False
    return mask


MASK = hide(slice(4, 8))


def go(family: Path, out: Path, **changes: object) -> Path:
    given = {"label": "box", "noise_std": 0.05, "steps": 6, "data": family, "out": out}
    given["overrides"] = ["training.checkpoint_every=2"]
    name = family / "run/model"
    return specialise(name, PixelMask(MASK), report=lambda _: None, **given | changes)  # type: ignore[arg-type]


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def is_same(one: Path, other: Path) -> bool:
    a, b = read_weights(one), read_weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_command_makes_a_calibrated_model_of_one_mask(family: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "box.npy", MASK.numpy())
    out = tmp_path / "run"
    words = ["specialise", str(family / "run/model"), "--operator", str(tmp_path / "box.npy")]
    words += ["--noise-std", "0.05", "--steps", "3", "--data", str(family), "--out", str(out)]
    words += ["--limit", "40", "--intervals", "1"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    model = load(out / "model")
    assert Calibration.of(model) is not None
    assert (model.name, model.noise_std) == ("tiny-box-npy", 0.05)
    origin = model.facts["specialised"]
    assert (origin["from"], origin["operator"], origin["steps"]) == ("tiny", "box.npy", 3)
    assert origin["sha256"] == load(family / "run/model").facts["hashes"]["model.safetensors"]
    assert "| specialised | from tiny, for box.npy |" in (out / "model/README.md").read_text()

    # It takes its own mask, and refuses another.
    images = torch.zeros(1, 1, *SIZE)
    own = Measurement.simulate(images, PixelMask(MASK), 0.05, seed=0)
    assert bcdm.reconstruct(model, own, samples=2, calls=2).samples.shape == (2, 1, 1, *SIZE)
    other = Measurement.simulate(images, PixelMask(hide(slice(0, 3))), 0.05, seed=0)
    with pytest.raises(InputError, match="made for one operator, PixelMask"):
        bcdm.reconstruct(model, other, samples=2, calls=2)

    # The same command finds all done.
    before = (out / "model/config.json").read_bytes()
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert (out / "model/config.json").read_bytes() == before
    words = ["evaluate", str(out / "model"), "--data", str(family), "--limit", "2"]
    done = CliRunner().invoke(cli, [*words, "--samples", "3", "--calls", "2"])
    assert done.exit_code == 0, done.output


def test_an_interrupted_run_goes_on_to_the_same_bits(
    family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = go(family, tmp_path / "whole")
    advance = Trainer.advance

    def stop(self: Trainer, *given: object) -> torch.Tensor:
        if self.state.step == 5:
            raise KeyboardInterrupt
        return advance(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            go(family, tmp_path / "stopped")
    assert not (tmp_path / "stopped/model").exists()
    again = go(family, tmp_path / "stopped")
    assert is_same(whole, again)
    assert load(whole).facts["hashes"] == load(again).facts["hashes"]
    # And it did learn from where the family was.
    assert not is_same(whole, family / "run/model")


def test_minutes_become_steps_once(
    family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[float] = []

    def time_step(*_: object) -> float:
        timed.append(2.0)
        return timed[-1]

    monkeypatch.setattr(specialising, "time_settings", time_step)
    out = tmp_path / "run"
    folder = go(family, out, steps=None, minutes=0.1)
    origin = load(folder).facts["specialised"]
    assert (origin["steps"], origin["minutes"], origin["seconds"]) == (3, 0.1, 2.0)
    assert load(folder).config.training.steps == 3
    go(family, out, steps=None, minutes=0.1)
    assert len(timed) == 1
    with pytest.raises(InputError, match=r"holds a run of 0.1 minutes: choose another --out"):
        go(family, out, steps=None, minutes=0.2)
    with pytest.raises(InputError, match="holds a run with other settings"):
        go(family, out, steps=5)
    # The same number, as steps, is the same run.
    assert is_same(folder, go(family, tmp_path / "steps", steps=3))


def test_first_steps_are_timed(family: Path, tmp_path: Path) -> None:
    said: list[str] = []
    name, out = family / "run/model", tmp_path / "run"
    given = {"label": "box", "noise_std": 0.05, "data": family, "out": out}
    specialise(name, PixelMask(MASK), minutes=1e-3, dry_run=True, report=said.append, **given)  # type: ignore[arg-type]
    assert said[0].startswith("0.001 minutes are ")
    assert said[1] == "images: 60 to train, 50 to validate"
    assert said[2].startswith("run         tiny-box: ")
    assert not out.exists()


def test_settings_are_those_of_the_family_but_for_the_problem(family: Path) -> None:
    base = load(family / "run/model").config
    long = {"steps": 4000, "warmup": 200, "learning_rate": 0.001, "seed": 3, "ema": 0.998}
    long["batch"] = 32
    base = parse_config(
        base.model_dump(mode="json") | {"strip": 4, "training": long | {"decay": False}}
    )
    own = derive_settings(base, name="mine", noise_std=0.02, steps=400, start_from="tiny")
    for part in ("data", "network", "parameterisation", "schedule"):
        assert getattr(own, part) == getattr(base, part)
    assert (own.name, own.noise_std, own.strip) == ("mine", 0.02, None)
    training = own.training
    assert (training.steps, training.start_from, training.ema) == (400, "tiny", 0.998)
    assert (training.batch, training.levels) == (min(base.training.batch, 16), base.training.levels)
    assert training.decay
    assert training.warmup == 40
    assert training.learning_rate == 0.001
    assert training.seed != 3
    assert (training.validate_every, training.checkpoint_every) == (100, 40)


def test_what_cannot_be_is_said(
    family: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BCDM_DATA", raising=False)
    out = tmp_path / "run"
    for data in (None, tmp_path):
        with pytest.raises(InputError, match=r"needs the images that tiny .* images.npz, which"):
            go(family, out, data=data)
    with pytest.raises(InputError, match=r"noise levels of 0.01 to 0.2 .* say yours by --noise"):
        go(family, out, noise_std=None)
    with pytest.raises(InputError, match="noise_std must be a number above 0"):
        go(family, out, noise_std=float("inf"))
    with pytest.raises(InputError, match="in minutes or in steps"):
        go(family, out, minutes=1.0)
    with pytest.raises(InputError, match="minutes must be a number above 0"):
        go(family, out, steps=None, minutes=0.0)
    with pytest.raises(InputError, match=r"batches that end in \(5, 5\)"):
        specialise(family / "run/model", PixelMask(torch.ones(5, 5)), label="", noise_std=0.1)
    with pytest.raises(InputError, match=r"unknown setting training\.stepps"):
        go(family, out, overrides=["training.stepps=3"])
    with pytest.raises(InputError, match="steps is given by --steps"):
        go(family, out, overrides=["training.steps=3"])
    assert not out.exists()
    model = load(family / "run/model")
    data = model.config.data.model_copy(update={"phase": True})
    coils = replace(model, config=model.config.model_copy(update={"data": data}))
    with monkeypatch.context() as patched:
        patched.setattr(specialising, "load", lambda _: coils)
        with pytest.raises(InputError, match="coils, whose maps differ from scan to scan"):
            go(family, out)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="runs in one process"):
        go(family, out)


def test_other_weights_are_another_run(family: Path, tmp_path: Path) -> None:
    go(family, tmp_path / "run", steps=2)
    path = tmp_path / "run/specialised.json"
    path.write_text(path.read_text().replace(read_hash(family), "0" * 64))
    with pytest.raises(InputError, match="started from other weights, of tiny"):
        go(family, tmp_path / "run", steps=2)


def read_hash(family: Path) -> str:
    found: str = load(family / "run/model").facts["hashes"]["model.safetensors"]
    return found


def test_a_problem_outside_of_the_family_is_told_and_trained(family: Path, tmp_path: Path) -> None:
    said: list[str] = []
    specialise(
        family / "run/model",
        FourierMask(MASK, real=True),
        label="{kind: fourier_mask}",
        noise_std=0.05,
        steps=1,
        data=family,
        out=tmp_path / "run",
        report=said.append,
    )
    assert said[0].startswith("outside of what tiny was trained for: ")
    assert isinstance(load(tmp_path / "run/model").operator, FourierMask)


def test_a_model_of_coils_is_refused_before_its_operator_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.ones((128, 128), bool))
    told = ["specialise", "brain-mri", "--operator", str(tmp_path / "mask.npy")]
    done = CliRunner().invoke(cli, told)
    assert "there is no one operator to specialise it for" in str(done.exception)


def test_operators_are_read_from_files_of_all_kinds(family: Path, tmp_path: Path) -> None:
    model = load(family / "run/model")
    np.savez(tmp_path / "mask.npz", mask=MASK.numpy())
    masked = read_operator_for(str(tmp_path / "mask.npz"), model)
    assert isinstance(masked, PixelMask)
    assert torch.equal(masked.mask.reshape(SIZE) != 0, MASK)
    save_operator(CircularBlur(torch.ones(3, 3) / 9, SIZE), tmp_path / "blur.safetensors")
    assert isinstance(read_operator_for(str(tmp_path / "blur.safetensors"), model), CircularBlur)
    assert isinstance(read_operator_for("{kind: fourier_mask}", model), FourierMask)
    # Of a model of k-space a mask is one of k-space; of one that is for neither it is unknown.
    brain = load("ixi64-mri8x-small")
    np.save(tmp_path / "lines.npy", np.tile(np.arange(64) % 4 == 0, (64, 1)))
    lines = read_operator_for(str(tmp_path / "lines.npy"), brain)
    assert isinstance(lines, FourierMask)
    assert float(lines.mask.float().mean()) == 0.25
    plain = parse_config(brain.config.model_dump(mode="json") | {"operator": {"kind": "identity"}})
    with pytest.raises(InputError, match=r"whether the mask .* is of k-space or of pixels"):
        read_operator_for(str(tmp_path / "lines.npy"), replace(brain, config=plain))
