"""Training on a real cluster: `make ray-test`. A node dies, another joins, the driver is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marl.rllib.checkpoint import checked, last_whole
from tests.marl.cluster_driver import EVERY
from tests.marl.loopback import ROOT, Loopback

pytestmark = pytest.mark.ray_cluster

DRIVER = Path(__file__).with_name("cluster_driver.py")
ITERATIONS = 12
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Loopback]:
    """A head and two workers."""
    nodes = Loopback()
    try:
        nodes.start_head()
        yield nodes
    finally:
        nodes.close()


class Driver:
    """A training in a process of its own."""

    def __init__(self, cluster: Loopback, folder: Path, iterations: int) -> None:
        self.folder, self.log = folder, folder / "driver.log"
        words = [cluster.address, str(cluster.token), str(folder), str(iterations)]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), *words], env=cluster.environment(), stdout=out,
                stderr=out, start_new_session=True,
            )  # fmt: skip

    def steps(self) -> list[dict[str, int]]:
        path = self.folder / "steps.jsonl"
        return list(map(json.loads, path.read_text().splitlines())) if path.is_file() else []

    def wait(self, reached: Callable[[list[dict[str, int]]], bool]) -> list[dict[str, int]]:
        """Until the training is so far."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached(self.steps()):
            words = self.log.read_text()[-3000:]
            assert self.process.poll() is None, words
            assert time.monotonic() < deadline, f"{self.steps()}\n{words}"
            time.sleep(0.1)
        return self.steps()

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)


def test_training_outlives_a_node_and_its_own_driver(cluster: Loopback, tmp_path: Path):
    cluster.add_workers(3, 4)
    driver = Driver(cluster, tmp_path, 100_000)
    try:
        driver.wait(lambda steps: len(steps) >= 3 and steps[-1]["env_runners"] == 2)
        cluster.kill_raylet(3)
        driver.wait(lambda steps: steps[-1]["env_runners"] == 1)
        cluster.add_workers(5)
        healed = driver.wait(lambda steps: steps[-1]["env_runners"] == 2)
        assert healed[-1]["restarts"] >= 1
        before = driver.wait(lambda steps: len(steps) >= len(healed) + EVERY)
    finally:
        driver.kill()
    kept = checked(last_whole(tmp_path), None).iteration
    # The row of an iteration is there while its checkpoint is still being written.
    assert before[-1]["iteration"] - EVERY <= kept <= driver.steps()[-1]["iteration"]

    again = Driver(cluster, tmp_path, max(ITERATIONS, kept + 2))
    try:
        assert again.process.wait(timeout=PATIENCE_S) == 0, again.log.read_text()[-3000:]
    finally:
        if again.process.poll() is None:
            again.kill()
    check_exact(again.steps(), kept)
    assert again.steps()[-1]["env_runners"] == 2
    # From weights drawn at random, more than 1.3 (test_learning), to near the known optimum.
    assert json.loads((tmp_path / "result.json").read_text())["over_best"] < 1.1


def check_exact(lines: list[dict[str, int]], kept: int) -> None:
    """The counter is the sum of what the learner got, over the node's and the driver's death."""
    resumed = [i for i, line in enumerate(lines) if line["iteration"] == kept + 1][-1]
    history = [line for line in lines[:resumed] if line["iteration"] <= kept] + lines[resumed:]
    assert [line["iteration"] for line in history] == list(range(1, len(history) + 1))
    total = 0
    for line in history:
        total += line["learnt"]
        assert line["agent_steps"] == total, line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "ray.address is None; give the head of a running cluster"),
        (("ray.address=nowhere",), "ray.address is 'nowhere'"),
        (("ray.address=127.0.0.2:1", "ray.token_path=missing"), "true, but missing holds no token"),
        (("ray.address=127.0.0.9:1",), "ray.address=127.0.0.9:1: no cluster answers there"),
        (("ray.address=HEAD", "ray.token_path=WRONG"), "its token is another one"),
    ],
)
def test_what_cannot_start_says_why(cluster, tmp_path, words, told):
    """What `train.py ray=cluster` says when it cannot start."""
    (tmp_path / "token").write_text("0" * 64)
    given = [
        w.replace("HEAD", cluster.address).replace("WRONG", f"{tmp_path}/token") for w in words
    ]
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "train.py"), "ray=cluster", "warm_start=none",
         "workload.num_jobs=20", "validation_windows=1", f"hydra.run.dir={tmp_path / 'run'}",
         *given],
        env=cluster.environment(), capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert told in done.stderr
