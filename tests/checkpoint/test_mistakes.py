"""What is wrong with settings is told in a line that names the mend."""

import re
from pathlib import Path

import numpy as np
import pytest

from bcdm.benchmark.family import load_comparison
from bcdm.checkpoint.given import read_operator
from bcdm.checkpoint.settings import parse_operator
from bcdm.comparison.task import load_task
from bcdm.errors import InputError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{kind: gausian_blur, std: 1}", "no kind 'gausian_blur'; did you mean 'gaussian_blur'?"),
        ("{kind: wavelet}", "no kind 'wavelet': one of fourier_mask, centre_box, "),
        ("{kind: gaussian_blur, sdt: 1}", "unknown setting gaussian_blur.sdt; did you mean 'std'?"),
        ("{kind: gaussian_blur}", "setting gaussian_blur.std is missing"),
        ("{std: 1}", "its kind is missing"),
        ("blur", "'blur' stands where settings are meant, such as {a: 1}"),
        ("{kind: fourier_mask, acceleration: 0}", "setting fourier_mask.acceleration: Input"),
    ],
)
def test_mistakes_in_an_operator(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_operator(text)
    assert str(caught.value).startswith(f"operator: {told}")
    assert "pydantic" not in str(caught.value)


def test_mistakes_in_files(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("extends: paper/mri/task.yaml\nmethdos: {}\n")
    with pytest.raises(InputError, match=r"is no task: unknown setting methdos; did you mean 'me"):
        load_task(path)
    path.write_text("model: faces64\ncase: {}\n")
    with pytest.raises(InputError, match=r"is no comparison: unknown setting case; did you mean"):
        load_comparison(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nofile.npy", "there is no file nofile.npy, and it is no settings such as"),
        ("no.safetensors", "there is no file no.safetensors"),
        ("mask.npy", "if it is a mask, give it by --mask"),
        ("my.package:make", "my.package:make is Python code, which is not run here"),
    ],
)
def test_what_is_no_operator_is_said_to_be_what_it_is(tmp_path, monkeypatch, text, words) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("mask.npy", np.ones((4, 4)))
    with pytest.raises(InputError, match=re.escape(words)):
        read_operator(text, (4, 4))
