"""Is this feature real? Asked while reconstructing, and of a result."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner, Result
from PIL import Image

from bcdm.commands import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def reconstruct(picture: tuple[Path, Path], model: Path, out: Path, *more: object) -> Result:
    effort = ["--samples", "11", "--calls", "3", "--batch", "4", "--noise-std", "6.4"]
    given = ["reconstruct", picture[0], "--mask", picture[1], "--model", model, "-o", out]
    return run(*given, *effort, *more)


def test_is_this_feature_real(picture, masked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    region = np.zeros((16, 16), np.uint8)
    region[2:5, 3:7] = 255
    Image.fromarray(region).save(tmp_path / "region.png")
    done = reconstruct(
        picture,
        masked,
        out,
        "--force",
        "--feature",
        "2:5,3:7",
        "--feature",
        tmp_path / "region.png",
    )
    assert done.exit_code == 0, done.output
    box, mask = json.loads((out / "run.json").read_text())["features"]
    assert box["in words"] == mask["in words"]
    assert box["pixels"] == 12
    assert f"2:5,3:7: {box['in words']}" in done.output
    assert box["in words"] in (out / "report.html").read_text()
    samples = np.asarray(zarr.open_array(out / "samples.zarr", mode="r"))[0, :, 0]
    ring = np.zeros((16, 16), bool)
    ring[0:8, 0:10] = True
    ring[2:5, 3:7] = False
    contrast = samples[:, 2:5, 3:7].mean((1, 2)) - samples[:, ring].mean(1)
    assert box["contrast"] == pytest.approx(contrast.mean() * 127.5, rel=1e-4)
    assert box["fraction"] == max((contrast > 0).mean(), (contrast < 0).mean())
    asked = run("feature", out, "--box", "0,2:5,3:7", "--json")
    assert json.loads(asked.output)[0]["in words"] == box["in words"]
    assert "trust card of slice 0: " in run("feature", out, "--box", "2:5,3:7").output


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ("2:5", "is no region"),
        ("5:5,2:3", "empty or leaves"),
        ("1:2,3:17", "empty or leaves"),
        ("3,1:2,3:4", "the last one is 0"),
        ("absent.png", "is no region"),
    ],
)
def test_what_is_no_region_is_refused(picture, masked: Path, tmp_path: Path, box, said) -> None:
    done = reconstruct(picture, masked, tmp_path / "out", "--feature", box)
    assert said in str(done.exception)
    assert not (tmp_path / "out").exists()
    missing = run("feature", tmp_path, "--box", "1:2,3:4")
    assert "holds no samples" in str(missing.exception)
