"""Why jobs waited, as far as what was free says it: in sums over a whole run."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray, Integers, distinct_rows
from sim.jobs import WHOLE_GPU, WHOLE_GPU_MILLI, Ask, Demands
from sim.offers import Held, Last, room_of_empty, usable_gpus
from sim.report.gpu_use import needed_gpus, queued
from sim.report.timeline import (
    GpuChanges,
    Steps,
    gpu_changes,
    gpus_without,
    running_count,
    unusable_changes,
)
from sim.run import Run

NO_ROOM = "no cores, memory or GPUs of its type"  # of pages and of `explain`
MOST_KINDS = 500  # of what jobs ask for that are told apart; 100,000 jobs take some 6 s with them


@dataclass(frozen=True)
class Waits:
    """K waits: of one job in one partition, until it starts, leaves or is forwarded."""

    job: IntArray  # (K,) row of the job table
    too_few_s: FloatArray  # (K,) fewer GPUs were free in the cluster than it needs
    elsewhere_s: FloatArray  # (K,) the cluster had enough, its partition had not
    no_room_s: FloatArray  # (K,) its partition had enough, not all on servers with room for it
    held_back_s: FloatArray  # (K,) its partition had enough that it could use


def waits_of(run: Run) -> Waits:
    """How long jobs waited, by how many GPUs were free meanwhile; those on servers that are up.

    A job that asks for part of a GPU could also use one that others have in part.
    """
    job, home, begin_s, until_s = queued(run)
    gang, end_s = needed_gpus(run)[job], np.minimum(until_s, run.log.time_s[-1])
    changes, of_gpu = unusable_changes(run.log), run.partition_of_server[run.topology.gpu_server]
    free = gpus_without(run, changes)
    free_at = [
        gpus_without(run, changes.of(of_gpu[changes.gpu] == partition), gpus)
        for partition, gpus in enumerate(np.bincount(of_gpu).tolist())
    ]
    # Seconds with enough: free in the cluster, free at home, and there of use.
    all_s, here_s = _enough_s(free, gang, begin_s, end_s), np.zeros(len(job))
    for partition, here in enumerate(free_at):
        mine = home == partition
        here_s[mine] = _enough_s(here, gang[mine], begin_s[mine], end_s[mine])
    usable_s = here_s.copy()
    for mine, usable in _usable(run, changes, (job, home, begin_s, end_s)):
        times = gang[mine], begin_s[mine], end_s[mine]
        usable_s[mine] = _enough_s(usable, *times)
        here_s[mine] = _enough_s(_more(usable, free_at[home[mine[0]]]), *times)
        all_s[mine] = _enough_s(_more(usable, free), *times)
    reached_s = np.stack([end_s - begin_s, all_s, here_s, usable_s, np.zeros(len(job))])
    return Waits(job, *np.maximum(-np.diff(reached_s, axis=0), 0.0))  # below 0: by rounding


def _enough_s(free: Steps, gang: IntArray, begin_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """(K,) seconds between these times (K,) with at least `gang` (K,) GPUs free."""
    found = np.zeros(len(gang))
    for size in np.unique(gang).tolist():
        mine, enough = gang == size, Steps(free.time_s, (free.value >= size).astype(np.float64))
        found[mine] = enough.integral(end_s[mine]) - enough.integral(begin_s[mine])
    return found


def _more(usable: Steps, free: Steps) -> Steps:
    """The larger of both, at the times of the first, which are all of the second meanwhile."""
    return Steps(usable.time_s, np.maximum(usable.value, free.at(usable.time_s)))


def _usable(
    run: Run, changes: GpuChanges, waits: tuple[IntArray, IntArray, FloatArray, FloatArray]
) -> Iterator[tuple[IntArray, Steps]]:
    """Waits (n,) of jobs that ask the same of servers, at one home; GPUs that they could use there.

    Those that ask for more than whole GPUs of any type; from their first begin to their last end.
    Where kinds are very many, cores and memory are rounded to powers of two.
    """
    job, home, begin_s, end_s = waits
    demands = run.jobs.demands
    if demands is None:
        return
    columns = [column[job] for column in vars(demands).values()]
    asking = np.any([column != no for column, no in zip(columns, WHOLE_GPU, strict=True)], axis=0)
    rows = np.flatnonzero(asking & (end_s > begin_s))
    if not len(rows):
        return
    columns = [home[rows], *(column[rows] for column in columns)]
    kinds, kind = distinct_rows(columns)
    if len(kinds) > MOST_KINDS:
        columns[2:4] = map(_power_of_two, columns[2:4])
        kinds, kind = distinct_rows(columns)
    held, time_s = _held(run, demands, changes), changes.time_s
    last = Last(*(np.full(len(each), -1) for each in (held.gpu_server, held.partition)))
    by_kind = np.split(rows[np.argsort(kind, kind="stable")], np.cumsum(np.bincount(kind))[:-1])
    known = 0
    for at in sorted(range(len(kinds)), key=lambda at: float(begin_s[by_kind[at]].min())):
        mine, ask = by_kind[at], Ask(*kinds[at, 1:].tolist())
        from_s = float(begin_s[mine].min())
        first = int(np.searchsorted(time_s, from_s, "left"))
        end = int(np.searchsorted(time_s, end_s[mine].max(), "right"))
        past = changes.gpu[known:first]  # of equal indices the last assignment stays
        last.gpu[past] = last.server[held.gpu_server[past]] = np.arange(known, first)
        known = first
        gpus = usable_gpus(held, ask, int(kinds[at, 0]), (first, end), last)
        yield mine, _steps(np.append(from_s, time_s[first:end]), gpus)


def _power_of_two(asked: IntArray) -> IntArray:
    """The nearest ones by ratio; 0 for 0."""
    power = np.round(np.log2(np.maximum(asked, 1))).astype(np.int64)
    return np.where(asked > 0, 2**power, 0)


def _steps(time_s: FloatArray, value: IntArray) -> Steps:
    """Of values at one instant the last one holds."""
    holds = np.append(time_s[1:] != time_s[:-1], True)
    return Steps(time_s[holds], value[holds].astype(np.float64))


def _held(run: Run, demands: Demands, changes: GpuChanges) -> Held:
    """What each change left of GPUs, cores and memory."""
    topology, job, change = run.topology, changes.job, changes.change
    of_gpu = topology.gpu_server
    server = of_gpu[changes.gpu]

    def taken(group: Integers, of_job: IntArray, of_server: int) -> IntArray:
        each = np.where(job >= 0, of_job[job], of_server)
        return running_count(group, change * each).astype(np.int64)

    cores, memory = room_of_empty(topology)
    return Held(
        gpu=changes.gpu,
        holders=changes.after,
        milli=taken(changes.gpu, demands.gpu_milli, WHOLE_GPU_MILLI),
        cpu_milli=cores[server] - taken(server, demands.cpu_milli, 0),
        memory_mib=memory[server] - taken(server, demands.memory_mib, 0),
        most_tenants=int(gpu_changes(run.log).after.max(initial=1)),
        gpu_server=of_gpu,
        partition=run.partition_of_server,
        gpu_type=topology.server_gpu_type,
        server_cpu_milli=cores,
        server_memory_mib=memory,
    )
