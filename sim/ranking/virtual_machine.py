"""One imagined machine under preemptive shortest remaining time first, driven by the real clock.

With preemption allowed and work known, this order has the least total completion time of all
(Schrage, Operations Research 16(3), 1968); A-SRPT copies the order of its completions.
"""

import heapq
import math


class VirtualMachine:
    """Works on one job at a time, one second of work a second, always that with least work left.

    A newcomer takes over if it has strictly less work than what is left of the job being worked
    on; among waiting jobs of equal work the lower row goes first. Completion times are kept as
    times and not as remainders, so that whoever is woken at `next_s` finds that job completed.
    """

    def __init__(self) -> None:
        """Start empty, at the beginning of time."""
        self._now_s = -math.inf
        self._current: int | None = None
        self._done_s = math.inf  # when `_current` completes if nobody takes over
        self._waiting: list[tuple[float, int]] = []  # heap of (work left in seconds, job)

    def __len__(self) -> int:
        """Jobs that are not complete."""
        return len(self._waiting) + (self._current is not None)

    @property
    def jobs(self) -> list[int]:
        """Rows of the jobs that are not complete, in no order."""
        own = [] if self._current is None else [self._current]
        return own + [job for _, job in self._waiting]

    @property
    def next_s(self) -> float | None:
        """When the next job completes if nobody comes; None where there is none."""
        return None if self._current is None else self._done_s

    def advance(self, now_s: float) -> list[int]:
        """Let time pass until `now_s`; the jobs completed by then, in order of completion."""
        done: list[int] = []
        while self._current is not None and self._done_s <= now_s:
            done.append(self._current)
            self._now_s = self._done_s
            self._take_next()
        self._now_s = now_s
        return done

    def submit(self, job: int, work_s: float) -> None:
        """Bring `job` with `work_s` seconds of work, at the time last advanced to."""
        if self._current is None:
            self._current, self._done_s = job, self._now_s + work_s
            return
        left_s = self._done_s - self._now_s
        if work_s < left_s:
            heapq.heappush(self._waiting, (left_s, self._current))
            self._current, self._done_s = job, self._now_s + work_s
        else:
            heapq.heappush(self._waiting, (work_s, job))

    def drop(self, job: int) -> None:
        """Forget a job that will not be wanted any more; unknown jobs are ignored."""
        if job == self._current:
            self._take_next()
            return
        self._waiting = [entry for entry in self._waiting if entry[1] != job]
        heapq.heapify(self._waiting)

    def _take_next(self) -> None:
        self._current, self._done_s = None, math.inf
        if self._waiting:
            work_s, self._current = heapq.heappop(self._waiting)
            self._done_s = self._now_s + work_s
