"""The floor: strict FIFO, first fit, in one compiled function and nothing else.

No speeds, no log, no preemption, no checks: the least that a simulator which says where each gang
ran has to do. Ratios of the simulator's time to this one's say what everything else costs.
"""

import numpy as np
from numba import njit

from sim.arrays import FloatArray, IntArray


@njit(cache=True)
def _push(times: FloatArray, jobs: IntArray, size: int, at_s: float, job: int) -> None:
    at = size
    while at > 0:
        above = (at - 1) // 2
        if times[above] <= at_s:
            break
        times[at], jobs[at] = times[above], jobs[above]
        at = above
    times[at], jobs[at] = at_s, job


@njit(cache=True)
def _pop(times: FloatArray, jobs: IntArray, size: int) -> None:
    """Drop the first of `size` entries."""
    last = size - 1
    at_s, job, at = times[last], jobs[last], 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and times[below + 1] < times[below]:
            below += 1
        if times[below] >= at_s:
            break
        times[at], jobs[at] = times[below], jobs[below]
        at = below
    times[at], jobs[at] = at_s, job


@njit(cache=True)
def _take(free: IntArray, holder: IntArray, size: int, gang: int, job: int, out: IntArray) -> None:
    """First fit: write the ids of `gang` free GPUs to `out`, server by server."""
    found = 0
    for server in range(len(free)):
        if free[server] == 0:
            continue
        for gpu in range(server * size, (server + 1) * size):
            if holder[gpu] < 0:
                holder[gpu] = job
                free[server] -= 1
                out[found] = gpu
                found += 1
                if found == gang:
                    return


@njit(cache=True)
def _give_back(free: IntArray, holder: IntArray, size: int, gpus: IntArray) -> None:
    for gpu in gpus:
        holder[gpu] = -1
        free[gpu // size] += 1


@njit(cache=True)
def fifo(
    submit_s: FloatArray, num_gpus: IntArray, duration_s: FloatArray, servers: int, size: int
) -> tuple[FloatArray, IntArray]:
    """Finish times (J,) and the GPUs of all jobs one after the other."""
    jobs = len(submit_s)
    free, total = np.full(servers, size, np.int64), servers * size
    holder = np.full(total, -1, np.int64)
    first = np.zeros(jobs + 1, np.int64)
    first[1:] = np.cumsum(num_gpus)
    placed = np.empty(first[jobs], np.int64)
    times, running, size_now = np.empty(total), np.empty(total, np.int64), 0
    finish_s, head, arrived, done = np.empty(jobs), 0, 0, 0
    while done < jobs:
        now_s = times[0] if size_now > 0 else np.inf
        if arrived < jobs and submit_s[arrived] < now_s:
            now_s = submit_s[arrived]
        while size_now > 0 and times[0] <= now_s:
            job = running[0]
            _pop(times, running, size_now)
            size_now -= 1
            finish_s[job] = now_s
            done += 1
            total += num_gpus[job]
            _give_back(free, holder, size, placed[first[job] : first[job + 1]])
        while arrived < jobs and submit_s[arrived] <= now_s:
            arrived += 1
        while head < arrived and num_gpus[head] <= total:
            gang = num_gpus[head]
            _take(free, holder, size, gang, head, placed[first[head] : first[head + 1]])
            total -= gang
            _push(times, running, size_now, now_s + duration_s[head], head)
            size_now += 1
            head += 1
    return finish_s, placed
