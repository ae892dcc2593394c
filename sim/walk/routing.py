"""Where jobs go as they arrive: `sim.forwarding` in compiled code."""

import numpy as np

from sim.arrays import IntArray
from sim.compiled.plan import OWN_THEN_LEAST_LOADED, TO_LEAST_LOADED
from sim.jit import array_kernel
from sim.kernel.layout import State
from sim.walk.desk import Desk
from sim.walk.placing import place
from sim.walk.plan import Rule
from sim.walk.queueing import Queue


@array_kernel
def _wanted(state: State, queue: Queue, partitions: int) -> IntArray:
    """(M,) GPUs that waiting and running jobs want (`sim.loads`)."""
    wanted = np.zeros(partitions, dtype=np.int64)
    for i in range(len(queue.job)):
        wanted[queue.at[i]] += queue.gang[i]
    for job in state.running[: state.world[0].num_running]:
        wanted[state.job[job].partition] += state.job[job].num_gpus
    return wanted


@array_kernel
def _least_loaded(gang: int, home: int, wanted: IntArray, capacity: IntArray) -> int:
    """Rule of `sim.forwarding.least_loaded`."""
    best, least = home, np.inf
    if capacity[home] >= gang:
        least = (wanted[home] - gang) / capacity[home]
    for partition in range(len(capacity)):
        if capacity[partition] < gang or partition == home:
            continue
        share = wanted[partition] / capacity[partition]
        if share < least:
            best, least = partition, share
    return best


@array_kernel
def route(desk: Desk, state: State, rule: Rule, queue: Queue, forward: IntArray) -> int:
    """Send jobs that arrived at this instant where the rule wants them.

    Writes (job, partition) to the first rows of `forward` (q, 2) and the partition to `queue.at`;
    how many it sent. The desk is laid out, and nothing is planned on it.
    """
    world, sent = state.world[0], 0
    if rule.forwarding not in (TO_LEAST_LOADED, OWN_THEN_LEAST_LOADED) or world.max_forwards < 1:
        return sent
    capacity = desk.yard.capacity
    wanted = _wanted(state, queue, len(capacity))
    for i in range(len(queue.job)):
        row, home, gang = state.job[queue.job[i]], queue.at[i], queue.gang[i]
        if row.submit_s != world.now_s or row.forwards > 0:
            continue
        if rule.forwarding == OWN_THEN_LEAST_LOADED and place(
            desk, rule, home, gang, desk.job_profile[queue.job[i]], 0
        ):
            continue
        target = _least_loaded(gang, home, wanted, capacity)
        if target != home:
            wanted[home] -= gang
            wanted[target] += gang
            queue.at[i] = target
            forward[sent, 0], forward[sent, 1] = queue.job[i], target
            sent += 1
    return sent
