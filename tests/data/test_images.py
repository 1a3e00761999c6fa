"""Sources: every format gives back the numbers that were written, or one line that says why not."""

import multiprocessing
import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from bcdm.data import ArrayFile, HDF5File, ImageFolder, ImageSource, assign_splits, open_images
from bcdm.errors import DtypeError, InputError, ShapeError

SHAPES = [(7, 9), (7, 9, 3)]


def draw_pixels(shape: tuple[int, ...], dtype: type = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def to_chw(pixels: np.ndarray) -> torch.Tensor:
    channels_first = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return torch.from_numpy(channels_first.astype(np.float32))


def check_source(source: ImageSource, expected: list[np.ndarray]) -> None:
    assert len(source) == len(expected)
    for index, pixels in enumerate(expected):
        image = source[index]
        assert image.dtype == torch.float32
        assert torch.equal(image, to_chw(pixels))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["a.png", "a.PNG", "a.tif", "a.tiff"])
def test_pictures_of_8_bits_round_trip(tmp_path: Path, shape: tuple[int, ...], name: str) -> None:
    pixels = draw_pixels(shape)
    Image.fromarray(pixels).save(tmp_path / name)
    source = open_images(tmp_path)
    check_source(source, [pixels])
    assert source.value_range == (0.0, 255.0)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shape", SHAPES)
def test_tiff_of_16_bits_round_trips(tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
    pixels = draw_pixels(shape, np.uint16)
    tifffile.imwrite(
        tmp_path / "a.tif",
        pixels,
        byteorder=order,
        photometric="rgb" if len(shape) == 3 else "minisblack",
    )
    source = ImageFolder(tmp_path)
    check_source(source, [pixels])
    assert source.value_range == (0.0, 65535.0)


def test_planar_tiff_of_16_bits_round_trips(tmp_path: Path) -> None:
    pixels = draw_pixels((7, 9, 3), np.uint16)
    planes = np.moveaxis(pixels, -1, 0)
    tifffile.imwrite(tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate")
    check_source(ImageFolder(tmp_path), [pixels])


def test_grey_png_and_compressed_tiff_of_16_bits_round_trip(tmp_path: Path) -> None:
    pixels = draw_pixels((7, 9), np.uint16)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels).save(tmp_path / "b.tif", compression="tiff_lzw")
    check_source(ImageFolder(tmp_path), [pixels, pixels])


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_close(tmp_path: Path, channels: int) -> None:
    ramp = np.add.outer(np.arange(32) * 4, np.arange(40) * 3).astype(np.uint8)
    pixels = ramp if channels == 1 else np.stack([ramp, ramp // 2, 255 - ramp], -1)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95, subsampling=0)
    image = open_images(tmp_path)[0]
    assert image.shape == (channels, 32, 40)
    assert (image - to_chw(pixels)).abs().max() <= 8  # quality 95 on a smooth ramp


def test_rotation_in_the_metadata_is_applied(tmp_path: Path) -> None:
    picture = Image.fromarray(np.zeros((16, 32), np.uint8))
    exif = picture.getexif()
    exif[274] = 6  # the camera was turned by a quarter
    picture.save(tmp_path / "a.jpg", exif=exif)
    assert ImageFolder(tmp_path)[0].shape == (1, 32, 16)


def save_pictures(root: Path, *places: str) -> ImageFolder:
    for place in places:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw_pixels((4, 4))).save(root / place)
    return ImageFolder(root)


def test_folder_order_and_subjects(tmp_path: Path) -> None:
    source = save_pictures(
        tmp_path, "ben/2.png", "anna/t1/1.png", "ben/1.tif", "carl.png", ".x.png"
    )
    names = [file.relative_to(tmp_path).as_posix() for file in source.files]
    assert names == ["anna/t1/1.png", "ben/1.tif", "ben/2.png", "carl.png"]
    assert source.subjects == ("anna", "ben", "ben", "carl")
    assert source.split_labels is None


def test_split_folders_are_labels_not_subjects(tmp_path: Path) -> None:
    """The folders inside may be classes, which every split has."""
    source = save_pictures(tmp_path, "train/cats/1.png", "train/2.png", "test/cats/1.png")
    assert source.split_labels == ("test", "train", "train")
    assert source.subjects == ("test/cats", "train/2", "train/cats")
    assert tuple(assign_splits(source)) == source.split_labels


@pytest.mark.parametrize("name", ["val", "valid", "validation", "Valid"])
def test_validation_folders_have_several_names(tmp_path: Path, name: str) -> None:
    """Pictures numbered anew in every folder are nobody's in common."""
    source = save_pictures(tmp_path, "train/1.png", f"{name}/1.png", "test/1.png")
    found = dict(
        zip([file.parent.name for file in source.files], assign_splits(source), strict=True)
    )
    assert found == {"train": "train", name: "val", "test": "test"}


@pytest.mark.parametrize("other", ["extra/1.png", "1.png"])
def test_split_folders_beside_others_are_refused(tmp_path: Path, other: str) -> None:
    with pytest.raises(InputError, match="into train, val and test"):
        save_pictures(tmp_path, "train/1.png", "test/1.png", other)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("layout", ["NHW", "NHWC", "NCHW"])
@pytest.mark.parametrize("suffix", ["npy", "npz", "stored.npz", "h5"])
def test_arrays_round_trip(tmp_path: Path, dtype: type, layout: str, suffix: str) -> None:
    stack = draw_pixels((5, 7, 9) if layout == "NHW" else (5, 7, 9, 3), dtype)
    stored = np.moveaxis(stack, -1, 1) if layout == "NCHW" else stack
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        np.save(path, stored)
    elif suffix == "npz":
        np.savez_compressed(path, images=stored)
    elif suffix == "stored.npz":
        np.savez(path, other=np.arange(3), images=stored)
    else:
        with h5py.File(path, "w") as file:
            file["images"] = stored
    source = open_images(path)
    check_source(source, list(stack))
    assert source.value_range == (0.0, float(np.iinfo(dtype).max))
    assert torch.equal(source[-1], source[4])
    assert len(list(iter(source))) == 5  # type: ignore[call-overload]
    assert source.subjects is None
    assert source.split_labels is None


def test_uncompressed_files_are_mapped_not_loaded(tmp_path: Path) -> None:
    stack = draw_pixels((5, 7, 9))
    np.save(tmp_path / "a.npy", stack)
    np.save(tmp_path / "f.npy", np.asfortranarray(stack))
    np.savez(tmp_path / "a.npz", images=stack)
    np.savez_compressed(tmp_path / "c.npz", images=stack)
    for name in ("a.npy", "f.npy", "a.npz"):
        source = ArrayFile(tmp_path / name)
        assert isinstance(source.array, np.memmap)
        check_source(source, list(stack))
    assert not isinstance(ArrayFile(tmp_path / "c.npz").array, np.memmap)


def test_opening_a_huge_array_reads_almost_nothing(tmp_path: Path) -> None:
    # A sparse file of 1 TiB: it could not be loaded, and takes no room on the disk.
    shape = (2**26, 128, 128)
    path = tmp_path / "huge.npy"
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "|u1", "fortran_order": False, "shape": shape}
        )
        start = stream.tell()
        try:
            stream.truncate(start + int(np.prod(shape)))
        except OSError:
            pytest.skip("the file system keeps no sparse file of this size")
        stream.seek(start + (2**26 - 1) * 128 * 128)
        stream.write(b"\x07" * 128)
    source = ArrayFile(path)
    assert len(source) == 2**26
    assert source[-1].sum() == 7 * 128


def test_reading_leaves_file_and_array_alone(tmp_path: Path) -> None:
    stack = draw_pixels((2, 4, 4))
    np.savez_compressed(tmp_path / "a.npz", images=stack)
    source = ArrayFile(tmp_path / "a.npz")
    source[0].zero_()
    check_source(source, list(stack))
    assert not source.array.flags.writeable


@pytest.mark.parametrize("subject_key", ["subject", "person"])
@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_stored_labels(tmp_path: Path, suffix: str, subject_key: str) -> None:
    stack, people, split = draw_pixels((3, 4, 4)), ["zoë", "b", "b"], ["train", "test", "test"]
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez(path, images=stack, split=split, **{subject_key: people})
    else:
        with h5py.File(path, "w") as file:
            file["part/slices"], file["part/split"] = stack, np.array(split, "S")
            file[f"part/{subject_key}"] = people
    source = open_images(path, key=None if suffix == "npz" else "part/slices")
    assert source.subjects == ("zoë", "b", "b")
    assert source.split_labels == ("train", "test", "test")


def test_floats_need_a_stated_range(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.linspace(-1, 1, 32).reshape(2, 4, 4))
    with pytest.raises(InputError, match=r"state data\.source_range"):
        open_images(tmp_path / "a.npy")
    source = open_images(tmp_path / "a.npy", value_range=(-1, 1))
    assert source.value_range == (-1.0, 1.0)
    torch.testing.assert_close(source[1].reshape(-1), torch.linspace(-1, 1, 32)[16:])
    with pytest.raises(InputError, match="low < high"):
        open_images(tmp_path / "a.npy", value_range=(1, 1))


def _read_last(source: HDF5File) -> float:
    return float(source[len(source) - 1].sum())


def test_hdf5_is_opened_by_each_process(tmp_path: Path) -> None:
    stack = draw_pixels((6, 4, 4))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = stack
    source = HDF5File(tmp_path / "a.h5")
    assert source._file is None
    before = _read_last(source)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    workers = [
        context.Process(target=lambda: queue.put((_read_last(source), source._process)))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    answers = [queue.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert {value for value, _ in answers} == {before}
    assert {process for _, process in answers} == {worker.pid for worker in workers}
    assert _read_last(source) == before
    assert source._process == os.getpid()


@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_a_source_travels_as_a_path(tmp_path: Path, suffix: str) -> None:
    stack = draw_pixels((50, 32, 32))
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        np.save(path, stack)
    else:
        with h5py.File(path, "w") as file:
            file["images"] = stack
    sent = pickle.dumps(open_images(path))
    assert len(sent) < 1000
    check_source(pickle.loads(sent), list(stack))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("none.npy", "does not exist"),
        ("none.h5", "does not exist"),
        ("none.xyz", "does not exist"),
        ("text.xyz", "unknown suffix"),
        ("text.npy", "cannot be read"),
        ("text.npz", "cannot be read"),
        ("text.h5", "cannot be read"),
        ("short.npy", "cannot be read"),
        ("empty", "holds no picture"),
    ],
)
def test_unreadable_paths_say_why(tmp_path: Path, name: str, match: str) -> None:
    for text in ("text.xyz", "text.npy", "text.npz", "text.h5"):
        (tmp_path / text).write_text("some words that are no array")
    np.save(tmp_path / "short.npy", draw_pixels((5, 7, 9)))
    os.truncate(tmp_path / "short.npy", 200)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=match) as caught:
        open_images(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=draw_pixels((5, 7, 9)))
    content = bytearray(path.read_bytes())
    content[150:250] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(InputError, match="write it anew"):
        open_images(path)


def test_missing_keys_are_listed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", slices=draw_pixels((2, 4, 4)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["slices/t1"] = draw_pixels((2, 4, 4))
    for name, key in (("a.npz", None), ("a.h5", None), ("a.h5", "slices")):
        with pytest.raises(InputError, match=r"choose one of \['slices'\]"):
            open_images(tmp_path / name, key)
    with pytest.raises(InputError, match="leave out the key"):
        open_images(tmp_path, "slices")


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    ragged = np.array([np.zeros((2, 2)), np.zeros((3, 3))], dtype=object)
    np.save(tmp_path / "a.npy", ragged, allow_pickle=True)
    np.savez_compressed(tmp_path / "a.npz", images=ragged)
    np.savez_compressed(tmp_path / "b.npz", images=draw_pixels((2, 4, 4)), subject=ragged)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = ["some", "words"]
    for name in ("a.npy", "a.npz", "b.npz", "a.h5"):
        with pytest.raises(DtypeError, match="store one array"):
            open_images(tmp_path / name)


def test_bad_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for shape in [(4, 4), (2, 5, 4, 4), (2, 3, 4, 3), (2, 2, 3, 4, 4), (0, 4, 4)]:
        np.save(path, np.zeros(shape, np.uint8))
        with pytest.raises(ShapeError, match="store"):
            open_images(path)
    np.save(path, np.zeros((2, 4, 4), np.complex64))
    with pytest.raises(InputError, match="source_range"):
        open_images(path)
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 4), np.uint8), subject=["a", "b"])
    with pytest.raises(ShapeError, match="one per image"):
        open_images(tmp_path / "a.npz")


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300])
def test_values_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    stack = np.zeros((3, 4, 4))
    stack[1, 2, 3] = value
    np.save(tmp_path / "a.npy", stack)
    source = open_images(tmp_path / "a.npy", value_range=(0, 1))
    assert source[0].sum() == 0
    with pytest.raises(InputError, match="item 1 has values that are not finite"):
        source[1]


def test_an_item_beyond_the_end_is_an_index_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", draw_pixels((3, 4, 4)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = draw_pixels((3, 4, 4))
    for name in ("a.npy", "a.h5"):
        for index in (3, -4):
            with pytest.raises(IndexError, match="holds 3 images"):
                open_images(tmp_path / name)[index]


@pytest.mark.data
@pytest.mark.skipif("BCDM_DATA" not in os.environ, reason="BCDM_DATA names no image folder")
@pytest.mark.parametrize(
    ("place", "shape", "counts", "people"),
    [
        (
            "brain_ixi_t1/ixi_t1_axial128.npz",
            (1, 128, 128),
            {"train": 3848, "val": 312, "test": 650},
            185,
        ),
        (
            "faces_public_domain/faces64.npz",
            (3, 64, 64),
            {"train": 1714, "val": 85, "test": 243},
            1702,
        ),
    ],
)
def test_the_image_sets_open(
    place: str, shape: tuple[int, ...], counts: dict[str, int], people: int
) -> None:
    source = open_images(Path(os.environ["BCDM_DATA"]) / place)
    assert source.value_range == (0.0, 255.0)
    assert source[len(source) // 2].shape == shape
    assert source.split_labels is not None
    assert source.subjects is not None
    assert {name: source.split_labels.count(name) for name in counts} == counts
    assert len(source) == sum(counts.values())
    assert len(set(source.subjects)) == people
