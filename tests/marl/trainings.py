"""Training programs as a user runs them: in a process and a session of their own."""

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Training:
    """A script of `scripts/` with the overrides that make it small."""

    script: str
    tiny: tuple[str, ...]

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Train to the end, or be refused."""
        return run_program(self._command(folder, words)[1:], cwd=folder.parent)

    @contextmanager
    def begun(self, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A training that is under way; whoever of it is left in the end is killed.

        What it prints goes to `printed` beside its folder: nobody has to read a pipe.
        """
        with (folder.parent / "printed").open("w") as printed:
            running = subprocess.Popen(
                self._command(folder, words), cwd=folder.parent, env=_environment(), text=True,
                stdout=printed, stderr=printed, start_new_session=True,
            )  # fmt: skip
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait(timeout=30)

    def _command(self, folder: Path, words: tuple[str, ...]) -> list[str]:
        script = str(ROOT / "scripts" / self.script)
        return [sys.executable, script, *self.tiny, f"hydra.run.dir={folder}", *words]


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"DEBUG", "HYDRA_FULL_ERROR"}}
    return kept | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def curve(folder: Path) -> list[dict[str, str]]:
    """The learning curve so far; no rows where there is none yet."""
    path = folder / "learning_curve.csv"
    return list(csv.DictReader(path.open())) if path.is_file() else []
