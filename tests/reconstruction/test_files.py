"""From files to results: formats, interruption, refusal, verification."""

import json
import shutil
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
import zarr
from click.testing import CliRunner, Result
from PIL import Image

from bcdm.checkpoint import load
from bcdm.commands import cli, main
from bcdm.diffusion import DPMSolver, sample
from bcdm.measurement import Measurement
from bcdm.operators import FourierMask
from bcdm.reconstruction.provenance import FIXED, hash_content, seal
from bcdm.scans import read_provenance, read_scan


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def reconstruct(picture: tuple[Path, Path], model: Path, out: Path, *more: object) -> Result:
    return run("reconstruct", picture[0], "--mask", picture[1], "--model", model, "-o", out,
               "--samples", 11, "--calls", 3, "--batch", 4, "--noise-std", 6.4, *more)  # fmt: skip


def test_from_a_picture_to_a_report(picture, masked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = reconstruct(picture, masked, out, "--force")
    assert done.exit_code == 0, done.output
    names = {path.name for path in out.iterdir()}
    assert {"report.html", "run.json", "samples.zarr", "measurement.npz"} <= names
    facts = json.loads((out / "run.json").read_text())
    # A network that was never trained keeps the noise of the data in its samples.
    assert facts["trust"]["light"] == "red"
    assert "nearer to the data than the stated noise" in facts["trust"]["summary"]
    assert str(tmp_path) not in (out / "run.json").read_text()
    assert len(done.output.splitlines()) > 4


def test_known_pixels_are_kept(picture, masked: Path, tmp_path: Path) -> None:
    reconstruct(picture, masked, tmp_path / "out", "--force")
    given = np.asarray(Image.open(picture[0])).astype(float)
    known = np.asarray(Image.open(picture[1])) > 0
    samples = np.asarray(zarr.open_array(tmp_path / "out/samples.zarr", mode="r"))
    pixels = (samples[0, :, 0] + 1) * 127.5
    # Within the noise that was stated, on average.
    assert np.sqrt(np.mean((pixels - given)[:, known] ** 2)) < 1.3 * 6.4


@pytest.mark.parametrize("done", [4, 7])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    picture, masked: Path, tmp_path: Path, done: int
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    reconstruct(picture, masked, whole, "--force")
    reconstruct(picture, masked, part, "--force")
    store = zarr.open_array(part / "samples.zarr", mode="r+")
    store[0, done:] = np.nan
    store.attrs["done"] = {"0": done}
    again = reconstruct(picture, masked, part, "--force")
    assert again.exit_code == 0, again.output
    first, second = (np.asarray(zarr.open_array(f / "samples.zarr", mode="r"))
                     for f in (whole, part))  # fmt: skip
    np.testing.assert_array_equal(first, second)
    other = reconstruct(picture, masked, part, "--force", "--seed", 1)
    assert "samples of another run" in str(other.exception)


def test_a_result_can_be_verified(picture, masked: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("BCDM_MODELS", str(masked.parent))
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    result = next(path for path in out.iterdir() if path.suffix in (".png", ".tif", ".tiff"))
    done = run("verify", result, "--input", picture[0])
    assert done.exit_code == 0, done.output
    assert "to the bit" in done.output
    for name in ("", "samples.zarr", "measurement.npz", "operator.safetensors"):
        assert run("verify", out / name).exit_code == 0


def test_a_result_of_an_earlier_version_is_verified(picture, masked: Path, tmp_path: Path) -> None:
    """Samples were known by their number alone, and settings said nothing of it."""
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    model, run_file = load(masked), out / "run.json"
    with np.load(out / "measurement.npz") as file:
        measurement = Measurement(torch.from_numpy(file["y"]), model.operator, file["noise_std"])
    facts = json.loads(run_file.read_text())
    del facts["settings"]["noise"]
    facts["id"] = hash_content({name: facts[name] for name in FIXED})
    for index, code in ((0, 0), (1, 1)):
        old = sample(
            model.method.condition(measurement),
            DPMSolver(1.0),
            steps=3,
            indices=[index],
            batch=4,
        )
        zarr.open_array(out / "samples.zarr", mode="r+")[0, 0] = old[0].numpy()
        names = facts.pop("files")
        facts.pop("seal")
        facts = seal(facts, out, [out / name for name in names])
        run_file.write_text(json.dumps(facts))
        done = run("verify", run_file, "--model", masked)
        assert done.exit_code == code, done.output
    assert "WRONG  first sample" in done.output


def test_files_share_no_noise(picture, masked: Path, tmp_path: Path) -> None:
    """Deviations of two files' samples are independent; a copy has the same samples."""
    pixels = np.asarray(Image.open(picture[0]))
    paths = {name: tmp_path / f"{name}.png" for name in ("one", "two", "copy")}
    for name, path in paths.items():
        Image.fromarray(pixels.T if name == "two" else pixels).save(path)
    done = run("reconstruct", *paths.values(), "--mask", picture[1], "--model", masked, "-o",
               tmp_path / "out", "--samples", 11, "--calls", 3, "--noise-std", 6.4,
               "--force")  # fmt: skip
    assert done.exit_code == 0, done.output
    drawn = {
        name: np.asarray(zarr.open_array(tmp_path / f"out/{path.name}/samples.zarr", mode="r"))[0]
        for name, path in paths.items()
    }
    np.testing.assert_array_equal(drawn["one"], drawn["copy"])
    away = [(x - x.mean(0)).ravel() / x.std() for x in (drawn["one"], drawn["two"])]
    assert abs(np.corrcoef(away)[0, 1]) < 0.15


def change_result(out: Path) -> None:
    path = out / "scan_mean.png"
    Image.fromarray(np.asarray(Image.open(path)) // 2).save(path)


def change_sample(out: Path) -> None:
    store = zarr.open_array(out / "samples.zarr", mode="r+")
    store[0, 3] = 0.0


def change_card(out: Path) -> None:
    facts = json.loads((out / "run.json").read_text())
    facts["trust"]["summary"] = "All is well."
    (out / "run.json").write_text(json.dumps(facts))


def cut_measurement(out: Path) -> None:
    path = out / "measurement.npz"
    path.write_bytes(path.read_bytes()[:100])


def damage_store(out: Path) -> None:
    (out / "samples.zarr/zarr.json").write_text("{")


@pytest.mark.parametrize(
    ("change", "said"),
    [(change_result, "scan_mean.png has changed"), (change_sample, "samples.zarr has changed"),
     (change_card, "WRONG  run.json"), (cut_measurement, "measurement.npz has changed"),
     (damage_store, "samples.zarr is damaged")],
)  # fmt: skip
def test_what_was_changed_is_found(picture, masked: Path, tmp_path: Path, change, said) -> None:
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    change(out)
    done = run("verify", out / "run.json", "--model", masked)
    assert done.exit_code == 1
    assert said in done.output


def test_a_download_without_samples_is_checked_by_its_hashes(picture, masked, tmp_path) -> None:
    """All that samples were drawn from is gone together; one of them alone is missed."""
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    shutil.rmtree(out / "samples.zarr")
    done = run("verify", out, "--model", masked)
    assert done.exit_code == 1
    assert "WRONG  files: samples.zarr is missing" in done.output
    for name in ("measurement.npz", "operator.safetensors"):
        (out / name).unlink()
    done = run("verify", out, "--model", masked)
    assert done.exit_code == 0, done.output
    assert "right  first sample: not drawn again, because samples" in done.output
    change_result(out)
    done = run("verify", out, "--model", masked)
    assert done.exit_code == 1
    assert "scan_mean.png has changed" in done.output


def test_damaged_samples_are_one_line(picture, masked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    damage_store(out)
    again = reconstruct(picture, masked, out, "--force")
    assert "samples.zarr is damaged: remove it" in str(again.exception)


def test_a_model_outside_of_the_shipped_ones_is_named_to_verify(picture, masked, tmp_path) -> None:
    out = tmp_path / "out"
    reconstruct(picture, masked, out, "--force")
    assert "no model" in str(run("verify", out / "run.json").exception)
    done = run("verify", out / "run.json", "--model", masked)
    assert done.exit_code == 0, done.output
    assert "to the bit" in done.output


def test_one_bad_file_does_not_stop_the_others(picture, masked: Path, tmp_path: Path) -> None:
    bad = tmp_path / "a.png"
    bad.write_bytes(b"no picture")
    done = run("reconstruct", bad, picture[0], "--mask", picture[1], "--model", masked, "-o",
               tmp_path / "out", "--samples", 11, "--calls", 3, "--noise-std", 6.4,
               "--force")  # fmt: skip
    assert "1 of 2 inputs failed" in str(done.exception)
    assert f"error: {bad}" in done.output
    assert (tmp_path / "out/scan.png/run.json").exists()
    assert not (tmp_path / "out/a.png").exists()


def test_one_bad_folder_does_not_stop_the_others(picture, masked: Path, tmp_path: Path) -> None:
    other = tmp_path / "a.png"
    other.write_bytes(picture[0].read_bytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.png").write_text("no folder")
    done = run("reconstruct", other, picture[0], "--mask", picture[1], "--model", masked, "-o",
               tmp_path / "out", "--samples", 11, "--calls", 3, "--noise-std", 6.4,
               "--force")  # fmt: skip
    assert "1 of 2 inputs failed" in str(done.exception)
    assert (tmp_path / "out/scan.png/run.json").exists()


def test_inputs_of_one_name_are_refused(picture, masked: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = picture[0].rename(tmp_path / "other/mask.png")
    done = run("reconstruct", other, picture[1], "--model", masked, "-o", tmp_path / "out")
    assert "the same name" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_too_few_samples_are_refused_at_once(picture, masked: Path, tmp_path: Path) -> None:
    done = reconstruct(picture, masked, tmp_path / "out", "--samples", 8)
    assert "9 samples or more" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["batch", "calls"])
def test_none_at_all_is_refused_at_once(picture, masked: Path, tmp_path: Path, name: str) -> None:
    done = reconstruct(picture, masked, tmp_path / "out", f"--{name}", 0)
    assert str(done.exception) == f"{name} must be 1 or more, got 0"
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_line(
    picture, masked: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    words = ["reconstruct", picture[0], "--mask", picture[1], "--model", masked, "-o", out]
    monkeypatch.setattr("sys.argv", ["bcdm", *map(str, words), "--noise-std", "6.4"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "cannot be made: Not a directory" in capsys.readouterr().err.splitlines()[-1]


def test_an_operator_by_its_settings(picture, masked: Path, tmp_path: Path) -> None:
    for text, code in (("{kind: centre_box, box: [4, 4]}", 0), ("{kind: centre_bax}", 1)):
        done = run("reconstruct", picture[0], "--operator", text, "--model", masked, "-o",
                   tmp_path / "out", "--noise-std", 6.4, "--dry-run")  # fmt: skip
        assert done.exit_code == code, done.output


def test_k_space_in_units_of_its_own(scanner: Path, images, tmp_path: Path) -> None:
    operator = load(scanner).operator
    assert isinstance(operator, FourierMask)
    scale = 3e-4
    image = scale * (images + 1) / 2
    rng = np.random.default_rng(0)
    y = operator.forward(image).numpy()
    noise = rng.standard_normal((2, *y.shape)) * 0.025 * scale
    mask = operator.mask.numpy()
    kspace = ((y + noise[0] + 1j * noise[1]) * mask).astype(np.complex64)
    np.savez(tmp_path / "scan.npz", kspace=kspace, mask=mask)
    said = run("inspect", tmp_path / "scan.npz")
    assert said.exit_code == 0, said.output
    assert "k-space" in said.output
    done = run("reconstruct", tmp_path / "scan.npz", "--model", scanner, "-o", tmp_path / "out",
               "--samples", 11, "--calls", 3, "--noise-std", 0.025 * scale, "--force")  # fmt: skip
    assert done.exit_code == 0, done.output
    with np.load(next((tmp_path / "out").glob("scan*.npz"))) as file:
        mean = file["mean"]
    assert mean.shape == (3, 1, 16, 16)
    # An untrained network gives the linear estimate, in the file's own units.
    assert np.corrcoef(mean.ravel(), image.numpy().ravel())[0, 1] > 0.7
    assert 0.5 < mean.max() / image.numpy().max() < 2


def test_a_scan_that_does_not_fit_is_refused(picture, masked, scanner, tmp_path: Path) -> None:
    small = tmp_path / "small.png"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(small)
    mask = tmp_path / "other.png"
    Image.fromarray(np.full((16, 16), 255, np.uint8)).save(mask)
    given = ("reconstruct", picture[0], "--mask", picture[1], "--model")
    cases = [
        ((*given, scanner), "measured by"),
        ((*given, masked, "--noise-std", 0), "noise_std must be a number above 0, got 0.0"),
        ((*given, masked, "--noise-std", "nan"), "noise_std must be a number above 0, got nan"),
        (("reconstruct", picture[0], "--model", masked), "needs --operator or --mask"),
        (("reconstruct", picture[0], "--mask", mask, "--model", masked), "differs in 16 places"),
        (("reconstruct", tmp_path / "absent.png", "--model", masked), "absent.png"),
    ]
    for arguments, said in cases:
        done = run(*arguments, "-o", tmp_path / "out")
        assert said in str(done.exception), (arguments, done.exception)
        assert "\n" not in str(done.exception)
        assert not (tmp_path / "out").exists()


def test_a_clean_picture_is_simulated_and_says_so(picture, masked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("reconstruct", picture[0], "--model", masked, "-o", out, "--simulate", "--force",
               "--samples", 11, "--calls", 2)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "SIMULATED" in done.output
    assert "resized" not in done.output
    assert "imulated" in (out / "report.html").read_text()
    assert json.loads((out / "run.json").read_text())["settings"]["simulated"] is True
    assert read_provenance(out / "scan_mean.png")["settings"]["simulated"] is True
    masks = run("reconstruct", picture[0], "--model", masked, "-o", out, "--simulate", "--mask",
                picture[1])  # fmt: skip
    assert "give --operator, not --mask" in str(masks.exception)
    dry = run("reconstruct", picture[0], "--model", masked, "-o", tmp_path / "dry", "--simulate",
              "--dry-run")  # fmt: skip
    assert "1 slice x 16 samples: 49 network calls" in dry.output
    assert not (tmp_path / "dry").exists()


def test_a_clean_volume_of_another_size(masked: Path, tmp_path: Path, images) -> None:
    pixels = np.kron((images[0, 0].numpy() + 1) * 700, np.ones((2, 4)))[..., None]
    volume = nibabel.Nifti1Image(pixels.astype(np.uint16), np.diag([1.0, 2.0, 3.0, 1.0]))
    volume.to_filename(tmp_path / "scan.nii.gz")
    done = run("reconstruct", tmp_path / "scan.nii.gz", "--model", masked, "-o", tmp_path / "out",
               "--simulate", "--force", "--samples", 9, "--calls", 1)  # fmt: skip
    assert done.exit_code == 0, done.output
    back = nibabel.load(tmp_path / "out/scan_mean.nii.gz")
    assert back.shape == (16, 16, 1)
    assert back.header.get_zooms() == (2.0, 8.0, 3.0)
    # Whoever compares with the file must know that the truth is another image.
    said = "resized from 64 x 32 to 16 x 16 pixels, which stretches it, before it was measured"
    assert said in done.output
    assert said in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize("ending", ["png", "npz", "tif"])
def test_block_means_give_larger_images(coarse: Path, tmp_path: Path, images, ending: str) -> None:
    means = (images[0, 0].numpy().reshape(8, 2, 8, 2).mean((1, 3)) + 1) * 127.5
    means = np.clip(means + 6.4 * np.random.default_rng(0).standard_normal((8, 8)), 0, 255)
    path = tmp_path / f"scan.{ending}"
    if ending == "npz":
        np.savez(path, image=means.astype(np.float32))
    else:
        Image.fromarray(means.astype(np.uint8)).save(path)
    done = run("reconstruct", path, "--model", coarse, "-o", tmp_path / "out", "--noise-std", 6.4,
               "--force", "--samples", 9, "--calls", 1)  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    mean = read_scan(next((tmp_path / "out").glob("scan_[mr]e*")), key="mean" if ending == "npz"
                     else None).data  # fmt: skip
    assert mean.shape == (1, 1, 16, 16)
    if ending != "npz":
        assert mean.mean() == pytest.approx(means.mean(), abs=10)
