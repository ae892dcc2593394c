"""Max-min fair sharing of links among jobs, by progressive filling.

Job j moves bytes at rate r_j on its heaviest link and at w_jl r_j on link l, with w_jl = bytes on l
/ bytes on its heaviest link. All rates rise together until a link is full; the jobs on it stop
there, the others go on (Bertsekas and Gallager, Data Networks, section 6.5; weights as in Radunovic
and Le Boudec 2007).

Jobs stop, and links are loaded, in ascending order of jobs, so that equal situations give equal
bits, whether the whole cluster is filled or only what a change reaches (`refill`).
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray, RowArray
from sim.handle import Handle
from sim.heap import HEAP, OUT, drop_from_heap, move_in_heap
from sim.jit import kernel
from sim.physics.link_network import K_WAY, LinkNetwork
from sim.physics.traffic import PART_ENTRY, PART_JOB, PART_LINK


@dataclass(frozen=True, eq=False)
class Part(Handle):
    """Room for N jobs with E entries on D directed links."""

    job: RowArray  # (N + 1,) PART_JOB
    entry: RowArray  # (E,) PART_ENTRY
    link: RowArray  # (D,) PART_LINK; its lists begin at row 0 and are no property of that link
    filling: RowArray  # (D,) HEAP: links with jobs still rising, by the rate that fills them
    due: RowArray  # (N + 1,) HEAP: rows of `job` by rate and batch at which they last stopped


def make_part(*, links: int, jobs: int, entries: int) -> Part:
    """Room for so many directed links, jobs and entries."""
    return Part(
        job=np.zeros(jobs + 1, dtype=PART_JOB), entry=np.zeros(max(1, entries), dtype=PART_ENTRY),
        link=np.zeros(max(1, links), dtype=PART_LINK), filling=np.zeros(max(1, links), dtype=HEAP),
        due=np.zeros(jobs + 1, dtype=HEAP),
    )  # fmt: skip


FEW = 24  # numbers up to which plain insertion is fastest


@kernel
def first_gap(count: int) -> int:
    """The largest gap for so many: 1, 4, 13, 40, ..."""
    gap = 1
    while count > FEW and 3 * gap + 1 < count // 2:
        gap = 3 * gap + 1
    return gap


@kernel
def sort_up(values: IntArray, count: int) -> None:
    """Sort the first `count` values, ascending."""
    gap = first_gap(count)
    while gap > 0:  # Shell's sort, in place: the last pass, of gap 1, is plain insertion
        for last in range(gap, count):  # the first of each chain have none before them
            value, at = values[last], last
            while at >= gap and values[at - gap] > value:  # shifted, not swapped: half the writes
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3


SPECK = 1e-9  # weight below which a link is no limit; a job's heaviest link has weight 1


@kernel
def fills_at(part: Part, on: int) -> float:
    """Rate of the rising jobs at which link `on` is full; never below one that was reached there.

    Where only specks of weight are left (none of these jobs has its heaviest link here), the sum
    may have been rounded away: such a link stops nobody.
    """
    row = part.link[on]
    if row.weight < SPECK:
        return np.inf
    return float(max(row.left / row.weight, row.floor))


@kernel
def leave(part: Part, on: int, weight: float, rate: float, changed: int) -> int:
    """Take a job that stops at `rate` off link `on`; how many links have `changed` by now."""
    row = part.link[on]
    row.left -= weight * rate
    row.weight -= weight
    row.rising -= 1
    row.floor = rate
    if row.is_changed == 0:
        row.is_changed = 1
        part.link[changed].changed = on
        changed += 1
    return changed


@kernel
def renew(part: Part, changed: int, links: int) -> int:
    """Put the links that have `changed` where they belong; the number of links still in use."""
    for k in range(changed):  # once a link, however many of its jobs have stopped
        on = part.link[k].changed
        row = part.link[on]
        row.is_changed = 0
        if row.rising > 0:
            move_in_heap(part.filling, part.link, links, fills_at(part, on), 0, on)
        elif row.heap_at != OUT:
            links = drop_from_heap(part.filling, part.link, links, on)
    return links


BUSY_ONE = 1 << 40  # a link that one job keeps busy all the time; whole numbers add up exactly


@kernel
def k_way_factor(sharers: int, eta_frac: float) -> float:
    """Time on a link that `sharers` jobs use, over the time alone, latency apart.

    a + k b M + (k - 1) eta M of Wang, Shi, Wang and Chu 2020 (arXiv 2002.10105), divided by b M.
    """
    return sharers + (sharers - 1) * eta_frac


@kernel
def busy_parts(num_bytes: float, capacity: float, step_s: float) -> int:
    """Share of its step alone that a job keeps a link busy, in parts of BUSY_ONE."""
    if step_s <= 0.0:
        return BUSY_ONE
    return int(min(1.0, num_bytes / capacity / step_s) * BUSY_ONE + 0.5)


@kernel
def alone_seconds(
    network: LinkNetwork, entry: RowArray, first: int, number: int, heavy_bytes: float
) -> float:
    """Seconds on the slowest of a job's links when it has them to itself, without latency."""
    worst_s = 0.0
    for at in range(first, first + number):
        worst_s = max(worst_s, entry[at].weight * heavy_bytes / network.capacity[entry[at].link])
    return worst_s


@kernel
def _shared_seconds(network: LinkNetwork, part: Part, job: int, link: RowArray) -> float:
    """Seconds on the slowest of one job's links beside the others there, without latency.

    K_WAY: by the number of jobs on the link. DUTY: the others slow it down as much as they keep the
    link busy, 1 + sum of busy shares.
    """
    heavy_bytes, step_s = part.job[job].heavy_bytes, part.job[job].step_s
    worst_s = 0.0
    for at in range(part.job[job].first, part.job[job + 1].first):  # each link has its own sharers
        on = part.entry[at].link
        num_bytes = part.entry[at].weight * heavy_bytes
        alone_s = num_bytes / network.capacity[on]
        if network.sharing == K_WAY:
            factor = k_way_factor(link[on].sharers, network.eta_frac)
        else:
            others = link[on].busy - busy_parts(num_bytes, network.capacity[on], step_s)
            factor = 1.0 + others / BUSY_ONE
        worst_s = max(worst_s, alone_s * factor)
    return worst_s


@kernel
def settle(network: LinkNetwork, part: Part, jobs: int, link: RowArray) -> None:
    """Fill `seconds` of the part's first `jobs` jobs: between servers, latency and overlap apart.

    Args:
        network: K_WAY or DUTY, and capacities.
        part: `first` of jobs + 1 rows, `link` (a job names a link once) and `weight`, in (0, 1], of
            their entries; `heavy_bytes` of each job, and `step_s` for DUTY.
        jobs: number of jobs.
        link: (D,) LOAD_LINK: `sharers` is read by K_WAY, `busy` by DUTY, both of all jobs.
    """
    for job in range(jobs):  # each on its own: these rules read only totals of links
        part.job[job].seconds = _shared_seconds(network, part, job, link)
