"""Ray: attaching to a cluster, building an algorithm there, workers that call functions.

A cluster is told of the nodes; names are shared. What a lost worker was at, another does again.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayTaskError
from ray.exceptions import RayError as RaySaysError
from ray.util import log_once

from marl.training.spec import ClusterRay, LocalRay, RayError, RaySpec

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig


log = logging.getLogger(__name__)


def built(config: Any) -> Any:
    """`config.build_algo()`, without the warning that it runs on the stack that we chose.

    RLlib warns through `log_once`: what has been said already is not said again.
    """
    for each in config.algo_class.__mro__:  # of its own and of what it is made from
        log_once(f"{each.__name__}_on_new_api_stack")
    return config.build_algo()


ENV_NAME = "gpuyard"
SHARED = "shared"  # the one module: the policy of all agents, or those of each
WHOLE_RETURN = "whole_episode_return"
RETURN_WINDOW = 16  # episodes


CHECKOUT = Path(__file__).resolve().parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # more only wait for each other


def connect(spec: RaySpec, *, trials: int = 1) -> None:
    """Start a private Ray or attach to the cluster, unless this process has one already.

    `spec.environment()` must have been set before Ray was imported. A private Ray gets the CPUs of
    `trials` trainings at once.

    Raises:
        RayError: no cluster answers at the address, or it refuses this program.
    """
    if isinstance(spec, ClusterRay):
        attach(spec)
    elif isinstance(spec, LocalRay):
        start_ray(num_cpus=trials * spec.num_cpus, object_store_bytes=spec.object_store_bytes)


_starting = threading.Event()


def _stand_apart() -> None:
    """In a process that Ray starts: leave our group, for what ends us is not to end Ray first.

    On Linux, which ends them with us; elsewhere Ray ends whoever is in the group.
    """
    if _starting.is_set() and sys.platform == "linux":
        os.setpgid(0, 0)


os.register_at_fork(after_in_child=_stand_apart)


@contextmanager
def _hearing_signals() -> Iterator[None]:
    """Keep what this process does at SIGTERM: Ray would end it at once, with nothing saved.

    Nor do Ray's processes hear what a terminal, or `timeout`, sends to all of our group.
    """
    before = signal.getsignal(signal.SIGTERM)
    _starting.set()
    try:
        yield
    except SystemExit:  # Ray's answer to SIGTERM meanwhile
        raise KeyboardInterrupt from None
    finally:
        _starting.clear()
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@_hearing_signals()
def start_ray(num_cpus: int, object_store_bytes: int) -> None:
    """A private Ray on this machine, unless one is running in this process already."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        address="local",  # whatever RAY_ADDRESS says
        num_cpus=num_cpus,
        object_store_memory=object_store_bytes,
        include_dashboard=False,
        configure_logging=True,
        logging_level="ERROR",
        log_to_driver=False,
    )
    atexit.register(ray.shutdown)  # before Tune's clean-up, which waits a minute for dead nodes


@_hearing_signals()
def attach(spec: ClusterRay) -> None:
    """Make this process a driver of the running cluster."""
    if ray.is_initialized():
        return
    spec.check_answer()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    path = {"PYTHONPATH": str(CHECKOUT)} if spec.code == "checkout" else {}
    try:
        ray.init(
            address=spec.address,
            runtime_env={"env_vars": {**ONE_THREAD, **path}},
            configure_logging=True,
            logging_level="ERROR",
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RayError(
            f"ray.address={spec.address}: the cluster could not be joined ({error}). Either its "
            "token is another one (ray.token_path, ray.token_auth), or this machine is none of "
            "its nodes, or it runs another version of Ray or Python"
        ) from error


def placed(config: AlgorithmConfig, spec: RaySpec) -> AlgorithmConfig:
    """`config` with env runners and learners where `spec` wants them, replaced when lost.

    How many env runners sample how many copies is the algorithm's own choice; it is left as it is.
    """
    runners: dict[str, Any] = {
        "num_cpus_per_env_runner": spec.num_cpus_per_env_runner,
        "num_gpus_per_env_runner": spec.num_gpus_per_env_runner,
        "sample_timeout_s": spec.sample_timeout_s,
    }
    faults: dict[str, Any] = {
        "restart_failed_env_runners": True,
        "env_runner_health_probe_timeout_s": spec.probe_timeout_s,
        "env_runner_restore_timeout_s": spec.restore_timeout_s,
        "delay_between_env_runner_restarts_s": spec.restart_delay_s,
    }
    learners: dict[str, Any] = {
        "num_learners": spec.num_learners,
        "num_cpus_per_learner": spec.num_cpus_per_learner,
        "num_gpus_per_learner": spec.num_gpus_per_learner,
    }
    return config.env_runners(**runners).fault_tolerance(**faults).learners(**learners)


T = TypeVar("T")
R = TypeVar("R")

MOST_LOSSES = 5  # of workers by one task, or while they start
LOOK_UP_S = 30.0  # after so long without an answer the user is told, or a worker given up


class Worker:
    """A process with one task at a time."""

    def begun(self) -> None:
        """Answers once the process is there."""

    def call(self, function: Callable[[T], R], task: T) -> R:
        """`function(task)`."""
        return function(task)


class Pool:
    """Workers that are started when first asked for; those without room come when there is some.

    Results are those of the tasks, in their order: who did which, and who was lost, is not seen.
    """

    def __init__(self, spec: RaySpec, workers: int) -> None:
        """`workers` from 1; -1: as many as the cluster has CPUs for."""
        self._spec, self._wanted, self._size = spec, workers, 0
        self._here: dict[Any, bool] = {}  # actor -> has done a task: the first may compile for long
        self._coming: dict[Any, Any] = {}  # first answer -> actor
        self._lost_early = 0

    @property
    def size(self) -> int:
        """How many workers there are, or will be; RayError: Ray cannot be started or reached."""
        if not self._size:
            self._start()
        return self._size

    def each(self, play: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """(len(tasks),) `play` of each; both are sent to the workers.

        Raises:
            RayError: Ray cannot be started or reached, or workers are lost again and again: they
                die, or do not answer for `sample_timeout_s`, for a task that is done again four
                times as long as before.
            Exception: what `play` raises.
        """
        assert self.size
        waiting, losses = deque(range(len(tasks))), Counter[int]()
        free, running = list(self._here), dict[Any, tuple[Any, int, float]]()
        found: dict[int, R] = {}
        while len(found) < len(tasks):
            while waiting and free:
                actor, at = free.pop(), waiting.popleft()
                allowed_s = self._spec.sample_timeout_s * 4 ** losses[at]
                until_s = time.monotonic() + allowed_s if self._here[actor] else math.inf
                running[actor.call.remote(play, tasks[at])] = actor, at, until_s
            answer = self._next(running)
            if answer in self._coming:
                free += self._welcomed(answer)
                continue
            actor, at, until_s = running.pop(answer)
            try:
                found[at] = ray.get(answer, timeout=0 if _is_past(until_s) else None)
                self._here[actor] = True
                free.append(actor)
            except RayTaskError as error:
                raise error.cause from error
            except RaySaysError as error:
                self._replace(actor, error)
                losses[at] += 1
                _check(losses[at], error)
                waiting.appendleft(at)
        return [found[at] for at in range(len(tasks))]

    def _start(self) -> None:
        connect(replace(self._spec, num_env_runners=max(self._wanted, 0)))
        wanted = self._wanted
        if wanted < 0:
            cpus = ray.cluster_resources().get("CPU", 0.0)
            wanted = int(cpus // max(self._spec.num_cpus_per_env_runner, 1.0))
        self._size = max(wanted, 1)
        for _ in range(self._size):
            self._call_in()

    def _call_in(self) -> None:
        """Ask for one more worker, wherever there is room."""
        actor = (
            ray.remote(Worker)
            .options(
                num_cpus=self._spec.num_cpus_per_env_runner,
                num_gpus=self._spec.num_gpus_per_env_runner,
                scheduling_strategy="SPREAD",
            )
            .remote()
        )
        self._coming[actor.begun.remote()] = actor

    def _next(self, running: dict[Any, tuple[Any, int, float]]) -> Any:
        """The first answer that is there, whatever it says, or one that is overdue."""
        while True:
            timeout_s = min(LOOK_UP_S, self._spec.sample_timeout_s)
            done, _ = ray.wait([*running, *self._coming], num_returns=1, timeout=timeout_s)
            late = (answer for answer, (*_, until_s) in running.items() if _is_past(until_s))
            for answer in (*done, *late):
                return answer
            if not self._here:
                if isinstance(self._spec, LocalRay) and not _is_alive():
                    raise RayError(
                        "the private Ray of this program has died (out of memory?); go on with a "
                        "smaller jobs, or with jobs=1, which needs no Ray"
                    )
                log.warning("no worker has room on the Ray cluster, or starts; waiting for one")

    def _welcomed(self, answer: Any) -> list[Any]:
        """The worker that answered, as one that may be used; none if it was lost while starting."""
        actor = self._coming.pop(answer)
        try:
            ray.get(answer)
        except RaySaysError as error:
            self._lost_early += 1
            _check(self._lost_early, error)
            self._call_in()
            return []
        self._lost_early = 0
        self._here[actor] = False
        return [actor]

    def _replace(self, actor: Any, error: Exception) -> None:
        log.warning("a worker was lost and its share is done again (%s)", _why(error))
        del self._here[actor]
        ray.kill(actor)  # one that only could not be reached must not come back
        self._call_in()


def _is_alive() -> bool:
    """Whether the cluster has a node that lives; a private one has no other to wait for."""
    try:
        return any(node["Alive"] for node in ray.nodes())
    except RaySaysError:
        return False


def _is_past(at_s: float) -> bool:
    return time.monotonic() > at_s


def _check(losses: int, error: Exception) -> None:
    if losses >= MOST_LOSSES:
        raise RayError(
            f"{losses} workers were lost one after the other ({_why(error)}); jobs=1 works "
            "without Ray and shows the error, a smaller jobs needs less memory, and a longer "
            "ray.sample_timeout_s waits for slow ones"
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, GetTimeoutError):
        return "no answer within ray.sample_timeout_s"
    return str(error).strip().partition("\n")[0]
