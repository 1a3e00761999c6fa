"""Pages about the paper's experiments: its numbers and claims, and what our records say of both.

python -m experiments.pages         # in a checkout: writes the tables of both pages anew
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from experiments.claims import JUDGES, OURS, PAPER, Results, read_results

from bcdm.errors import InputError
from bcdm.files import write_text
from bcdm.methods import CONTROL

__all__ = [
    "compare_best",
    "compare_seeds",
    "fill_page",
    "fill_pages",
    "make_sections",
    "make_table",
    "read_equal",
    "read_task",
]

TASKS = {
    "mri": "MRI 8x",
    "deblur": "deblurring",
    "sr": "super-resolution 4x",
    "inpaint": "inpainting, shift",
    "denoise": "denoising",
}
COVERED, CRPS = "coverage 80%, all pixels", "CRPS, samples"
CHI = "chi-square per degree of freedom, single sample"
# What stands below the CRPS: label to name of the record, its factor, and the methods that have it.
_TIMED = ("MMPS", OURS, f"{OURS} (from scratch)")  # on the same machine
_BEST = ("MMPS with our levels", *_TIMED, f"{OURS} (boxes of many sizes)")
_BESIDE = {
    "PSNR (dB)": ("PSNR, average", 1, _BEST),
    "s a sample": ("seconds per sample", 1, _TIMED),
    "80 % intervals hold (%)": (COVERED, 100, (*_BEST, CONTROL)),
    "chi-square of a sample": (CHI, 1, (*_BEST, CONTROL)),
}
_OVERVIEW = {
    "CRPS x 1000": (CRPS, 1000, 1),
    "PSNR of 10 samples averaged (dB)": ("PSNR, average", 1, 2),
    "80 % intervals hold (%)": (COVERED, 100, 1),
    "chi-square of a sample": (CHI, 1, 2),
}
# What the paper prints: a title, its digits, and ours.
_PRINTED = {"psnr": ("PSNR (dB)", 2, 2), "ssim": ("SSIM (%)", 1, 1), "fid": ("distance", 2, 0)}
SEED = ", seed "  # in the name of a row, before its number
HELD, IN_PART, FAILED = "**holds**", "**in part**", "**fails**"


def fill_pages(folder: Path) -> list[Path]:
    """Writes tables and claims anew into the README.md of a folder of tasks, and of the one above.

    The latter is left alone where it has no place for them.
    """
    own, above = folder / "README.md", folder.parent / "README.md"
    sections = make_sections(folder)
    published = {"published": sections.pop("published")}
    texts = {own: fill_page(own, sections)}
    if above.exists() and "<!-- published -->" in above.read_text():
        texts[above] = fill_page(above, published)
    for page, text in texts.items():
        write_text(page, text)
    return list(texts)


def fill_page(page: Path, sections: Mapping[str, str]) -> str:
    """The text of a page with each section in its place, between two comments with its name."""
    text = page.read_text()
    for name, section in sections.items():
        start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise InputError(
                f"{page} has no place for {name}: put {start.strip()} and {end.strip()} around it"
            )
        before, _, rest = text.partition(start)
        text = before + start + section + end + rest.partition(end)[2]
    return text


def make_sections(folder: Path) -> dict[str, str]:
    """The tables of the pages, by name, from the records below a folder."""
    tasks = {name: read_task(folder / name) for name in TASKS}
    published = yaml.safe_load((folder / "published.yaml").read_text())
    known = tasks | {"matched": read_results(folder / "inpaint/matched/results.json")}
    rows, verdicts = [], []
    for number, claim in enumerate(published["claims"], 1):
        given = [known] if "task" not in claim else [known[name] for name in claim["task"].split()]
        held, words = JUDGES[claim["judge"]](*given)
        verdicts.append(_say(held))
        cells = (claim["claim"], claim["where"], claim["paper"], f"{verdicts[-1]}: {words}")
        rows.append([str(number), *cells])
    heads = ("", "claim", "where", "in the paper", "here")
    counted = (
        f"Of {len(verdicts)} claims of the paper {verdicts.count(HELD)} hold on these records, "
        f"{verdicts.count(IN_PART)} in part, {verdicts.count(FAILED)} fail."
    )
    return {
        "results": _make_overview(tasks),
        "claims": make_table(heads, rows),
        "asked": _make_asked(tasks),
        "equal": _make_equal({name: read_equal(folder / name) for name in TASKS}),
        "published": f"{_make_beside(tasks, published['tables'])}\n\n{counted}",
    }


def _make_beside(tasks: Mapping[str, Results], tables: Mapping[str, Any]) -> str:
    """The paper's tables, and the same of our records: PSNR, SSIM and a distance."""
    parts = []
    for key, (title, digits, _) in _PRINTED.items():
        rows = []
        for name in tables["mri"]["methods"]:
            printed = [
                "" if given is None else f"{given[key]:.{digits}f}"
                for given in (_drop_spread(tables[task]["methods"].get(name)) for task in TASKS)
            ]
            own = PAPER if name == "BCDM" else name
            found = [_find_printed(tasks[task], own, key, task) for task in TASKS]
            rows += [[f"{name}, paper", *printed], [f"{name}, here", *found]]
        ours = [_find_printed(found, OURS, key, task) for task, found in tasks.items()]
        parts.append(make_table([title, *TASKS.values()], [*rows, ["our default", *ours]]))
    return "\n\n".join(parts)


def _drop_spread(printed: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Of a method's numbers, without their standard deviations."""
    if printed is None:
        return None
    psnr, ssim = (printed[key][0] for key in ("psnr", "ssim"))
    return {"psnr": psnr, "ssim": ssim, "fid": printed["fid"]}


def _find_printed(results: Results, name: str, key: str, task: str) -> str:
    """What a method has here of a number that the paper prints."""
    if name not in results.methods:
        return ""
    digits = _PRINTED[key][2]
    if key == "fid":
        return f"{results.frechet(name):.{digits}f}"
    # The paper denoises by single samples.
    estimate = "single" if task == "denoise" else "average"
    scale = 100 if key == "ssim" else 1
    return f"{scale * results.share(name, f'{key.upper()}, {estimate}'):.{digits}f}"


def _make_overview(tasks: Mapping[str, Results]) -> str:
    """CRPS and PSNR of every method, coverage and chi-square of those with samples."""
    names = [name for name in tasks["mri"].methods if name != OURS]
    label = {"LS": "LS (the noisy image itself for denoising)", OURS: "**BCDM, ours**"}
    parts = []
    for title, (record, scale, digits) in _OVERVIEW.items():
        rows = []
        for name in (CONTROL, *names, OURS):
            cells = []
            for found in tasks.values():
                shown = "noisy" if name == "LS" and "noisy" in found.methods else name
                cells.append(_show(found, shown, record, scale, digits))
            if any(cells):
                rows.append([label.get(name, name), *cells])
        parts.append(make_table([title, *TASKS.values()], rows))
    return "\n\n".join(parts)


def read_task(folder: Path) -> Results:
    """A task by the paper's budgets, with the rivals and the control that were run again."""
    found = read_results(folder / "results.json")
    for again in (folder / f"{study}/results.json" for study in ("control", "guarded")):
        if again.exists():
            later = read_results(again)
            methods = {**found.methods, **later.methods}
            found = replace(found, methods=methods, control=later.control)
    return found


def read_equal(folder: Path) -> Results | None:
    """A task at equal total training, with what was added later, as far as that was run.

    That is a rival with a better prior, ours for boxes of many sizes, and further seeds of ours.
    """
    studies = ("equal", "levels", "boxes", "seeds")
    path, *more = (folder / f"{study}/results.json" for study in studies)
    if not path.exists():
        return None
    found = read_results(path)
    for added in more:
        if added.exists():
            found = replace(found, methods={**found.methods, **read_results(added).methods})
    return found


def _make_equal(tasks: Mapping[str, Results | None]) -> str:
    """CRPS of every method at equal total training, how ours compares, what else of the best."""
    known = list(tasks.values())
    every = (name for found in known if found is not None for name in found.methods)
    names = dict.fromkeys(name for name in every if SEED not in name)
    rows = [
        [name, *(_show(one, name, CRPS, 1000, 1) for one in known)] for name in (CONTROL, *names)
    ]
    for method in (name for name in names if name.startswith(OURS)):
        told = f"ratio: {method} over the best other"
        rows.append([told, *(compare_best(found, method) for found in known)])
        seeds = [compare_seeds(found, method) for found in known]
        for which, choose in (("least", min), ("largest", max)):
            cells = [f"{choose(ratios):.3f}" if len(ratios) > 1 else "" for ratios in seeds]
            if any(cells):
                rows.append([f"{told}, {which} of {max(map(len, seeds))} seeds", *cells])
    for label, (record, scale, shown) in _BESIDE.items():
        for name in shown:
            cells = [_show(one, name, record, scale, 1 if scale > 1 else 2) for one in known]
            if any(cells):
                rows.append([f"{name}: {label}", *cells])
    return make_table(["CRPS x 1000, unless said", *TASKS.values()], rows)


def _show(found: Results | None, method: str, name: str, scale: float = 1, digits: int = 2) -> str:
    if found is None:
        return "not run"
    record = {**found.methods, CONTROL: found.control}.get(method, {}).get(name)
    return "" if record is None else f"{scale * record['value']:.{digits}f}"


def compare_best(found: Results | None, method: str = OURS) -> str:
    """The CRPS of a method over that of the best rival."""
    if found is None:
        return "not run"
    return f"{_divide(found, method):.3f}" if method in found.methods else ""


def compare_seeds(found: Results | None, method: str = OURS) -> list[float]:
    """The same of every seed of a method."""
    if found is None or method not in found.methods:
        return []
    more = [name for name in found.methods if name.startswith(f"{method}{SEED}")]
    return [_divide(found, name) for name in (method, *more)]


def _divide(found: Results, method: str) -> float:
    crps = [found.get(name, CRPS) for name in found.methods if not name.startswith(OURS)]
    return found.get(method, CRPS) / min(crps)


def _make_asked(tasks: Mapping[str, Results]) -> str:
    """What is required of our default: the records that can be missed."""
    rows: dict[str, list[str]] = {}
    for place, results in enumerate(tasks.values()):
        for record in results.required:
            scale, unit = (1000, "") if record["name"].startswith("CRPS") else (1, " dB")
            if record["name"].startswith("coverage"):
                scale, unit = 100, " points"
            interval = record["interval"]
            between = (
                ""
                if interval is None
                else " [{:.2f}, {:.2f}]".format(*(scale * value for value in interval))
            )
            cell = (
                f"{_say([record['holds']])}: {scale * record['value']:+.2f}{unit}{between}, "
                f"{record['case']['other']}"
            )
            cells = rows.setdefault(record["name"], [])
            cells.extend([""] * (place + 1 - len(cells)))
            cells[place] = f"{cells[place]}; {cell}" if cells[place] else cell
    wanted = {
        "CRPS behind the best other": ("CRPS x 1000 behind the best other", "at most 0"),
        "averaged PSNR behind the best other (dB)": (
            "averaged PSNR behind the best other",
            "at most .1",
        ),
        "coverage's distance behind the best other": (
            "how much farther from 80 % coverage is than that of the best other",
            "0",
        ),
        "averaged PSNR over a guided method (dB)": (
            "averaged PSNR over a guided method",
            "above 0",
        ),
    }
    labels = {name: ", wanted ".join(words) for name, words in wanted.items()}
    body = [
        [labels[name], *cells, *[""] * (len(tasks) - len(cells))] for name, cells in rows.items()
    ]
    return make_table(["", *TASKS.values()], body)


def make_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|" for line in lines
    )


def _say(held: Sequence[bool]) -> str:
    return HELD if all(held) else IN_PART if any(held) else FAILED


if __name__ == "__main__":
    for written in fill_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "experiments/paper")):
        sys.stdout.write(f"wrote {written}\n")
