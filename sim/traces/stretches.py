"""Windows of a short file: consecutive stretches, each dealt out whole to `thin` windows.

Random stretches of a short file overlap, and windows of one time are not independent evidence.
Here every job is in at most one window, and results can say which windows share a time.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.errors import TraceError
from sim.traces.streams import ALL, stretch_stream
from sim.traces.trace import Trace
from sim.traces.workflows import units_of

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
        """The stretch of a window, from 0.

        Raises:
            TraceError: there are fewer windows.
        """
        if window >= self.windows:
            raise TraceError(
                f"window {window} of part '{self.part}' is not there: {self.count} stretches of "
                f"{self.thin} windows are {self.windows}, counted from 0; use a lower "
                f"workload.num_jobs, a longer trace, part=all or workload.windows_from=random"
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
                f"trace {trace.name}: stretch {stretch} of part '{self.part}' has {len(units)} "
                f"workflows for {self.thin} windows; use a larger workload.num_jobs, a lower "
                f"workload.thin or workload.windows_from=random"
            )
        rng = stretch_stream(seed=seed, part=self.part, stretch=stretch)
        mine = dealt(size[units], self.thin, rng) == window // self.count
        return np.flatnonzero(np.isin(unit, units[mine]))

    def told(self) -> str:
        """The cut in words."""
        many = "1 stretch" if self.count == 1 else f"{self.count} stretches"
        return f"part '{self.part}': {many} of {self.thin} windows of {self.num_jobs} jobs"

    def shortened(self) -> str | None:
        """What to tell where windows are shorter than asked for; None where they are not."""
        if self.num_jobs == self.asked_jobs:
            return None
        return (
            f"part '{self.part}' has {self.part_jobs} jobs, less than one stretch of {self.thin} x "
            f"{self.asked_jobs}: its {self.thin} windows have {self.num_jobs} jobs each, all from "
            f"one stretch of time"
        )

    def left_over(self) -> str | None:
        """What to tell where a good part of the jobs is in no window; None where it is not."""
        stretch = self.thin * self.num_jobs
        left = self.part_jobs - self.count * stretch
        if 2 * left < stretch:
            return None
        return (
            f"the last {left} of {self.part_jobs} jobs of part '{self.part}' are in no window; "
            f"workload.num_jobs={self.part_jobs // ((self.count + 1) * self.thin)} makes "
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
            f"trace {trace.name}: part '{part}' has {jobs} jobs; {thin} disjoint windows would "
            f"have {fitting} each, fewer than {least} and too few to meet a queue; use "
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
