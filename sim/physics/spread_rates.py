"""Seconds between servers of every job, and again after jobs came or went."""

from itertools import pairwise

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel
from sim.physics.link_load import measure_placement
from sim.physics.link_loads import NOBODY, LinkLoads, enter, make_link_loads, touch
from sim.physics.link_network import MAX_MIN, LinkNetwork
from sim.physics.max_min import sort_up
from sim.physics.refill import refill
from sim.physics.settle import settle


@kernel
def _gather(loads: LinkLoads, whole_component: bool) -> int:
    """Collect the jobs on touched links, ascending; with `whole_component` those they reach too."""
    members, looked_at = 0, 0
    while looked_at < loads.counts[0].num_touched:
        at = loads.link[loads.link[looked_at].touched].head
        looked_at += 1
        while at != NOBODY:
            job = loads.entry[at].job
            at = loads.entry[at].after
            row = loads.job[job]
            if row.is_member != 0:
                continue
            row.is_member = 1
            loads.part.job[members].job = job
            members += 1
            if whole_component:
                for other in range(row.first, row.first + row.number):
                    touch(loads, loads.entry[other].link)
    sort_up(loads.part.job["job"], members)
    return members


@kernel
def _lay_out(loads: LinkLoads, members: int) -> None:
    """Copy the members' entries side by side, as `settle` wants them."""
    part, filled = loads.part, 0
    part.job[0].first = 0
    for k in range(members):
        row = loads.job[part.job[k].job]
        for at in range(row.first, row.first + row.number):
            part.entry[filled].link = loads.entry[at].link
            part.entry[filled].weight = loads.entry[at].weight
            filled += 1
        part.job[k + 1].first = filled
        part.job[k].heavy_bytes = row.heavy_bytes
        part.job[k].step_s = row.step_s


@kernel
def _settle_part(loads: LinkLoads, network: LinkNetwork) -> int:
    """Settle the jobs on touched links; with MAX_MIN everybody whom they reach, from the start."""
    members = _gather(loads, network.sharing == MAX_MIN)
    _lay_out(loads, members)
    settle(network, loads.part, members, loads.link)
    count = 0
    for k in range(members):
        job = loads.part.job[k].job
        row = loads.job[job]
        row.is_member = 0
        spread_s = row.latency_s + loads.part.job[k].seconds
        if spread_s != row.spread_s:
            row.spread_s = spread_s
            loads.part.job[count].job = job
            count += 1
    return count


@kernel
def resettle(loads: LinkLoads, network: LinkNetwork) -> int:
    """Renew `spread_s` where jobs came or went, and list the jobs whose value changed.

    K_WAY and DUTY ask only for the jobs on the very links. Max-min rates depend on all jobs that
    share links directly or through others; `refill` finds those whose rate really changes.
    A job that has just come has no older value: whoever starts it rates it in any case.

    Returns:
        Number of changed jobs: `job` of the first rows of `loads.part.job`, ascending.
    """
    count = refill(loads, network) if network.sharing == MAX_MIN else _settle_part(loads, network)
    for k in range(loads.counts[0].num_touched):
        loads.link[loads.link[k].touched].is_touched = 0
    loads.counts[0].num_touched = 0
    return count


def spread_rates(
    *,
    network: LinkNetwork,
    profile: IntArray,
    first: IntArray,
    gpus: IntArray,
    gpu_server: IntArray,
    elsewhere_s: FloatArray,
) -> FloatArray:
    """(n,) seconds between servers of n jobs that run at once, from nothing but their placements.

    Args:
        network: links, traffic, sharing rule.
        profile: (n,) of each job; jobs in ascending order of their rows.
        first: (n + 1,) job j is on gpus[first[j]:first[j + 1]], two or more servers.
        gpus: of each job in order of placement: worker i runs on its i-th.
        gpu_server: (G,) server of each GPU.
        elsewhere_s: (n,) see `sim.physics.link_loads.enter`.

    Latency is included, `overlap_frac` is not. All links are filled at once; `resettle` gives the
    same numbers, to the last bit.
    """
    jobs = len(profile)
    loads = make_link_loads(
        network=network,
        jobs=jobs,
        worker_slots=len(gpus),
        largest_gang=max([1, *(int(b - a) for a, b in pairwise(first))]),
    )
    for job in range(jobs):
        mine = gpus[first[job] : first[job + 1]]
        count = measure_placement(mine, gpu_server, loads.load.gang)
        enter(loads, network, job, profile[job], count, elsewhere_s[job])
    _settle_part(loads, network)
    return loads.job["spread_s"].copy()
