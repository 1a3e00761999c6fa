"""Folders and files that are broken or made to harm: one kind of error, one line, no time."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bcdm.checkpoint import load, load_operator, save_operator
from bcdm.checkpoint.facts import hash_settings
from bcdm.errors import ModelError
from bcdm.operators import CircularBlur, PixelMask

Content = dict[str, Any]


@pytest.fixture
def folder(tiny_model: Callable[..., None], tmp_path: Path) -> Path:
    tiny_model(tmp_path / "model")
    return tmp_path / "model"


def refuse(folder: Path, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def forge(folder: Path, change: Callable[[Content], Content | None]) -> None:
    """Changes config.json and gives it the hashes that its content has, as a forger would."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content = change(content) or content
    content["hashes"]["settings"] = hash_settings(content["config"], tuple(content["shape"]))
    path.write_text(json.dumps(content))


def replace_file(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    forge(folder, lambda c: c["hashes"].update({name: digest}))


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"format":' + "1" * 5000 + "}", "{}", "[]", "null", '"', "\x00", "NaN"],
    ids=["deep", "long-number", "empty", "list", "null", "cut", "zero", "nan"],
)
def test_unreadable_settings(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refuse(folder, "no readable config.json")
    (folder / "config.json").write_bytes(b"\xff\xfe{}")
    refuse(folder, "no readable config.json")


@pytest.mark.parametrize("part", ["name", "shape", "hashes", "config", "facts"])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}])
def test_parts_of_another_kind(folder: Path, part: str, value: object) -> None:
    content = json.loads((folder / "config.json").read_text())
    content[part] = value
    (folder / "config.json").write_text(json.dumps(content))
    if (part, value) not in [("name", "x"), ("facts", {})]:  # what they may be
        refuse(folder, "incomplete|no shape|damaged|cannot be used")


@pytest.mark.parametrize(
    "name",
    ["/dev/zero", "../../x", "README.md", "model.safetensors/../config.json", "a\nb", ""],
)
def test_hashes_name_no_other_files(folder: Path, name: str) -> None:
    """An endless device was read until memory ended."""
    forge(folder, lambda c: c["hashes"].update({name: "0"}))
    refuse(folder, "no file of a model")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "operator.safetensors"])
def test_devices_and_pipes_are_not_read(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refuse(folder, "is not a file")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refuse(folder, "is not a file")
    (folder / name).unlink()
    (folder / name).mkdir()
    refuse(folder, "is not a file")


@pytest.mark.parametrize(
    ("name", "size"), [("config.json", 1 << 30), ("model.safetensors", 1 << 40)]
)
def test_size_is_looked_at_before_reading(folder: Path, name: str, size: int) -> None:
    """The file has a hole: it says that it is large and takes no room."""
    with (folder / name).open("r+b") as file:
        file.truncate(size)
    refuse(folder, "too large")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        (1 << 60).to_bytes(8, "little"),
        (8).to_bytes(8, "little") + b"[[[[[[[[",
        b"\x02\0\0\0\0\0\0\0{}",
    ],
    ids=["empty", "short", "long-header", "no-header", "no-tensors"],
)
def test_broken_weights(folder: Path, data: bytes) -> None:
    replace_file(folder, "model.safetensors", data)
    refuse(folder, "not readable|numbers stored")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite(folder: Path, value: float) -> None:
    weights = load_file(folder / "model.safetensors")
    next(t for t in weights.values() if t.is_floating_point()).view(-1)[-1] = value
    save_file(weights, folder / "model.safetensors")
    replace_file(folder, "model.safetensors", (folder / "model.safetensors").read_bytes())
    refuse(folder, "not finite")


def test_weights_that_are_not_finite_are_not_written(
    tiny_model: Callable[..., None], tmp_path: Path
) -> None:
    """Half precision ends at 65504."""
    with pytest.raises(ModelError, match="not finite"):
        tiny_model(tmp_path / "large", factor=1e8, weights="float16")
    assert not (tmp_path / "large/config.json").exists()


def test_weights_of_another_network(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    first = next(iter(weights))
    del weights[first]
    save_file(weights, folder / "model.safetensors")
    replace_file(folder, "model.safetensors", (folder / "model.safetensors").read_bytes())
    refuse(folder, "another network")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("network", "width", 200_000),  # 1.3 TB
        ("network", "width", 0),
        ("network", "width", -8),
        ("network", "blocks", 10**9),
        ("network", "blocks", 0),
        ("network", "multipliers", [1] * 100_000),
        ("network", "multipliers", []),
        ("network", "multipliers", [10**6]),
        ("network", "patch", 10**5),
        ("network", "iterations", 10**9),
        ("network", "fourier_scale", float("nan")),
        ("network", "width", 10**400),
        ("parameterisation", "prior_std", float("inf")),
        ("parameterisation", "statistic", "bridge"),
        ("schedule", "sigma_min", -1.0),
        ("data", "source_range", None),
        ("data", "value_range", [1, "x"]),
    ],
)
def test_settings_that_make_no_sense(folder: Path, part: str, name: str, value: object) -> None:
    def change(content: Content) -> None:
        content["config"][part][name] = value

    forge(folder, change)
    refuse(folder, "cannot be used|another network")


@pytest.mark.parametrize(
    "shape",
    [
        [1, 16],
        [1, 16, 16, 1],
        [1, 16, -16],
        [1, 10**9, 10**9],
        [1, 16, 16.0],
        [True, 16, 16],
        [0, 16, 16],
        [1, "16", 16],
        [10**5, 16, 16],
        [1, 1 << 14, 1 << 14],
        [1, None, 16],
    ],
)
def test_shapes_that_are_none(folder: Path, shape: list[object]) -> None:
    forge(folder, lambda c: c | {"shape": shape})
    refuse(folder, "no shape")


MASK = {"mask": torch.ones(4, 4)}
KERNEL = {"kernel": torch.ones(3, 3)}
ANGLES = {"angles": torch.tensor([0.0, 90.0])}


@pytest.mark.parametrize(
    ("kind", "tensors", "settings"),
    [
        ("PixelMask", MASK, "[" * 200_000),
        ("PixelMask", MASK, "{"),
        ("PixelMask", MASK, "[]"),
        ("PixelMask", MASK, None),
        ("PixelMask", MASK, '{"other": 1}'),
        ("PixelMask", {}, "{}"),
        ("PixelMask", {}, '{"mask": [[1, 0]]}'),
        ("PixelMask", {}, '{"mask": "x"}'),
        ("PixelMask", {"mask": torch.full((4, 4), torch.nan)}, "{}"),
        ("PixelMask", {"mask": torch.ones(4, 4, dtype=torch.complex64)}, "{}"),
        ("FourierMask", {"mask": torch.ones(3)}, "{}"),
        ("CircularBlur", KERNEL, '{"size": [1000000, 1000000]}'),
        ("CircularBlur", KERNEL, '{"size": [0, 8]}'),
        ("CircularBlur", KERNEL, '{"size": [8.0, 8]}'),
        ("CircularBlur", KERNEL, '{"size": "x"}'),
        ("BlockMean", {}, '{"factor": [0, 1]}'),
        ("BlockMean", {}, '{"factor": 3}'),
        ("BlockMean", {}, '{"factor": [2, 2], "scaling": "x"}'),
        ("Dense", {"matrix": torch.ones(2, 4, dtype=torch.int32)}, "{}"),
        ("Dense", {"matrix": torch.ones(2, 4)}, '{"shape": [3]}'),
        ("Radon", ANGLES, '{"size": [1000000, 1000000]}'),
        ("Radon", ANGLES, '{"size": [8, 8], "detectors": "x"}'),
        ("Radon", ANGLES, '{"size": [8, 8], "detectors": 1000000000000}'),
        ("Radon", ANGLES, '{"size": [8, 8], "spacing": 0}'),
        ("Radon", {"angles": torch.ones(2, 2)}, '{"size": [8, 8]}'),
        ("Nothing", {}, "{}"),
    ],
)
def test_operators_that_make_no_sense(
    tmp_path: Path, kind: str, tensors: dict[str, torch.Tensor], settings: str | None
) -> None:
    header = {"format": "bcdm.operator/1", "operator": kind}
    header |= {"settings": settings} if settings is not None else {}
    save_file(tensors, tmp_path / "a", header)
    with pytest.raises(ModelError) as caught:
        load_operator(tmp_path / "a")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_operators_are_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a file"):
        load_operator("/dev/zero")
    with pytest.raises(ModelError, match="cannot be read"):
        load_operator("a\0b")
    save_operator(CircularBlur(torch.ones(3, 3), (8, 8)), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for cut in (0, 4, 8, 40, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        with pytest.raises(ModelError, match="not a readable operator file"):
            load_operator(tmp_path / "cut")


def test_an_operator_of_the_model_is_checked_alike(folder: Path) -> None:
    save_operator(PixelMask(torch.full((16, 16), torch.inf)), folder / "operator.safetensors")
    replace_file(folder, "operator.safetensors", (folder / "operator.safetensors").read_bytes())
    refuse(folder, "not finite")


@pytest.mark.parametrize(
    "change",
    [
        {"places": torch.ones(2, 15)},
        {"parts": torch.ones(3)},
        {"threshold": torch.ones(2)},
        {"places": torch.ones(400) / 0},
    ],
)
def test_clouds_that_make_no_sense(
    tiny_model: Callable[..., None], tmp_path: Path, change: dict[str, torch.Tensor]
) -> None:
    tiny_model(tmp_path, family=True)
    path = tmp_path / "familiarity.safetensors"
    save_file(load_file(path) | change, path)
    replace_file(tmp_path, path.name, path.read_bytes())
    refuse(tmp_path, "no cloud|not finite")
