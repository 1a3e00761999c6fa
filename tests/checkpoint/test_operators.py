"""Stored operators come back the same; others are told apart by what they do."""

from collections.abc import Callable

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save as pack
from torch import Tensor

from bcdm import spool
from bcdm.checkpoint import agree, describe_operator, load_operator, save_operator
from bcdm.checkpoint.kinds import IdentityConfig
from bcdm.errors import InputError, ModelError
from bcdm.operators import (
    BlockMean,
    CircularBlur,
    Dense,
    Diagonal,
    FourierMask,
    Identity,
    LinearOperator,
    MatrixFree,
    PixelMask,
    Radon,
    Sense,
)
from bcdm.reconstruction import provenance

MASK = torch.arange(16).reshape(4, 4) % 3 == 0


@pytest.mark.parametrize(
    "operator",
    [
        Identity(),
        PixelMask(MASK),
        BlockMean((2, 4), "mean"),
        FourierMask(MASK, real=True, centered=False),
        CircularBlur(torch.tensor([[0.2, 0.5, 0.3]]), (4, 4)),
        Dense(torch.arange(32.0).reshape(2, 16), (1, 4, 4)),
        Diagonal(torch.arange(16.0).reshape(1, 1, 4, 4)),
        Radon(torch.tensor([0.0, 33.0, 120.0]), (4, 4), source_distance=9.0, centre=2.2),
        Sense(torch.ones(2, 4, 4, dtype=torch.complex64), MASK, tolerance=1e-4),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_round_trip(operator: LinearOperator, tmp_path) -> None:
    save_operator(operator, tmp_path / "operator.safetensors")
    loaded = load_operator(tmp_path / "operator.safetensors")
    written = (tmp_path / "operator.safetensors").read_bytes()
    for _ in range(5):
        save_operator(operator, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == written
    plain = tmp_path / "plain"
    plain.touch()  # others may read it where they may read any file
    assert (tmp_path / "operator.safetensors").stat().st_mode == plain.stat().st_mode
    assert type(loaded) is type(operator)
    assert loaded.settings() == operator.settings()
    dtype = torch.complex64 if isinstance(operator, Sense) else torch.float32
    x = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
    assert torch.equal(loaded.forward(x), operator.forward(x))
    assert torch.equal(loaded.solve(1.0, 2.0, x), operator.solve(1.0, 2.0, x))


def test_maps_of_a_volume_are_written_and_hashed_slice_by_slice(tmp_path, monkeypatch) -> None:
    """With the bits that the library gives, and none but those of its file."""
    numbers = torch.arange(96, dtype=torch.float32).reshape(3, 2, 4, 4)
    maps = torch.complex(numbers, -numbers)
    path = tmp_path / "operator.safetensors"
    save_operator(Sense(maps, MASK), path)
    written = path.read_bytes()
    with safe_open(str(path), "pt") as file:
        assert torch.equal(file.get_tensor("maps"), maps)
        assert torch.equal(file.get_tensor("mask"), MASK)
        # Laid out as the library does, which the header's order does not touch.
        packed = pack({"maps": maps, "mask": MASK}, file.metadata())
    assert packed[8 + int.from_bytes(packed[:8], "little") :] == written[-maps.nbytes - 16 :]
    monkeypatch.setattr(spool, "SMALL", 0)
    held = torch.from_numpy(spool.stack(iter(maps.numpy()), 3))
    save_operator(Sense(held, MASK), path)
    assert path.read_bytes() == written
    monkeypatch.setattr(provenance, "SMALL", 0)
    assert provenance.hash_result(path) == provenance.hash_operator(Sense(maps, MASK))
    path.write_bytes(written[:40])
    with pytest.raises(ModelError, match="is not readable"):
        provenance.hash_result(path)


def test_operators_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PixelMask(MASK).mask = ~MASK  # type: ignore[misc]


def test_refusals(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot be stored"):
        save_operator(MatrixFree(lambda x: x, shape=(2,)), tmp_path / "a")
    (tmp_path / "b").write_bytes(b"not safetensors")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "b")
    with pytest.raises(InputError, match="not a readable"):
        load_operator(tmp_path / "absent")


SHAPE = (1, 8, 8)
ACTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "negative": lambda x: -x,
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
    "transpose": lambda x: x.mT,
    "fourier": lambda x: torch.fft.fft2(x, norm="ortho"),
    "fourier-conjugate": lambda x: torch.fft.ifft2(x, norm="ortho"),
    "nothing": lambda x: 0 * x,
}


@pytest.mark.parametrize("one", ACTIONS)
def test_descriptions_tell_operators_apart(one: str) -> None:
    """All but the last measure fixed noise with the same shape and length."""
    found = describe_operator(MatrixFree(ACTIONS[one], shape=SHAPE), SHAPE)
    for name, action in ACTIONS.items():
        other = describe_operator(MatrixFree(action, shape=SHAPE), SHAPE)
        assert agree(found, other) == (name == one), name


def test_descriptions_forgive_rounding() -> None:
    def rounded(x: Tensor) -> Tensor:
        return (x.flip(-1) * (1 + 1e-5)).to(torch.float32)

    exact = MatrixFree(lambda x: x.flip(-1), shape=SHAPE)
    near = describe_operator(MatrixFree(rounded, shape=SHAPE), SHAPE)
    far = describe_operator(MatrixFree(lambda x: 1.01 * x.flip(-1), shape=SHAPE), SHAPE)
    assert agree(describe_operator(exact, SHAPE), near)
    assert not agree(describe_operator(exact, SHAPE), far)


def test_descriptions_of_earlier_versions_are_held_to_what_they_say() -> None:
    """They hold shape and length: a flip is then taken for a roll, but not for its double."""
    found = describe_operator(MatrixFree(ACTIONS["roll"], shape=SHAPE), SHAPE)
    earlier = describe_operator(MatrixFree(ACTIONS["flip"], shape=SHAPE), SHAPE)
    earlier = earlier.model_copy(update={"projections": ()})
    assert agree(found, earlier)
    assert not agree(found, earlier.model_copy(update={"size": 2 * earlier.size}))
    assert not agree(found, earlier.model_copy(update={"measured": (8, 8)}))
    assert not agree(found, earlier.model_copy(update={"projections": found.projections[:3]}))
    assert not agree(found, IdentityConfig(kind="identity"))


def test_descriptions_stay_the_same() -> None:
    """They are stored with models, and compared with those of later versions."""
    operator = PixelMask(torch.arange(64).reshape(8, 8) % 3 > 0)
    found = describe_operator(operator, SHAPE)
    numbers = (-0.253728, 1.296066, 0.9893, -0.947171, 0.507148, -0.817765, -0.967858, -1.307829)
    assert (found.size, found.projections) == (7.27, numbers)


def test_descriptions_of_complex_images_see_both_parts() -> None:
    real = MatrixFree(lambda x: x.real.to(x.dtype), shape=SHAPE)
    whole = MatrixFree(lambda x: x, shape=SHAPE)
    for dtype, same in ((torch.float32, True), (torch.complex64, False)):
        found = [describe_operator(one, SHAPE, dtype) for one in (real, whole)]
        assert agree(*found) == same
