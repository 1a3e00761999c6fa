"""Runs tests on a mutant: in a fork, so that torch is loaded once for all of them."""

import ast
import gc
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from tracing import Tracing

__all__ = ["ROOT", "SOURCE", "load_libraries", "run_mutant", "trace"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# Plugins that load themselves, and asserts that explain themselves, cost ten times what most
# tests do; doctests would be imported under names of their own.
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib",
           "--assert=plain", "-m", "not slow", f"--rootdir={ROOT}"]  # fmt: skip
MEMORY = 8 << 30
_FAULT = 70


def load_libraries() -> None:
    """What tests import and mutants do not touch."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import hypothesis  # noqa: F401
    import PIL.Image  # noqa: F401
    import pydantic  # noqa: F401
    import scipy.stats  # noqa: F401
    import skimage.restoration  # noqa: F401
    import sybil.parsers.markdown  # noqa: F401
    import torch.optim.swa_utils
    import torch.utils.flop_counter
    import torch.utils.tensorboard

    torch.set_num_threads(1)
    # Every fork would look through all of this for garbage.
    gc.freeze()


class _Mutated(SourceFileLoader):
    """Loads a changed tree in the place of the file's text."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, loader: _Mutated) -> None:
        self.loader = loader

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.loader.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.loader.path, loader=self.loader
        )


def trace(files: Sequence[Path], arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Runs tests as they are; what each reaches and costs, and how others ended."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "found.json"

        def work() -> int:
            tracing = Tracing(frozenset(map(str, files)))
            options = [option for option in OPTIONS if option != "-x"]
            code = pytest.main([*options, *arguments], plugins=[tracing])
            kept.write_text(json.dumps([tracing.found, tracing.idle]))
            return int(code)

        _fork(work, None)
        found, idle = json.loads(kept.read_text())
    return found, idle


def run_mutant(path: Path, tree: ast.Module, tests: Sequence[str], seconds: float) -> str:
    """How the tests judge it: "killed", "survived" or "timeout".

    Args:
        path: The file.
        tree: What it is changed to.
        tests: Their names; the first that fails ends it.
        seconds: Of CPU, so that a busy machine changes nothing.
    """
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    loader = _Mutated(name, str(path), tree)

    def work() -> int:
        sys.meta_path.insert(0, _Finder(loader))
        return int(pytest.main([*OPTIONS, *tests]))

    status = _fork(work, seconds)
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "killed"
    code = os.WEXITSTATUS(status)
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        # A mutant that cannot be imported: its tests are then not found either.
        return "killed"
    return "killed" if code else "survived"


def _fork(work: Callable[[], int], seconds: float | None) -> int:
    """Does it in a child without a voice; how the child ended."""
    child = os.fork()
    if child == 0:
        code = _FAULT
        try:
            os.chdir(ROOT)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if seconds is not None:
                limit = int(seconds) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            code = work()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _FAULT:
        raise RuntimeError("the tests could not be started: run them without mutants")
    return status
