"""The service over real HTTP: the bits of the command, whoever asks."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from tests.service.cases import FAST, Client

from bcdm.checkpoint import load
from bcdm.files import hash_path
from bcdm.reconstruction.drawing import Item, draw_previews
from bcdm.reconstruction.fitting import fit_scan
from bcdm.scans import read_scan
from bcdm.service.tasks import MEAN_BATCH


def test_a_job_gives_the_files_of_the_command(
    client: Client, scan: Path, scanner: Path, tmp_path: Path
) -> None:
    job = client.submit(scan)
    found = client.wait(job)
    assert (found["state"], found["progress"], found["attempts"]) == ("done", 1.0, 1)
    assert found["light"] in ("green", "amber", "red")
    command = [sys.executable, "-m", "bcdm", "reconstruct", str(scan), "--model", str(scanner)]
    command += ["-o", str(tmp_path / "out"), "--samples", "9", "--calls", "2", "--batch", "16"]
    subprocess.run([*command, "--noise-std", "2.5", "--force"], check=True, capture_output=True)
    assert "scan_results.npz" in found["files"]
    for name in ("scan_results.npz", "measurement.npz", "report.html"):
        assert client.fetch(job, name) == (tmp_path / "out" / name).read_bytes(), name
    status, headers, content = client.ask("GET", f"/v1/jobs/{job}/result?samples=true")
    assert (status, headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for path in (tmp_path / "out" / "samples.zarr").rglob("c/*"):
            if path.is_file():
                name = path.relative_to(tmp_path / "out").as_posix()
                assert packed.read(name) == path.read_bytes(), name
    status, headers, content = client.ask("GET", f"/v1/jobs/{job}/report")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"What the trust rests on" in content


def test_a_mean_is_that_of_the_library(client: Client, scan: Path, scanner: Path) -> None:
    status, _, content = client.ask("POST", "/v1/mean?noise_std=2.5", scan.read_bytes())
    assert status == 200, content
    with np.load(io.BytesIO(content)) as file:
        mean = file["mean"]
    model = load(scanner)
    torch.set_num_threads(1)
    fitted = fit_scan(read_scan(scan), model, noise_std=2.5)
    item = Item(f"{hash_path(scan)}/0", fitted.measure(0))
    (expected,) = draw_previews(model.method, [item], 0, MEAN_BATCH)
    np.testing.assert_array_equal(mean, fitted.to_file(expected[None], 0))


def test_what_cannot_be_read_says_why(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "broken.npz"
    path.write_bytes(b"PK\3\4 no archive")
    found = client.wait(client.submit(path))
    assert found["state"] == "failed"
    assert "broken.npz" in found["summary"]
    assert str(tmp_path) not in found["summary"]
    assert "input/" not in found["summary"]
    status, _, content = client.ask("POST", "/v1/mean?name=broken.npz", path.read_bytes())
    assert (status, b"broken" in content) == (422, True)


def test_settings_are_checked_at_the_door(client: Client) -> None:
    for query in ("samples=3", "calls=0", "noise_std=-1", "x=1", "seed=-1", "operator=mask.npy"):
        assert client.ask("POST", f"/v1/jobs?{query}", b"x")[0] == 422, query
    assert client.ask("POST", "/v1/jobs", b"")[0] == 422


def test_a_form_is_told_how_to_send_a_file(client: Client) -> None:
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    status, _, said = client.ask("POST", "/v1/jobs", b"--x--", headers=form)
    assert (status, b"curl --data-binary @scan.h5" in said) == (422, True)
    assert FAST
