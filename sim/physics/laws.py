"""The laws of speed: seconds that a gang communicates, and how much tenants slow each other down.

Communication is a table over how far a placement spreads (`NetworkTables`); a ring all-reduce is
without latency: Patarasuk and Yuan 2009, bandwidth term. Its law is written for numbers
(`comm_of`, `busy_s`, `quiet_s`) and for arrays of them (`columns_s`) alike.

Slow-downs: call with the GPU's tenants in order of their start. Beside one other tenant the pair
counts, beside several the sum of the pairs' excesses over 1, or a `MixTable` where there is one
(docs/reference/semantics.md, Mixes), each by the part of the GPU that its cause has.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.handle import Handle
from sim.jit import kernel
from sim.physics.mix_table import Slowing, milli_of, profile_of


@dataclass(frozen=True, eq=False)
class NetworkTables(Handle):
    """Seconds an iteration spends in exposed communication.

    comm_s = local_s[p, g] + server_s[p, s] * nic_factor[k] + rack_s[p, r] * uplink_factor[u]
    for a gang with at most g GPUs on one server, spread over s servers in r racks, where k and u
    are the numbers of multi-server (multi-rack) jobs on its busiest NIC (uplink), itself included.
    Counts beyond a table's end read its last entry.
    """

    local_s: FloatArray  # (P, largest server + 1)
    server_s: FloatArray  # (P, servers + 1), 0 up to one server
    rack_s: FloatArray  # (P, racks + 1), 0 up to one rack
    nic_factor: FloatArray  # (K,) factor[0] = factor[1] = 1
    uplink_factor: FloatArray  # (U,)

    def __post_init__(self) -> None:
        """Contiguous whatever they are made from: one type, compiled once."""
        for each in fields(self):
            table = np.ascontiguousarray(getattr(self, each.name), dtype=np.float64)
            object.__setattr__(self, each.name, table)
        super().__post_init__()


BITS_PER_BYTE = 8.0
BITS_PER_GBIT = 1e9


def ring_share(workers: Any) -> Any:
    """2 (n - 1) / n: bytes a worker of a ring of n sends, as a multiple of the buffer.

    For a number or an array of them, 1 or more each.
    """
    return 2.0 * (workers - 1.0) / workers


_ring = cast(Callable[[int], float], kernel(ring_share))


@kernel
def ring_bytes(workers: int, buffer_bytes: float) -> float:
    """The same in bytes, for compiled code; 0 up to one worker."""
    return _ring(workers) * buffer_bytes if workers > 1 else 0.0


def transfer_s(num_bytes: FloatArray, gbps: float) -> FloatArray:
    """Seconds to send `num_bytes` once over a link of `gbps`."""
    return BITS_PER_BYTE * num_bytes / (gbps * BITS_PER_GBIT)


class Spread(NamedTuple):
    """How far a placement spreads, and how busy its links are."""

    most: int  # of its GPUs on one server
    servers: int
    racks: int
    nic: int = 1  # multi-server jobs on its busiest NIC, itself included
    uplink: int = 1  # multi-rack jobs on its busiest uplink, itself included


class Comm(NamedTuple):
    """Of one step, by level."""

    local_s: float
    server_s: float  # with nobody else on the NICs
    rack_s: float  # with nobody else on the uplinks
    nic_factor: float
    uplink_factor: float


def _comm(tables: Any, p: Any, spread: Any) -> Any:
    """Of profile `p`; counts beyond a table's end read its last entry."""
    return Comm(
        tables.local_s[p, np.minimum(spread.most, tables.local_s.shape[1] - 1)],
        tables.server_s[p, np.minimum(spread.servers, tables.server_s.shape[1] - 1)],
        tables.rack_s[p, np.minimum(spread.racks, tables.rack_s.shape[1] - 1)],
        tables.nic_factor[np.minimum(spread.nic, len(tables.nic_factor) - 1)],
        tables.uplink_factor[np.minimum(spread.uplink, len(tables.uplink_factor) - 1)],
    )


def _seconds(comm: Any) -> Any:
    """With the other jobs on its links. The order of the sum is the same for all, to the last bit.

    So the placement that work is counted on has speed 1.0 exactly.
    """
    return comm.local_s + comm.server_s * comm.nic_factor + comm.rack_s * comm.uplink_factor


comm_of = cast(Callable[[NetworkTables, int, Spread], Comm], kernel(_comm))
busy_s = cast(Callable[[Comm], float], kernel(_seconds))


@kernel
def quiet_s(comm: Comm) -> float:
    """With its links to itself."""
    return float(comm.local_s + comm.server_s + comm.rack_s)


def columns_s(
    tables: NetworkTables, p: IntArray | slice, most: IntArray, servers: IntArray, racks: IntArray
) -> FloatArray:  # fmt: skip
    """Seconds of many placements, each alone on its links; `slice(None)`: of all profiles."""
    return np.asarray(_seconds(_comm(tables, p, Spread._make((most, servers, racks, 1, 1)))))


@kernel
def slow_in_mix(slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int) -> float:
    """Slow-down of the i-th of the first `count` tenants of a GPU of type `gpu_type`.

    Who has a smaller part of the GPU is there less of the time: all are there for as much as the
    smallest part, all but that one for what the second smallest has beyond it, and so on.
    """
    slow, below, present = 1.0, 0, ((1 << count) - 1) ^ (1 << i)
    while present != 0:  # of equal parts the first counts for all that are left
        smallest = _smallest(tenants, count, present)
        milli = milli_of(tenants, smallest)
        if milli > below:
            excess = _excess(slowing, gpu_type, tenants, count, i, present)
            slow += excess * ((milli - below) / 1000.0)
            below = milli
        present ^= 1 << smallest
    return slow


@kernel
def _smallest(tenants: IntArray, count: int, present: int) -> int:
    """Who of those present, a set of bits, has the smallest part of the GPU."""
    found = -1
    for k in range(count):
        if (present >> k) & 1 and (found < 0 or milli_of(tenants, k) < milli_of(tenants, found)):
            found = k
    return found


@kernel
def _excess(
    slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int, present: int
) -> float:  # fmt: skip
    """Excess of the i-th beside those present, had each the whole GPU."""
    if _size(present) > slowing.most_aggressors:
        return _excess_beyond(slowing, gpu_type, tenants, count, i, present)
    column = _column(slowing.slowdown.shape[1], tenants, count, present)
    return float(slowing.slowdown[gpu_type, profile_of(tenants, i), column] - 1.0)


@kernel
def _excess_beyond(
    slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int, present: int
) -> float:  # fmt: skip
    """The pairs' sum times the most that the table says of a part of K over its own pairs' sum.

    A part without any excess of its pairs counts as it is.
    """
    victim, profiles = profile_of(tenants, i), slowing.slowdown.shape[1]
    whole = _pair_sum(slowing, gpu_type, tenants, count, i, present)
    worst, chosen = 0.0, (1 << slowing.most_aggressors) - 1
    while chosen < (1 << _size(present)):  # all C(n, K) parts: only the table knows which is worst
        part = _spread(chosen, present)
        excess = slowing.slowdown[gpu_type, victim, _column(profiles, tenants, count, part)] - 1.0
        pairs = _pair_sum(slowing, gpu_type, tenants, count, i, part)
        if pairs > 0.0:
            excess *= whole / pairs
        worst = max(worst, excess)
        chosen = _next_chosen(chosen)
    return worst


@kernel
def _pair_sum(
    slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int, present: int
) -> float:  # fmt: skip
    victim, total = profile_of(tenants, i), 0.0
    for k in range(count):  # in order of start, as all sums over tenants are
        if (present >> k) & 1:
            total += slowing.slowdown[gpu_type, victim, profile_of(tenants, k)] - 1.0
    return total


@kernel
def _column(profiles: int, tenants: IntArray, count: int, present: int) -> int:
    """Column of the profiles of those present (`sim.physics.mix_table.column_of`)."""
    before = _size(present) - 1
    number = _choose(profiles + before, before) - 1  # columns of fewer
    for k in range(count):  # tenants stand in order of start, not of profile
        if (present >> k) & 1:
            mine, place = profile_of(tenants, k), 1
            for j in range(count):  # so its place among profiles is counted; ties by start
                other = profile_of(tenants, j)
                place += ((present >> j) & 1) * (other < mine or (other == mine and j < k))
            number += _choose(mine + place - 1, place)
    return number


@kernel
def _choose(n: int, k: int) -> int:
    """Ways to choose `k` of `n`."""
    ways = 1
    for at in range(k):
        ways = ways * (n - at) // (at + 1)
    return ways


@kernel
def _size(present: int) -> int:
    count = 0
    while present != 0:  # a turn a tenant: the lowest bit goes each time
        present &= present - 1
        count += 1
    return count


@kernel
def _spread(chosen: int, present: int) -> int:
    """Those of `present` whose rank among them is a bit of `chosen`."""
    part = 0
    while present != 0:
        lowest = present & -present
        part |= lowest * (chosen & 1)
        chosen >>= 1
        present ^= lowest
    return part


@kernel
def _next_chosen(chosen: int) -> int:
    """The next larger number with as many bits."""
    lowest = chosen & -chosen
    carried = chosen + lowest
    return int((((carried ^ chosen) >> 2) // lowest) | carried)


WHOLE = 1000  # thousandths of a GPU
PAIR = 2
NO_COST = np.inf  # of a GPU that a job may not join


@kernel
def excess_by(slowdown: float, milli: int) -> float:
    """What a tenant with `milli` thousandths of the GPU adds to a slow-down of 1."""
    excess = slowdown - 1.0
    if milli != WHOLE:
        excess *= milli / 1000.0
    return excess


@kernel
def asks_table(slowing: Slowing, count: int) -> bool:
    """Whether the slow-downs of so many tenants stand in a table of mixes."""
    return bool(count > PAIR and slowing.most_aggressors > 1)


@kernel
def slow_in(slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int) -> float:
    """Slow-down of the i-th of the first `count` tenants of a GPU of type `gpu_type`."""
    if asks_table(slowing, count):
        return slow_in_mix(slowing, gpu_type, tenants, count, i)
    victim, slow = profile_of(tenants, i), 1.0
    for k in range(count):
        if k != i:
            pair = slowing.slowdown[gpu_type, victim, profile_of(tenants, k)]
            slow += excess_by(pair, milli_of(tenants, k))
    return slow


@kernel
def hit_of(slowing: Slowing, gpu_type: int, tenants: IntArray, count: int, i: int) -> float:
    """1 and what the last tenant adds to the slow-down of the i-th."""
    if asks_table(slowing, count):
        before = slow_in(slowing, gpu_type, tenants, count - 1, i)
        return max(1.0, 1.0 + (slow_in_mix(slowing, gpu_type, tenants, count, i) - before))
    pair = slowing.slowdown[gpu_type, profile_of(tenants, i), profile_of(tenants, count - 1)]
    return 1.0 + excess_by(pair, milli_of(tenants, count - 1))


@kernel
def fits_beside(
    feasible: BoolArray, gpu_type: int, profile: int, milli: int, other: int, other_milli: int
) -> bool:
    """Whether two jobs may share a GPU of type `gpu_type`.

    Parts of a GPU that are together no more than one fit whatever profiles say. `feasible` is
    (T, P, P).
    """
    return milli + other_milli <= WHOLE or bool(feasible[gpu_type, profile, other])


@kernel
def joining_cost(
    slowing: Slowing, feasible: BoolArray, gpu_type: int, tenants: IntArray, last: int,
    least_speed: float,
) -> float:  # fmt: skip
    """Self x worst victim slow-down of the last tenant of a GPU; NO_COST: it may not join.

    It may where it fits beside all, and all together are faster than `least_speed` jobs alone.
    An empty GPU costs 1.
    """
    profile, milli = profile_of(tenants, last), milli_of(tenants, last)
    for k in range(last):  # memory is decided by pairs, before any slow-down is worked out
        other, other_milli = profile_of(tenants, k), milli_of(tenants, k)
        if not fits_beside(feasible, gpu_type, profile, milli, other, other_milli):
            return NO_COST
    own, victim, speed = slow_in(slowing, gpu_type, tenants, last + 1, last), 1.0, 0.0
    for k in range(last):  # each is a victim: the worst hit counts, and all speeds together
        victim = max(victim, hit_of(slowing, gpu_type, tenants, last + 1, k))
        # Old neighbours cost it, too.
        speed += 1.0 / slow_in(slowing, gpu_type, tenants, last + 1, k)
    if last > 0 and speed + 1.0 / own <= least_speed:
        return NO_COST
    return float(own * victim)
