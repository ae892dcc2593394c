"""When GPUs are predicted to fall empty, and what that says of gangs that wait."""

from typing import NamedTuple

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.jit import kernel

NEVER_S = 1e7  # of servers that are away, and of gangs that a partition cannot hold
LEAST_WAIT_S, LEAST_LOSS_S, LEAST_DRAIN_S, WAIT_SCALE = 60.0, 1.0, 600.0, 2.5
FRAGMENTS_WORTH = 4.0  # of `prolongs`, where a place is chosen: about what tuned weights say


class Ahead(NamedTuple):
    """G GPUs, S servers, M partitions, up to K sizes of gangs that wait.

    A tenant leaves when its predicted work is done, at full speed: what is compared is when one
    server falls empty before another, and slow-downs are alike.
    """

    first_gpu: IntArray  # (S + 1,)
    gpu_server: IntArray  # (G,)
    servers: IntArray  # (S,) partition by partition
    first: IntArray  # (M + 1,) where a partition's servers begin in that
    largest: IntArray  # (M,) GPUs of its largest server that is up, at least 1
    free_s: FloatArray  # (G,) predicted seconds until the last tenant has left
    release_s: FloatArray  # (G,) the same, ascending within each server
    after_s: FloatArray  # (G,) scratch, equal to `release_s` between calls
    drained_s: FloatArray  # (S,) scratch
    largest_gang: IntArray  # (1,) that waits or runs anywhere
    gangs: IntArray  # (K,) sizes that wait in the window at hand; 0 after the last
    jobs: IntArray  # (K,) how many have each
    compact_in_s: FloatArray  # (K,) until one has a compact empty place in the partition at hand


@kernel
def insert_sorted(values: FloatArray, first: int, last: int, value: float) -> None:
    """Put `value` into the ascending values[first:last], which values[last] becomes part of."""
    at = last
    while at > first and values[at - 1] > value:
        values[at] = values[at - 1]
        at -= 1
    values[at] = value


@kernel
def sort_release(ahead: Ahead, m: int) -> None:
    """Take over `free_s` of partition `m` into `release_s` and `after_s`."""
    for i in range(ahead.first[m], ahead.first[m + 1]):  # a start changes one partition's alone
        server = ahead.servers[i]
        first = ahead.first_gpu[server]
        for gpu in range(first, ahead.first_gpu[server + 1]):  # insertion: a server has few GPUs
            insert_sorted(ahead.release_s, first, gpu, ahead.free_s[gpu])
    take_back(ahead, m)


@kernel
def take_back(ahead: Ahead, m: int) -> None:
    """Let `after_s` of partition `m` be `release_s` again."""
    for i in range(ahead.first[m], ahead.first[m + 1]):  # jobs that lined up may be on any of them
        server = ahead.servers[i]
        # assigning a slice would make an array
        for gpu in range(ahead.first_gpu[server], ahead.first_gpu[server + 1]):
            ahead.after_s[gpu] = ahead.release_s[gpu]


@kernel
def compact_in_s(ahead: Ahead, release_s: FloatArray, gang: int, m: int) -> float:
    """Predicted seconds until `gang` has empty GPUs on the fewest servers of partition `m`.

    Nobody else is thought to take them, and nothing but GPUs is asked for.
    """
    needed = -(-gang // ahead.largest[m])
    first, last = ahead.first[m], ahead.first[m + 1]
    if last - first < needed:
        return NEVER_S
    soonest_s = NEVER_S
    for i in range(first, last):  # in one pass: any server may fall empty first
        begin, end = ahead.first_gpu[ahead.servers[i]], ahead.first_gpu[ahead.servers[i] + 1]
        if needed > 1:
            insert_sorted(ahead.drained_s, 0, i - first, release_s[end - 1])
        elif end - begin >= gang:
            soonest_s = min(soonest_s, release_s[begin + gang - 1])
    return float(ahead.drained_s[needed - 1] if needed > 1 else soonest_s)


@kernel
def forget_gangs(ahead: Ahead) -> None:
    """Begin a new list of the gangs that wait."""
    ahead.gangs[:] = 0


@kernel
def list_gang(ahead: Ahead, gang: int, m: int) -> None:
    """One job of the window of partition `m` has this gang."""
    k = 0
    while ahead.gangs[k] != 0 and ahead.gangs[k] != gang:
        k += 1
    if ahead.gangs[k] == 0:
        ahead.gangs[k] = gang
        ahead.jobs[k] = 0
        ahead.compact_in_s[k] = compact_in_s(ahead, ahead.release_s, gang, m)
    ahead.jobs[k] += 1


@kernel
def wait_here_s(ahead: Ahead, gang: int, m: int) -> float:
    """`compact_in_s` in partition `m`, whose window is at hand: known for the gangs in that."""
    k = 0
    while ahead.gangs[k] != 0 and ahead.gangs[k] != gang:
        k += 1
    if ahead.gangs[k] == gang:
        return float(ahead.compact_in_s[k])
    return compact_in_s(ahead, ahead.release_s, gang, m)


@kernel
def wait_over_loss(wait_s: float, slowed: float, job_s: float) -> float:
    """Logarithm of a wait over what a step exp(`slowed`) times as long costs a job of `job_s`.

    A step shorter than the reference costs less than nothing, but never more than is added to it.
    """
    loss_s = max((np.exp(slowed) - 1.0) * job_s + LEAST_WAIT_S, LEAST_LOSS_S)
    return float(np.log((wait_s + LEAST_WAIT_S) / loss_s) / WAIT_SCALE)


@kernel
def wait_difference(here_s: float, elsewhere_s: float) -> float:
    """Logarithm of a wait over another."""
    return float(np.log((here_s + LEAST_WAIT_S) / (elsewhere_s + LEAST_WAIT_S)) / WAIT_SCALE)


@kernel
def _log_longer(before_s: float, after_s: float) -> float:
    """Logarithm of a time over a shorter one."""
    return float(np.log((after_s + LEAST_DRAIN_S) / (before_s + LEAST_DRAIN_S)))


@kernel
def prolongs(ahead: Ahead, used: IntArray, servers: RowArray, job_s: float) -> float:
    """By how much a job of `job_s` puts off that its servers fall empty, in logarithms.

    Each of the servers `used` counts with the share of its GPUs that the job does not take
    (`taken` of the rows of all servers).
    """
    total = 0.0
    for server in used:
        last = ahead.first_gpu[server + 1]
        size, drained_s = last - ahead.first_gpu[server], ahead.release_s[last - 1]
        if job_s > drained_s:
            total += _log_longer(drained_s, job_s) * (size - servers[server].taken) / size
    return float(total / WAIT_SCALE)


@kernel
def holds_up(ahead: Ahead, used: IntArray, gpus: IntArray, job_s: float, m: int) -> float:
    """By how much a job of `job_s` on `gpus` puts off the compact places of others that wait.

    ln(1 + sum of seconds / `job_s`) over the window of partition `m`, one of this gang left out;
    the servers of `gpus` are those `used`.
    """
    total_s, k, is_laid = 0.0, 0, False
    while ahead.gangs[k] != 0:  # once a size: gangs of one size wait equally long
        others = ahead.jobs[k] - (ahead.gangs[k] == len(gpus))
        if others > 0 and _may_be_put_off(ahead, used, k, m):
            if not is_laid:
                is_laid = True
                _release_with(ahead, used, gpus, job_s)
            later_s = compact_in_s(ahead, ahead.after_s, ahead.gangs[k], m)
            total_s += others * max(later_s - ahead.compact_in_s[k], 0.0)
        k += 1
    if is_laid:
        for server in used:  # leave `after_s` as it was
            # those of other servers are as they were
            for gpu in range(ahead.first_gpu[server], ahead.first_gpu[server + 1]):
                ahead.after_s[gpu] = ahead.release_s[gpu]
    return float(np.log1p(total_s / job_s) / WAIT_SCALE)


@kernel
def _may_be_put_off(ahead: Ahead, used: IntArray, k: int, m: int) -> bool:
    """False: gang `k` has its compact place as soon as ever, whatever those `used` are used for.

    All that a job can do there is to let them be free later, and they come later than it already.
    For most placements of most gangs that says so much sooner than `compact_in_s` does.
    """
    gang, in_s, may = ahead.gangs[k], ahead.compact_in_s[k], False
    several = gang > ahead.largest[m]
    for server in used:
        begin, end = ahead.first_gpu[server], ahead.first_gpu[server + 1]
        at = end - 1 if several else begin + gang - 1
        may = may or (at < end and ahead.release_s[at] <= in_s)
    return may


@kernel
def _release_with(ahead: Ahead, used: IntArray, gpus: IntArray, job_s: float) -> None:
    """Let `after_s` of the servers `used` be their release with a job of `job_s` on `gpus`."""
    for server in used:  # GPU by GPU again: once sorted, no time is a GPU's own
        # those that the job leaves alone keep their times
        for gpu in range(ahead.first_gpu[server], ahead.first_gpu[server + 1]):
            ahead.after_s[gpu] = ahead.free_s[gpu]
    for gpu in gpus:  # a tenant that stays longer than the job still decides
        ahead.after_s[gpu] = max(ahead.after_s[gpu], job_s)
    for server in used:  # sorted only now that the job has all its GPUs
        first = ahead.first_gpu[server]
        for gpu in range(first + 1, ahead.first_gpu[server + 1]):  # the first alone is sorted
            insert_sorted(ahead.after_s, first, gpu, ahead.after_s[gpu])


@kernel
def line_up(ahead: Ahead, gang: int, job_s: float, m: int) -> None:
    """Let a job of `job_s` take, in `after_s`, the compact place that it would have first.

    Whoever has lined up jobs calls `take_back` when done.
    """
    start_s = compact_in_s(ahead, ahead.after_s, gang, m)
    if start_s >= NEVER_S:
        return
    left, end_s = gang, start_s + job_s
    for i in range(ahead.first[m], ahead.first[m + 1]):  # all count: a larger gang takes several
        begin, end = ahead.first_gpu[ahead.servers[i]], ahead.first_gpu[ahead.servers[i] + 1]
        count = min(left, end - begin)
        if count == 0 or ahead.after_s[begin + count - 1] > start_s:
            continue
        if gang <= ahead.largest[m] and count < gang:
            continue
        take_first(ahead, ahead.servers[i], count, end_s)
        left -= count


@kernel
def take_first(ahead: Ahead, server: int, count: int, end_s: float) -> None:
    """In `after_s` the `count` GPUs of a server that fall empty first are busy until `end_s`."""
    begin, end = ahead.first_gpu[server], ahead.first_gpu[server + 1]
    for gpu in range(begin, begin + count):  # ascending, so these fall empty first
        ahead.after_s[gpu] = end_s
    for gpu in range(begin + 1, end):  # its first times are late now: sort anew
        insert_sorted(ahead.after_s, begin, gpu, ahead.after_s[gpu])


class Effects(NamedTuple):
    """Of a start elsewhere; see `docs/policies/linear_score.md`."""

    prolongs: float
    fragments: float
    puts_off: float


@kernel
def effects_elsewhere(ahead: Ahead, gang: int, job_s: float, m: int, in_s: float) -> Effects:
    """Of a job of `job_s` on empty GPUs that partition `m` has now, if `in_s` says that it has.

    The place is the compact one with the least `prolongs` + FRAGMENTS_WORTH `fragments`; all are 0
    if there is none. Gangs larger than a server are taken to fill theirs.
    """
    if in_s > 0.0:
        return Effects(0.0, 0.0, 0.0)
    prolongs, fragments = 0.0, 0.0
    if gang <= ahead.largest[m]:
        prolongs, fragments, server = _best_place(ahead, gang, job_s, m)
        take_first(ahead, server, gang, job_s)
    else:
        line_up(ahead, gang, job_s, m)
    largest = ahead.largest_gang[0]
    before_s = compact_in_s(ahead, ahead.release_s, largest, m)
    after_s = max(compact_in_s(ahead, ahead.after_s, largest, m), before_s)
    take_back(ahead, m)
    return Effects(prolongs, fragments, _log_longer(before_s, after_s) / WAIT_SCALE)


@kernel
def _best_place(ahead: Ahead, gang: int, job_s: float, m: int) -> tuple[float, float, int]:
    """What the job does to the server of partition `m` that suits it, and which that is."""
    best, least, best_prolongs, best_fragments = -1, np.inf, 0.0, 0.0
    for i in range(ahead.first[m], ahead.first[m + 1]):  # ties go to the lower server
        server = ahead.servers[i]
        begin, end = ahead.first_gpu[server], ahead.first_gpu[server + 1]
        if end - begin < gang or ahead.release_s[begin + gang - 1] > 0.0:
            continue
        empty = gang
        # ascending, so empty ones come first
        while begin + empty < end and ahead.release_s[begin + empty] <= 0.0:
            empty += 1
        fragments, prolongs = (empty - gang) / ahead.largest[m], 0.0
        if job_s > ahead.release_s[end - 1]:
            share_left = (end - begin - gang) / (end - begin)
            longer = _log_longer(ahead.release_s[end - 1], job_s) / WAIT_SCALE
            prolongs = longer * share_left
        if prolongs + FRAGMENTS_WORTH * fragments < least:
            least = prolongs + FRAGMENTS_WORTH * fragments
            best, best_prolongs, best_fragments = server, prolongs, fragments
    return best_prolongs, best_fragments, best
