"""A rule that is changed by one sign or word makes the tests named beside it fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("sim", "gnn", "marl", "interference", "gpuyard", "conf", "tests", "scripts")


class Mutation(NamedTuple):
    """One rule of the domain, and what guards it."""

    file: str
    tests: str
    rule: str  # as it stands in the file, once
    broken: str


CHARTS = "tests/golden/test_orders.py::test_the_chart_of_one_server_is_as_drawn"
MUTATIONS = {
    "the least key first": Mutation(
        "sim/engine/queues.py",
        f"{CHARTS}[sjf: C passes the long one, not the running one]",
        "return bool(mine < theirs or (mine == theirs and sign * a < sign * b))",
        "return bool(mine > theirs or (mine == theirs and sign * a < sign * b))"),
    "what a tenant adds to a slow-down": Mutation(
        "sim/physics/laws.py",
        "tests/golden/test_orders.py::test_lif_workers_go_where_self_and_victims_suffer_least",
        "excess = slowdown - 1.0",
        "excess = 2.0 * (slowdown - 1.0)"),
    "a whole quantum attained": Mutation(
        "sim/engine/queues.py",
        f"{CHARTS}[las: the newcomer waits for the quantum]",
        "np.floor(attained_gpu_s / quantum_gpu_s",
        "np.ceil(attained_gpu_s / quantum_gpu_s"),
    "what a restart costs": Mutation(
        "sim/kernel/attempts.py",
        "tests/golden/test_orders.py::test_each_restart_holds_the_gpu_without_progress",
        "row.resume_s = now_s + (world.restart_s + world.restart_s_per_gpu * row.held)",
        "row.resume_s = now_s + world.restart_s_per_gpu * row.held"),
    "work since the checkpoint is lost": Mutation(
        "sim/kernel/attempts.py", "tests/sim/test_life.py",
        "row.progress_s = row.saved_s",
        "row.progress_s = row.progress_s"),
    "how often a job may be forwarded": Mutation(
        "sim/engine/queues.py", "tests/golden/test_forwarding.py",
        "stays = state.job[job].forwards >= state.world[0].max_forwards",
        "stays = state.job[job].forwards > state.world[0].max_forwards"),
    "the tightest server": Mutation(
        "sim/engine/placing.py", "tests/golden/test_placers.py",
        "for usable in range(gang, most + 1):",
        "for usable in range(most, gang - 1, -1):"),
    "the least loaded partition": Mutation(
        "sim/engine/filling.py", "tests/golden/test_forwarding.py",
        "if share < least:",
        "if share > least:"),
    "a timer before a job goes anywhere": Mutation(
        "sim/engine/placing.py", "tests/golden/test_placers_by_job.py",
        "now_s >= since_s + rule.anywhere_wait_s",
        "now_s >= since_s + rule.rack_wait_s"),
    "others slow a job down by how busy they keep its links": Mutation(
        "sim/physics/max_min.py", "tests/physics/test_link_loads.py",
        "factor = 1.0 + others / BUSY_ONE",
        "factor = 1.0"),
    "what is left to do counts in a branch": Mutation(
        "marl/policy/branching.py", "tests/marl/test_branching.py",
        "total += until_s - job.submit_s + max(job.work_s - done_s, 0.0)",
        "total += until_s - job.submit_s"),
}  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The sources with their compiled code, where they may be broken."""
    folder = tmp_path_factory.mktemp("mutated")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "setup.cfg", folder)
    return folder


def outcome_of(copy: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip


@pytest.mark.slow
def test_unbroken_all_of_them_pass(copy: Path) -> None:
    done = outcome_of(copy, *sorted({each.tests for each in MUTATIONS.values()}))
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_broken_rule_is_caught(copy: Path, name: str) -> None:
    file, tests, rule, broken = MUTATIONS[name]
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert text.count(rule) == 1
    path.write_text(text.replace(rule, broken), encoding="utf-8")
    try:
        done = outcome_of(copy, tests)
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode == 1, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"  # tests failed
    assert "1 failed" in done.stdout
