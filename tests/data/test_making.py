"""Data sets from files in the layout of their public sources: places, grey levels, sets, hashes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from PIL import Image

from bcdm.commands import cli
from bcdm.data import open_images, select_split
from bcdm.data.faces import shrink_face
from bcdm.data.ixi import DEPTHS, cut_slices, find_brain, resample
from bcdm.data.making import hash_name, read_splits
from bcdm.errors import InputError

nibabel = pytest.importorskip("nibabel")

SPLITS = read_splits("ixi")
KNOWN = {label: next(k for k, v in SPLITS.items() if v == label) for label in ("train", "test")}
# A head in mm from its middle: half axes of brain, skull and scalp to the right, front and up.
BRAIN, SKULL, SCALP = np.array((60.0, 75, 60)), 8.0, 14.0
SHAPE, SPACING = (75, 128, 128), np.array([2.4, 1.875, 1.875])  # IXI's has half these sides
TOP = 20.0  # the brain's middle lies so far above that of the volume


def make_head(shape: tuple[int, int, int], spacing: NDArray[Any]) -> NDArray[np.float32]:
    """Brain of 100 with a bright left half and a brighter front, dark skull, scalp of 300."""
    axes = [(np.arange(n) - (n - 1) / 2) * s for n, s in zip(shape, spacing, strict=True)]
    x, y, z = np.meshgrid(*axes, indexing="ij")

    def inside(more: float) -> NDArray[np.bool_]:
        a, b, c = BRAIN + more
        return (x / a) ** 2 + (y / b) ** 2 + ((z - TOP) / c) ** 2 < 1

    head = np.where(inside(SCALP), 300.0, 0.0)
    head[inside(SKULL)] = 10.0
    brain = inside(0.0)
    head[brain] = 100.0 + 60 * (x[brain] < 0) + 40 * (y[brain] > 0)
    # A vessel joins brain and scalp.
    head[(np.abs(x) < 1.5) & (np.abs(y) < 1.5) & inside(SCALP) & (z > 0)] = 120.0
    return head.astype(np.float32)


def write_head(folder: Path, subject: str) -> None:
    """As IXI stores it: rows from the front, columns from the top, slices from the left."""
    folder.mkdir(exist_ok=True)
    head = make_head(SHAPE, SPACING)
    stored = head[:, ::-1, ::-1].transpose(1, 2, 0)
    affine = np.zeros((4, 4))
    affine[0, 2], affine[1, 0], affine[2, 1], affine[3, 3] = *SPACING * (1, -1, -1), 1
    image = nibabel.Nifti1Image(stored.astype(np.int16), affine)
    nibabel.save(image, folder / f"{subject}-T1.nii.gz")


def make(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["data", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ixi")
    for subject in (*KNOWN.values(), "IXI999-Guys-0001"):
        write_head(root / "volumes", subject)
    done = make("ixi", root / "volumes", root / "data")
    assert done.exit_code == 0, done.output
    assert "2 of 185 subjects; 1 others left out" in done.output
    return root


def test_sets_are_those_of_the_models(made: Path) -> None:
    source = open_images(made / "data/brain_ixi_t1/ixi_t1_axial128.npz")
    assert len(source) == 2 * len(DEPTHS) == 52
    assert source[0].shape == (1, 128, 128)
    for label, subject in KNOWN.items():
        part = select_split(source, source.split_labels, label)
        assert set(part.subjects or ()) == {subject}


def test_slices_lie_where_they_should(made: Path) -> None:
    with np.load(made / "data/brain_ixi_t1/ixi_t1_axial128.npz") as held:
        images, depths = held["images"][:26].astype(float), held["depth_mm"][:26]
    assert list(depths) == list(DEPTHS)
    # 120 x 90 pixels in the middle, black around.
    assert images[:, :4].max() == images[:, 124:].max() == 0
    assert images[:, :, :19].max() == images[:, :, 109:].max() == 0
    # Front up, left on the left; white is the brightest of the brain, the scalp is beyond.
    for image in images[10:20]:
        rows = {name: image[r, c] for name, (r, c) in {
            "front left": (50, 54), "front right": (50, 74), "back left": (78, 54),
            "back right": (78, 74)}.items()}  # fmt: skip
        assert rows == {"front left": 255, "front right": 178, "back left": 204, "back right": 128}
    # At a depth d below its top an ellipsoid of half axes a, c is a sqrt(1 - (1 - d/c)^2) wide.
    for image, depth in zip(images, depths, strict=True):
        half = BRAIN[0] * np.sqrt(1 - (1 - depth / BRAIN[2]) ** 2)
        # Away from the vessel; the skull is dark.
        line = image[80, 19:109] > 60
        left = 45 - np.flatnonzero(~line[:45])[-1] - 1
        scale = np.sqrt(1 - ((80 - 63.5) * 2 / BRAIN[1] / (half / BRAIN[0])) ** 2)
        assert abs(left * 2 - half * scale) <= 4, depth


def test_hashes_and_bits(made: Path, tmp_path: Path) -> None:
    file = made / "data/brain_ixi_t1/ixi_t1_axial128.npz"
    told = json.loads(file.with_suffix(".json").read_text())
    assert told["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert told["images"] == {"train": 26, "val": 0, "test": 26}
    for name, digest in told["sources"].items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    again = make("ixi", made / "volumes", tmp_path)
    assert again.exit_code == 0
    assert (tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz").read_bytes() == file.read_bytes()


def test_the_brain_is_found_without_a_mask() -> None:
    head = make_head((90, 120, 120), np.full(3, 2.0))
    brain = find_brain(head)
    true = (head >= 100) & (head <= 200)
    assert (brain & true).sum() > 0.99 * true.sum()
    assert (brain & ~true).sum() < 0.001 * true.sum()
    with pytest.raises(InputError, match="no brain"):
        find_brain(np.zeros((9, 9, 9), np.float32))


def test_masks_say_where_the_brain_is(made: Path, tmp_path: Path) -> None:
    """A mask that ends 10 mm lower moves the slices by 10 mm."""
    head = make_head(SHAPE, SPACING)
    height = (np.arange(SHAPE[2]) - (SHAPE[2] - 1) / 2) * SPACING[2]
    mask = (head >= 100) & (head <= 200) & (height < TOP + BRAIN[2] - 10)
    (tmp_path / "masks").mkdir()
    image = nibabel.Nifti1Image(mask.astype(np.uint8), np.diag([*SPACING, 1.0]))
    nibabel.save(image, tmp_path / "masks" / f"{KNOWN['test']}-seg.nii")
    done = make("ixi", made / "volumes", tmp_path, "--masks", tmp_path / "masks")
    assert done.exit_code == 0, done.output
    assert f"left out: {KNOWN['train']} has no mask" in done.output
    with np.load(tmp_path / "brain_ixi_t1/ixi_t1_axial128.npz") as lower:
        found = lower["images"]
    with np.load(made / "data/brain_ixi_t1/ixi_t1_axial128.npz") as held:
        whole = held["images"][held["subject"] == KNOWN["test"]]
    np.testing.assert_array_equal(found[:-5], whole[5:])


def test_averages_are_over_whole_voxels() -> None:
    line = np.arange(8, dtype=np.float32)[:, None, None] * np.ones((1, 2, 2), np.float32)
    small = resample(line, (1.0, 1.0, 1.0), 2.0)
    np.testing.assert_allclose(small[:, 0, 0], [0.5, 2.5, 4.5, 6.5])
    assert small.shape == (4, 1, 1)
    # 1.2 mm to 2 mm: 1, 2/3 of the next; then its third, the next, a third of one more.
    odd = resample(line[:5], (1.2, 1.0, 1.0), 2.0)
    np.testing.assert_allclose(odd[:, 0, 0], [0.4, (0.4 * 1 + 1.2 * 2 + 0.4 * 3) / 2, 3.6], 1e-6)


def test_what_cannot_be_cut_says_why() -> None:
    volume = np.ones((90, 120, 25), np.float32)
    with pytest.raises(InputError, match="less than 60 mm"):
        cut_slices(volume, volume > 0)
    with pytest.raises(InputError, match="empty"):
        cut_slices(volume, volume > 2)
    with pytest.raises(InputError, match="black"):
        cut_slices(np.zeros((90, 120, 60), np.float32), np.ones((90, 120, 60), bool))


def test_wrong_folders(tmp_path: Path) -> None:
    done = make("ixi", tmp_path, tmp_path / "out")
    assert "no T1 volume of a subject" in str(done.exception)
    (tmp_path / "a/b").mkdir(parents=True)
    for place in ("a", "a/b"):
        (tmp_path / place / f"{KNOWN['test']}-T1.nii").write_bytes(b"no volume")
    assert "two volumes" in str(make("ixi", tmp_path / "a", tmp_path / "out").exception)
    assert "cannot be read" in str(make("ixi", tmp_path / "a/b", tmp_path / "out").exception)


def test_faces_of_a_folder(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, size in {"anna/1": (128, 128), "anna/2": (130, 128), "ben": (64, 100)}.items():
        file = tmp_path / f"pictures/{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(file)
    done = make("faces", tmp_path / "pictures", tmp_path / "data")
    assert done.exit_code == 0, done.output
    file = tmp_path / "data/faces_public_domain/faces64.npz"
    source = open_images(file)
    assert source[0].shape == (3, 64, 64)
    assert source.subjects == ("anna", "anna", "ben")
    assert source.split_labels is not None
    assert source.split_labels[0] == source.split_labels[1]
    stored = np.asarray(Image.open(tmp_path / "pictures/anna/1.png"), np.float32)
    means = stored.reshape(64, 2, 64, 2, 3).mean((1, 3))
    np.testing.assert_allclose(source[0].numpy(), means.transpose(2, 0, 1), atol=0.5)
    told = json.loads(file.with_suffix(".json").read_text())
    assert told["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_small_pictures_are_refused() -> None:
    with pytest.raises(InputError, match="64 a side"):
        shrink_face(np.zeros((3, 63, 80), np.float32))
    grey = shrink_face(np.full((1, 64, 64), 7.4, np.float32))
    assert grey.shape == (64, 64, 3)
    assert (grey == 7).all()


def test_the_list_of_sets_is_that_of_the_models() -> None:
    """185 subjects, 1702 people, each in one set."""
    faces = read_splits("faces")
    counts = [list(found.values()).count(s) for found in (SPLITS, faces)
              for s in ("train", "val", "test")]  # fmt: skip
    assert counts == [148, 12, 25, 1430, 68, 204]
    assert hash_name("A000069") in faces
    assert faces[hash_name("A000069")] == "test"
