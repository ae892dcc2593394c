"""Jobs drawn anew for each window, here from the generator; windows of several workloads."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sim.errors import TraceError
from sim.jobs import JobTable
from sim.traces.generator import generate
from sim.traces.job_traits import JobRules
from sim.traces.option_rules import check_count
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.select import thinned_window
from sim.traces.setting import RANDOM, Measured, Setting, check_drawn_windows
from sim.traces.spec import WorkloadSpec
from sim.traces.streams import Streams, whole_streams, window_streams


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
