"""From fully sampled raw files to a model: `bcdm prepare`, then `bcdm train`."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import bcdm
from bcdm.commands import cli
from bcdm.data import open_images
from bcdm.errors import InputError
from bcdm.problems.coils import draw_birdcage
from bcdm.problems.mapfile import read_measured
from bcdm.scans import Scan
from bcdm.training.raw import combine, divide_subjects, prepare

SIZE, SLICES, COILS = (24, 20), 2, 3
HEADER = """<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding>
<encodedSpace><matrixSize><x>48</x><y>20</y><z>1</z></matrixSize>
<fieldOfView_mm><x>2</x><y>1</y><z>1</z></fieldOfView_mm></encodedSpace>
<reconSpace><matrixSize><x>24</x><y>20</y><z>1</z></matrixSize>
<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm></reconSpace>
<encodingLimits></encodingLimits><trajectory>cartesian</trajectory></encoding></ismrmrdHeader>"""
TINY = [
    "training.steps=2",
    "training.batch=2",
    "network.width=4",
    "network.multipliers=[1]",
    "network.blocks=1",
    "operator.members=[{kind: receivers, maps: maps.npz, coils: [1, 3],"
    " masks: {kind: k_space, acceleration: [2, 3]}}]",
]


def draw_images(seed: int) -> np.ndarray:
    """Complex discs of brightness 50 to 100, (slices, H, W)."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    discs = [np.hypot(rows - 12, columns - rng.uniform(8, 12)) < 7 for _ in range(SLICES)]
    phase = np.exp(1j * (0.1 * rows + rng.uniform(0, 6)))
    return rng.uniform(50, 100) * np.stack(discs) * phase


def transform(images: np.ndarray) -> np.ndarray:
    axes = (-2, -1)
    laid = np.fft.ifftshift(images, axes=axes)
    return np.fft.fftshift(np.fft.fft2(laid, norm="ortho"), axes=axes).astype(np.complex64)


def draw_kspace(seed: int, rows: int) -> np.ndarray:
    """(slices, coils, rows, columns): what coils see, in a field of view of so many rows."""
    maps = draw_birdcage(SIZE, COILS, rng=np.random.default_rng(seed)).numpy()
    seen = maps[None] * draw_images(seed)[:, None]
    before = rows // 2 - SIZE[0] // 2
    return transform(np.pad(seen, [(0, 0), (0, 0), (before, rows - SIZE[0] - before), (0, 0)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four volumes of three patients as fastMRI stores them, one as npz, and what is no such."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(4):
        with h5py.File(raw / f"file{number}.h5", "w") as file:
            file["kspace"] = draw_kspace(number, 48)
            file["ismrmrd_header"] = HEADER
            file.attrs["patient_id"] = f"patient {max(number, 1)}"
    np.savez(raw / "lab.npz", kspace=draw_kspace(4, 24))
    sparse = draw_kspace(5, 24)
    sparse[..., 1::2] = 0
    np.savez(raw / "sparse.npz", kspace=sparse)
    points = np.random.default_rng(0).random(sparse.shape[-2:]) < 0.3
    np.savez(raw / "points.npz", kspace=draw_kspace(6, 24) * points)
    (raw / "notes.npz").write_text("no scan")
    return raw


def test_two_commands_from_raw_files_to_a_model(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    ran = CliRunner().invoke(cli, ["prepare", str(folder), str(out)], catch_exceptions=False)
    assert ran.exit_code == 0
    assert "sparse.npz is undersampled" in ran.output
    assert "points.npz is undersampled" in ran.output
    assert "notes.npz" in ran.output

    source = open_images(out / "images.h5", value_range=(0, 1))
    assert len(source) == 5 * SLICES
    assert source.subjects is not None
    assert source.split_labels is not None
    # Two volumes are of one patient, whose name is not passed on.
    assert len(set(source.subjects)) == 4
    assert not any("patient" in name for name in source.subjects)
    assert set(source.split_labels) == {"train", "val", "test"}
    with h5py.File(out / "images.h5") as file:
        scales = file["scale"][:]
    # In the order of the files; maps are known up to a phase that all coils share.
    truths = np.concatenate([np.abs(draw_images(k)) for k in range(5)])
    for image, scale, truth in zip(source, scales, truths, strict=True):
        assert image.dtype == torch.complex64
        assert float(np.abs(scale * image[0].abs().numpy() - truth).max()) < 0.02 * truth.max()
    assert {maps.shape for maps in read_measured(out / "maps.npz")} == {(COILS, *SIZE)}

    model = bcdm.train(out / "train.yaml", TINY, data=out, out=tmp_path / "run")
    assert model.shape == (1, *SIZE)
    assert model.config.data.phase
    # Nothing of this machine is in the model.
    assert str(tmp_path) not in yaml.safe_dump(model.config.model_dump(mode="json"))
    place = str(tmp_path / "run/model")
    judged = CliRunner().invoke(cli, ["evaluate", place, "--data", str(out)])
    assert "complex images" in str(judged.exception)


def test_a_noise_scan_makes_noisy_coils_count_less() -> None:
    """One coil is ten times as noisy as the others, and a noise scan says so."""
    rng = np.random.default_rng(1)

    def draw_noise(*shape: int) -> np.ndarray:
        parts = rng.standard_normal((2, COILS, *shape))
        parts[:, 0] *= 10
        return (parts[0] + 1j * parts[1]).astype(np.complex64)

    kspace = draw_kspace(0, 24)
    kspace = kspace + np.stack([draw_noise(*SIZE) for _ in range(SLICES)])
    mask = np.ones(SIZE, bool)
    errors = []
    for noise in (None, draw_noise(2000)):
        scan = Scan(Path("a"), "ISMRMRD", "k-space", kspace, mask, noise, SIZE, {})
        found = np.abs(combine(scan).images)
        truth = np.abs(draw_images(0))
        # Whitened coils see with other weights: judged where there is nothing to see.
        air = truth[0] == 0
        errors.append(found[0][air].mean() / np.median(found[0][~air]))
    assert errors[1] < 0.5 * errors[0]


def test_images_get_a_common_size(folder: Path, tmp_path: Path) -> None:
    prepare(folder, tmp_path / "set", size=(20, 32), report=lambda _: None)
    source = open_images(tmp_path / "set/images.h5", value_range=(0, 1))
    assert source[0].shape == (1, 20, 32)
    assert not bool(source[0][..., :6].any())
    assert float(source[0].abs()[0, 10, 16]) == pytest.approx(1, abs=0.05)


def test_subjects_are_divided_by_their_names() -> None:
    names = [f"s{k}" for k in range(30)]
    labels = divide_subjects(names)
    assert [labels.count(kind) for kind in ("train", "val", "test")] == [24, 3, 3]
    back = divide_subjects(names[::-1])
    assert back[::-1] == labels
    assert divide_subjects(["a", "b", "a"]) == ["train"] * 3


def test_refuses_folders_without_scans(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("nothing")
    with pytest.raises(InputError, match="holds no fully sampled k-space"):
        prepare(tmp_path, tmp_path / "out", size=None, report=lambda _: None)
    assert not (tmp_path / "out/images.h5").exists()
    with pytest.raises(InputError, match="does not exist"):
        prepare(tmp_path / "nowhere", tmp_path / "out", size=None, report=lambda _: None)
