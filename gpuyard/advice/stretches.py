"""What a policy of the cluster's own learns on: stretches of the trace in which jobs waited.

A window of a few hundred jobs that begins with an empty cluster hardly queues, however busy the
cluster is, and on it all policies are alike. So the first part of the trace is played once by a
scout, cut into stretches, and each begins with what the scout had running and waiting then.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpuyard.advice.playing import Scenario, jobs_of
from gpuyard.evaluation.experiment import Experiment, composition_of, opened
from gpuyard.evaluation.jobs import warm_up
from gpuyard.launch.errors import ConfigError
from gpuyard.training.windows import scheduler_of
from sim.arrays import FloatArray, IntArray
from sim.jobs import JobTable
from sim.run import Run
from sim.scoring.linear_score import LinearScore
from sim.simulator import Simulator, simulate
from sim.traces.prepare import picked_jobs

FIRST, JUDGED = "train", "test"  # parts of the trace: what is learned from, and the rest
TRAIN, VALIDATION = "train", "validation"  # parts of the first part
FOR_VALIDATION = 0.2  # of the jobs of the first part
STRETCH_JOBS = 1500  # that arrive in a stretch
WHOLE = "whole"  # the last jobs of the first part as one window
WHOLE_JOBS = 4000
FEWEST_JOBS = 20
MEASURED = 0.85  # of the arrivals: after the last ones nobody comes, so that they hardly wait
LEAST_LEFT_S = 60.0  # predicted, of a job that has run longer than was predicted
SHARES = 1000  # steps of the shares by which stretches are drawn


@dataclass(frozen=True, eq=False)
class Scouted:
    """The first part, played once and cut into stretches."""

    experiment: Experiment
    run: Run
    bounds: Mapping[str, IntArray]  # part -> (n + 1,) rows of `run.jobs` between n stretches
    waits_s: Mapping[str, FloatArray]  # part -> (n,) what the jobs of a stretch waited, in all

    def waited_frac(self) -> float:
        """Share of their time in the system that all jobs waited, or were slowed down."""
        in_system_s = np.nansum(self.run.finish_s - self.run.jobs.submit_s)
        waited_s = sum(float(waits_s.sum()) for waits_s in self.waits_s.values())
        return waited_s / max(float(in_system_s), 1.0)


@dataclass(frozen=True, eq=False)
class StretchField:
    """Windows that are stretches of one trace, drawn by how long their jobs waited."""

    scheduler: LinearScore  # whose weights are learned
    scouted: Scouted

    def stretch(self, part: str, index: int) -> int:
        """The stretch of window `index`: in training drawn by waits, else the longest first."""
        waits_s = self.scouted.waits_s[part]
        if part != TRAIN:
            return int(np.argsort(-waits_s, kind="stable")[index % len(waits_s)])
        shares = np.cumsum(waits_s + 1.0)
        return int(np.searchsorted(shares / shares[-1], (index % SHARES + 0.5) / SHARES))

    def window(self, part: str, index: int) -> JobTable:
        """The jobs of a stretch, and before them those that the scout had not finished."""
        if part == WHOLE:
            last = len(self.scouted.run.jobs)
            return from_state(self.scouted.run, max(last - WHOLE_JOBS, 0), last)
        bounds, at = self.scouted.bounds[part], self.stretch(part, index)
        return from_state(self.scouted.run, int(bounds[at]), int(bounds[at + 1]))

    def simulator(self, part: str, index: int, jobs: JobTable) -> Simulator:
        """The jobs on the one cluster, whichever window they are of."""
        del part, index
        return self.scouted.experiment.world.simulator(jobs)

    def windows(self, part: str) -> None:
        """Every number has a window: they repeat."""
        del part

    def time_of(self, part: str, index: int) -> int:
        """The stretch."""
        return self.stretch(part, index)


def open_stretches(setting: str) -> StretchField:
    """The windows of a configuration of advise with a `scheduler`, a linear score, given as JSON.

    Raises:
        GpuYardError: as `scouted`.
    """
    config: dict[str, Any] = json.loads(setting)
    scheduler = scheduler_of(config)
    return StretchField(scheduler, scouted(json.dumps({**config, "scheduler": None})))


@lru_cache(maxsize=2)
def scouted(setting: str) -> Scouted:
    """The first part, as the composition `scout` of a configuration plays it.

    Raises:
        ConfigError: there are too few jobs to learn from.
        GpuYardError: a job fits nowhere.
    """
    config: dict[str, Any] = json.loads(setting)
    scenario = Scenario(setting, FIRST, leave_out=config["leave_out"], large=None, blocks=2)
    experiment, (jobs, _) = opened(setting), jobs_of(scenario)
    cut = round(len(jobs) * (1.0 - FOR_VALIDATION))
    if min(cut, len(jobs) - cut) < FEWEST_JOBS:
        raise ConfigError(
            f"learn_minutes needs {FEWEST_JOBS} jobs to learn from and as many for validation; the "
            f"first part of the trace has {cut} and {len(jobs) - cut}; set learn_minutes=null, a "
            f"larger learn_frac, or take a longer trace"
        )
    world = experiment.world
    scout = composition_of({**config["scout"], "belief": config["belief"]}, world.partitions)
    simulator = world.simulator(jobs)
    warm_up(world, scout, compiled=not simulator.python_decides(scout))
    run = simulate(simulator, scout, experiment.seed, None)
    bounds = {TRAIN: _bounds(0, cut), VALIDATION: _bounds(cut, len(jobs))}
    wait_s = np.nan_to_num(run.finish_s - jobs.submit_s - jobs.duration_s).clip(min=0.0)
    total_s = np.concatenate([[0.0], np.cumsum(wait_s)])
    waits_s = {part: np.diff(total_s[edges]) for part, edges in bounds.items()}
    return Scouted(experiment, run, bounds, waits_s)


def _bounds(first: int, last: int) -> IntArray:
    """(n + 1,) rows that cut [first, last) into stretches of about STRETCH_JOBS."""
    count = max(1, round((last - first) / STRETCH_JOBS))
    return np.linspace(first, last, count + 1).round().astype(np.int64)


def from_state(run: Run, first: int, last: int) -> JobTable:
    """Jobs [first, last) of a run, and before them what ran and what waited when the first came.

    Those come at time 0, what ran with the work that was left of it. All but the last arrivals are
    measured.
    """
    jobs = run.jobs
    now_s = float(jobs.submit_s[first])
    unfinished = run.finish_s[:first] > now_s
    began = run.start_s[:first] <= now_s
    running, waiting = np.flatnonzero(unfinished & began), np.flatnonzero(unfinished & ~began)
    rows = np.concatenate([running, waiting, np.arange(first, last)])
    left = np.ones(len(rows))
    spans_s = run.finish_s[running] - run.start_s[running]
    left[: len(running)] = (run.finish_s[running] - now_s) / spans_s  # at a steady pace
    all_s, estimate_s = jobs.duration_s[rows], jobs.estimate_s[rows]
    estimate_left_s = np.maximum(estimate_s - (1.0 - left) * all_s, LEAST_LEFT_S)
    counted = np.ones(len(rows), dtype=np.bool_)
    counted[len(rows) - round((1.0 - MEASURED) * (last - first)) :] = False
    return picked_jobs(
        jobs, rows,
        submit_s=np.maximum(jobs.submit_s[rows] - now_s, 0.0),
        duration_s=left * all_s,
        estimate_s=np.where(left < 1.0, estimate_left_s, estimate_s),
        measured=counted,
        attempts=None,  # they count from the beginning of a job
    )  # fmt: skip
