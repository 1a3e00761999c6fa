"""What `bcdm inspect` says of a file."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import bcdm
from bcdm.cli import cli
from bcdm.commands.inputs import _describe
from bcdm.scans import Scan


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (np.zeros(32), None),
        (np.full(32, np.pi / 2), "90.0 degrees"),
        (np.linspace(-1, 2, 32), "varies over the image"),
    ],
)
def test_the_phase_of_an_image_is_named(phase: np.ndarray, words: str | None) -> None:
    image = np.outer(np.hanning(32), np.hanning(32)) * np.exp(1j * phase)
    noise = np.random.default_rng(0).normal(size=(2, 32, 32)) * 1e-3
    kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(image), norm="ortho"))
    data = (kspace + noise[0] + 1j * noise[1]).astype(np.complex64)[None, None]
    mask = np.ones((32, 32), bool)
    scan = Scan(Path("a.npz"), "npz", "k-space", data, mask, None, (32, 32), {})
    said = dict(_describe(scan)).get("phase")
    assert (said is None) if words is None else (said is not None and words in said)


def test_a_model_of_another_noise_level_is_said_to_be(tmp_path: Path) -> None:
    """What fits but for its noise is red when it is reconstructed: inspecting says so first."""
    model = bcdm.load("faces64-inpaint")
    rng = np.random.default_rng(0)
    picture = np.add.outer(np.arange(64.0), np.arange(64.0))[..., None] + np.full(3, 60.0)
    mask = model.operator.mask.reshape(64, 64).numpy()
    np.save(tmp_path / "mask.npy", mask)
    found = {}
    for name, noise in (("clean", 0.3), ("noisy", 127.5 * 0.02)):
        noisy = picture + noise * rng.standard_normal(picture.shape)
        Image.fromarray(noisy.round().clip(0, 255).astype(np.uint8)).save(tmp_path / "a.png")
        told = [str(tmp_path / "a.png"), "--mask", str(tmp_path / "mask.npy")]
        done = CliRunner().invoke(cli, ["inspect", *told])
        assert done.exit_code == 0, done.output
        (found[name],) = (line for line in done.output.splitlines() if "faces64-inpaint" in line)
    assert found["noisy"].endswith(" fit")
    assert "faces64-inpaint fits, but for its noise: 0.00" in found["clean"]
    assert found["clean"].endswith("instead of 0.02, in the model's units")
