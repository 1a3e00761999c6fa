"""What a newcomer sees and waits for: install, doctor and demo in an empty environment.

python tools/release/newcomer.py dist/bcdm-0.1.0-py3-none-any.whl benchmarks/newcomer.txt

torch is installed before the clock starts; TORCH names another version. docs/install.md shows the
file that is written.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = (
    "pip install --quiet '{wheel}[formats]'",
    "bcdm doctor",
    "bcdm demo --out demo --no-open",
)


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    """The command as typed, what it printed, and what it took."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    # What pip warns of is about the package index of this machine.
    errors = subprocess.PIPE if command.startswith("pip") else subprocess.STDOUT
    done = subprocess.run(
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    clock, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"$ {command}\n{done.stdout}[{clock:.1f} s, {spent:.1f} s of the processor]\n"


def try_wheel(wheel: Path) -> str:
    """The transcript of all commands, in an environment of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        kept = ("HOME", "LANG", "LC_ALL", "TMPDIR")
        env = {key: os.environ[key] for key in kept if key in os.environ}
        env |= {"PATH": f"{folder / 'env/bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        torch = f"torch=={os.environ.get('TORCH', '2.13.0')}"
        subprocess.run(["pip", "install", "--quiet", torch], cwd=folder, env=env, check=True)
        (folder / wheel.name).symlink_to(wheel.resolve())
        return "\n".join(run(one.format(wheel=wheel.name), folder, env) for one in COMMANDS)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(try_wheel(Path(sys.argv[1])))
