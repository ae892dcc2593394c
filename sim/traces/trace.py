"""A trace as read, before a cluster or a policy is chosen, and which of its jobs to keep.

Jobs are kept by position, time, virtual cluster or part, at random, in windows; those that form
workflows stay whole in stretches, and have no cycles. Random stretches of a short file overlap, and
windows of one time are not independent evidence; with `Stretches` every job is in at most one
window, and results can say which share a time.
"""

import heapq
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.errors import TraceError, amount, nearest
from sim.jobs import Attempts, Precedence
from sim.traces.streams import ALL, stretch_stream

_warn = cache(logging.getLogger(__name__).warning)  # once a process: windows lose the same


@dataclass(frozen=True)
class Trace:
    """J jobs sorted by submission (stable). A column that is None is not in the file."""

    name: str
    job_id: TextArray  # (J,) str
    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,) >= 1
    duration_s: FloatArray  # (J,) >= 0
    user: TextArray  # (J,) str, "" where unknown
    vc: TextArray  # (J,) virtual cluster, "" where unknown
    group: TextArray | None = None  # (J,) jobs of one group repeat each other; "" where unknown
    model: TextArray | None = None  # (J,) what the job trains, in the file's words; "" if unknown
    priority: IntArray | None = None  # (J,) larger is more important
    deadline_s: FloatArray | None = None  # (J,) seconds after submission; inf where there is none
    cpu_milli: IntArray | None = None  # (J,) of each worker (one GPU of the gang), as is memory
    memory_mib: IntArray | None = None  # (J,)
    gpu_milli: IntArray | None = None  # (J,) thousandths of a GPU that each worker takes
    gpu_types: TextArray | None = None  # (J,) allowed GPU types, "P100|T4"; "" any
    least_gpus: IntArray | None = None  # (J,) elastic jobs: 1 <= least_gpus <= num_gpus
    most_gpus: IntArray | None = None  # (J,) >= num_gpus
    outcome: IntArray | None = None  # (J,) COMPLETED, FAILED or CANCELLED of sim.jobs
    withdraw_s: FloatArray | None = None  # (J,) given up so long after submission; inf: never
    limit_s: FloatArray | None = None  # (J,) run time that its user asked for; inf: without a limit
    waited_s: FloatArray | None = None  # (J,) from submission to start as it was; NaN: never began
    known_s: FloatArray | None = None  # (J,) when predictors may learn from it; None: finish
    line: IntArray | None = None  # (J,) of the file, for messages
    file: str | None = None  # that was read, for messages
    zero: datetime | None = None  # wall clock of second 0, where the file has dates
    gang_from: str = ""  # what of the file tells `num_gpus`, for messages: "column 'gpus'"
    attempts: Attempts | None = None  # where in its work a job failed and started again
    precedence: Precedence | None = None  # rows of this trace that a job waits for

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)


def starts(lengths: IntArray | Sequence[int]) -> IntArray:
    """(J + 1,) where each of J lists of these lengths begins, and the end of the last."""
    first = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=first[1:])
    return first


def owners(first: IntArray) -> IntArray:
    """(sum,) the list that each entry belongs to."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def picked(first: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The lists at `rows`, in that order: where they begin, and which entries they hold."""
    lengths = np.diff(first)[rows]
    begin = starts(lengths)
    entries = np.arange(begin[-1]) + np.repeat(first[rows] - begin[:-1], lengths)
    return begin, entries


def units_of(precedence: Precedence | None, jobs: int) -> IntArray:
    """(J,) which unit each job is part of: a workflow, or itself; numbered by their first job."""
    rows = np.arange(jobs)
    if precedence is None:
        return rows
    alone = precedence.workflow < 0
    key = np.where(alone, rows + jobs, precedence.workflow)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[unit]


def thinned_units(unit: IntArray, num_jobs: int, thin: int, rng: np.random.Generator) -> IntArray:
    """Rows of whole units out of a random stretch of at least thin * num_jobs jobs.

    Units of the stretch are drawn at random until they hold `num_jobs` jobs; the last one drawn
    may bring a few more.
    """
    size = np.bincount(unit)
    ends = np.cumsum(size)
    wanted = min(thin * num_jobs, int(ends[-1]))
    last_start = int(np.searchsorted(ends, ends[-1] - wanted, side="right"))
    first = int(rng.integers(last_start + 1))
    done = ends[first] - size[first]
    stop = int(np.searchsorted(ends, done + wanted, side="left")) + 1
    order = first + rng.permutation(stop - first)
    drawn = order[: int(np.searchsorted(np.cumsum(size[order]), num_jobs, side="left")) + 1]
    return np.flatnonzero(np.isin(unit, drawn))


def on_a_cycle(first: IntArray, parents: IntArray) -> BoolArray:
    """(J,) jobs on a circle of parents, or that wait for one (Kahn 1962: what no order reaches)."""
    jobs = len(first) - 1
    child_of = owners(first)
    order = np.argsort(parents, kind="stable")
    begin = np.searchsorted(parents[order], np.arange(jobs + 1))
    waiting = np.diff(first).copy()
    ready = deque(np.flatnonzero(waiting == 0).tolist())
    while ready:
        row = ready.popleft()
        for child in child_of[order[begin[row] : begin[row + 1]]].tolist():
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    stuck: BoolArray = waiting > 0
    return stuck


def picked_column(column: Any, rows: IntArray) -> Any:
    """A column at `rows`; whatever is no column (a name, None) as it is."""
    if isinstance(column, Attempts):
        first, entries = picked(column.first, rows)
        return Attempts(first, column.fail_at_s[entries])
    if isinstance(column, Precedence):
        return _linked(column, rows)
    return column[rows] if isinstance(column, np.ndarray) else column


def _linked(links: Precedence, rows: IntArray) -> Precedence:
    """Parents as positions in `rows`; those outside it are left out."""
    first, entries = picked(links.first, rows)
    new_row = np.full(len(links.workflow), -1)
    new_row[rows] = np.arange(len(rows))
    parents = new_row[links.parents[entries]]
    kept = parents >= 0
    if not kept.all():
        _warn(f"{np.sum(~kept)} dependencies are on jobs left out, for which nobody waits")
    lengths = np.bincount(owners(first)[kept], minlength=len(rows))
    return Precedence(starts(lengths), parents[kept], links.workflow[rows])


def take(trace: Trace, rows: IntArray | BoolArray) -> Trace:
    """The jobs at `rows` (positions or a mask), in that order, with every column they have.

    A parent that is not among them is dropped from its children's lists: they wait for the others
    alone.
    """
    place: IntArray = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows)
    return Trace(
        **{each.name: picked_column(getattr(trace, each.name), place) for each in fields(trace)}
    )


def without_vcs(trace: Trace, vcs: Sequence[str]) -> Trace:
    """The jobs outside the virtual clusters `vcs`; TraceError: one is unknown, or none is left."""
    known = sorted(set(trace.vc))
    for vc in vcs:
        if vc not in known:
            raise TraceError(
                f"trace {trace.name}: workload.exclude_vcs names '{vc}', which has no job"
                f"{nearest(vc, known)}; the trace has: {', '.join(map(repr, known))}"
            )
    kept = take(trace, ~np.isin(trace.vc.astype(str), list(vcs))) if vcs else trace
    if len(kept) == 0:
        raise TraceError(f"trace {trace.name}: workload.exclude_vcs leaves no job; shorten it")
    return kept


def time_window(trace: Trace, start_s: float | None, end_s: float | None) -> Trace:
    """The jobs submitted in [start_s, end_s), in the trace's own seconds; None means no limit.

    Raises:
        TraceError: if no job falls into the window.
    """
    low = -np.inf if start_s is None else start_s
    high = np.inf if end_s is None else end_s
    kept = take(trace, (trace.submit_s >= low) & (trace.submit_s < high))
    if len(kept) == 0:
        span = f"{trace.submit_s[0]:g} to {trace.submit_s[-1]:g} s" if len(trace) else "no jobs"
        raise TraceError(
            f"trace {trace.name}: no job in workload.window [{low:g}, {high:g}) s; "
            f"the trace holds {span}"
        )
    return kept


def split(trace: Trace, part: str, fractions: Mapping[str, float]) -> Trace:
    """The jobs of one part of the trace's time span; parts follow each other and never overlap.

    A workflow that a border cuts loses the links across it.

    Args:
        trace: J >= 1 jobs.
        part: a key of `fractions`, or `all`: the trace as it is.
        fractions: share of the time span of each part, in order of time; they sum to 1.

    Raises:
        TraceError: if the part is unknown, the shares are no division, or no job falls into it.
    """
    if part == ALL:
        return trace
    if part not in fractions:
        known = [*fractions, ALL]
        raise TraceError(
            f"part '{part}' is unknown{nearest(part, known)}; parts: {', '.join(known)}"
        )
    shares = np.array(list(fractions.values()), dtype=np.float64)
    if not (np.all(shares > 0) and np.isclose(shares.sum(), 1.0)):
        raise TraceError(f"workload.split is {dict(fractions)}; shares must be above 0, sum 1")
    index = list(fractions).index(part)
    origin_s = float(trace.submit_s[0])
    inner_s = origin_s + np.cumsum(shares[:-1]) * (float(trace.submit_s[-1]) - origin_s)
    kept = take(trace, np.searchsorted(inner_s, trace.submit_s, side="right") == index)
    if len(kept) == 0:
        raise TraceError(
            f"trace {trace.name}: no job falls into part '{part}' of its time span; use a longer "
            f"trace or other workload.split shares"
        )
    return kept


def thinned_window(trace: Trace, num_jobs: int, thin: int, rng: np.random.Generator) -> Trace:
    """A random stretch of thin * num_jobs consecutive jobs, of which num_jobs stay, at random.

    Thinning keeps the shape of days and weeks that a short stretch of neighbours would lose. A
    trace shorter than the stretch is thinned as far as it goes. Workflows stay whole, so that
    the last one drawn may bring a few jobs more than `num_jobs`.

    Raises:
        TraceError: if the trace has fewer than `num_jobs` jobs.
    """
    if num_jobs < 1 or thin < 1:
        raise TraceError(
            f"workload.num_jobs is {num_jobs} and workload.thin is {thin}; both must be 1 or more"
        )
    if len(trace) < num_jobs:
        raise TraceError(
            f"trace {trace.name}: a window needs {amount(num_jobs, 'job')}, this part has "
            f"{len(trace)}; set workload.num_jobs={len(trace)} or less, or use a longer trace"
        )
    if trace.precedence is not None:
        units = units_of(trace.precedence, len(trace))
        return take(trace, thinned_units(units, num_jobs, thin, rng))
    stretch = min(thin * num_jobs, len(trace))
    first = int(rng.integers(len(trace) - stretch + 1))
    rows = first + np.sort(rng.choice(stretch, size=num_jobs, replace=False))
    return take(trace, rows)


LEAST_JOBS = 300  # of a window that had to be shortened: in fewer, jobs hardly meet a queue
MANY = 20  # stretches; in a part that holds more, random ones share a twentieth of their jobs


@dataclass(frozen=True)
class Stretches:
    """How a part of a file is cut: `count` disjoint stretches of `thin` windows each.

    Window w is the (w // count)-th thinning of stretch w % count, so that the first windows lie in
    different times.
    """

    part: str
    part_jobs: int  # jobs of the part
    count: int
    thin: int  # windows of a stretch
    num_jobs: int  # jobs of a window; workflows stay whole, so with them it is about that many
    asked_jobs: int  # workload.num_jobs

    @property
    def windows(self) -> int:
        """Number of windows in all."""
        return self.count * self.thin

    def stretch(self, window: int) -> int:
        """The stretch of a window, from 0; TraceError: there are fewer windows."""
        if window >= self.windows:
            raise TraceError(
                f"window {window} of part '{self.part}' is not there: it has "
                f"{amount(self.windows, 'window')}, counted from 0, of "
                f"{amount(self.count, 'stretch')}; use a lower workload.num_jobs, a longer trace, "
                f"part=all or workload.windows_from=random"
            )
        return window % self.count

    def rows(self, trace: Trace, window: int, seed: int) -> IntArray:
        """Rows of one window in the part's jobs, ascending; equal arguments give equal rows.

        Raises:
            TraceError: there are fewer windows, or too few workflows to give each window one.
        """
        stretch = self.stretch(window)
        unit = units_of(trace.precedence, len(trace))
        size = np.bincount(unit)
        start = np.cumsum(size) - size
        units = np.flatnonzero(start // (self.thin * self.num_jobs) == stretch)
        if len(units) < self.thin:
            raise TraceError(
                f"trace {trace.name}: stretch {stretch} of part '{self.part}' has "
                f"{amount(len(units), 'workflow')} for {amount(self.thin, 'window')}; use a larger "
                "workload.num_jobs, a lower workload.thin or workload.windows_from=random"
            )
        rng = stretch_stream(seed=seed, part=self.part, stretch=stretch)
        mine = dealt(size[units], self.thin, rng) == window // self.count
        return np.flatnonzero(np.isin(unit, units[mine]))

    def words(self) -> str:
        """The cut in words."""
        each = f"{amount(self.thin, 'window')} of {amount(self.num_jobs, 'job')}"
        return f"part '{self.part}': {amount(self.count, 'stretch')} of {each}"

    def shortened(self) -> str | None:
        """What to tell where windows are shorter than asked for; None where they are not."""
        if self.num_jobs == self.asked_jobs:
            return None
        return (
            f"part '{self.part}' has {amount(self.part_jobs, 'job')}, less than one stretch of "
            f"{self.thin} x {self.asked_jobs}: windows of {amount(self.num_jobs, 'job')}, all from "
            f"one stretch of time"
        )

    def left_over(self) -> str | None:
        """What to tell where a good part of the jobs is in no window; None where it is not."""
        stretch = self.thin * self.num_jobs
        left = self.part_jobs - self.count * stretch
        if 2 * left < stretch:
            return None
        return (
            f"the last {left} of {amount(self.part_jobs, 'job')} of part '{self.part}' are in no "
            f"window; workload.num_jobs={self.part_jobs // ((self.count + 1) * self.thin)} makes "
            f"{self.count + 1} stretches"
        )


def cut(trace: Trace, *, part: str, num_jobs: int, thin: int) -> Stretches:
    """Stretches of thin * num_jobs jobs; of a shorter trace one stretch with shorter windows.

    Raises:
        TraceError: a shortened window would have fewer than `LEAST_JOBS` jobs.
    """
    jobs = len(trace)
    fitting = min(num_jobs, jobs // thin)
    least = min(num_jobs, LEAST_JOBS)
    if fitting < least:
        raise TraceError(
            f"trace {trace.name}: part '{part}' has {amount(jobs, 'job')}; {thin} disjoint windows "
            f"would have {fitting} each, fewer than {least} and too few to meet a queue; use "
            f"{_remedy(part, jobs, thin, least)}"
        )
    return Stretches(
        part=part,
        part_jobs=jobs,
        count=jobs // (thin * fitting) if fitting == num_jobs else 1,
        thin=thin,
        num_jobs=fitting,
        asked_jobs=num_jobs,
    )


def _remedy(part: str, jobs: int, thin: int, least: int) -> str:
    whole = "" if part == ALL else ", part=all"
    fewer = f", workload.thin={jobs // least}" if jobs >= least else ""
    own = f" or, if that is what you want, workload.num_jobs={jobs // thin}" if jobs >= thin else ""
    return f"a longer trace{whole}{fewer}{own}"


def dealt(size: IntArray, hands: int, rng: np.random.Generator) -> IntArray:
    """(U,) which of `hands` each unit goes to: in random order, to the one that holds fewest jobs.

    Units of one job make hands of equal size; every hand gets one if there are enough units.
    """
    hand = np.empty(len(size), dtype=np.int64)
    held = [(0, each) for each in range(hands)]  # a heap: ascending as it stands
    for unit in rng.permutation(len(size)):
        jobs, least = held[0]
        hand[unit] = least
        heapq.heapreplace(held, (jobs + int(size[unit]), least))
    return hand
