"""What a job would do to another partition, were it to start there now.

Long jobs strewn over all servers leave large gangs without a place. Shared by the linear score and
the agents' codec: plain arrays only.
"""

from typing import NamedTuple

import numpy as np

from sim.jit import kernel
from sim.linear.ahead import (
    LEAST_DRAIN_S,
    WAIT_SCALE,
    Ahead,
    compact_in_s,
    line_up,
    sort_release,
    take_first,
)

FRAGMENTS_WORTH = 4.0  # of `prolongs`, where a place is chosen: about what tuned weights say


class Effects(NamedTuple):
    """Of a start elsewhere; see `docs/linear_score.md`."""

    prolongs: float
    fragments: float
    puts_off: float


@kernel
def longer(before_s: float, after_s: float) -> float:
    """Logarithm of a time over a shorter one."""
    return float(np.log((after_s + LEAST_DRAIN_S) / (before_s + LEAST_DRAIN_S)) / WAIT_SCALE)


@kernel
def effects_there(ahead: Ahead, gang: int, job_s: float, m: int) -> Effects:
    """Of a job of `job_s` on empty GPUs that partition `m` has now.

    The place is the compact one with the least `prolongs` + FRAGMENTS_WORTH `fragments`; all are 0
    if there is none. Gangs larger than a server are taken to fill theirs.
    """
    if compact_in_s(ahead, ahead.release_s, gang, m) > 0.0:
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
    sort_release(ahead, m)
    return Effects(prolongs, fragments, longer(before_s, after_s))


@kernel
def _best_place(ahead: Ahead, gang: int, job_s: float, m: int) -> tuple[float, float, int]:
    """What the job does to the server of partition `m` that suits it, and which that is."""
    best, least, best_prolongs, best_fragments = -1, np.inf, 0.0, 0.0
    for i in range(ahead.first[m], ahead.first[m + 1]):
        server = ahead.servers[i]
        begin, end = ahead.first_gpu[server], ahead.first_gpu[server + 1]
        if end - begin < gang or ahead.release_s[begin + gang - 1] > 0.0:
            continue
        empty = 0
        for gpu in range(begin, end):
            empty += ahead.release_s[gpu] <= 0.0
        fragments, prolongs = (empty - gang) / ahead.largest[m], 0.0
        if job_s > ahead.release_s[end - 1]:
            share_left = (end - begin - gang) / (end - begin)
            prolongs = longer(ahead.release_s[end - 1], job_s) * share_left
        if prolongs + FRAGMENTS_WORTH * fragments < least:
            least = prolongs + FRAGMENTS_WORTH * fragments
            best, best_prolongs, best_fragments = server, prolongs, fragments
    return best_prolongs, best_fragments, best
