"""What clients may say: never a path of this machine."""

import json

import pytest

from bcdm.service.asked import Asked, AskedJob, make_safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("scan.npz", "scan.npz"),
        ("../../etc/passwd", "passwd"),
        ("C:\\scans\\a b.nii.gz", "a_b.nii.gz"),
        ("..", "scan"),
        (".hidden", "hidden"),
        ("-rf", "rf"),
        ("knöchel\0.png", "kn_chel_.png"),
        ("x" * 300 + ".npz", "x" * 96 + ".npz"),
    ],
)
def test_names_stay_in_their_folder(name: str, safe: str) -> None:
    assert make_safe_name(name) == safe


@pytest.mark.parametrize(
    "operator", ["/tmp/x.safetensors", "{kind: identity}", "[1]", "1", "{", "{}", "[" * 190]
)
def test_operators_are_settings(operator: str) -> None:
    with pytest.raises(ValueError, match="object of JSON"):
        Asked(operator=operator)
    found = Asked(operator='{"kind": "identity"}').parse_operator()
    assert found is not None
    assert found.kind == "identity"
    assert Asked().parse_operator() is None


@pytest.mark.parametrize(
    "settings",
    [
        {"std": 1e-7, "kind": "gaussian_blur"},
        {"kind": "centre_box", "box": [24, 24]},
        {"kind": "block_mean", "factor": [2, 2], "scaling": "mean"},
        {"kind": "fourier_mask", "acceleration": 8, "centre": 0.1, "seed": 0},
    ],
)
@pytest.mark.parametrize("separators", [None, (",", ":")])
def test_what_json_writes_is_taken(
    settings: dict[str, object], separators: tuple[str, str] | None
) -> None:
    found = Asked(operator=json.dumps(settings, separators=separators)).parse_operator()
    assert found is not None
    assert found.kind == settings["kind"]


def test_everything_that_matters_is_in_the_request() -> None:
    base = AskedJob()
    others = [
        AskedJob(seed=1),
        AskedJob(samples=20),
        AskedJob(noise_std=1.0),
        AskedJob(simulate=True),
    ]
    hashes = {one.describe("model") for one in [base, *others]} | {base.describe("other")}
    assert len(hashes) == 6
    assert AskedJob.decode(base.model_dump_json()) == base
