"""The programs as a user runs them, on inputs of a second or two."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "topology=small_leaf_spine", "topology.servers=2", "topology.servers_per_rack=1",
    "interference=none", "network=none", "workload=csv",
)  # fmt: skip
TRACE = """job_id,submit_s,num_gpus,duration_s
a,0,4,10
b,1,4,10
c,2,8,0
d,30,1,5
"""


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str
    folder: Path

    def table(self, name: str = "comparison.csv") -> pd.DataFrame:
        return pd.read_csv(self.folder / name)

    def text(self, name: str = "comparison.md") -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def read(self, name: str = "metrics.json") -> Any:
        return json.loads(self.text(name))

    def jobs(self) -> pd.DataFrame:
        return pd.read_parquet(self.folder / "jobs.parquet")

    def failed_with(self, *words: str) -> None:
        """One message with these words, status 1, and nothing that looks like a result."""
        assert self.status == 1, self.err
        assert self.err.count("error:") == 1
        assert "Traceback" not in self.err
        assert [word for word in words if word not in self.err] == [], self.err
        left = {path.name for path in self.folder.rglob("*") if path.is_file()}
        assert left & {"metrics.json", "comparison.csv", "jobs.parquet", "model.json"} == set()


def call(program: str, *words: str, folder: Path, sweep: bool = False) -> Outcome:
    where = f"hydra.{'sweep' if sweep else 'run'}.dir={folder}"
    done = run_program([str(ROOT / "scripts" / f"{program}.py"), *words, where])
    return Outcome(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Outcome]:
    """Run a program with some words, writing to a folder of the test's own."""

    def run(program: str, *words: str, folder: str = "run", sweep: bool = False) -> Outcome:
        return call(program, *words, folder=tmp_path / folder, sweep=sweep)

    return run


@pytest.fixture
def done(start: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """As `start`, for runs that must succeed."""

    def run(*words: str, **options) -> Outcome:
        outcome = start(*words, **options)
        assert outcome.status == 0, outcome.err
        return outcome

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four jobs by hand."""
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path
