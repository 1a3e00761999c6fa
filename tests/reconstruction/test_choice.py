"""Outside of what a model was made for: refused, forced, or by MMPS with its network as prior."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from bcdm.checkpoint import Guest, Model, load, save_model, store_cloud
from bcdm.checkpoint.building import build_method, build_operator
from bcdm.checkpoint.calibration import Calibration, store_calibration
from bcdm.checkpoint.settings import parse_config
from bcdm.checkpoint.usual import Usual
from bcdm.commands import cli
from bcdm.diffusion import Denoiser
from bcdm.errors import InputError
from bcdm.measurement import Measurement
from bcdm.methods import MMPS
from bcdm.operators import FourierMask, PixelMask
from bcdm.problems.familiarity import UnfamiliarWarning
from bcdm.reconstruction import Posterior, reconstruct
from bcdm.reconstruction.calibrating import fit_fallback
from bcdm.reconstruction.choice import Choice
from bcdm.reconstruction.files import RefusedError
from bcdm.report.facts import describe_posterior
from bcdm.trust import UnfitError

SHAPE, PRIOR_STD = (1, 16, 16), 0.3


def make_model(folder: Path, nothing: float, operator: dict[str, Any] | None = None) -> Model:
    """A family of holes, whose untrained network gives zero: the prior is white and Gaussian."""
    family = {"kind": "family", "members": [{"kind": "holes"}], "nothing": nothing}
    config = parse_config(
        {
            "name": "family",
            "data": {"path": "nothing", "size": [16, 16], "channels": 1, "source_range": [0, 255]},
            "operator": operator or family,
            "noise_std": [0.02, 0.2] if operator is None else 0.05,
            "network": {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": []},
            "parameterisation": {"prior_std": PRIOR_STD},
            "training": {"steps": 1},
        }
    )
    network = build_method(config, SHAPE).network
    for weight in network.parameters():
        weight.data.zero_()
    built = None if operator is None else build_operator(config.operator, SHAPE[1:])
    save_model(folder, config, network, built, SHAPE, {})
    return load(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "family"
    make_model(path, 0.1)
    store_cloud(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(folder)


@pytest.fixture(scope="module")
def outside() -> Measurement:
    """A part of k-space, which is no hole; with every frequency its negative, as of real images."""
    seeded = torch.Generator().manual_seed(0)
    x = PRIOR_STD * torch.randn(1, *SHAPE, generator=seeded)
    mask = torch.rand(16, 16, generator=seeded) < 0.3
    mask |= mask.flip(0, 1).roll((1, 1), (0, 1))
    return Measurement.simulate(x, FourierMask(mask.float(), real=True), 0.1, seed=1)


def test_a_measurement_outside_of_the_family_is_refused(model: Model, outside: Measurement) -> None:
    with pytest.raises(UnfitError, match=r"Not a measurement that family .* method=\"auto\""):
        reconstruct(model, outside, samples=2, calls=2, progress=False)
    with pytest.raises(InputError, match="not 'any'"):
        reconstruct(model, outside, samples=2, calls=2, progress=False, method="any")


def test_it_can_be_forced(model: Model, outside: Measurement) -> None:
    with pytest.warns(UnfamiliarWarning):
        posterior = reconstruct(model, outside, samples=2, calls=2, progress=False, force=True)
    assert posterior.model is model
    assert posterior.trust[0].light == "red"
    other = reconstruct(
        model, outside, samples=2, calls=2, progress=False, method="auto", force=True
    )
    assert isinstance(other.model, Guest)


def test_the_fallback_is_exact_where_the_prior_is_gaussian(
    model: Model, outside: Measurement, tmp_path: Path
) -> None:
    """Of a white Gaussian prior MMPS draws from the posterior; its mean is the Wiener estimate."""
    posterior = reconstruct(model, outside, samples=16, calls=10, progress=False, method="auto")
    assert isinstance(posterior.model, Guest)
    torch.testing.assert_close(
        posterior.linear, outside.estimate_linearly(PRIOR_STD), rtol=1e-5, atol=1e-5
    )
    # Pixels are uncertain by up to the prior's deviation, their average by a quarter of it.
    away = (posterior.mean - posterior.linear).square().mean().sqrt()
    assert float(away) < 1.1 * PRIOR_STD / 4
    measured = float(outside.operator.mask.float().mean())
    assert abs(float(posterior.std.mean()) / PRIOR_STD - (1 - measured) ** 0.5) < 0.1


def test_card_and_report_say_what_drew(model: Model, outside: Measurement, tmp_path: Path) -> None:
    posterior = reconstruct(model, outside, samples=9, calls=10, progress=False, method="auto")
    (card,) = posterior.trust
    assert card.light == "amber"
    said = {check.name: check.reason for check in card.checks}["method"]
    assert "MMPS drew the samples" in said
    assert "outside of what family was made for" in said
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "reconstructed by MMPS, prior family" in page
    assert "MMPS drew the samples" in page


def test_inside_of_the_family_the_model_itself_is_taken(model: Model) -> None:
    mask = torch.ones(16, 16)
    mask[5:10, 5:10] = 0
    x = torch.zeros(1, *SHAPE)
    measurement = Measurement.simulate(x, PixelMask(mask), 0.1, seed=1)
    posterior = reconstruct(model, measurement, samples=2, calls=2, progress=False, method="auto")
    assert posterior.model is model


def test_what_is_no_prior_cannot_fall_back(tmp_path: Path, outside: Measurement) -> None:
    other = make_model(tmp_path / "model", 0.0)
    with pytest.raises(UnfitError, match=r"force=True goes on all the same$"):
        reconstruct(other, outside, samples=2, calls=2, progress=False)
    with pytest.raises(UnfitError, match="Nor is it a prior"):
        reconstruct(other, outside, samples=2, calls=2, progress=False, method="auto")


def test_a_method_of_the_prior_by_object_and_by_path(model: Model, outside: Measurement) -> None:
    """The same samples as those of "auto", under another name."""

    def draw(method: Choice) -> Posterior:
        return reconstruct(model, outside, samples=3, calls=4, progress=False, method=method)

    def clipped(prior: Denoiser) -> MMPS:
        return MMPS(prior, 2, model.value_range)

    assert torch.equal(draw(clipped).samples, draw("auto").samples)
    by_path = draw("bcdm.methods:PiGDM")
    assert by_path.model.name == "PiGDM, prior family"
    assert by_path.model.value_range == model.value_range
    said = {check.name: check.reason for check in by_path.trust[0].checks}["method"]
    assert "PiGDM drew the samples with the network of family as prior" in said
    with pytest.raises(InputError, match="is no method"):
        draw("builtins:repr")


def test_intervals_of_the_fallback_have_widths_of_their_own(folder: Path, tmp_path: Path) -> None:
    """Images vary half again as much as the network believes; fitted, intervals hold them."""
    fresh = Path(shutil.copytree(folder, tmp_path / "model"))
    model = load(fresh)
    seeded = torch.Generator().manual_seed(5)
    images = 1.5 * PRIOR_STD * torch.randn(24, *SHAPE, generator=seeded)
    widths = fit_fallback(
        model, images[:14], samples=19, calls=5, intervals=14, report=lambda _: None
    )
    assert widths is not None
    known = Calibration({}, Usual(), {}, (0.1, 0.5, 0.9), "images", fallback=widths)
    store_calibration(fresh, known)
    mask = torch.rand(16, 16, generator=seeded) < 0.3
    operator = FourierMask(mask.float(), real=True)
    outside = Measurement.simulate(images[14:], operator, 0.1, seed=1)
    drawn = reconstruct(load(fresh), outside, samples=19, calls=5, progress=False, method="auto")
    held = {}
    for calibrated in (False, True):
        low, high = drawn.interval(0.8, calibrated=calibrated)
        held[calibrated] = float(((low <= images[14:]) & (images[14:] <= high)).double().mean())
    assert held[False] < 0.7
    # Some of the pixels of a hole are known, none of k-space is: the widths fit about.
    assert held[True] == pytest.approx(0.8, abs=0.07)
    said = {check.name: check.reason for check in drawn.trust[0].checks}["method"]
    assert "calibrated inside of it only, and for single pixels only" in said
    assert "never calibrated" not in drawn.trust[0].summary
    told = dict(describe_posterior(drawn))["calibrated on"]
    assert told.startswith("validation images, by the operators that the model was made for")


@pytest.fixture
def scan(picture: tuple[Path, Path], tmp_path: Path) -> list[str]:
    """The command, for a blurred picture, which is no hole."""
    return [
        "reconstruct", str(picture[0]), "--operator", "{kind: gaussian_blur, std: 1.0}",
        "--simulate", "--noise-std", "12", "--samples", "9", "--calls", "8",
        "-o", str(tmp_path / "out"),
    ]  # fmt: skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_the_command_names_and_takes_the_fallback(
    scan: list[str], folder: Path, tmp_path: Path
) -> None:
    refused = run(*scan, "--model", folder)
    assert isinstance(refused.exception, RefusedError)
    assert "--method auto takes MMPS with its network as prior" in str(refused.exception)
    done = run(*scan, "--model", folder, "--method", "auto")
    assert done.exit_code == 0, done.output
    assert "MMPS, prior family" in done.output
    facts = json.loads((tmp_path / "out/run.json").read_text())
    assert facts["settings"]["method"] == "MMPS"
    assert facts["settings"]["interval_factor"] == 1.0
    assert facts["trust"]["light"] == "amber"
    said = {check["name"]: check["reason"] for check in facts["trust"]["checks"]}["method"]
    assert "MMPS drew the samples" in said
    page = (tmp_path / "out/report.html").read_text()
    assert "reconstructed by MMPS, prior family" in page
    assert "their intervals were never calibrated" in page
    again = run(*scan, "--model", folder, "--method", "auto")
    assert "there already" in again.output
    found = run("verify", tmp_path / "out", "--model", folder)
    assert found.exit_code == 0, found.output
    assert "the same to the bit" in found.output


def test_the_command_takes_a_method_by_its_path(
    scan: list[str], folder: Path, tmp_path: Path
) -> None:
    done = run(*scan, "--model", folder, "--method", "bcdm.methods:PiGDM", "--force")
    assert done.exit_code == 0, done.output
    facts = json.loads((tmp_path / "out/run.json").read_text())
    assert facts["settings"]["method"] == "bcdm.methods.guidance:PiGDM"
    assert len(facts["settings"]["method_sha256"]) == 64
    # What a file says is never run by itself.
    unnamed = run("verify", tmp_path / "out", "--model", folder)
    assert "--method bcdm.methods.guidance:PiGDM runs it again" in str(unnamed.exception)
    named = run("verify", tmp_path / "out", "--model", folder,
                "--method", "bcdm.methods.guidance:PiGDM")  # fmt: skip
    assert "the same to the bit" in named.output
    wrong = run(*scan, "--model", folder, "--method", "mmps")
    assert "--method is model, auto or an import path" in str(wrong.exception)


def test_inside_of_the_family_auto_changes_nothing(
    picture: tuple[Path, Path], folder: Path, tmp_path: Path
) -> None:
    runs = []
    for name in ("model", "auto"):
        done = run("reconstruct", picture[0], "--mask", picture[1], "--model", folder,
                   "--noise-std", 6.4, "--samples", 9, "--calls", 2, "--method", name, "--force",
                   "--no-report", "-o", tmp_path / name)  # fmt: skip
        assert done.exit_code == 0, done.output
        runs.append(json.loads((tmp_path / name / "run.json").read_text()))
    assert runs[0]["id"] == runs[1]["id"]
    assert runs[0]["files"] == runs[1]["files"]


def test_a_prior_alone_reconstructs_by_auto_only(scan: list[str], tmp_path: Path) -> None:
    path = tmp_path / "prior"
    make_model(path, 0.0, {"kind": "nothing"})
    refused = run(*scan, "--model", path)
    assert "is a prior, trained without measurements" in str(refused.exception)
    assert "--method auto" in str(refused.exception)
    done = run(*scan, "--model", path, "--method", "auto", "--no-report")
    assert done.exit_code == 0, done.output
