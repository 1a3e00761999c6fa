"""Noise levels read from measurements, beside the true ones: every kind, every level."""

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from bcdm.commands import cli


def test_every_kind_is_tried_at_every_level(tmp_path: Path) -> None:
    place = np.linspace(-1, 1, 128)
    row, column = np.meshgrid(place, place)
    sizes = np.linspace(0.5, 0.8, 8)[:, None, None]
    images = np.where(row**2 + (1.2 * column) ** 2 < sizes**2, 150 + 60 * row, 0).astype(np.uint8)
    (tmp_path / "brain_ixi_t1").mkdir()
    split, subject = np.array(["test"] * 8), np.array([f"s{k // 4}" for k in range(8)])
    np.savez(tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz", images=images, split=split,
             subject=subject)  # fmt: skip
    out = tmp_path / "r.json"
    CliRunner().invoke(cli, ["benchmark", "noise", "ixi64-mri", "--data", str(tmp_path),
                             "--limit", "2", "--together", "4", "--json", str(out)])  # fmt: skip
    rows = json.loads(out.read_text())
    kinds = {(row["case"]["images"], row["case"]["measured"]) for row in rows}
    assert len(kinds) == 2 * 7
    assert len(rows) == 2 * 6 * len(kinds)
    errors = {
        (row["case"]["images"], row["case"]["measured"], row["case"]["noise_std"]): row["value"]
        for row in rows
        if row["required"]
    }
    # Half of 4096 frequencies, of four images, tell the level to 1 %.
    assert errors["4 together", "k-space, lines 2x", 0.02] < 0.05
    assert all(row["case"]["measurements"] == 2 for row in rows)
    assert "| 4 together | whole picture | 0.2 |" in out.with_suffix(".md").read_text()
