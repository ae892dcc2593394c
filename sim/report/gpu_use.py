"""How long GPUs were busy or away, by whom, in bins, and which were free yet of no use."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.report.timeline import (
    GpuChanges,
    Steps,
    combined,
    first_s,
    gpu_lists,
    gpus_without,
    hold_change,
    running_count,
    span_s,
    steps_of_changes,
    unusable_changes,
    wait_change,
)
from sim.run import Kind, Run


def frac_by_gpu(changes: GpuChanges, gpus: int, *, start_s: float, end_s: float) -> FloatArray:
    """(gpus,) share of [start_s, end_s] with at least one holder; 0 or 1 at an instant."""
    change = changes.gpus_with(1)
    if end_s <= start_s:
        past = changes.time_s <= start_s
        held = np.bincount(changes.gpu[past], weights=change[past], minlength=gpus)
        return held.astype(np.float64)
    left_s = end_s - np.clip(changes.time_s, start_s, end_s)
    busy_s = np.bincount(changes.gpu, weights=change * left_s, minlength=gpus)
    return np.clip(busy_s / (end_s - start_s), 0.0, 1.0)


def spells(changes: GpuChanges, end_s: float) -> list[tuple[int, float, float]]:
    """(GPU, from when, until when) it had holders, in order of ends; some last until `end_s`."""
    since_s: dict[int, float] = {}
    found: list[tuple[int, float, float]] = []
    columns = (changes.gpu, changes.time_s, changes.before, changes.after)
    for gpu, time_s, before, after in zip(*(column.tolist() for column in columns), strict=True):
        if before == 0:
            since_s[gpu] = time_s
        elif after == 0:
            found.append((gpu, since_s.pop(gpu), time_s))
    return found + [(gpu, time_s, end_s) for gpu, time_s in since_s.items()]


def queued(run: Run) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """(K,) jobs, partitions, and from when until when they wait there; inf: to the last event.

    A wait ends when the job starts, leaves, or is forwarded, which begins the next.
    """
    log, change = run.log, wait_change(run)
    rows = np.flatnonzero((change != 0) | (log.kind == Kind.FORWARD))
    rows = rows[np.argsort(log.job[rows], kind="stable")]
    job, until_s = log.job[rows], np.append(log.time_s[rows][1:], np.inf)[: len(rows)]
    until_s[np.append(job[1:] != job[:-1], True)[: len(rows)]] = np.inf
    waits = change[rows] >= 0
    return job[waits], log.partition[rows[waits]], log.time_s[rows[waits]], until_s[waits]


def queue_by_partition(run: Run) -> list[Steps]:
    """(partitions,) number of jobs that wait in each partition, over time."""
    _, home, begin_s, until_s = queued(run)
    found = []
    for partition in range(int(run.partition_of_server.max()) + 1):
        came_s, went_s = begin_s[home == partition], until_s[home == partition]
        time_s = np.concatenate([came_s, went_s[np.isfinite(went_s)]])
        order = np.argsort(time_s, kind="stable")
        change = np.where(np.arange(len(time_s)) < len(came_s), 1, -1)
        found.append(steps_of_changes(time_s[order], change[order]))
    return found


def frac_by_server(run: Run, changes: GpuChanges, *, rows: int, bins: int) -> FloatArray:
    """(rows or fewer, bins) share of GPUs of neighbouring servers with at least one holder.

    Bins are of equal length; `changes` are those of tenants, or of servers that are away.
    """
    start_s, end_s = span_s(run)
    servers = run.topology.num_servers
    rows = min(rows, servers)
    row_of_server = np.arange(servers) * rows // servers
    gpus = np.bincount(row_of_server, weights=run.topology.gpus_per_server, minlength=rows)
    row = row_of_server[run.topology.gpu_server[changes.gpu]]
    by_row = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[by_row], np.arange(rows + 1))
    edges_s = np.linspace(start_s, end_s, bins + 1)
    use = np.zeros((rows, bins))
    if end_s <= start_s:
        return use
    for number in range(rows):
        own = changes.of(by_row[bounds[number] : bounds[number + 1]])
        busy = steps_of_changes(own.time_s, own.gpus_with(1)).integral(edges_s)
        use[number] = np.diff(busy) / np.diff(edges_s) / gpus[number]
    return np.clip(use, 0.0, 1.0)


@dataclass(frozen=True)
class Attempts:
    """A attempts in order of their starts."""

    job: IntArray  # (A,) row of the job table
    number: IntArray  # (A,) 1 for the first attempt of its job
    start_s: FloatArray  # (A,)
    end_s: FloatArray  # (A,) end of the run where `open`
    start_event: IntArray  # (A,) row of the log; its `gpus` are those of the attempt
    open: BoolArray  # (A,) the run ended first


def attempts_of(run: Run) -> Attempts:
    """Pair each start with the next end of the same job.

    The log must alternate, as `sim.report.balance.check_run` makes sure.
    """
    change = hold_change(run.log)
    events = np.flatnonzero(change)
    by_job = events[np.argsort(run.log.job[events], kind="stable")]
    starts = change[by_job] > 0
    following = np.append(by_job[1:], -1)
    closed = np.append(~starts[1:] & (np.diff(run.log.job[by_job]) == 0), False)
    job = run.log.job[by_job[starts]]
    first = np.flatnonzero(np.diff(job, prepend=-1))
    number = np.arange(len(job)) - np.repeat(first, np.diff(np.append(first, len(job)))) + 1
    is_open = ~closed[starts]
    end_s = np.where(is_open, span_s(run)[1], run.log.time_s[following[starts]])
    order = np.argsort(by_job[starts], kind="stable")
    start_event = by_job[starts][order]
    return Attempts(
        job=job[order],
        number=number[order],
        start_s=run.log.time_s[start_event],
        end_s=end_s[order],
        start_event=start_event,
        open=is_open[order],
    )


def needed_gpus(run: Run) -> IntArray:
    """(J,) GPUs that a job needs to start: of an elastic one its least, if any started on fewer.

    Most schedulers start whole gangs, whatever a job could do with.
    """
    asked, elastic = run.jobs.num_gpus, run.jobs.elastic
    starts = np.flatnonzero(run.log.kind == Kind.START)
    held = np.diff(gpu_lists(run.log.gpus).first)[starts]
    if elastic is None or not (held < asked[run.log.job[starts]]).any():
        return asked
    return elastic.least_gpus


@dataclass(frozen=True)
class Tenancy:
    """N stretches during which one tenant of one GPU had the same fellow tenants."""

    job: IntArray  # (N,) row of the job table
    row: IntArray  # (N,) position of the GPU among those asked for
    start_s: FloatArray  # (N,)
    end_s: FloatArray  # (N,)
    place: IntArray  # (N,) 0 for the tenant that came first, and so on
    tenants: IntArray  # (N,) of the GPU in this stretch, `job` included
    start_event: IntArray  # (N,) of its attempt


def tenancy_of(run: Run, gpus: IntArray, between_s: tuple[float, float] | None = None) -> Tenancy:
    """The stretches of the GPUs `gpus` (n,), in order of GPUs, times, tenants.

    `between_s`: only attempts that are there at some time between; what they say of other times
    lacks the tenants of those.
    """
    attempts = attempts_of(run)
    low_s, high_s = between_s or (-np.inf, np.inf)
    seen = (attempts.end_s >= low_s) & (attempts.start_s <= high_s)
    row_of_gpu = np.full(run.topology.num_gpus, -1)
    row_of_gpu[gpus] = np.arange(len(gpus))
    visits: list[list[tuple[float, float, int]]] = [[] for _ in range(len(gpus))]
    columns = (attempts.start_s, attempts.end_s, attempts.start_event)
    for visit in zip(*(c[seen].tolist() for c in columns), strict=True):
        rows = row_of_gpu[run.log.gpus[visit[-1]]]
        for row in rows[rows >= 0].tolist():
            visits[row].append(visit)
    found = [
        (stretch[0], row, *stretch[1:])
        for row, visit in enumerate(visits)
        for stretch in _stretches(visit)
    ]
    event_, row_, start, end, place, tenants = zip(*found, strict=True) if found else ((),) * 6
    start_event = np.array(event_, dtype=np.int64)
    return Tenancy(
        job=run.log.job[start_event],
        row=np.array(row_, dtype=np.int64),
        start_s=np.array(start, dtype=np.float64),
        end_s=np.array(end, dtype=np.float64),
        place=np.array(place, dtype=np.int64),
        tenants=np.array(tenants, dtype=np.int64),
        start_event=start_event,
    )


def _stretches(visits: list[tuple[float, float, int]]) -> list[tuple[int, float, float, int, int]]:
    """(event, start, end, place, tenants) of the visits (start, end, event) of a GPU, by starts."""
    found: list[tuple[int, float, float, int, int]] = []
    inside: list[tuple[float, int]] = []  # (end, event) in order of arrival
    since_s = 0.0

    def close(until_s: float) -> None:
        if until_s > since_s:
            for place, (_, event) in enumerate(inside):
                found.append((event, since_s, until_s, place, len(inside)))

    for start_s, end_s, event in [*visits, (np.inf, np.inf, -1)]:
        while inside and min(inside)[0] <= start_s:
            first_s = min(inside)[0]
            close(first_s)
            since_s = max(since_s, first_s)
            inside = [each for each in inside if each[0] > first_s]
        if inside:
            close(start_s)
        since_s = start_s
        inside.append((end_s, event))
    return found


def fragmentation_metrics(run: Run) -> dict[str, float]:
    """Both measures, over the whole run.

    `fragmented_free_frac`: share of free GPU time on servers where a gang drawn from the workload
    finds too few free GPUs for its smallest compact piece; NaN where no GPU was ever free.
    `gpu_idle_while_fitting_frac`: GPU time that is free while the smallest waiting gang is no
    larger than the number of free GPUs, over GPUs x span. No scheduler with one queue and free
    placement would have to leave it idle: it is lost to scattered GPUs, to partitions, to
    waiting for a compact placement, and to a head of the queue that blocks smaller jobs.
    """
    start_s, end_s = span_s(run)
    changes = unusable_changes(run.log)
    free_mean = gpus_without(run, changes).mean(start_s, end_s)
    unusable = unusable_free_over_time(run, changes).mean(start_s, end_s)
    idle = idle_while_fitting(run, changes).mean(start_s, end_s)
    return {
        "fragmented_free_frac": unusable / free_mean if free_mean > 0 else float("nan"),
        "gpu_idle_while_fitting_frac": idle / run.topology.num_gpus,
    }


def unusable_free_over_time(run: Run, changes: GpuChanges) -> Steps:
    """Expected number of free GPUs that a gang drawn from the workload could not use.

    The fragmentation measure of Weng and others, "Beware of fragmentation", USENIX ATC 2023,
    for whole GPUs and gangs: the expectation, over the gang sizes of the trace, of
    the free GPUs on servers too full for it. A gang of m on servers of g GPUs needs m there if
    m < g, what is left after whole servers otherwise, and a whole server if nothing is left.
    """
    servers = run.topology.gpu_server.astype(np.int32)[changes.gpu]
    change = changes.gpus_with(1)  # of GPUs that are not free
    sizes = run.topology.gpus_per_server
    table = _unusable_table(run.jobs.num_gpus, sizes)  # (sizes, free)
    size = sizes.astype(np.int32)[servers]
    free = size - running_count(servers, change)
    step = np.empty(len(change) + 1)
    step[0] = table[sizes, sizes].sum()
    step[1:] = table[size, free]
    step[1:] -= table[size, free + change]
    time_s = np.concatenate([[first_s(run)], changes.time_s])
    value = np.cumsum(step, out=step)
    last = np.append(time_s[1:] != time_s[:-1], True)
    return Steps(time_s[last], np.maximum(value[last], 0.0))


def idle_while_fitting(run: Run, changes: GpuChanges) -> Steps:
    """Free GPUs while the smallest waiting gang is no larger than their number, else 0.

    What Jeon and others call fragmentation delay, "Analysis of large-scale multi-tenant GPU
    clusters for DNN training workloads", USENIX ATC 2019, seen from the GPUs:
    resources are there in sum, and a job waits.
    """
    free, smallest = gpus_without(run, changes), _smallest_waiting(run)
    return combined(free, smallest, lambda gpus, gang: np.where(gang <= gpus, gpus, 0))


def _smallest_waiting(run: Run) -> Steps:
    """Size of the smallest gang that waits; infinity where none waits."""
    change = wait_change(run)
    rows = np.flatnonzero(change)
    gang = run.jobs.num_gpus[run.log.job[rows]]
    time_s = run.log.time_s[rows]
    edges_s = np.unique(np.append(time_s, first_s(run)))
    smallest = np.full(len(edges_s), np.inf)
    for size in np.unique(gang)[::-1].tolist():
        chosen = gang == size
        waiting = steps_of_changes(time_s[chosen], change[rows][chosen]).at(edges_s)
        smallest[waiting > 0] = size
    return Steps(edges_s, smallest)


def _unusable_table(gangs: IntArray, sizes: IntArray) -> FloatArray:
    """(largest server + 1, largest server + 1) expected unusable GPUs by server size and free GPUs.

    Shares of `gangs` (J,) are the workload; `sizes` (S,) are GPUs of each server.
    """
    largest = int(sizes.max())
    kinds, jobs = np.unique(gangs, return_counts=True)
    share = jobs / jobs.sum()
    free = np.arange(largest + 1)
    table = np.zeros((largest + 1, largest + 1))
    for size in np.unique(sizes).tolist():
        rest = kinds % size
        need = np.where(rest > 0, rest, size)  # (kinds,)
        too_few = free[:, None] < need[None, :]  # (free, kinds)
        table[size] = free * (too_few @ share)
    return table
