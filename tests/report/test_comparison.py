from pathlib import Path

import numpy as np

from bcdm.report.comparison import _crop, plot_comparison


def make_head() -> np.ndarray:
    rows, columns = np.mgrid[:60, :90]
    return (np.hypot(rows - 30, columns - 40) < 15).astype(np.float32)


def test_pictures_are_cropped_to_the_object_alike() -> None:
    head = make_head()
    spiky = head.copy()
    spiky[0, 0] = 1
    parts = _crop({"reference": spiky, "other": 2 * head})
    assert parts["reference"].shape == parts["other"].shape
    assert parts["reference"].shape[0] < 40
    assert parts["reference"].sum() == head.sum()


def test_a_panel_is_drawn(tmp_path: Path) -> None:
    head = make_head()
    noisy = head + 0.1 * np.random.default_rng(0).standard_normal(head.shape)
    rows = {"a": {"reference": head, "b": noisy}, "b": {"reference": np.zeros((8, 8))}}
    plot_comparison(tmp_path / "deep/panel.png", rows)
    from PIL import Image

    with Image.open(tmp_path / "deep/panel.png") as picture:
        assert min(picture.size) > 200
