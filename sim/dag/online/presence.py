"""Which tasks are in the system: submitted, not over, and all that they wait for submitted, too.

A view shows who waits and who runs. Blocked tasks are neither, and nor are those that are over, so
who was seen is remembered.
"""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import array_kernel
from sim.traces.workflows import units_of
from sim.traits import Precedence
from sim.view import ClusterView


class Presence:
    """Follows the tasks of one run from decision to decision.

    A task is over once it was seen and is no longer there, or if all that it waited for is over
    and it is not there: then it left with a parent. One whose user gave it up while it was blocked
    is taken for blocked until then.
    """

    def __init__(self, view: ClusterView) -> None:
        """Nobody has arrived."""
        jobs = len(view.jobs.num_gpus)
        self.precedence = view.jobs.precedence or _alone(jobs)
        self.workflow = units_of(view.jobs.precedence, jobs)  # (J,) in order of their first jobs
        self._depth = depths(self.precedence.first, self.precedence.parents)
        self._seen: BoolArray = np.zeros(jobs, dtype=np.bool_)
        self._over: BoolArray = np.zeros(jobs, dtype=np.bool_)
        self._arrived = 0
        self._there: IntArray = np.zeros(0, dtype=np.int64)

    def follow(self, view: ClusterView) -> tuple[IntArray, bool]:
        """(n,) tasks in the system, parents first; and whether some of them are new."""
        arrived = int(np.searchsorted(view.jobs.submit_s, view.now_s, side="right"))
        fresh = arrived > self._arrived
        if fresh:
            there = np.concatenate([self._there, np.arange(self._arrived, arrived)])
            self._there = there[np.lexsort((there, self._depth[there]))]
            self._arrived = arrived
        here = np.zeros(len(self._seen), dtype=np.bool_)
        here[view.queued] = True
        here[view.running] = True
        first, parents = self.precedence.first, self.precedence.parents
        self._there = still_there(self._there, here, self._seen, self._over, first, parents)
        return known(self._there, arrived, first, parents), fresh


def _alone(jobs: int) -> Precedence:
    """Nobody waits for anybody."""
    return Precedence(
        np.zeros(jobs + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.full(jobs, -1, dtype=np.int64),
    )


@array_kernel
def depths(first: IntArray, parents: IntArray) -> IntArray:
    """(J,) edges on the longest way to each job; of those in a circle, whatever comes out."""
    jobs = len(first) - 1
    depth = np.zeros(jobs, dtype=np.int64)
    changed, rounds = True, 0
    while changed and rounds <= jobs:
        changed, rounds = False, rounds + 1
        for job in range(jobs):
            for edge in range(first[job], first[job + 1]):
                if depth[job] <= depth[parents[edge]]:
                    depth[job] = depth[parents[edge]] + 1
                    changed = True
    return depth


@array_kernel
def still_there(
    there: IntArray, here: BoolArray, seen: BoolArray, over: BoolArray, first: IntArray,
    parents: IntArray,
) -> IntArray:  # fmt: skip
    """Those of `there`, parents first, that are not over; marks whom it sees, and who is over."""
    kept = np.empty_like(there)
    count = 0
    for job in there:
        waits = False
        for edge in range(first[job], first[job + 1]):
            waits = waits or not over[parents[edge]]
        if here[job]:
            seen[job] = True
        elif seen[job] or not waits:
            over[job] = True
            continue
        kept[count] = job
        count += 1
    return kept[:count].copy()


@array_kernel
def known(there: IntArray, arrived: int, first: IntArray, parents: IntArray) -> IntArray:
    """Those of `there`, parents first, all of whose ancestors have been submitted."""
    hidden = np.zeros(arrived, dtype=np.bool_)
    for job in there:
        for edge in range(first[job], first[job + 1]):
            parent = parents[edge]
            hidden[job] = hidden[job] or parent >= arrived or hidden[parent]
    return there[~hidden[there]]
