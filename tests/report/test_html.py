"""The page as text: complete, escaped, self-contained, small."""

import base64
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bcdm.report.content import Gap, Quality
from bcdm.report.html import Check, Curve, Report, Slice, Trust, render_report, write_report
from bcdm.report.pictures import deviation_scale
from bcdm.report.slices import find_largest_deviation

HOSTILE = "</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Page(HTMLParser):
    """Elements with their attributes, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def find(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and all(attributes.get(k) == v for k, v in wanted.items())
        ]


def decode(address: str | None) -> np.ndarray:
    assert address is not None
    with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as image:
        return np.asarray(image.convert("RGB") if image.mode == "P" else image)


def test_nothing_comes_from_elsewhere(make_report: Callable[..., Report]) -> None:
    text = render_report(make_report())
    assert "http://" not in text
    assert "https://" not in text
    assert "$" not in re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL)
    page = Page(text)
    addresses = [a.get(k) for _, a in page.elements for k in ("src", "href") if k in a]
    assert len(addresses) > 30
    assert all(str(address).startswith(("data:", "#")) for address in addresses)
    (policy,) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert str(policy["content"]).startswith("default-src 'none'; img-src data:;")


def dress(slices: tuple[Slice, ...], text: str) -> tuple[Slice | Gap, ...]:
    """Slices with every text that they can have, and a gap."""
    card = Trust("red", text, (Check(text, text, "bad", text),))
    quality = Quality(((text, 30.0, 0.9),), text)
    named = {"name": text, "operator_label": text, "trust": card, "quality": quality}
    return (*(Slice(**{**vars(one), **named}) for one in slices), Gap(text, text, card))


def test_every_text_is_shown_and_none_is_code(make_report: Callable[..., Report]) -> None:
    line = np.linspace(0, 1, 4)
    curve = Curve("a", "b", "c", {"d": (line, line)})
    slices = dress(make_report().slices, "tame")
    tame = Page(render_report(make_report(slices=slices, curves=(curve,))))
    report = make_report(
        title=HOSTILE,
        subtitle=HOSTILE,
        unit=HOSTILE,
        slices=dress(make_report().slices, HOSTILE),
        trust=Trust("red", HOSTILE, (Check(HOSTILE, HOSTILE, "bad", HOSTILE),) * 4),
        curves=(Curve(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: (line, line)}),),
        facts=((HOSTILE, ((HOSTILE, HOSTILE), (HOSTILE, HOSTILE))),),
        provenance={HOSTILE: HOSTILE, "path": Path("a")},
    )
    page = Page(render_report(report))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in tame.elements]
    assert page.texts["h1"] == page.texts["title"] == [HOSTILE]
    assert HOSTILE in page.texts["h3"]
    assert HOSTILE in page.texts["td"]
    assert json.loads(page.texts["pre"][0]) == {HOSTILE: HOSTILE, "path": "a"}
    assert HOSTILE in page.texts["caption"]
    assert HOSTILE in page.texts["th"]
    assert f"No images: {HOSTILE}" in page.texts["p"]
    assert page.texts["text"].count(HOSTILE) == 2, "both axes of the diagram"
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    settings = page.texts["script"][-2]
    assert json.loads(settings) == {"window": [0.0, 1.0], "unit": HOSTILE}


def test_the_files_it_is_made_of_do_not_close_their_element() -> None:
    for name in ("report.js", "report.css", "dark.css"):
        text = resources.files("bcdm.report").joinpath("page", name).read_text(encoding="utf-8")
        assert "</" not in text


def test_pictures_hold_the_arrays_on_one_scale(make_report: Callable[..., Report]) -> None:
    report = make_report(window=(-0.5, 1.5))
    page = Page(render_report(report))
    for name, key in {"Linear estimate": "linear", "Posterior mean": "mean"}.items():
        for shown, one in zip(page.find("img", alt=name), report.slices, strict=True):
            expected = np.rint(255 * ((getattr(one, key) + 0.5) / 2).clip(0, 1))
            np.testing.assert_array_equal(decode(shown["src"]), expected)
    one = report.slices[1]
    for k, sample in enumerate(one.samples):
        shown = page.find("img", alt=f"Sample {k + 1} of 5")[1]
        expected = np.rint(255 * ((sample + 0.5) / 2).clip(0, 1))
        np.testing.assert_array_equal(decode(shown["src"]), expected)


def test_error_and_deviation_share_a_scale_that_its_bar_shows(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    mean = make_slice().reference
    std = np.tile(np.linspace(0, 0.1, 20), (24, 1))
    one = make_slice(mean=mean, std=std, reference=mean + std)
    text = render_report(make_report(slices=(one,)))
    page = Page(text)
    (deviation,), (error,) = (page.find("img", alt=n) for n in ("Standard deviation", "Error"))
    np.testing.assert_array_equal(decode(deviation["src"]), decode(error["src"]))
    np.testing.assert_array_equal(decode(deviation["src"])[0, -1], deviation_scale()[-1])
    assert len(page.find("i", **{"class": "deviation-scale"})) == 2
    (bar,) = re.findall(r"\.deviation-scale { background-image: url\((data:[^)]+)\)", text)
    np.testing.assert_array_equal(decode(bar)[0], deviation_scale())
    assert text.count("<span>0</span><span>0.05</span><span>0.1</span>") == 2


def test_colour_images_average_deviations_over_channels(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    one = make_slice(shape=(9, 14, 3))
    text = render_report(make_report(slices=(one,)))
    (mean,) = Page(text).find("img", alt="Posterior mean")
    assert decode(mean["src"]).shape == (9, 14, 3)
    assert text.count("Averaged over the channels.") == 2
    assert "aspect-ratio:14/9" in text
    assert '"shape":[9,14,3]' in text


@pytest.mark.parametrize("std", [0.0, 0.05])
def test_one_constant_sample_without_anything_else(
    make_report: Callable[..., Report], std: float
) -> None:
    flat = np.full((4, 6), 0.3)
    one = Slice(name="only", linear=flat, mean=flat, std=0 * flat + std, samples=flat[None])
    bare: dict[str, Any] = {"curves": (), "facts": (), "provenance": {}, "simulated": False}
    text = render_report(make_report(slices=(one,), trust=Trust("green", "Fine."), **bare))
    page = Page(text)
    for absent in ("Simulated", 'class="player"', "<table", "<select", "<details", "Reference"):
        assert absent not in text
    assert len(page.find("section")) == 2
    assert decode(page.find("img", alt="Posterior mean")[0]["src"]).shape == (4, 6)
    values = json.loads(page.texts["script"][0])
    assert values["mean"]["low"] == 0.3
    assert values["mean"]["step"] <= 0.001, "the page writes three decimals"


@pytest.mark.parametrize(
    ("light", "words"),
    [("green", "no objection"), ("amber", "use with care"), ("red", "do not rely")],
)
def test_the_light_is_a_word_and_a_shape(
    make_report: Callable[..., Report], light: Any, words: str
) -> None:
    text = render_report(make_report(trust=Trust(light, "Because.")))
    sign = {"green": "good", "amber": "doubtful", "red": "bad"}[light]
    assert f"{light.capitalize()}: {words}" in text
    assert f'<use href="#sign-{sign}"/>' in text
    assert f'<symbol id="sign-{sign}"' in text


@pytest.mark.parametrize("sheet", ["report.css", "dark.css"])
def test_every_text_has_contrast(sheet: str) -> None:
    text = resources.files("bcdm.report").joinpath("page", sheet).read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", text))

    def luminance(name: str) -> float:
        srgb = np.array([int(colours[name][k : k + 2], 16) / 255 for k in (0, 2, 4)])
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    pairs = [(ink, ground) for ink in ("ink", "quiet") for ground in ("page", "raised")]
    pairs += [(tone, "page") for tone in ("good", "doubtful", "bad", "none", "accent")]
    pairs += [(tone, f"{tone}-wash") for tone in ("good", "doubtful", "bad")]
    for ink, ground in pairs:
        low, high = sorted(map(luminance, (ink, ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


def test_each_slice_has_its_light_and_a_red_one_is_marked(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    cards = [
        Trust("green", "Fine.", (Check("fit", "1.0", "good", "as usual"),)),
        Trust("red", "Another body part.", (Check("look", "9", "bad", "unlike"),)),
        Trust("amber", "Look twice.", (Check("noise", "2", "doubtful", "stronger"),)),
    ]
    slices = [make_slice(k, trust=card, left_out=k == 1) for k, card in enumerate(cards)]
    gap = Gap("slice 3", "its numbers are not finite", Trust("red", "No numbers."))
    text = render_report(make_report(slices=(*slices, gap), trust=cards[1]))
    page = Page(text)
    lights = page.find("a")
    assert [one["class"] for one in lights] == ["good", "bad", "doubtful", "bad"]
    assert "Another body part." in str(lights[1]["title"])
    marks = [str(one.get("class")) for one in page.find("section")]
    tones = [mark.removeprefix("slice ") for mark in marks if "slice" in mark]
    assert tones == ["good", "bad", "doubtful", "bad"]
    assert page.texts["option"] == ["slice 0", "slice 1 (red)", "slice 2 (amber)", "slice 3 (red)"]
    assert text.count("It is left out of the files of images.") == 2
    assert "No images: its numbers are not finite" in page.texts["p"]
    for reason in ("as usual", "stronger"):
        assert text.count(f"<td>{reason}</td>") == 1, "each slice has its own checks"


def test_a_report_of_gaps_alone_is_written(make_report: Callable[..., Report]) -> None:
    gap = Gap("slice 0", "nothing is finite", Trust("red", "No numbers."))
    text = render_report(make_report(slices=(gap,), simulated=False, curves=()))
    assert "No images: nothing is finite" in text


def test_a_red_slice_does_not_darken_the_others(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    good = make_slice(trust=Trust("green", ""))
    wild = make_slice(1, std=100 * good.std, trust=Trust("red", ""))
    alone, both = (make_report(slices=slices) for slices in ((good,), (good, wild)))
    assert find_largest_deviation(both) == find_largest_deviation(alone)
    assert find_largest_deviation(make_report(slices=(wild,))) > 1


def test_quality_is_there_with_its_convention(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    quality = Quality((("Posterior mean", 31.234, 0.9312), ("Sample 1", 28.0, None)), "Range 2.")
    text = render_report(make_report(slices=(make_slice(quality=quality),)))
    for part in ("31.23 dB", "0.931", "too small", "Range 2."):
        assert part in text


def test_a_hundred_slices_stay_below_ten_megabytes(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    """Noise in every pixel, references and all: worse than scans, whose air is black."""
    checks = (Check("look", "worse than 61%", "good", "as training images look"),) * 7
    card = Trust("amber", "Look twice.", checks)
    slices = tuple(make_slice(k, shape=(64, 64), count=16, trust=card) for k in range(100))
    text = render_report(make_report(slices=slices))
    assert 8e6 < len(text.encode()) < 10e6
    page = Page(text)
    assert len(page.find("img", alt="Posterior mean")) == 100
    (shown,) = set(re.findall(r"The first (\d+) of 16", text))
    assert 5 < int(shown) < 16
    last = page.find("img", alt=f"Sample {shown} of 16")
    assert len(last) == 100, "as many of each"


def test_files_stay_small(
    make_report: Callable[..., Report], make_slice: Callable[..., Slice]
) -> None:
    small = make_slice(shape=(64, 64), count=16)
    assert len(render_report(make_report(slices=(small,)))) < 1e6
    # A disc in a dark field, uncertain to 2 % of the window inside.
    rows, columns = np.mgrid[-1:1:256j, -1:1:256j]
    image = np.where(rows**2 + 1.5 * columns**2 < 0.8, 0.6 + 0.2 * np.sin(9 * rows), 0.0)
    noise = np.random.default_rng(0).standard_normal((16, 256, 256))
    samples = image + 0.02 * noise * (image > 0)
    mean, std = samples.mean(0), samples.std(0)
    large = Slice(name="large", linear=image, mean=mean, std=std, samples=samples, reference=image)
    assert 26 * len(render_report(make_report(slices=(large,)))) < 25e6


def test_writing_leaves_a_whole_file_or_none(
    make_report: Callable[..., Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(path, make_report())
    first = path.read_text(encoding="utf-8")
    assert first == render_report(make_report())
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    monkeypatch.setattr(Path, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(path, make_report(title="second"))
    assert path.read_text(encoding="utf-8") == first
