"""Which jobs of a trace to keep: by position, by time, by virtual cluster, by part, at random."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.errors import TraceError
from sim.traces.column_map import nearest
from sim.traces.picked_column import picked_column
from sim.traces.streams import ALL
from sim.traces.trace import Trace
from sim.traces.workflows import thinned_units, units_of


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
    """The jobs outside the virtual clusters `vcs`.

    Raises:
        TraceError: if a name of `vcs` does not occur, or no job is left.
    """
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
            f"trace {trace.name}: a window needs {num_jobs} jobs, this part has {len(trace)}; "
            f"set workload.num_jobs={len(trace)} or less, or use a longer trace"
        )
    if trace.precedence is not None:
        units = units_of(trace.precedence, len(trace))
        return take(trace, thinned_units(units, num_jobs, thin, rng))
    stretch = min(thin * num_jobs, len(trace))
    first = int(rng.integers(len(trace) - stretch + 1))
    rows = first + np.sort(rng.choice(stretch, size=num_jobs, replace=False))
    return take(trace, rows)
