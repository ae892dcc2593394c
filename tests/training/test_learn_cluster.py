"""`learn.py` on a cluster: a node dies in the middle, another joins, and nothing else changes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.marl.loopback import ROOT, Loopback, command_of, of_session
from tests.marl.trainings import wait_for

pytestmark = pytest.mark.ray_cluster

TINY = (
    "topology=small_leaf_spine", "workload.max_gang=8", "agents.count=4", "workload.num_jobs=100",
    "validation_windows=2", "held_out.windows=2", "pairs=12", "standard_windows=1", "minutes=null",
    "updates=250", "checkpoint_every=1", "validate_every=50",
)  # fmt: skip
PATIENCE_S = 300.0


def start(cluster: Loopback, folder: Path, *words: str) -> subprocess.Popen[str]:
    script = [sys.executable, str(ROOT / "scripts" / "learn.py"), f"hydra.run.dir={folder}"]
    return subprocess.Popen(
        [*script, *TINY, *words], env=cluster.environment(), cwd=ROOT, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def workers_on(cluster: Loopback, host: int) -> list[int]:
    """Processes of a node that play."""
    found = of_session(cluster.session(host))
    return [pid for pid in found if command_of(pid).startswith("ray::Worker.call")]


def updates(folder: Path) -> int:
    path = folder / "checkpoint.npz"
    return int(np.load(path)["update"]) if path.is_file() else 0


def test_learning_outlives_a_node(tmp_path: Path):
    cluster, begun = Loopback(), []
    folder = tmp_path / "shared"
    try:
        cluster.start_head()
        cluster.add_workers(3, 4)
        # One worker more than there is room for: it comes with the third node.
        process = start(cluster, folder, "ray=cluster", f"ray.address={cluster.address}", "jobs=3")
        begun.append(process)

        wait_for(lambda: updates(folder) >= 3 and workers_on(cluster, 4), process, PATIENCE_S)
        cluster.kill_raylet(4)
        cluster.add_workers(5)
        wait_for(lambda: workers_on(cluster, 5), process, PATIENCE_S)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        assert "its share is done again" in err
        alone = start(cluster, tmp_path / "alone", "jobs=1")
        begun.append(alone)
        assert alone.wait(timeout=PATIENCE_S) == 0
    finally:
        cluster.close()
        for each in begun:
            each.kill()
    one, other = (np.load(each / "checkpoint.npz") for each in (folder, tmp_path / "alone"))
    for name in ("mean", "average", "first", "second"):
        assert np.array_equal(one[name], other[name]), name
