"""Max-min fair sharing of links among jobs, by progressive filling.

Job j moves bytes at rate r_j on its heaviest link and at w_jl r_j on link l, with w_jl = bytes on l
/ bytes on its heaviest link. All rates rise together until a link is full; the jobs on it stop
there, the others go on (Bertsekas and Gallager, Data Networks, section 6.5; weights as in Radunovic
and Le Boudec 2007).

Jobs stop, and links are loaded, in ascending order of jobs, so that equal situations give equal
bits, whether the whole cluster is filled or one connected part of it.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.handle import Handle
from sim.heap import HEAP, OUT, drop_from_heap, move_in_heap, order_heap
from sim.jit import kernel
from sim.physics.link_network import K_WAY, MAX_MIN, LinkNetwork
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
NOBODY = -1


@kernel
def _begin(part: Part, jobs: int, capacity: FloatArray) -> int:
    """Load every link with its jobs; the number of links in use."""
    links = 0
    for job in range(jobs):  # ascending, so a link's weights add up in one order
        part.job[job].stops = 0
        for at in range(part.job[job].first, part.job[job + 1].first):  # idle links cost nothing
            entry = part.entry[at]
            on, row = entry.link, part.link[entry.link]
            if row.rising == 0:
                row.left = capacity[on]
                row.weight = 0.0
                row.floor = 0.0
                row.last = NOBODY
                part.filling[links].item = on
                links += 1
            row.weight += entry.weight
            row.rising += 1
            entry.earlier = row.last
            entry.job = job
            row.last = at
    for k in range(links):  # keys only when all weights are in; ordered at once, in linear time
        part.filling[k].key = fills_at(part, part.filling[k].item)
        part.filling[k].rank = 0
    order_heap(part.filling, part.link, links)
    return links


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
def _gather(part: Part, links: int, least: float) -> tuple[int, int]:
    """Collect the jobs on the links that `least` fills, ascending, and take those links out.

    Returns the number of jobs, and of links that are left.
    """
    count = 0
    while links > 0:  # all links that fill at this very rate: ties stop together
        on = part.filling[0].item
        if part.filling[0].key != least:
            break
        at = part.link[on].last
        while at != NOBODY:  # jobs that stopped earlier are still listed, and skipped
            job = part.entry[at].job
            if part.job[job].stops == 0:
                part.job[job].stops = 1
                part.job[count].stopping = job
                count += 1
            at = part.entry[at].earlier
        links = drop_from_heap(part.filling, part.link, links, on)
    sort_up(part.job["stopping"], count)
    return count, links


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


@kernel
def _stop(part: Part, count: int, rate: float, links: int) -> int:
    """Stop the first `count` jobs of `stopping` at `rate`; the number of links still in use."""
    changed = 0
    for k in range(count):  # ascending: what a link has left is booked in one order
        job = part.job[k].stopping
        part.job[job].rate = rate
        for at in range(part.job[job].first, part.job[job + 1].first):  # also off links not full
            changed = leave(part, part.entry[at].link, part.entry[at].weight, rate, changed)
    return renew(part, changed, links)


@kernel
def share_max_min(part: Part, jobs: int, capacity: FloatArray) -> None:
    """Fill `rate` of the part's first `jobs` jobs with their max-min fair rates.

    Args:
        part: `first` of jobs + 1 rows, `link` (a job names a link once) and `weight`, in (0, 1], of
            their entries; `rate` is written, in bytes a second on the job's heaviest link,
            infinite for a job without entries.
        jobs: number of jobs.
        capacity: (D,) bytes a second, above 0.
    """
    links = _begin(part, jobs, capacity)
    going = 0
    for job in range(jobs):  # who has no entries is on no link, and never stops
        part.job[job].rate = np.inf
        if part.job[job + 1].first > part.job[job].first:
            going += 1
    while going > 0:  # each round stops somebody: links of the heap have jobs rising
        least = part.filling[0].key
        count, links = _gather(part, links, least)
        links = _stop(part, count, least, links)
        going -= count


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
        network: sharing rule and capacities.
        part: as `share_max_min` wants it, and `heavy_bytes` of each job, and `step_s` for DUTY.
            MAX_MIN must be given every job that shares a link with one of these jobs, directly or
            through others.
        jobs: number of jobs.
        link: (D,) LOAD_LINK: `sharers` is read by K_WAY, `busy` by DUTY, both of all jobs.
    """
    if network.sharing != MAX_MIN:
        for job in range(jobs):  # each on its own: these rules read only totals of links
            part.job[job].seconds = _shared_seconds(network, part, job, link)
        return
    share_max_min(part, jobs, network.capacity)
    for job in range(jobs):  # after all have stopped; on no link the rate is infinite
        row = part.job[job]
        row.seconds = 0.0 if np.isinf(row.rate) else row.heavy_bytes / row.rate
