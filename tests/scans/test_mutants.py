"""Damaged files: each gives a scan or one line, soon and in little memory."""

import gzip
import io
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Rng = np.random.Generator
Reader = Callable[..., list[dict[str, Any]]]

EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]


def truncate(raw: bytes, rng: Rng) -> bytes:
    return raw[: rng.integers(len(raw))]


def flip(raw: bytes, rng: Rng) -> bytes:
    damaged = bytearray(raw)
    for place in rng.integers(len(raw), size=rng.integers(1, 30)):
        damaged[place] = rng.integers(256)
    return bytes(damaged)


def exaggerate(raw: bytes, rng: Rng) -> bytes:
    """Sets whole integers, near the start where headers are, to the ends of their ranges."""
    damaged = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        width = int(rng.choice([1, 2, 4, 8]))
        place = int(rng.integers(min(len(raw), int(rng.choice([64, 400, 4000])))))
        value = int(rng.choice(np.array(EXTREMES, object))) % 256**width
        damaged[place : place + width] = value.to_bytes(width, str(rng.choice(["little", "big"])))
    return bytes(damaged)


def swap(raw: bytes, rng: Rng) -> bytes:
    length = int(rng.integers(1, max(len(raw) // 4, 2)))
    a, b = sorted(rng.integers(0, max(len(raw) - length, 1), 2))
    b = max(b, a + length)
    pieces = raw[:a], raw[b : b + length], raw[a + length : b], raw[a : a + length]
    return b"".join(pieces) + raw[b + length :]


def erase(raw: bytes, rng: Rng) -> bytes:
    start, length = rng.integers(len(raw)), rng.integers(1, 200)
    return raw[:start] + b"\0" * length + raw[start + length :]


def repeat(raw: bytes, rng: Rng) -> bytes:
    start, length = rng.integers(len(raw)), rng.integers(1, 200)
    return raw[: start + length] + raw[start:]


DAMAGES = (truncate, flip, exaggerate, swap, erase, repeat)


def damage(raw: bytes, rng: Rng) -> bytes:
    return DAMAGES[rng.integers(len(DAMAGES))](raw, rng) if raw else b"\0"


def damage_inside(raw: bytes, rng: Rng) -> bytes:
    """Damages what is packed and packs it again, so that no checksum gives it away."""
    if raw.startswith(b"\x1f\x8b"):
        return gzip.compress(damage(gzip.decompress(raw), rng), 1)
    if raw.startswith(b"PK"):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w") as new:
            for name in old.namelist():
                new.writestr(name, damage(old.read(name), rng))
        return out.getvalue()
    if raw.startswith(b"\x89PNG"):
        chunks = list(split_png(raw))
        chosen = rng.integers(len(chunks))
        kind, content = chunks[chosen]
        packed = kind == b"IDAT" and rng.random() < 0.5
        inner = zlib.compress(damage(zlib.decompress(content), rng)) if packed else None
        chunks[chosen] = kind, damage(content, rng) if inner is None else inner
        return raw[:8] + b"".join(join_png(*chunk) for chunk in chunks)
    return damage(raw, rng)


def split_png(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = 8
    while start < len(raw):
        length = int.from_bytes(raw[start : start + 4], "big")
        yield raw[start + 4 : start + 8], raw[start + 8 : start + 8 + length]
        start += 12 + length


def join_png(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + kind + content + checksum


def make_mutant(sample: Path, folder: Path, seed: int) -> Path:
    rng = np.random.default_rng([seed, len(sample.name)])
    target = folder / f"{seed}{sample.suffix}"
    act = damage_inside if seed % 2 else damage
    if sample.is_file():
        target.write_bytes(act(sample.read_bytes(), rng))
        return target
    shutil.copytree(sample, target)
    files = sorted(entry for entry in target.rglob("*") if entry.is_file())
    # Two in three are of the files that say what the others are.
    said = [file for file in files if file.suffix == ".json"]
    chosen = files if seed % 3 == 0 or not said else said
    file = chosen[rng.integers(len(chosen))]
    file.write_bytes(act(file.read_bytes(), rng))
    return target


def check(found: list[dict[str, Any]]) -> None:
    for each in found:
        line = each["line"]
        allowed = ("scan", "refused", *(["ended"] if each["fragile"] else []))
        assert each["outcome"] in allowed, line
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        assert each["seconds"] < 10, line
        assert each["bytes"] < 2e9, line
        if each["outcome"] == "refused":
            assert ": " in line


def test_25_mutants_of_each_format(tmp_path: Path, make_samples: Any, read_many: Reader) -> None:
    mutants = []
    for name, sample in make_samples(tmp_path).items():
        folder = tmp_path / f"mutants of {name}"
        folder.mkdir()
        mutants += [make_mutant(sample, folder, seed) for seed in range(25)]
    found = read_many(mutants)
    assert len(found) == len(mutants)
    check(found)
    outcomes = [each["outcome"] for each in found]
    # Otherwise the damage is too mild, or too coarse, to say anything.
    assert outcomes.count("refused") > len(found) / 4
    assert outcomes.count("scan") > len(found) / 10


@pytest.mark.slow
def test_1000_mutants(tmp_path: Path, sample: Path, read_many: Reader) -> None:
    for start in range(0, 1000, 250):
        folder = tmp_path / str(start)
        folder.mkdir()
        seeds = range(start, start + 250)
        found = read_many([make_mutant(sample, folder, seed) for seed in seeds])
        assert len(found) == 250
        check(found)
        shutil.rmtree(folder)
