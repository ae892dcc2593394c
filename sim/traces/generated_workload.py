"""Jobs drawn anew for each window: the generator's, several workloads', TopDRL's authors'.

The last are classes of lengths and gangs, stretched by their placement's cost.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.arrays import IntArray, objects
from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.networks import YorkNetwork
from sim.topology.topology import Topology
from sim.traces.generator import generate
from sim.traces.job_traits import JobRules
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.select import thinned_window
from sim.traces.setting import (
    RANDOM,
    Measured,
    Setting,
    Streams,
    check_count,
    check_drawn_windows,
    whole_streams,
    window_streams,
)
from sim.traces.spec import WorkloadSpec
from sim.traces.trace import Trace


@dataclass(kw_only=True, eq=False, repr=False)
class DrawnWorkload(ABC):
    """`num_jobs` jobs a window, drawn anew for each part, window and seed.

    conf/workload/_base.yaml explains each option.

    Raises:
        TraceError: if an option is out of range.
    """

    name: str
    num_jobs: int | None
    thin: int | None
    windows_from: str
    max_gang: int | None
    drop_too_large: bool
    min_duration_s: float | None
    max_duration_s: float | None
    load: float | None
    profiles: Sequence[str] | None
    rules: JobRules
    measured_start_frac: float | None
    measured_end_frac: float | None
    window_measured_frac: Sequence[float]

    def __post_init__(self) -> None:
        """Check the options."""
        check_drawn_windows(self.windows_from)
        check_count("num_jobs", self.num_jobs)
        self._check()
        self._options = Preparation(
            max_gang=self.max_gang,
            drop_too_large=self.drop_too_large,
            min_duration_s=self.min_duration_s,
            max_duration_s=self.max_duration_s,
            load=self.load,
            profiles=self.profiles,
            rules=self.rules,
        )
        self._measured = Measured(
            start_frac=self.measured_start_frac,
            end_frac=self.measured_end_frac,
            window_frac=self.window_measured_frac,
        )

    @abstractmethod
    def _check(self) -> None:
        """Raise a TraceError for options that this workload has no use for."""

    def _count(self) -> int:
        if self.num_jobs is None:
            raise TraceError(
                "workload.num_jobs is null; a generated workload needs a number of jobs"
            )
        return self.num_jobs

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """The jobs of a stream that no window uses; with `drop_too_large` fewer may be left.

        Raises:
            TraceError: if a job cannot run on the cluster.
        """
        return self._table(whole_streams(seed=seed), setting, self._measured.whole())

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part: streams of parts, indices and seeds are disjoint.

        Raises:
            TraceError: if the part is unknown or a job cannot run on the cluster.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        return self._table(draws, setting, self._measured.window())

    @abstractmethod
    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        """The jobs of some streams, ready to run."""


@dataclass(kw_only=True, eq=False, repr=False)
class GeneratedWorkload(DrawnWorkload):
    """A window is thinned out of `thin` times as many generated jobs.

    Predictors know those left out once they have finished. Nothing ran before the first one.
    """

    spec: WorkloadSpec

    def _check(self) -> None:
        check_count("thin", self.thin)
        self._count()

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        jobs, thin = self._count(), self.thin or 1
        made = generate(self.spec, jobs * thin, draws.jobs, self.name)
        trace = fitted(made, self._options, setting)
        return prepare(
            thinned_window(trace, min(jobs, len(trace)), thin, draws.jobs),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
            history=made,
        )


class Windowed(Protocol):
    """A workload as this one reads it."""

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part."""


class MixedWorkload:
    """Window i is window i of the (i modulo W)-th of W workloads; there is no whole."""

    def __init__(self, *, name: str, load: float | None, of: Mapping[str, Windowed]) -> None:
        """`of`: in turn; each scales its own load, `load` is what results call the mix by.

        Raises:
            TraceError: there is no workload, or one cuts its file into disjoint windows.
        """
        if not of:
            raise TraceError("workload.of is empty; name at least one workload")
        for key, each in of.items():
            drawn = isinstance(each, DrawnWorkload)  # each window anew, whatever it is called
            how = RANDOM if drawn else getattr(each, "windows_from", RANDOM)
            if how != RANDOM:  # a mix takes every W-th window only, and would count past the last
                raise TraceError(
                    f"workload.of.{key}.windows_from is '{how}'; windows of a mix are random"
                )
        self._name, self._load, self._of = name, load, list(of.values())

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """Always an error.

        Raises:
            TraceError: a mix has windows only.
        """
        del setting, seed
        raise TraceError(f"workload {self._name} has windows only; use one of its workloads")

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """The jobs of one window.

        Raises:
            TraceError: from the workload whose turn it is.
        """
        turn = self._of[index % len(self._of)]
        return turn.window(part=part, index=index, setting=setting, seed=seed)


@dataclass(frozen=True, kw_only=True)
class YorkMix:
    """Classes (short, medium, long, extreme) of whole numbers up to a maximum.

    Class c holds the numbers above bound c - 1 and up to bound c, as shares of the maximum; a job
    draws a class by its share and a number within it uniformly, for length and gang apart. In every
    row of time a job arrives with `arrival_prob`.
    """

    row_s: float  # seconds of one row of length
    arrival_prob: float
    shares: Sequence[float]  # of the classes
    most_rows: int
    length_bounds: Sequence[float]  # shares of `most_rows`, ascending, the last 1
    most_gpus: int
    gang_bounds: Sequence[float]  # shares of `most_gpus`

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        classes = len(self.shares)
        for key, good, rule in (
            ("row_s", 0 < self.row_s < np.inf, "above 0"),
            ("arrival_prob", 0 < self.arrival_prob <= 1, "above 0 and at most 1"),
            ("shares", min(self.shares) >= 0 and sum(self.shares) > 0, "0 or more, not all 0"),
            ("length_bounds", _rising(self.length_bounds, classes), f"{classes} shares up to 1"),
            ("gang_bounds", _rising(self.gang_bounds, classes), f"{classes} shares up to 1"),
            ("most_rows", self.most_rows >= classes, f"{classes} or more"),
            ("most_gpus", self.most_gpus >= classes, f"{classes} or more"),
        ):
            if not good:
                raise TraceError(f"workload.mix.{key} is {getattr(self, key)}; it must be {rule}")

    def lengths(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) rows, 1 to `most_rows`."""
        return self._draw(self.length_bounds, self.most_rows, jobs, rng)

    def gangs(self, jobs: int, rng: np.random.Generator) -> IntArray:
        """(jobs,) GPUs, 1 to `most_gpus`."""
        return self._draw(self.gang_bounds, self.most_gpus, jobs, rng)

    def _draw(
        self, bounds: Sequence[float], most: int, jobs: int, rng: np.random.Generator
    ) -> IntArray:
        top = np.maximum(np.floor(np.asarray(bounds) * most + 1e-9), 1).astype(np.int64)
        low = np.minimum(np.concatenate([[0], top[:-1]]) + 1, top)
        shares = np.asarray(self.shares, dtype=np.float64)
        which = rng.choice(len(top), jobs, p=shares / shares.sum())
        return rng.integers(low[which], top[which], endpoint=True)


def _rising(bounds: Sequence[float], classes: int) -> bool:
    values = np.asarray(bounds, dtype=np.float64)
    if len(values) != classes or values[0] <= 0 or values[-1] != 1:
        return False
    return bool((np.diff(values) >= 0).all())


@dataclass(kw_only=True, eq=False, repr=False)
class YorkWorkload(DrawnWorkload):
    """`num_jobs` jobs of a mix, drawn anew for each part, window and seed.

    The group counts a job's work as length x speed on its GPUs alone, and divides speed by the cost
    of its placement; work here is the time on the most compact placement, length x that cost.
    """

    mix: YorkMix
    network: YorkNetwork
    topology: Topology

    def _check(self) -> None:
        self._count()
        if self.thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {self.thin}; jobs are drawn one by one, so it must be null"
            )

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        return prepare(
            fitted(self._trace(draws.jobs), self._options, setting),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
        )

    def _trace(self, rng: np.random.Generator) -> Trace:
        mix, count = self.mix, self._count()
        rows, gangs = mix.lengths(count, rng), mix.gangs(count, rng)
        came = np.cumsum(rng.geometric(mix.arrival_prob, count))
        return Trace(
            name=self.name,
            job_id=objects([f"{self.name}-{row}" for row in range(count)]),
            submit_s=(came - came[0]) * mix.row_s,
            num_gpus=gangs.astype(np.int64),
            duration_s=rows * mix.row_s * self.network.least_cost(gangs, self.topology),
            user=objects([""] * count),
            vc=objects([""] * count),
        )
