"""Real and drawn images in the range [-1, 1]."""

import os
from pathlib import Path

import numpy as np
import pytest


def _open(place: str) -> dict[str, np.ndarray]:
    if "BCDM_DATA" not in os.environ:
        pytest.skip("BCDM_DATA is not set")
    path = Path(os.environ["BCDM_DATA"]) / place
    if not path.is_file():
        pytest.skip(f"BCDM_DATA holds no {place}")
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in ("images", "split")}


@pytest.fixture(scope="session")
def native_brains() -> np.ndarray:
    """(subjects, slices, rows, columns) of 128 x 128 pixels."""
    stored = _open("brain_ixi_t1/ixi_t1_axial128.npz")
    images = stored["images"][stored["split"] == "test"]
    return images.reshape(-1, 26, 128, 128)[::4] / 127.5 - 1


@pytest.fixture(scope="session")
def brains(native_brains: np.ndarray) -> np.ndarray:
    """The same, averaged to 64 x 64 pixels."""
    return native_brains.reshape(*native_brains.shape[:2], 64, 2, 64, 2).mean((3, 5))


@pytest.fixture(scope="session")
def faces() -> np.ndarray:
    """(faces, channels, rows, columns)."""
    stored = _open("faces_public_domain/faces64.npz")
    return stored["images"][stored["split"] == "test"][::25].transpose(0, 3, 1, 2) / 127.5 - 1


@pytest.fixture(scope="session")
def drawing() -> np.ndarray:
    """An object with edges, shading and texture on an empty ground, (1, 1, 64, 64)."""
    row, column = np.meshgrid(*2 * [np.linspace(-1, 1, 64, endpoint=False)], indexing="ij")
    body = (row / 0.75) ** 2 + (column / 0.6) ** 2 < 1
    core = (row + 0.2) ** 2 + (column / 0.6) ** 2 < 0.15
    texture = 0.3 * np.sin(9 * row + 14 * column**2) * (column > 0)
    return np.where(body, 0.8 + 0.3 * row + 0.6 * core + texture, 0)[None, None] - 1
