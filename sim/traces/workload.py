"""Jobs of a run: from a trace file (all, or windows of a part), drawn anew, or of several."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from sim.errors import TraceError, amount, check_keys, check_numbers
from sim.jobs import WHOLE_GPU_MILLI, JobTable
from sim.text_files import moment
from sim.times import DAY_S
from sim.traces.column_reader import Notes, TraceReader
from sim.traces.generator import generate
from sim.traces.job_traits import JobRules
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.setting import (
    AUTO,
    DISJOINT,
    RANDOM,
    Setting,
    check_count,
    check_drawn_windows,
    check_windows_from,
)
from sim.traces.spec import WorkloadSpec
from sim.traces.streams import Streams, whole_streams, window_streams
from sim.traces.text_table import GivenColumns
from sim.traces.trace import (
    MANY,
    Stretches,
    Trace,
    cut,
    split,
    take,
    thinned_window,
    time_window,
    without_vcs,
)


@dataclass(kw_only=True, eq=False, repr=False)
class DrawnWorkload(Preparation, ABC):
    """`num_jobs` jobs a window, drawn anew for each part, window and seed."""

    name: str
    num_jobs: int | None
    thin: int | None
    windows_from: str

    def __post_init__(self) -> None:
        """Raise a TraceError where an option is out of range."""
        check_drawn_windows(self.windows_from)
        check_count("num_jobs", self.num_jobs)
        self._check()
        super().__post_init__()

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
        return self._table(whole_streams(seed=seed), setting, self.measured_frac(whole=True))

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part: streams of parts, indices and seeds are disjoint.

        Raises:
            TraceError: if the part is unknown or a job cannot run on the cluster.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        return self._table(draws, setting, self.measured_frac(whole=False))

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        """The jobs of some streams, ready to run."""
        made, trace = self.drawn(draws, setting.gpus)
        return prepare(
            trace, options=self, setting=setting, draws=draws, measured_frac=measured, history=made
        )

    @abstractmethod
    def drawn(self, draws: Streams, gpus: int) -> tuple[Trace | None, Trace]:
        """All jobs that ran, None for those of the window; and these, capped for `gpus` GPUs."""


@dataclass(kw_only=True, eq=False, repr=False)
class GeneratedWorkload(DrawnWorkload):
    """A window is thinned out of `thin` times as many generated jobs.

    Predictors know those left out once they have finished. Nothing ran before the first one.
    """

    spec: WorkloadSpec

    def _check(self) -> None:
        check_count("thin", self.thin)
        self._count()

    def drawn(self, draws: Streams, gpus: int) -> tuple[Trace, Trace]:
        """All jobs that are generated, and those kept."""
        jobs, thin = self._count(), self.thin or 1
        made = generate(self.spec, jobs * thin, draws.jobs, self.name)
        trace = fitted(made, self, gpus)
        return made, thinned_window(trace, min(jobs, len(trace)), thin, draws.jobs)


class MixedWorkload:
    """Window i is window i of the (i modulo W)-th of W workloads; there is no whole."""

    def __init__(self, *, name: str, load: float | None, of: Mapping[str, Any]) -> None:
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
        """Always an error; TraceError: a mix has windows only."""
        del setting, seed
        raise TraceError(f"workload {self._name} has windows only; use one of its workloads")

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """The jobs of one window; TraceError: from the workload whose turn it is."""
        turn: DrawnWorkload | TraceWorkload = self._of[index % len(self._of)]
        return turn.window(part=part, index=index, setting=setting, seed=seed)


log = logging.getLogger(__name__)

WINDOW_KEYS = ("start_s", "end_s")


class Lost(NamedTuple):
    """What of a file is not played."""

    faulty: int  # rows with faults, which strict=false leaves out
    rows: int  # of the file
    inside: int  # jobs in the time window
    jobs: int  # of the file, without excluded virtual clusters
    parts: int  # jobs inside whose workers take a part of a GPU each


class TraceWorkload:
    """Jobs of one trace file; the file is read once, at the first call.

    A window comes from the part's jobs after caps (so that dropped jobs do not shorten it), and
    its load is scaled by itself. Predictors know the whole file before it, earlier parts and what
    `window` leaves out included; jobs of `exclude_vcs` are no part of the cluster.
    """

    def __init__(  # noqa: PLR0913  (every tunable of conf/, by name only)
        self,
        *,
        name: str,
        path: str,
        reader: TraceReader,
        columns: GivenColumns,
        strict: bool,
        exclude_vcs: Sequence[str],
        window: Mapping[str, float | str | None],
        split: Mapping[str, float],
        num_jobs: int | None,
        thin: int | None,
        windows_from: str,
        max_gang: int | None,
        drop_too_large: bool,
        min_duration_s: float | None,
        max_duration_s: float | None,
        load: float | None,
        profiles: Sequence[str] | None,
        rules: JobRules,
        measured_start_frac: float | None,
        measured_end_frac: float | None,
        window_measured_frac: Sequence[float],
    ) -> None:
        """Keep the options; conf/workload explains each."""
        _check_windows(window, num_jobs, thin, windows_from)
        self.windows_from = windows_from
        self._name, self._path, self._columns, self._strict = name, path, dict(columns), strict
        self._reader = reader
        self._exclude_vcs, self._window, self._split = exclude_vcs, dict(window), dict(split)
        self._num_jobs, self._thin = num_jobs, 1 if thin is None else thin
        self._options = Preparation(
            max_gang=max_gang, drop_too_large=drop_too_large, min_duration_s=min_duration_s,
            max_duration_s=max_duration_s, load=load, profiles=profiles, rules=rules,
            measured_start_frac=measured_start_frac, measured_end_frac=measured_end_frac,
            window_measured_frac=window_measured_frac,
        )  # fmt: skip
        self._notes: Notes | None = None  # what the reader did
        self._history: Trace | None = None  # the file, but for excluded virtual clusters
        self._trace: Trace | None = None  # the configured time window of it

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """Every job of the file (or of the configured time window), neither thinned nor split.

        Raises:
            TraceError: if the file or a job cannot be used.
        """
        return self._table(self._read(), setting, whole_streams(seed=seed), whole=True)

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part, fully determined by (part, index, seed).

        With `num_jobs` null it is the whole part, and only profiles, homes and estimates vary.

        Raises:
            TraceError: if the part is unknown or too short, disjoint windows are fewer, or a job
                cannot be used.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        trace = self._part(part, setting)
        stretches = self._cut(trace, part)
        if stretches is not None:
            trace = take(trace, stretches.rows(trace, index, seed))
        elif self._num_jobs is not None:
            trace = thinned_window(trace, self._num_jobs, self._thin, draws.jobs)
        return self._table(trace, setting, draws, whole=False)

    def _table(self, trace: Trace, setting: Setting, draws: Streams, *, whole: bool) -> JobTable:
        frac, known = self._options.measured_frac(whole=whole), self._history
        return prepare(trace, options=self._options, setting=setting, draws=draws,
                       measured_frac=frac, history=known)  # fmt: skip

    def stretches(self, *, part: str, setting: Setting) -> Stretches | None:
        """How the windows of a part are cut; None where they are random and may overlap.

        Raises:
            TraceError: if the part is unknown or too short, or the file cannot be read.
        """
        if self.windows_from == RANDOM:
            return None
        return self._cut(self._part(part, setting), part)

    def kept(self, *, part: str, setting: Setting) -> tuple[int, int, int]:
        """Jobs of a window, how many in a row they are taken from, and jobs of the part.

        Raises:
            TraceError: if the part is unknown or too short, or the file cannot be read.
        """
        trace = self._part(part, setting)
        jobs = len(trace)
        stretches = self._cut(trace, part)
        if stretches is not None:
            return stretches.num_jobs, stretches.num_jobs * stretches.thin, jobs
        asked = jobs if self._num_jobs is None else min(self._num_jobs, jobs)
        return asked, min(asked * self._thin, jobs), jobs

    def trace(self, *, part: str | None, setting: Setting) -> Trace:
        """The jobs of a part, after caps, with all that the file says; None: of the whole.

        They are those of `whole`, and of `window` where `num_jobs` is null, in the same order.

        Raises:
            TraceError: if the part is unknown or too short, or the file cannot be read.
        """
        if part is None:
            return fitted(self._read(), self._options, setting.gpus)
        return self._part(part, setting)

    def _part(self, part: str, setting: Setting) -> Trace:
        return fitted(split(self._read(), part, self._split), self._options, setting.gpus)

    def _cut(self, trace: Trace, part: str) -> Stretches | None:
        if self.windows_from == RANDOM or self._num_jobs is None:
            return None
        if self.windows_from == AUTO and len(trace) > MANY * self._thin * self._num_jobs:
            return None
        return cut(trace, part=part, num_jobs=self._num_jobs, thin=self._thin)

    def lost(self) -> Lost:
        """How much of the file is not played: rows with faults, jobs outside the time window.

        Raises:
            TraceError: the file cannot be read.
        """
        milli = self._read().gpu_milli
        assert self._notes is not None and self._history is not None and self._trace is not None
        return Lost(
            self._notes.skipped, self._notes.rows, len(self._trace), len(self._history),
            0 if milli is None else int(np.sum(milli < WHOLE_GPU_MILLI)),
        )  # fmt: skip

    def _read(self) -> Trace:
        if self._trace is None:
            trace, notes = self._reader.read(
                path=self._path, columns=self._columns, name=self._name, strict=self._strict
            )
            if notes.unsorted:
                log.info("%s: %s sorted by submission", self._path, amount(notes.unsorted, "row"))
            self._notes = notes
            _tell_waits(trace, self._path)
            _tell_units(trace, self._path)
            kept = without_vcs(trace, self._exclude_vcs)
            start_s, end_s = (_bound_s(kept, key, self._window.get(key)) for key in WINDOW_KEYS)
            self._trace = time_window(kept, start_s, end_s)
            self._history = kept
        return self._trace


def _tell_waits(trace: Trace, path: str) -> None:
    """What happened: how long the jobs waited in the cluster that the trace is from."""
    if trace.waited_s is None or np.isnan(trace.waited_s).all():
        return
    waited_s = trace.waited_s[~np.isnan(trace.waited_s)]
    p50_s, p95_s = np.percentile(waited_s, (50, 95))
    log.info(
        "%s: what happened: %d of %d jobs began, after %.0f s on average (p50 %.0f, p95 %.0f)",
        path, len(waited_s), len(trace), waited_s.mean(), p50_s, p95_s,
    )  # fmt: skip


MANY_JOBS, LONG_MEDIAN_D, LONG_SPAN_D = 1000, 10, 3650  # days that no cluster has


def _tell_units(trace: Trace, path: str) -> None:
    """Warn of times that are most likely milliseconds, and name the key that reads them so."""
    median_d, span_d = np.median(trace.duration_s) / DAY_S, np.ptp(trace.submit_s) / DAY_S
    if len(trace) >= MANY_JOBS and (median_d > LONG_MEDIAN_D or span_d > LONG_SPAN_D):
        log.warning(
            "%s: half of the jobs run for more than %.0f days, all are submitted over %.0f; are "
            "these milliseconds? workload.reader.duration_format of a CSV reads such durations, "
            "time_format such a submit_time", path, median_d, span_d,
        )  # fmt: skip


def _bound_s(trace: Trace, key: str, given: float | str | None) -> float | None:
    """A bound of the window in the trace's seconds, where it may be a date by the trace's clock."""
    if not isinstance(given, str):
        return given
    at, zero = moment(given), trace.zero
    assert at is not None  # as checked
    what = f"workload.window.{key} is {given}"
    if zero is None:
        raise TraceError(f"{what}, but {trace.file} tells no dates; give seconds of the file")
    if at.tzinfo is not None and zero.tzinfo is None:
        raise TraceError(f"{what}, but the times of {trace.file} have no zone; leave it away")
    at = at.replace(tzinfo=zero.tzinfo) if at.tzinfo is None else at.astimezone(zero.tzinfo)
    first, last = (zero + timedelta(seconds=float(trace.submit_s[row])) for row in (0, -1))
    if at.date() < first.date() or at.date() - last.date() > timedelta(days=1):
        raise TraceError(f"{what}, outside {trace.file}, whose jobs come from {first} to {last}")
    return (at - zero).total_seconds()


def _check_windows(
    window: Mapping[str, float | str | None],
    num_jobs: int | None,
    thin: int | None,
    windows_from: str,
) -> None:
    check_keys(window, WINDOW_KEYS, "workload.window", TraceError)
    for key, given in window.items():
        if not isinstance(given, str):
            check_numbers("workload.window", "null, or 0 or more", TraceError, **{key: given})
        elif moment(given) is None:
            raise TraceError(
                f"workload.window.{key} is {given!r}; it must be null, seconds of the file, or a "
                f"date such as 2017-10-09 or '2017-10-09 08:00'"
            )
    check_count("num_jobs", num_jobs)
    check_count("thin", thin)
    if thin is not None and num_jobs is None:
        raise TraceError(f"workload.thin is {thin} but num_jobs is null; set workload.num_jobs")
    check_windows_from(windows_from)
    if windows_from == DISJOINT and num_jobs is None:
        raise TraceError("workload.windows_from is disjoint; set workload.num_jobs")
