"""One candidate of a tuning on its windows, made to be called in a worker process."""

import json
import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from experiment import Experiment, experiment_of
from joblib import Parallel, delayed, parallel_config
from launch_build import build
from launch_errors import ConfigError

from sim.jobs import JobTable
from sim.linear.episode import played_jct_s
from sim.linear.weights import FIRST_AHEAD, FORWARD_FEATURES, LAYERS, START_FEATURES, SUSPEND, named
from sim.schedulers.linear_score import LinearScore


@dataclass(frozen=True)
class Trial:
    """Weights and the windows they are to play; hashable texts and numbers."""

    setting: str  # JSON of the resolved configuration
    weights: tuple[float, ...]  # of starts, then of forwards
    part: str
    windows: tuple[int, ...]  # of the part


def scheduler_of(config: Mapping[str, Any], weights: Sequence[float] | None) -> LinearScore:
    """The scheduler of the configuration, with other weights where some are given.

    Raises:
        ConfigError: it is another scheduler.
    """
    section = dict(config["scheduler"])
    if weights is not None:
        x = np.array(weights)
        cut = len(START_FEATURES)
        section |= {"weights": named(x[:cut], x[cut:]), "weights_file": None}
    scheduler = build({"scheduler": section}, "scheduler")
    if not isinstance(scheduler, LinearScore):
        raise ConfigError("scheduler must be linear_score: its weights are what is tuned")
    return scheduler


def weights_from(scheduler: LinearScore) -> tuple[float, ...]:
    """The weights of `Trial`.

    Raises:
        ConfigError: the scores have layers, or there is one of suspensions.
    """
    groups = scheduler.weights
    for group in (LAYERS, SUSPEND):
        if group in groups:
            raise ConfigError(
                f"these weights have {group}, which scripts/learn.py learns; tune others"
            )
    return tuple([groups["start"][name] for name in START_FEATURES]
                 + [groups["forward"][name] for name in FORWARD_FEATURES])  # fmt: skip


def free_weights(look_ahead: bool) -> list[int]:
    """Places in the vector of weights that are tuned: all, or those that do not look ahead."""
    names = [("start", at) for at in range(len(START_FEATURES))]
    names += [("forward", at) for at in range(len(FORWARD_FEATURES))]
    return [i for i, (group, at) in enumerate(names) if look_ahead or at < FIRST_AHEAD[group]]


def log_jct(trial: Trial) -> list[float]:
    """Logarithms of the mean JCT in seconds, window by window."""
    experiment, config = _experiment(trial.setting), json.loads(trial.setting)
    scheduler = scheduler_of(config, trial.weights)
    logs = []
    for window in trial.windows:
        jobs = _window(trial.setting, trial.part, window)
        logs.append(float(np.log(played_jct_s(experiment.game.simulator(jobs), scheduler))))
    return logs


def logs_of(trials: Sequence[Trial], jobs: int) -> Iterator[list[float]]:
    """`log_jct` of each trial, in their order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
    """
    if type(jobs) is not int or jobs == 0:
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one process a core")
    if jobs == 1:
        yield from map(log_jct, trials)
        return
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=jobs, return_as="generator", batch_size=1)(
            delayed(_worker_log_jct)(trial) for trial in trials
        )


def _worker_log_jct(trial: Trial) -> list[float]:
    if multiprocessing.current_process().name != "MainProcess":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its workers
    return log_jct(trial)


@lru_cache(maxsize=4)
def _experiment(setting: str) -> Experiment:
    return experiment_of(json.loads(setting))


@lru_cache(maxsize=64)
def _window(setting: str, part: str, index: int) -> JobTable:
    return _experiment(setting).window(part, index)
