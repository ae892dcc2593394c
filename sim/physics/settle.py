"""Seconds that jobs spend between servers, given what each puts on every link."""

import numpy as np

from sim.jit import kernel
from sim.physics.link_network import K_WAY, MAX_MIN, LinkNetwork
from sim.physics.link_rows import RowArray
from sim.physics.max_min import Part, share_max_min

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
    for at in range(part.job[job].first, part.job[job + 1].first):
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
        for job in range(jobs):
            part.job[job].seconds = _shared_seconds(network, part, job, link)
        return
    share_max_min(part, jobs, network.capacity)
    for job in range(jobs):
        row = part.job[job]
        row.seconds = 0.0 if np.isinf(row.rate) else row.heavy_bytes / row.rate
