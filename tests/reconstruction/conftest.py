"""What tests of files start from."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture(tmp_path: Path, images) -> tuple[Path, Path]:
    """An 8-bit image with noise and a hole, and the mask of known pixels."""
    image = (images[0, 0].numpy() + 1) * 127.5
    image = image + 6.4 * np.random.default_rng(0).standard_normal(image.shape)
    known = np.full((16, 16), 255, np.uint8)
    known[6:10, 6:10] = 0
    Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(tmp_path / "scan.png")
    Image.fromarray(known).save(tmp_path / "mask.png")
    return tmp_path / "scan.png", tmp_path / "mask.png"
