"""A tiny real Hydra program, run as a user would run it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forking import run_program

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os
from pathlib import Path
from gpuyard.launch.start import program, run_main, start
from omegaconf import DictConfig
from sim.errors import TraceError

@program("tiny", Path(__file__).resolve().parent / "conf")
def main(cfg: DictConfig) -> None:
    launch = start(cfg)
    if launch.config["mode"] != "never_begun":
        launch.begin()
    topology = launch.build("topology")
    if launch.config["mode"] == "bad_trace":
        raise TraceError("jobs.csv line 3: num_gpus is 0; a gang needs at least one GPU")
    if launch.config["mode"] == "fault":
        raise RuntimeError("a fault of the program")
    if launch.config["mode"] == "interrupt":
        raise KeyboardInterrupt
    (launch.folder / "gpus.txt").write_text(str(topology.num_gpus))

if __name__ == "__main__":
    run_main(main)
"""

CONFIGS = {
    "tiny.yaml": """
defaults:
  - hydra: default
  - topology: small
  - experiment: null
  - _self_
seed: 0
mode: fine
trace: ???
workload: {max_gang: 8}
""",
    "topology/small.yaml": """
_target_: sim.topology.generators.leaf_spine
name: small
servers: 2
gpus_per_server: 4
servers_per_rack: 2
gpu_types: [p100]
intra_gbps: 80
nic_gbps: 10
oversubscription: 2
""",
    "topology/medium.yaml": "defaults: [small, _self_]\nname: medium\nservers: 6\n",
    "experiment/big.yaml": "# @package _global_\nworkload: {max_gang: 16}\n",
}


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str
    runs: Path

    @property
    def folders(self) -> list[Path]:
        """Run folders made, by their record."""
        return sorted(path.parent for path in self.runs.rglob("record.json"))


def write_own(folder: Path, files: dict[str, str]) -> None:
    """A user's own files; their choices lie in `mine`, which gpuyard.yaml names."""
    for name, text in {**files, "gpuyard.yaml": "search_path: [mine]\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Outcome]:
    """Run the tiny program with some words; `trace` is given unless the words say otherwise."""
    conf = tmp_path / "conf"
    for name, text in CONFIGS.items():
        (conf / name).parent.mkdir(parents=True, exist_ok=True)
        (conf / name).write_text(text)
    (conf / "hydra").mkdir()
    shared = ROOT / "conf" / "hydra" / "default.yaml"
    (conf / "hydra" / "default.yaml").write_text(shared.read_text())
    program = tmp_path / "tiny.py"
    program.write_text(PROGRAM)

    def run(*words: str, trace: str | None = "jobs.csv", **env: str) -> Outcome:
        given = [] if trace is None else [f"trace={trace}"]
        done = run_program([str(program), *words, *given], cwd=tmp_path, env=env)
        return Outcome(done.returncode, done.stdout, done.stderr, tmp_path / "runs")

    return run
