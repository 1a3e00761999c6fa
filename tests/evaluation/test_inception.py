"""FID by the library that keeps it; its real weights are not needed to see that it is the same."""

import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from bcdm.errors import InputError
from bcdm.evaluation import Inception, frechet_distance


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Random ones, with the names and shapes of the real ones."""
    fidelity = pytest.importorskip("torch_fidelity", reason="torch-fidelity is not installed")
    path = tmp_path / "weights.pth"
    torch.save({}, path)
    torch.manual_seed(0)
    with monkeypatch.context() as patch:
        patch.setattr(fidelity.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        network = fidelity.FeatureExtractorInceptionV3(
            "any", ["2048"], feature_extractor_weights_path=str(path)
        )
    torch.save(network.state_dict(), path)
    return path


class Images(Dataset[Tensor]):
    """Images of 8 bits."""

    def __init__(self, levels: Tensor) -> None:
        self.levels = levels

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, index: int) -> Tensor:
        return self.levels[index]


def test_it_is_the_fid_of_torch_fidelity(weights: Path) -> None:
    import torch_fidelity

    levels = torch.randint(0, 256, (2, 24, 3, 32, 32), dtype=torch.uint8)
    levels[1] //= 2
    found = torch_fidelity.calculate_metrics(
        input1=Images(levels[0]), input2=Images(levels[1]), fid=True, cuda=False, batch_size=8,
        cache=False, verbose=False, feature_extractor_weights_path=str(weights),
    )  # fmt: skip
    inception = Inception.load(weights)
    ours = frechet_distance(*(inception.features(part / 127.5 - 1) for part in levels))
    assert float(ours) == pytest.approx(found["frechet_inception_distance"], rel=1e-4)


def test_grey_images_and_values_outside_the_range(weights: Path) -> None:
    inception = Inception.load(weights)
    images = torch.linspace(-1, 1, 2 * 16 * 16).reshape(2, 1, 16, 16)
    found = inception.features(images)
    assert found.shape == (2, 2048)
    torch.testing.assert_close(found, inception.features(images.expand(-1, 3, -1, -1)))
    clipped = inception.features((2 * images).clamp(-1, 1))
    torch.testing.assert_close(inception.features(2 * images), clipped)


class Harmful:
    """A pickle that does something when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("harm",)


def test_other_files_are_refused(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.pth").write_text("no weights")
    torch.save({"conv": torch.zeros(2)}, tmp_path / "other.pth")
    torch.save([Harmful()], tmp_path / "harmful.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Harmful(), protocol=2))
    for name in ("none", "text", "other", "harmful", "plain"):
        with pytest.raises(InputError, match="holds no weights") as refused:
            Inception.load(tmp_path / f"{name}.pth")
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "harm").exists()


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(InputError, match=r"bcdm\[fid\]"):
        Inception.load(tmp_path / "weights.pth")
