"""Workers on Ray: results in order, whoever is lost by its process id, and errors as they are."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from marl.training.spec import RayError
from sim.errors import SimulationError
from tests.marl.trainings import local_ray

pytestmark = pytest.mark.ray

Task = tuple[Path, int]


def square(task: Task) -> int:
    return task[1] ** 2


def pid(task: Task) -> int:
    """The worker's process; slow enough that each gets some."""
    time.sleep(0.2)
    return os.getpid() + 0 * task[1]


def groups(task: Task) -> set[int]:
    """Of the worker and of the raylet that started it."""
    return {os.getpgrp(), os.getpgid(os.getppid()), task[1]}


def square_or(sent: signal.Signals, task: Task) -> int:
    """At the first try, task 3 leaves its process id and sends its process a signal."""
    told = task[0] / "pid"
    if task[1] == 3 and not told.exists():
        told.write_text(str(os.getpid()))
        os.kill(os.getpid(), sent)
    return task[1] ** 2


square_or_die = partial(square_or, signal.SIGKILL)
falls_asleep = partial(square_or, signal.SIGSTOP)


def takes_5_s(task: Task) -> int:
    time.sleep(5.0)
    return square(task)


def ends_its_process(task: Task) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task[1]


def waits_for_ever(task: Task) -> int:
    if task[1] == 2:
        raise SimulationError("3 jobs wait for ever")
    return task[1]


@pytest.fixture(scope="module")
def pool() -> object:
    """Two workers for all tests; Ray itself is left to the process, which may have more for it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from marl.rllib.cluster import Pool

    # Workers of no CPU find room in whatever Ray this process has.
    ray = local_ray(num_cpus_per_env_runner=0, sample_timeout_s=5.0, probe_timeout_s=1.0,
                    restore_timeout_s=1.0)  # fmt: skip
    return Pool(ray, 2)


def both(pool, tasks: list[Task]) -> set[int]:
    """Process ids of the two workers, once both have started."""
    deadline = time.monotonic() + 60
    while len(found := set(pool.each(pid, tasks))) < 2 and time.monotonic() < deadline:
        pass
    assert len(found) == 2
    return found


def test_results_are_in_the_order_of_tasks_whoever_dies(pool, tmp_path: Path, caplog):
    tasks = [(tmp_path, number) for number in range(8)]
    squares = [number**2 for number in range(8)]
    assert pool.each(square, tasks) == squares
    before = both(pool, tasks)

    assert pool.each(square_or_die, tasks) == squares  # one dies in the middle
    assert int((tmp_path / "pid").read_text()) in before
    assert "a worker was lost" in caplog.text
    now = both(pool, tasks)
    assert now != before  # another came in its place

    for each in now:  # all of them, between two rounds
        os.kill(each, signal.SIGKILL)
    assert pool.each(square, tasks) == squares


def test_a_signal_to_our_group_reaches_nobody_of_ray(pool, tmp_path: Path):
    assert os.getpgrp() not in pool.each(groups, [(tmp_path, 0)])[0]


def test_sigterm_while_ray_starts_is_a_ctrl_c():
    from marl.rllib.cluster import _hearing_signals

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), _hearing_signals():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))  # as Ray does
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_worker_that_does_not_answer_is_given_up(pool, tmp_path: Path, caplog):
    tasks = [(tmp_path, number) for number in range(4)]
    both(pool, tasks)  # the first task of each may take its time
    try:
        assert pool.each(falls_asleep, tasks) == [0, 1, 4, 9]
        assert "no answer within ray.sample_timeout_s" in caplog.text
        assert pool.each(square, tasks) == [0, 1, 4, 9]
    finally:
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_slow_task_that_is_done_again_has_more_time(pool, tmp_path: Path, caplog, monkeypatch):
    monkeypatch.setattr(pool, "_spec", replace(pool._spec, sample_timeout_s=2.0))
    both(pool, [(tmp_path, number) for number in range(4)])
    assert pool.each(takes_5_s, [(tmp_path, 3)]) == [9]
    assert caplog.text.count("a worker was lost") == 1


def test_what_a_task_raises_arrives_as_it_is_and_workers_go_on(pool, tmp_path: Path):
    tasks = [(tmp_path, number) for number in range(4)]
    with pytest.raises(SimulationError, match=r"^3 jobs wait for ever$"):
        pool.each(waits_for_ever, tasks)
    assert pool.each(square, tasks) == [0, 1, 4, 9]


def test_a_task_that_ends_every_worker_is_given_up(pool, tmp_path: Path):
    with pytest.raises(RayError, match=r"5 workers were lost .* jobs=1"):
        pool.each(ends_its_process, [(tmp_path, 0)])


RAY_DIES = """
import os, signal
from pathlib import Path
from marl.rllib import cluster
from tests.marl.trainings import local_ray

def status(process):
    lines = process.joinpath("status").read_text().splitlines()
    return dict(line.split(":\\t", 1) for line in lines)

def ends():
    os.kill(os.getpid(), signal.SIGKILL)

cluster.LOOK_UP_S = 1.0
pool = cluster.Pool(local_ray(num_cpus_per_env_runner=0), 1)
assert pool.each(abs, [-1]) == [1]
processes = [each for each in Path("/proc").iterdir() if each.name.isdigit()]
mine = [each for each in processes if status(each)["PPid"] == str(os.getpid())]
(raylet,) = [int(each.name) for each in mine if status(each)["Name"] == "raylet"]
os.kill(raylet, signal.SIGKILL)
pool.each(lambda _: ends(), [1])
"""


@pytest.mark.slow  # Ray takes 15 s to notice
def test_where_the_private_ray_has_died_nobody_waits_for_workers() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", RAY_DIES], env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "RayError: the private Ray of this program has died" in done.stderr
