"""From the jobs of a trace to the job table of a run: caps, load, traits."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import TraceError, amount, check_numbers
from sim.jobs import WHOLE_GPU_MILLI, Attempts, JobTable, Precedence, never_ran
from sim.protocols import DurationEstimator, HistoryEstimator
from sim.traces.estimators import known_s
from sim.traces.job_traits import JobRules, ProfileRule, TypeWords, traits_of
from sim.traces.processes import choose, zipf
from sim.traces.setting import Owners, Setting, check_count
from sim.traces.streams import Streams
from sim.traces.trace import Trace, owners, picked_column, starts, take


def cap(trace: Trace, options: "Preparation", capacity: int) -> tuple[Trace, int]:
    """Clip gangs and durations; None leaves them. A clipped gang keeps its duration.

    The range of an elastic job is clipped with its gang, and failures that a shorter duration no
    longer reaches are left out. Gangs then above `capacity`, the GPUs of the cluster, are an error
    or, with `drop_too_large`, left out and counted.

    Raises:
        TraceError: naming the first gang above the capacity, or if no job is left.
    """
    if options.max_gang is not None:
        trace = _smaller(trace, options.max_gang)
    if options.min_duration_s is not None or options.max_duration_s is not None:
        trace = _clipped(trace, options.min_duration_s, options.max_duration_s)
    large = trace.num_gpus > capacity
    if not large.any():
        return trace, 0
    if not options.drop_too_large:
        row = int(np.argmax(large))
        place = _line_of(trace, row)
        raise TraceError(
            f"{place}job {trace.job_id[row]}: a gang of {amount(trace.num_gpus[row], 'GPU')} "
            f"cannot run on a cluster of {amount(capacity, 'GPU')} "
            f"({amount(large.sum(), 'such job')} in trace {trace.name}); set "
            f"workload.max_gang={capacity} to cap gangs, workload.drop_too_large=true to leave "
            "such jobs out, or use a larger topology"
        )
    if large.all():
        raise TraceError(
            f"trace {trace.name}: every gang is above the cluster's {amount(capacity, 'GPU')}, so "
            f"workload.drop_too_large=true leaves no job; set workload.max_gang={capacity}"
        )
    return take(trace, ~large), int(large.sum())


def _line_of(trace: Trace, row: int) -> str:
    if trace.line is None:
        return ""
    source = f"{trace.gang_from}, " if trace.gang_from else ""
    return f"{trace.file or 'the file'}, line {trace.line[row]}, {source}"


def _smaller(trace: Trace, max_gang: int) -> Trace:
    """Gangs, and the ranges of elastic jobs, up to `max_gang`."""
    limits = {
        name: np.minimum(column, max_gang)
        for name in ("num_gpus", "least_gpus", "most_gpus")
        if (column := getattr(trace, name)) is not None
    }
    return replace(trace, **limits)


def _clipped(trace: Trace, low_s: float | None, high_s: float | None) -> Trace:
    """Durations, failures and limits: what is foreseen obeys the caps as what happens does.

    Who was given up before it began stays without work: lengthened, it would run and finish.
    """
    idle = never_ran(trace.duration_s, trace.withdraw_s)
    duration_s = np.where(idle, 0.0, np.clip(trace.duration_s, low_s, high_s))
    limit_s = None if trace.limit_s is None else np.clip(trace.limit_s, low_s, high_s)
    attempts = _within(trace.attempts, duration_s)
    return replace(trace, duration_s=duration_s, limit_s=limit_s, attempts=attempts)


def _within(attempts: Attempts | None, duration_s: FloatArray) -> Attempts | None:
    """The failures before the end of each job."""
    if attempts is None:
        return None
    job = owners(attempts.first)
    kept = attempts.fail_at_s < duration_s[job]
    lengths = np.bincount(job[kept], minlength=len(duration_s))
    return Attempts(starts(lengths), attempts.fail_at_s[kept])


def works_gpu_s(trace: Trace) -> FloatArray:
    """(J,) gang * duration; a worker that takes a part of a GPU counts as that part."""
    share = 1.0 if trace.gpu_milli is None else trace.gpu_milli / WHOLE_GPU_MILLI
    works: FloatArray = trace.num_gpus * trace.duration_s * share
    return works


def offered_load(trace: Trace, gpus: int) -> float:
    """sum(works_gpu_s) / (gpus * submission span); infinite where the span is 0."""
    return load_offered(works_gpu_s(trace), trace.submit_s, gpus)


def load_offered(work_gpu_s: FloatArray, submit_s: FloatArray, gpus: int) -> float:
    """The same of jobs (J,) in order of submission."""
    span_s = float(submit_s[-1] - submit_s[0])
    return float(np.sum(work_gpu_s)) / (gpus * span_s) if span_s > 0 else np.inf


def stretch_to(trace: Trace, load: float, gpus: int) -> float:
    """By how much submission times are to be stretched for the given offered load.

    Raises:
        TraceError: if the load is not above 0, or the jobs have no work or one submission time.
    """
    check_numbers("workload", "above 0", TraceError, load=load)
    now = offered_load(trace, gpus)
    if not (np.isfinite(now) and now > 0):
        raise TraceError(
            f"trace {trace.name}: its load cannot be scaled, for its jobs have no work or all "
            f"come at one time; set workload.load=null"
        )
    return now / load


def scale_load(trace: Trace, load: float, gpus: int) -> Trace:
    """Stretch submission times from the first job on to the given offered load (`stretch_to`)."""
    since_first_s = trace.submit_s - trace.submit_s[0]
    return replace(trace, submit_s=since_first_s * stretch_to(trace, load, gpus))


def foreseen(
    estimator: DurationEstimator,
    trace: Trace,
    history: Trace,
    limits_s: tuple[float | None, float | None],
    stretch: float,
    rng: np.random.Generator,
) -> FloatArray:
    """(J,) predicted duration_s; NaN where there is no prediction.

    Args:
        estimator: one without history is asked for the capped durations of `trace` alone.
        trace: J >= 1 jobs after caps.
        history: all jobs of the trace as read, those of `trace` (by name) among them.
        limits_s: least and largest duration of a job, None where there is none.
        stretch: of submission times in the run. Where they are drawn together more jobs come while
            one runs, so it is known of by fewer.
        rng: of the estimates.

    Raises:
        TraceError: two jobs of `history` have one name, a job of `trace` is not among them, or what
            the estimator gives cannot be.
    """
    if not isinstance(estimator, HistoryEstimator):
        return _estimates(estimator, estimator.estimate(trace, rng), len(trace))
    rows = rows_of(trace, history)
    seen = _seen(history, int(rows.max()) + 1, stretch)
    found = estimator.estimate_rows(seen, rows, rng)
    found = _estimates(estimator, found, len(rows))
    low, high = limits_s
    return np.clip(found, 0.0 if low is None else low, np.inf if high is None else high)


def _estimates(estimator: DurationEstimator, found: object, jobs: int) -> FloatArray:
    """What an estimator gives, which may be somebody's own, as numbers."""
    values, what = np.asarray(found), ""
    if values.dtype.kind not in "fiu":
        what = f"values of type {values.dtype}"
    elif values.shape != (jobs,):
        what = f"the shape {values.shape}"
    elif (bad := (values < 0) | np.isinf(values)).any():
        what = f"{values[bad][0]:g}"
    if what:
        raise TraceError(
            f"estimator {type(estimator).__name__} gives {what}; it must be one number a job "
            f"({jobs},): seconds, 0 or more, NaN where there is no prediction"
        )
    return values.astype(np.float64)


def rows_of(trace: Trace, history: Trace) -> IntArray:
    """(J,) where the jobs of `trace` stand in `history`; TraceError: one does not, or twice."""
    place = {name: row for row, name in enumerate(history.job_id)}
    if len(place) < len(history):
        raise TraceError(f"trace {history.name}: two jobs have one name; names must be unique")
    missing = next((name for name in trace.job_id if name not in place), None)
    if missing is not None:
        raise TraceError(f"job {missing}: not a job of trace {history.name}, its own history")
    return np.array([place[name] for name in trace.job_id], dtype=np.int64)


SEEN = ("job_id", "submit_s", "num_gpus", "duration_s", "user", "vc", "group")


def _seen(history: Trace, jobs: int, stretch: float) -> Trace:
    """The first `jobs` jobs, with what predictors may read of them.

    Runs take as long as ever when submission times are stretched: on the clock of the trace, by
    which predictors go (they know hours and days), that is `1 / stretch` as long.
    """
    first = {key: column[:jobs] for key in SEEN if (column := getattr(history, key)) is not None}
    return Trace(name=history.name, known_s=known_s(history, stretch)[:jobs], **first)


log = logging.getLogger(__name__)

PAIR = 2


@dataclass(kw_only=True, eq=False, repr=False)
class Preparation:
    """What to do to the jobs of a trace, and which of them metrics count; None leaves things.

    conf/workload/_base.yaml explains each option.
    """

    max_gang: int | None
    drop_too_large: bool
    min_duration_s: float | None
    max_duration_s: float | None
    load: float | None
    profiles: Sequence[str] | None
    rules: JobRules
    measured_start_frac: float | None
    measured_end_frac: float | None
    window_measured_frac: Sequence[float]  # (2,)

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and rule, where one is out of range."""
        check_count("max_gang", self.max_gang)
        ranges = {key: getattr(self, key) for key in ("min_duration_s", "measured_start_frac",
                  "measured_end_frac")}  # fmt: skip
        check_numbers("workload", "null, or 0 or more", TraceError, **ranges)
        check_numbers("workload", "null, or above 0", TraceError, load=self.load,
                      max_duration_s=self.max_duration_s)  # fmt: skip
        low = 0.0 if self.min_duration_s is None else self.min_duration_s
        high = np.inf if self.max_duration_s is None else self.max_duration_s
        if low > high:
            raise TraceError(
                f"workload.min_duration_s is {low} and workload.max_duration_s is {high}; "
                f"the first must not be larger"
            )
        if len(self.window_measured_frac) != PAIR:
            raise TraceError(
                f"workload.window_measured_frac is {list(self.window_measured_frac)}; "
                f"it needs two shares, start and end"
            )
        for start, end in (self.measured_frac(whole=True), self.measured_frac(whole=False)):
            if not 0 <= start < end <= 1:
                raise TraceError(
                    f"workload.measured_start_frac, measured_end_frac or window_measured_frac: "
                    f"jobs are measured from share {start} to {end}; needed: 0 <= start < end <= 1"
                )

    def measured_frac(self, *, whole: bool) -> tuple[float, float]:
        """Shares of the jobs, by submission, between which they count; of a window if not whole."""
        start, end = (0.0, 1.0) if whole else self.window_measured_frac
        return (
            start if self.measured_start_frac is None else self.measured_start_frac,
            end if self.measured_end_frac is None else self.measured_end_frac,
        )


def fitted(trace: Trace, options: Preparation, gpus: int) -> Trace:
    """The trace with caps applied for a cluster of `gpus`; windows are drawn from what is left."""
    capped, dropped = cap(trace, options, gpus)
    if dropped:
        above = f"{amount(dropped, 'job')} above {amount(gpus, 'GPU')}"
        log.warning("trace %s: %s dropped", trace.name, above)
    return capped


def prepare(
    trace: Trace,
    *,
    options: Preparation,
    setting: Setting,
    draws: Streams,
    measured_frac: tuple[float, float],
    history: Trace | None = None,
) -> JobTable:
    """Prepare jobs for a run, in this order.

    1. caps (`fitted`; applying them a second time changes nothing);
    2. load: one factor on the submission times;
    3. estimates of the durations, from runs that have ended by then, had none waited;
    4. submission times count from the first job;
    5. profiles by rule (`sim.traces.job_traits`), multi-GPU jobs over `gang_ok` rows;
    6. home partitions: weights (p + 1) ** -skew;
    7. which jobs metrics count: shares `measured_frac` of the jobs by submission;
    8. traits of the columns that the trace has (`sim.traces.job_traits`).

    Steps 3, 5 and 6 each read a stream of their own, one draw a job.

    `history`: what predictors may learn from, neither thinned nor capped; None: `trace` alone.

    Raises:
        TraceError: naming the job or key at fault.
    """
    known = trace if history is None else history
    trace = fitted(trace, options, setting.gpus)
    if "demands" in options.rules.ignore:
        trace = replace(trace, gpu_milli=None)  # workers take whole GPUs, of the load as well
    limits_s = options.min_duration_s, options.max_duration_s
    stretch = 1.0 if options.load is None else stretch_to(trace, options.load, setting.gpus)
    estimate_s = foreseen(setting.estimator, trace, known, limits_s, stretch, draws.estimates)
    submit_s = (trace.submit_s - trace.submit_s[0]) * stretch
    rules = options.rules
    profile_rule = ProfileRule(rules.profile_rule, options.profiles, rules.models)
    names, unknown = rules.gpu_type_names, rules.unknown_gpu_types
    words = TypeWords(setting.gpu_types, names, unknown, setting.also)
    return JobTable(
        job_id=trace.job_id,
        submit_s=submit_s,
        num_gpus=trace.num_gpus,
        duration_s=trace.duration_s,
        estimate_s=estimate_s,
        profile=profile_rule.draw(trace, setting.catalogue, draws.profiles),
        home=_homes(trace, setting, draws.homes),
        measured=_measured(len(trace), measured_frac),
        **traits_of(trace, submit_s, words, rules.ignore),
    )


def _homes(trace: Trace, setting: Setting, rng: np.random.Generator) -> IntArray:
    """(J,) partitions at which the jobs arrive."""
    if setting.owners is not None and setting.partitions > 1:
        return homes_by_vc(trace, setting.owners)
    return choose(zipf(setting.partitions, setting.skew), len(trace), rng)


def homes_by_vc(trace: Trace, owners: Owners) -> IntArray:
    """(J,) the partition of each job's virtual cluster.

    A virtual cluster that is a group of servers is at the partition of that group. The others are
    dealt out, from the one with most work to the one with least, each to the partition with least
    work for its GPUs so far.

    Raises:
        TraceError: the jobs name no virtual cluster.
    """
    if not any(trace.vc):
        raise TraceError(
            "agents.homes is vc, and no job names its virtual cluster; map the column (Partition "
            "of sacct, workload.columns.vc of a CSV), or set agents.homes=drawn"
        )
    names, vc = np.unique(trace.vc.astype(str), return_inverse=True)
    work = np.bincount(vc, weights=works_gpu_s(trace))
    gpus = owners.partition_gpus
    home = np.array([owners.of_group.get(name, -1) for name in names], dtype=np.int64)
    held = np.bincount(home[home >= 0], weights=work[home >= 0], minlength=len(gpus))
    for each in np.argsort(-work, kind="stable"):
        if home[each] < 0:
            home[each] = int(np.argmin(held / gpus))
            held[home[each]] += work[each]
    found: IntArray = home[vc]
    return found


def _measured(jobs: int, measured_frac: tuple[float, float]) -> BoolArray:
    """(J,) True from share `measured_frac[0]` up to share `measured_frac[1]` of the jobs."""
    start, end = measured_frac
    rank = np.arange(jobs)
    mask: BoolArray = (rank >= round(start * jobs)) & (rank < round(end * jobs))
    if not mask.any():
        raise TraceError(
            f"workload: no job of {jobs} lies between the shares {start} and {end}; "
            f"use more jobs or a wider workload.measured_start_frac, measured_end_frac"
        )
    return mask


def picked_jobs(jobs: JobTable, rows: IntArray, **changed: Any) -> JobTable:
    """The jobs at `rows` with all they have but `changed` columns; links to others are dropped."""
    columns = {}
    for each in fields(jobs):
        column = getattr(jobs, each.name)
        whole = column is None or isinstance(column, np.ndarray | Attempts | Precedence)
        columns[each.name] = picked_column(column, rows) if whole else column.take(rows)
    return JobTable(**{**columns, **changed})
