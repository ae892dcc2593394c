"""Who puts what on which link, kept up to date while jobs come and go.

A job that spans servers has one entry a link in a pool of entries; entries of one link form a
doubly linked list. Pool space of jobs that left is won back by moving the living to the front.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import RowArray
from sim.handle import Handle
from sim.jit import kernel
from sim.physics.job_load import LoadScratch, link_weights, make_load_scratch
from sim.physics.link_network import LinkNetwork
from sim.physics.max_min import Part, alone_seconds, busy_parts, make_part
from sim.physics.traffic import COUNTS, LOAD_ENTRY, LOAD_JOB, LOAD_LINK

NOBODY = -1
UNKNOWN = -1.0  # rate of a job that has just come
UNSEEN, SCRIPTED, RISING, STOPPED = range(4)  # values of LOAD_JOB.phase, see sim.physics.refill


@dataclass(frozen=True, eq=False)
class LinkLoads(Handle):
    """J jobs, at most N of them on links at once, D directed links, a pool of E entries."""

    job: RowArray  # (J,) LOAD_JOB
    entry: RowArray  # (E,) LOAD_ENTRY
    link: RowArray  # (D,) LOAD_LINK
    counts: RowArray  # (1,) COUNTS
    part: Part  # scratch of `resettle`
    load: LoadScratch  # the placement of the job that enters


def make_link_loads(
    *, network: LinkNetwork, jobs: int, worker_slots: int, largest_gang: int
) -> LinkLoads:
    """Empty loads for J `jobs`; `worker_slots` can run at once (GPUs x most tenants)."""
    links = len(network.capacity)
    most = max(1, min(jobs, worker_slots // 2))
    live = max(1, most_entries(network, worker_slots))
    link = np.zeros(links, dtype=LOAD_LINK)
    link["head"] = NOBODY
    return LinkLoads(
        job=np.zeros(jobs, dtype=LOAD_JOB),
        entry=np.zeros(2 * live + most_entries(network, largest_gang), dtype=LOAD_ENTRY), link=link,
        counts=np.zeros(1, dtype=COUNTS), part=make_part(links=links, jobs=most, entries=live),
        load=make_load_scratch(network, largest_gang),
    )  # fmt: skip


@kernel
def most_entries(network: LinkNetwork, workers: int) -> int:
    """Most links that jobs of so many workers together can touch, each job's counted for itself."""
    return workers * network.flows_per_worker * network.longest_route


@kernel
def touch(loads: LinkLoads, on: int) -> None:
    """Have `resettle` look at the jobs on link `on`."""
    if loads.link[on].is_touched == 0:
        loads.link[on].is_touched = 1
        loads.link[loads.counts[0].num_touched].touched = on
        loads.counts[0].num_touched += 1


@kernel
def _hook(loads: LinkLoads, at: int) -> None:
    """Put entry `at` at the head of its link's list."""
    entry = loads.entry[at]
    link = loads.link[entry.link]
    entry.before = NOBODY
    entry.after = link.head
    if link.head != NOBODY:
        loads.entry[link.head].before = at
    link.head = at


@kernel
def _unhook(loads: LinkLoads, at: int) -> None:
    entry = loads.entry[at]
    if entry.before == NOBODY:
        loads.link[entry.link].head = entry.after
    else:
        loads.entry[entry.before].after = entry.after
    if entry.after != NOBODY:
        loads.entry[entry.after].before = entry.before


@kernel
def _compact(loads: LinkLoads) -> None:
    """Move the entries of living jobs to the front of the pool, in their order there."""
    moved = 0
    for at in range(loads.counts[0].pool_used):  # ascending: none unread is written over
        old = loads.entry[at]
        if old.job == NOBODY:
            continue
        if loads.job[old.job].first == at:
            loads.job[old.job].first = moved
        new = loads.entry[moved]
        new.link = old.link
        new.weight = old.weight
        new.job = old.job
        new.before = old.before
        new.after = old.after
        if new.before == NOBODY:
            loads.link[new.link].head = moved
        else:
            loads.entry[new.before].after = moved
        if new.after != NOBODY:
            loads.entry[new.after].before = moved
        moved += 1
    loads.counts[0].pool_used = moved


@kernel
def _busy_of(loads: LinkLoads, network: LinkNetwork, job: int, at: int) -> int:
    """Parts of BUSY_ONE that `job` keeps the link of its entry `at` busy."""
    entry, row = loads.entry[at], loads.job[job]
    return busy_parts(entry.weight * row.heavy_bytes, network.capacity[entry.link], row.step_s)


@kernel
def enter(
    loads: LinkLoads, network: LinkNetwork, job: int, profile: int, servers: int, elsewhere_s: float
) -> None:
    """Put `job`, which starts on two or more servers, on the links it uses.

    Args:
        loads: changed; `load.gang` holds the placement, as `measure_placement` left it.
        network: links, traffic, sharing rule.
        job: row of the job table.
        profile: of the job.
        servers: number of servers.
        elsewhere_s: what a step of the job alone takes apart from what happens between servers:
            compute without neighbours, and the exposed seconds inside servers. Read by DUTY.
    """
    workers = 0
    for position in range(servers):  # the room that it needs goes by the number of workers
        workers += loads.load.gang[position].gpus_on
    if loads.counts[0].pool_used + most_entries(network, workers) > len(loads.entry):
        _compact(loads)
    first = loads.counts[0].pool_used
    number, heavy_bytes, steps = link_weights(
        network, profile, servers, loads.load, loads.entry, first
    )
    loads.counts[0].pool_used = first + number
    row = loads.job[job]
    row.first = first
    row.number = number
    row.heavy_bytes = heavy_bytes
    row.latency_s = steps * network.alpha_server_s
    row.spread_s = row.latency_s
    alone_s = alone_seconds(network, loads.entry, first, number, heavy_bytes)
    row.step_s = elsewhere_s + (1.0 - network.overlap_frac) * (row.latency_s + alone_s)
    row.spans = 1
    row.rate = UNKNOWN
    for at in range(first, first + number):  # only now: a link's busy share needs the job's step
        loads.entry[at].job = job
        link = loads.link[loads.entry[at].link]
        link.sharers += 1
        link.busy += _busy_of(loads, network, job, at)
        _hook(loads, at)
        touch(loads, loads.entry[at].link)


@kernel
def leave(loads: LinkLoads, network: LinkNetwork, job: int) -> None:
    """Take `job` off its links; nothing happens where it is on none."""
    row = loads.job[job]
    if row.spans == 0:
        return
    row.spans = 0
    row.spread_s = 0.0
    for at in range(row.first, row.first + row.number):  # entries stay until the pool is compacted
        link = loads.link[loads.entry[at].link]
        link.sharers -= 1
        link.busy -= _busy_of(loads, network, job, at)
        _unhook(loads, at)
        loads.entry[at].job = NOBODY
        touch(loads, loads.entry[at].link)
