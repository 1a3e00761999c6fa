from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bcdm.errors import InputError
from bcdm.noise.kspace import transform, transform_back
from bcdm.operators import Sense
from bcdm.problems.coils import draw_birdcage
from bcdm.reconstruction import receiving
from bcdm.reconstruction.receiving import receive
from bcdm.scans import Scan

COILS, SIZE = 4, (40, 36)


def make_scan(
    *, dead: bool = False, noise: float = 0.01, tall: float = 0.8
) -> tuple[Scan, np.ndarray, np.ndarray]:
    """Two slices of k-space whose coils share noise; what coils see together; the maps."""
    rng = np.random.default_rng(2)
    rows, columns = (np.linspace(-1, 1, side) for side in SIZE)
    body = (rows[:, None] / tall) ** 2 + (columns / 0.7) ** 2 < 1
    image = torch.from_numpy(5 * body * np.exp(1j * columns)).to(torch.complex64)[None, None]
    maps = draw_birdcage(SIZE, COILS, rng=rng)
    clean = Sense(maps, torch.ones(SIZE, dtype=torch.bool)).forward(image)[0].numpy()
    clean = np.stack([clean, 0.5 * clean])
    parts = rng.standard_normal((2, 2, COILS, *SIZE))
    mix = np.eye(COILS) + 0.4 * np.eye(COILS, k=1)
    own = noise * np.einsum("kc,schw->skhw", mix, parts[0] + 1j * parts[1])
    data = (clean + own).astype(np.complex64)
    scanned = noise * mix @ (rng.standard_normal((COILS, 4000)) * (1 + 0j))
    scanned = scanned + 1j * noise * mix @ rng.standard_normal((COILS, 4000))
    if dead:
        data = np.insert(data, 1, 0, 1)
        scanned = np.insert(scanned, 1, 0, 0)
    mask = np.zeros(SIZE, bool)
    mask[:, ::2] = True
    mask[:, SIZE[1] // 2 - 8 : SIZE[1] // 2 + 8] = True
    scan = Scan(
        path=Path("scan.npz"),
        format="npz",
        kind="k-space",
        data=np.where(mask, data, 0),
        mask=mask,
        noise=scanned.astype(np.complex64),
        size=SIZE,
        facts={},
    )
    seen = np.stack([np.abs(image[0, 0].numpy()), 0.5 * np.abs(image[0, 0].numpy())])
    return scan, seen, maps.numpy()


@pytest.mark.parametrize("dead", [False, True])
def test_coils_are_white_and_weights_lead_back_to_the_file(dead: bool) -> None:
    scan, seen, _ = make_scan(dead=dead)
    found = receive(scan)
    assert found.scan.data.shape == (2, COILS, *SIZE)
    assert found.operator.maps.shape == (2, COILS, *SIZE)
    # The noise of what was made of the data: independent, at the level that is stated.
    assert found.noise.source == "noise scan"
    alive = [0, 2, 3, 4] if dead else [0, 1, 2, 3]
    raw, white = (
        part.swapaxes(0, 1).reshape(COILS, -1) for part in (scan.data[:, alive], found.scan.data)
    )
    made = white @ np.linalg.pinv(raw)
    mix = 0.01 * (np.eye(COILS) + 0.4 * np.eye(COILS, k=1))
    covariance = made @ mix @ mix.T @ made.conj().T
    np.testing.assert_allclose(covariance / found.noise.std**2, np.eye(COILS), atol=0.08)
    for number in range(2):
        own = found.operator.select(torch.tensor([number]))
        y = torch.from_numpy(found.scan.data[number])[None]
        image = own.solve(1e-4, 1.0, own.adjoint(y))[0, 0].abs().numpy()
        file = found.weights[number] * image
        inside = seen[number] > 0
        # The file's coils have unit root sum of squares, so that images are those of the object.
        np.testing.assert_allclose(file[inside], seen[number][inside], rtol=0.1)


@pytest.mark.parametrize("filtered", [False, True])
def test_a_filter_of_the_receiver_is_undone(filtered: bool) -> None:
    """Then noise is as strong at the ends of the readout as it was before."""
    plain, _, _ = make_scan(noise=0.2, tall=0.3)
    left = np.interp(np.abs(np.linspace(-1, 1, SIZE[0])), [0, 0.7, 1], [1, 1, 0.3])
    lines = transform(plain.data, -2) * (left[:, None] if filtered else 1)
    scan = replace(plain, data=transform_back(lines, -2).astype(np.complex64), noise=None)
    found = receive(scan)
    assert ("filter was undone" in found.noise.source) == filtered
    positions = np.abs(transform(found.scan.data, -2)).mean((0, 1, 3))
    ends, near = (float(positions[[k, k + 1, -k - 2, -k - 1]].mean()) for k in (0, 7))
    assert ends / near == pytest.approx(1, abs=0.2)


def test_stated_noise_and_known_maps_are_taken() -> None:
    scan, _, maps = make_scan()
    found = receive(scan, noise_std=0.02, maps=3 * maps[None])
    assert (found.noise.std, found.noise.source) == (0.02, "stated")
    np.testing.assert_allclose(found.scan.data, scan.data, rtol=1e-5)
    np.testing.assert_allclose(found.weights, 1 / 3, rtol=1e-4)
    np.testing.assert_allclose(found.operator.maps[1].numpy(), maps, atol=1e-5)


def test_maps_that_were_cut_off_are_carried_on() -> None:
    scan, seen, maps = make_scan()
    cut = np.where(seen[0] > 0, maps, 0)
    found = receive(scan, noise_std=0.02, maps=cut[None])
    total = found.operator.maps.abs().square().sum(1)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert np.isfinite(found.weights).all()
    np.testing.assert_allclose(found.weights[0][seen[0] > 0], 1, rtol=1e-4)


def test_maps_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan, _, _ = make_scan()
    first = receive(scan, cache=tmp_path / "maps")
    kept = sorted((tmp_path / "maps").iterdir())
    assert len(kept) == 2
    monkeypatch.setattr(receiving, "estimate_maps", None)
    again = receive(scan, cache=tmp_path / "maps")
    torch.testing.assert_close(again.operator.maps, first.operator.maps, rtol=0, atol=0)
    monkeypatch.undo()
    # What is damaged is made again.
    kept[0].write_bytes(b"nothing")
    healed = receive(scan, cache=tmp_path / "maps")
    torch.testing.assert_close(healed.operator.maps, first.operator.maps, rtol=0, atol=0)


def test_silence_is_refused() -> None:
    scan, _, _ = make_scan()
    silent = Scan(scan.path, "npz", "k-space", 0 * scan.data, scan.mask, None, SIZE, {})
    with pytest.raises(InputError, match="zeros alone"):
        receive(silent)


def test_lines_for_maps_alone_give_them_where_the_middle_has_gaps() -> None:
    whole, seen, maps = make_scan(dead=True)
    assert whole.mask is not None
    gaps = whole.mask & (np.arange(SIZE[1]) % 4 == 0)
    scan = replace(whole, data=np.where(gaps, whole.data, 0), mask=gaps)
    with pytest.raises(InputError, match=r"has gaps .*give the coils' maps"):
        receive(scan)
    # Rows about the origin, brighter than the measurement: another contrast, the same coils.
    rows = slice(SIZE[0] // 2 - 8, SIZE[0] // 2 + 9)
    kspace = Sense(torch.from_numpy(maps), torch.ones(SIZE, dtype=torch.bool))
    image = torch.from_numpy(3 * seen[:, None]).to(torch.complex64)
    full = np.insert(kspace.forward(image).numpy(), 1, 0, 1)
    apart = replace(scan, calibration=np.array(full[..., rows, :]))
    found = receive(apart).operator.maps.numpy()
    expected = receive(whole).operator.maps.numpy()
    away = np.abs((found * expected.conj()).sum(1))  # both of unit root sum of squares
    assert away[seen > 0].min() > 0.97
    # The measurement itself is not touched, and a wider middle of its own is taken.
    np.testing.assert_array_equal(receive(apart).scan.data, receive(apart).scan.data * gaps)
    few = replace(whole, calibration=np.array(full[..., SIZE[0] // 2 - 1 : SIZE[0] // 2 + 2, :]))
    np.testing.assert_array_equal(receive(few).operator.maps.numpy(), expected)
