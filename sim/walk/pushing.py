"""SRTF in partitions: each serves its own queue, pushing longer jobs aside."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel
from sim.kernel.layout import State
from sim.preempting_compactly import Place, Plan, plan_compactly
from sim.walk.desk import Desk
from sim.walk.laying import book, release
from sim.walk.offering import own_servers
from sim.walk.queueing import Queue
from sim.walk.walking import OWN


@array_kernel
def _plan(
    desk: Desk, state: State, queue: Queue, running: IntArray, gang: IntArray, partition: int
) -> Plan:
    """The orders of one partition's scheduler."""
    place = Place(
        own_servers(desk, partition), desk.yard.size, desk.yard.first_gpu, desk.yard.gpu_server,
        desk.tenants, state.placed, state.job["first"].copy(), state.job["held"].copy(),
    )  # fmt: skip
    mine = np.flatnonzero(queue.at == partition)
    here = running[state.job["partition"][running] == partition]
    left_s: FloatArray = state.job["work_s"][here] - state.job["seen_progress_s"][here]
    keys = np.concatenate((left_s, queue.left_s[mine]))
    return plan_compactly(place, gang, queue.job[mine], here, keys)


@array_kernel
def fill_pushing(desk: Desk, state: State, queue: Queue) -> tuple[int, IntArray]:
    """Plan as `sim.preempting.PreemptiveScheduler` for each partition in which somebody waits.

    Returns:
        How many start, and who is preempted.
    """
    running = np.sort(state.running[: state.world[0].num_running])
    gang = state.job["num_gpus"].copy()
    preempts, starts, pushed = np.empty(len(running), dtype=np.int64), 0, 0
    for partition in range(len(desk.version) - 1):
        if not (queue.at == partition).any():
            continue
        plan = _plan(desk, state, queue, running, gang, partition)
        for job in plan.preempts:
            row = state.job[job]
            release(desk, state.placed[row.first : row.first + row.held], partition)
            preempts[pushed] = job
            pushed += 1
        for i in range(len(plan.job)):
            job, at, size = plan.job[i], desk.first[starts], plan.first[i + 1] - plan.first[i]
            desk.gpus[at : at + size] = plan.gpus[plan.first[i] : plan.first[i + 1]]
            book(desk, job, size, at, partition)
            queue.started[queue.job == job] = True
            desk.job[starts], desk.taker[starts] = job, OWN
            starts += 1
            desk.first[starts] = at + size
    return starts, preempts[:pushed]
