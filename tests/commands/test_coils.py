"""`bcdm reconstruct` on k-space of several coils, as files have it."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bcdm import spool
from bcdm.commands import cli
from bcdm.problems.coils import draw_birdcage
from bcdm.reconstruction import provenance
from bcdm.reconstruction.items import RefusedError

pytestmark = pytest.mark.filterwarnings("ignore::bcdm.problems.familiarity.UnfamiliarWarning")
COILS, SIZE = 3, (20, 18)
PLACES = ("plain", "held")
HEADER = """<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding>
<trajectory>cartesian</trajectory><encodedSpace><matrixSize><x>{x}</x><y>{y}</y><z>1</z></matrixSize>
<fieldOfView_mm><x>400</x><y>240</y><z>5</z></fieldOfView_mm></encodedSpace>
<reconSpace><matrixSize><x>{rx}</x><y>48</y><z>1</z></matrixSize>
<fieldOfView_mm><x>200</x><y>240</y><z>5</z></fieldOfView_mm></reconSpace>
<encodingLimits><kspace_encoding_step_1><minimum>0</minimum><maximum>{top}</maximum>
<center>{center}</center></kspace_encoding_step_1></encodingLimits></encoding></ismrmrdHeader>"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def transform(images: np.ndarray) -> np.ndarray:
    inner = np.fft.ifftshift(images, axes=(-2, -1))
    return np.fft.fftshift(np.fft.fft2(inner, norm="ortho"), axes=(-2, -1)).astype(np.complex64)


def make_disc(size: tuple[int, int] = SIZE) -> np.ndarray:
    rows, columns = (np.linspace(-1, 1, side) for side in size)
    inside = rows[:, None] ** 2 + columns**2 < 0.6
    return 300 * inside * (1 + 0.3 * np.sin(3 * rows[:, None])) * np.exp(2j * columns)


def make_kspace(slices: int = 1, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Of slices of several coils, with noise of level 3."""
    rng = np.random.default_rng(4)
    maps = draw_birdcage(size, COILS, rng=rng).numpy()
    clean = np.stack([transform((1 + k) * maps * make_disc(size)) for k in range(slices)])
    parts = rng.standard_normal((2, *clean.shape))
    return (clean + 3 * (parts[0] + 1j * parts[1])).astype(np.complex64)


def make_mask(size: tuple[int, int] = SIZE) -> np.ndarray:
    columns = np.zeros(size[1], bool)
    columns[::2] = True
    columns[size[1] // 2 - 3 : size[1] // 2 + 3] = True
    return columns


def check_error(magnitude: np.ndarray, true: np.ndarray, most: float) -> None:
    inside = np.abs(true) > 0
    error = np.sqrt(((magnitude - np.abs(true))[inside] ** 2).mean())
    assert error < most * np.sqrt((np.abs(true)[inside] ** 2).mean())


PLAN = ("--samples", 9, "--calls", 4, "--noise-std", 3, "--force")


@pytest.mark.parametrize("size", [(44, 18), (18, 10)])
def test_a_size_that_the_model_was_not_trained_for_is_refused(
    receivers: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    """It is for sides of 12 to 40: said before anything is drawn, and red where it is forced."""
    path, out = tmp_path / "scan.npz", tmp_path / "out"
    np.savez(path, kspace=make_kspace(size=size)[0] * make_mask(size))
    reason = f"images of {size[0]} x {size[1]} pixels, and it is for sides of 12 to 40"
    arguments = ("reconstruct", path, "--model", receivers, "-o", out, *PLAN[:-1])
    planned = run(*arguments, "--dry-run")
    assert f"outside that of receivers: {reason}" in planned.output
    refused = run(*arguments).exception
    assert isinstance(refused, RefusedError)
    assert str(refused).startswith(f"Not a measurement that receivers was made for: {reason}")
    done = run(*arguments, "--force")
    assert done.exit_code == 0, done.output
    card = json.loads((out / "run.json").read_text())["trust"]
    assert card["light"] == "red"
    assert card["checks"][0]["reason"] == reason


def test_coils_of_an_npz_become_magnitudes_in_the_units_of_the_file(
    receivers: Path, tmp_path: Path
) -> None:
    path, out = tmp_path / "scan.npz", tmp_path / "out"
    np.savez(path, kspace=make_kspace()[0] * make_mask())
    arguments = ("reconstruct", path, "--model", receivers, "-o", out, *PLAN, "--complex")
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    with np.load(out / "scan_results.npz") as results:
        mean, std = results["mean"].squeeze(), results["std"].squeeze()
        low, high = results["low"].squeeze(), results["high"].squeeze()
    assert mean.shape == SIZE
    check_error(mean, make_disc(), 0.1)
    assert (low >= 0).all()
    assert (low <= high).all()
    # Few calls give narrow samples.
    assert 0.3 < np.median(std[np.abs(make_disc()) > 0]) / 3 < 3
    mean, samples = (np.load(out / f"complex_{name}.npy") for name in ("mean", "samples"))
    assert mean.shape == (1, 1, *SIZE)
    assert samples.shape == (1, 9, 1, *SIZE)
    np.testing.assert_allclose(samples.mean(1), mean, rtol=1e-3, atol=1e-2)
    page = (out / "report.html").read_text()
    for words in ("Noise amplification", "Coil maps", "Phase and coils"):
        assert words in page
    assert len(list((out / "maps").iterdir())) == 1
    # The same command has nothing to do; and what is there is what it says it is.
    again = run(*arguments)
    assert again.exit_code == 0, again.output
    assert "there already" in again.output
    checked = run("verify", out / "scan_results.npz", "--model", receivers)
    assert checked.exit_code == 0, checked.output


def test_maps_that_the_user_has_are_taken(receivers: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "scan.npz", tmp_path / "out"
    np.savez(path, kspace=make_kspace()[0] * make_mask())
    maps = draw_birdcage(SIZE, COILS, rng=np.random.default_rng(4)).numpy()
    np.save(tmp_path / "maps.npy", 2 * maps)
    given = ("--maps", tmp_path / "maps.npy", "--no-report")
    done = run("reconstruct", path, "--model", receivers, "-o", out, *PLAN, *given)
    assert done.exit_code == 0, done.output
    with np.load(out / "scan_results.npz") as results:
        # Maps twice as strong are images half as bright.
        check_error(2 * results["mean"].squeeze(), make_disc(), 0.1)
    assert not (out / "maps").exists()


def test_a_fastmri_volume_with_oversampling_and_padding(receivers: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    size = (2 * SIZE[0], SIZE[1])
    # Twice the field of view along the readout; empty columns at both ends.
    wide = np.zeros(size, complex)
    wide[SIZE[0] // 2 : SIZE[0] // 2 + SIZE[0]] = make_disc()
    rng = np.random.default_rng(4)
    maps = draw_birdcage(size, COILS, rng=rng).numpy()
    clean = np.stack([transform((1 + k) * maps * wide) for k in range(2)])
    parts = rng.standard_normal((2, *clean.shape))
    kspace = clean + 3 * (parts[0] + 1j * parts[1])
    mask = make_mask()
    mask[[0, 1, -1]] = False
    xml = (
        '<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding><encodedSpace><matrixSize>'
        f"<x>{size[0]}</x><y>{size[1]}</y><z>1</z></matrixSize></encodedSpace><reconSpace>"
        f"<matrixSize><x>{SIZE[0]}</x><y>{SIZE[1]}</y><z>1</z></matrixSize></reconSpace>"
        "</encoding></ismrmrdHeader>"
    )
    path, out = tmp_path / "volume.h5", tmp_path / "out"
    with h5py.File(path, "w") as file:
        file["kspace"] = (kspace * mask).astype(np.complex64)
        file["mask"] = mask.astype(np.float32)
        file["ismrmrd_header"] = xml
    done = run("reconstruct", path, "--model", receivers, "-o", out, *PLAN, "--no-report")
    assert done.exit_code == 0, done.output
    with h5py.File(out / "volume.h5") as file:
        mean = file["reconstruction"][()]
    assert mean.shape == (2, *SIZE)
    for number in range(2):
        # Orthonormal transforms of half as many rows: the image keeps its units.
        check_error(mean[number], (1 + number) * make_disc(), 0.2)
    run_json = json.loads((out / "run.json").read_text())
    assert run_json["operator"]["kind"] == "Sense"


def test_what_is_red_is_refused_with_complex_files_too(receivers: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "scan.npz", tmp_path / "out"
    np.savez(path, kspace=make_kspace()[0] * make_mask())
    # A tenth of the noise: no sample can be that near to the data.
    plan = ("--samples", 9, "--calls", 4, "--noise-std", 0.3, "--no-report", "--complex")
    done = run("reconstruct", path, "--model", receivers, "-o", out, *plan)
    assert isinstance(done.exception, RefusedError), done.output
    assert not list(out.glob("complex_*"))


def test_a_volume_on_disk_gives_the_same_bits(
    receivers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=make_kspace(3) * make_mask())
    arguments = ("reconstruct", path, "--model", receivers, *PLAN, "--complex")
    done = run(*arguments, "-o", tmp_path / "plain")
    assert done.exit_code == 0, done.output
    monkeypatch.setattr(spool, "SMALL", 0)
    monkeypatch.setattr(provenance, "SMALL", 0)
    done = run(*arguments, "-o", tmp_path / "held")
    assert done.exit_code == 0, done.output
    plain, held = (json.loads((tmp_path / name / "run.json").read_text()) for name in PLACES)
    assert plain["files"] == held["files"]
    assert plain["id"] == held["id"]
    checked = run("verify", tmp_path / "held" / "scan_results.npz", "--model", receivers)
    assert checked.exit_code == 0, checked.output


def test_one_coil_with_a_phase_and_what_real_models_say(
    receivers: Path, scanner: Path, tmp_path: Path
) -> None:
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=transform(make_disc((16, 16))))
    arguments = ("reconstruct", path, "--no-report", *PLAN)
    done = run(*arguments, "--model", receivers, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "out" / "scan_results.npz") as results:
        check_error(results["mean"].squeeze(), make_disc((16, 16)), 0.1)
    for more in ((), ("--complex",)):
        refused = run(*arguments, "--model", scanner, "-o", tmp_path / "real", *more)
        assert refused.exit_code != 0
    assert "makes real images" in str(refused.exception)
    given = ("--maps", tmp_path / "none.npy")
    refused = run(*arguments, "--model", scanner, "-o", tmp_path / "real", *given)
    assert "maps of coils are for k-space and models of complex images" in str(refused.exception)


def test_what_is_inspected(tmp_path: Path) -> None:
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=make_kspace(1, (48, 40))[0])
    said = run("inspect", path)
    assert said.exit_code == 0, said.output
    assert "3 coils" in said.output
    assert "what coils do not share" in said.output
    assert "for models of complex images" in said.output


def test_a_clean_image_is_seen_by_drawn_coils(receivers: Path, tmp_path: Path) -> None:
    image = (np.abs(make_disc((16, 16))) / 2).astype(np.float32)
    np.save(tmp_path / "image.npy", image)
    given = ("--simulate", "--model", receivers, "-o", tmp_path / "out", *PLAN)
    done = run("reconstruct", tmp_path / "image.npy", *given)
    assert done.exit_code == 0, done.output
    assert "SIMULATED" in done.output
    with np.load(tmp_path / "out" / "image_results.npz") as results:
        check_error(results["mean"].squeeze(), image, 0.3)
    facts = json.loads((tmp_path / "out" / "run.json").read_text())
    assert facts["operator"]["kind"] == "Sense"
    assert facts["settings"]["simulated"]
    with np.load(tmp_path / "out" / "measurement.npz") as held:
        assert held["y"].shape == (1, 8, 16, 16)
    assert "Reference" in (tmp_path / "out" / "report.html").read_text()


def test_maps_by_a_body_coil(receivers: Path, tmp_path: Path) -> None:
    """Of a scan with gaps, and of one in a file with the body coil's k-space."""
    size = (32, 32)
    rng = np.random.default_rng(1)
    body = transform(make_disc(size)) + 3 * rng.standard_normal(size)
    kspace = make_kspace(2, size)
    mask = make_mask(size)
    mask[size[1] // 2 - 6 : size[1] // 2 + 6] = True
    path = tmp_path / "scan.npz"
    arrays = {"kspace": kspace * mask, "body": body[None, None].astype(np.complex64)}
    # The mask in the file says what was measured of the coils' k-space, not of the body coil's.
    for out, more in (("out", {}), ("masked", {"mask": mask})):
        np.savez(path, **arrays, **more)
        given = ("--key", "kspace", "--body", path, "--body-key", "body", "--no-report")
        done = run("reconstruct", path, "--model", receivers, "-o", tmp_path / out, *PLAN, *given)
        assert done.exit_code == 0, done.output
        with np.load(tmp_path / out / "scan_results.npz") as results:
            for number in range(2):
                check_error(results["mean"][number, 0], (1 + number) * make_disc(size), 0.15)
    np.savez(tmp_path / "other.npz", kspace=body[:16].astype(np.complex64))
    for wrong, words in (
        (("--body", tmp_path / "other.npz"), "give the same slices by the body coil"),
        (("--body", path, "--body-key", "kspace"), "no fully sampled k-space"),
        (("--body", path, "--maps", path), "give one of them"),
        (("--body", path, "--simulate"), "--body goes with k-space alone"),
    ):
        refused = run("reconstruct", path, "--model", receivers, "-o", tmp_path / "no", *wrong)
        assert words in str(refused.exception)


def test_ismrmrd_with_oversampling_padding_partial_fourier_and_noise(
    receivers: Path, tmp_path: Path
) -> None:
    """As scanners write it: coils that share noise, lines missing at both ends, more at one."""
    with warnings.catch_warnings():
        # ismrmrd sets the filters of the whole process when it is imported.
        ismrmrd = pytest.importorskip("ismrmrd")
    size, wide = (24, 20), (24, 40)
    first, last, centre = 5, 23, 7  # of 24 lines, of which 0-4 and 23 were never measured
    rng = np.random.default_rng(3)
    maps = draw_birdcage(wide, COILS, rng=rng).numpy()
    image = np.zeros(wide, complex)
    image[:, 10:30] = make_disc(size)
    mix = 3 * (np.eye(COILS) + 0.4 * np.eye(COILS, k=1))

    def draw_noise(*shape: int) -> np.ndarray:
        parts = rng.standard_normal((2, COILS, *shape))
        return np.tensordot(mix, parts[0] + 1j * parts[1], 1).astype(np.complex64)

    header = HEADER.format(x=wide[1], y=wide[0], rx=size[1], top=last - first - 1, center=centre)
    with ismrmrd.Dataset(tmp_path / "scan.h5", "dataset", mode="w") as dataset:
        dataset.write_xml_header(header)
        quiet = ismrmrd.Acquisition.from_array(draw_noise(2000))
        quiet.setFlag(ismrmrd.ACQ_IS_NOISE_MEASUREMENT)
        dataset.append_acquisition(quiet)
        for number in range(2):
            kspace = transform((1 + number) * maps * image) + draw_noise(*wide)
            for row in range(first, last):
                line = ismrmrd.Acquisition.from_array(kspace[:, row].astype(np.complex64))
                line.center_sample, line.idx.slice = wide[1] // 2, number
                line.idx.kspace_encode_step_1 = row - first
                dataset.append_acquisition(line)
    given = ("--samples", 9, "--calls", 4, "--force", "--no-report")
    out = tmp_path / "out"
    done = run("reconstruct", tmp_path / "scan.h5", "--model", receivers, "-o", out, *given)
    assert done.exit_code == 0, done.output
    assert "noise scan" in done.output
    with ismrmrd.Dataset(out / "scan_results.h5", "dataset", mode="r") as dataset:
        for number in range(2):
            written = dataset.read_image("image_0", number)
            assert written.data.shape == (1, 1, *size)
            assert (*written.field_of_view,) == (200.0, 240.0, 5.0)
            # Lines that were never measured blur the edge.
            check_error(written.data[0, 0], (1 + number) * make_disc(size), 0.2)
    facts = json.loads((out / "run.json").read_text())
    # Of noise that coils share 3 and 3.2 are the levels.
    assert 2.5 < facts["settings"]["noise_std"] < 3.5
    (check,) = [one for one in facts["trust"]["checks"] if one["name"] == "pixel spacing"]
    assert (check["value"], check["judgement"]) == ("10 x 10 mm", "doubtful")


def test_a_method_with_its_own_sampler_is_verified(receivers: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "scan.npz", tmp_path / "out"
    np.savez(path, kspace=make_kspace()[0] * make_mask())
    method = ("--method", "bcdm.methods:DDRM")
    given = ("--model", receivers, "-o", out, *PLAN, *method, "--no-report")
    done = run("reconstruct", path, *given)
    assert done.exit_code == 0, done.output
    checked = run("verify", out, "--model", receivers, *method)
    assert checked.exit_code == 0, checked.output
    assert "right  first sample, drawn again" in checked.output
    asked = run("verify", out, "--model", receivers, *method, "--device", "elsewhere")
    assert "'elsewhere' is no device" in str(asked.exception)


def test_a_key_of_a_body_coil_needs_the_coil(receivers: Path, tmp_path: Path) -> None:
    path = tmp_path / "scan.npz"
    np.savez(path, kspace=make_kspace()[0])
    done = run("reconstruct", path, "--model", receivers, "-o", tmp_path / "o", "--body-key", "x")
    assert "--body-key is for --body" in str(done.exception)
