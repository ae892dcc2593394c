"""Steps that placers share: which servers, fewest or least loaded, and which of their GPUs.

Whether the fewest servers, which `consolidated` waits for and `packed` prefers, are there is a
matter of two tallies of a partition's servers: `tally[n]`, how many can give exactly n GPUs now,
and `sizes[n]`, how many could were they empty.
"""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import array_kernel, kernel
from sim.view import Slots


@kernel
def fill_server(  # noqa: PLR0917 - arrays go by position into compiled code
    usable: BoolArray, tenants: IntArray, first: int, last: int, wanted: int, out: IntArray, at: int
) -> int:  # fmt: skip
    """Write `wanted` of the usable GPUs first to last - 1 to `out` from `at` on.

    The least shared first, then the lowest id. How many `out` holds then.
    """
    level = 0
    while wanted > 0:  # a pass a level: sorting the GPUs would need an array
        for gpu in range(first, last):  # ids ascend, so that ties need no comparing
            if wanted > 0 and usable[gpu] and tenants[gpu] == level:
                out[at] = gpu
                at += 1
                wanted -= 1
        level += 1
    return at


@array_kernel
def fill_servers(
    order: IntArray,  # servers in the order to fill them
    take: IntArray,  # (len(order),) GPUs wanted of each
    server_first_gpu: IntArray,
    usable: BoolArray,
    tenants: IntArray,
    gang: int,
) -> IntArray:
    """`gang` usable GPUs, server by server."""
    out = np.empty(gang, dtype=np.int64)
    done = 0
    for i in range(len(order)):
        first, last = server_first_gpu[order[i]], server_first_gpu[order[i] + 1]
        done = fill_server(usable, tenants, first, last, min(take[i], gang - done), out, done)
    return out


def filled(slots: Slots, servers: IntArray, gang: int, take: IntArray | None = None) -> IntArray:
    """`gang` GPUs of servers in their order, each of which gives `take`, or all it can."""
    if take is None:
        take = slots.usable_per_server[servers]
    first = slots.topology.server_first_gpu
    return fill_servers(servers, take, first, slots.usable, slots.tenants, gang)


def filled_emptiest_first(slots: Slots, gang: int) -> IntArray | None:
    """`gang` GPUs of the servers with most of them; None where they are too few."""
    usable = slots.usable_per_server[slots.servers]
    if usable.sum() < gang:
        return None
    return filled(slots, slots.servers[np.argsort(-usable, kind="stable")], gang)


@array_kernel
def spread_out(
    servers: IntArray, server_first_gpu: IntArray, usable: BoolArray, usable_per_server: IntArray,
    tenants: IntArray, gang: int,
) -> IntArray:  # fmt: skip
    """`gang` usable GPUs of `servers`, one by one where the fewest workers a GPU are by then."""
    load = np.zeros(len(usable_per_server))
    size = np.ones(len(usable_per_server))
    left = usable_per_server.copy()
    for server in servers:  # only owned ones: entries of others are never read
        first, last = server_first_gpu[server], server_first_gpu[server + 1]
        size[server] = last - first
        load[server] = tenants[first:last].sum()
    taken = np.zeros(len(usable), dtype=np.bool_)
    out = np.empty(gang, dtype=np.int64)
    for i in range(gang):  # gang x servers looks, for each worker changes a load
        best = -1
        for server in servers:  # ascending and only if less loaded: ties go to the first
            if left[server] > 0 and (
                best < 0 or load[server] / size[server] < load[best] / size[best]
            ):
                best = server
        choice = -1
        for gpu in range(server_first_gpu[best], server_first_gpu[best + 1]):  # ties: the lowest id
            free = usable[gpu] and not taken[gpu]
            if free and (choice < 0 or tenants[gpu] < tenants[choice]):
                choice = gpu
        taken[choice] = True
        out[i] = choice
        left[best] -= 1
        load[best] += 1
    return out


@kernel
def workload_s(before_s: float, before: int, now: int, waiting_s: float) -> float:
    """Workload of a GPU with `now` tenants; as the decision began it had `before`, `before_s`.

    `waiting_s`: mean work left of waiting jobs.
    """
    if now == before:
        return before_s
    return float(before_s * min(now / max(before, 1), 1.0) + max(now - before, 0) * waiting_s)


NONE = -1


@kernel
def largest_of(sizes: IntArray) -> int:
    """Most GPUs that one server could ever give."""
    size = len(sizes) - 1
    while size > 0 and sizes[size] == 0:
        size -= 1
    return size


@kernel
def fills_largest(sizes: IntArray, largest: int, gang: int) -> bool:
    """Whether `gang` could ever fill gang // L servers of the largest size L and one more.

    Always so where servers are of one size and together hold the gang.
    """
    if largest == 0:
        return False
    whole = gang // largest
    rest = gang - whole * largest
    with_rest = 0
    for size in range(rest, largest + 1):
        with_rest += sizes[size]
    return bool(sizes[largest] >= whole and (rest == 0 or with_rest > whole))


@kernel
def last_level(tally: IntArray, largest: int, gang: int) -> int:
    """Where a gang fits compactly: GPUs that its last server can give, 0 where it needs none more.

    The compact place of a gang that `fills_largest`: one server if it fits in one, the one with
    fewest sufficient GPUs; else gang // L servers of the largest size L that are wholly usable, and
    the rest on the one with fewest sufficient GPUs of the others. NONE: it is not there now.
    """
    whole = gang // largest if gang > largest else 0
    rest = gang - whole * largest
    if tally[largest] < whole:
        return NONE
    if rest == 0:
        return 0
    for usable in range(rest, largest):  # upwards: the tightest; whole parts take the largest first
        if tally[usable] > 0:
            return usable
    return largest if tally[largest] > whole else NONE


@kernel
def fewest_of_largest(sizes: IntArray, gang: int) -> int:
    """Servers, the largest first, that would hold `gang` were they empty; NONE: all would not."""
    held, few = 0, 0
    for size in range(len(sizes) - 1, 0, -1):  # downwards; servers of size 0 hold nobody
        for _ in range(sizes[size]):  # one by one: the gang may be held before they run out
            if held >= gang:
                return few
            held += size
            few += 1
    return few if held >= gang else NONE


@kernel
def fullest_hold(tally: IntArray, largest: int, few: int) -> int:
    """Usable GPUs of the `few` servers that can give most."""
    held = 0
    for usable in range(largest, 0, -1):
        count = min(few, tally[usable])
        held += count * usable
        few -= count
    return held


@kernel
def fits_compactly(tally: IntArray, sizes: IntArray, gang: int) -> bool:
    """Whether a gang has room now on the fewest servers that it could ever use.

    Where servers differ so that it can never be as `last_level` says: on the servers that can give
    most, no more of them than it needs of the largest.
    """
    largest = largest_of(sizes)
    if fills_largest(sizes, largest, gang):
        return last_level(tally, largest, gang) != NONE
    few = fewest_of_largest(sizes, gang)
    return bool(few != NONE and fullest_hold(tally, len(sizes) - 1, few) >= gang)


@array_kernel
def emptiest_first(servers: IntArray, usable: IntArray) -> IntArray:
    """`servers`, those that can give most GPUs first; of equal ones in the order given."""
    level, order, count = 0, np.empty(len(servers), dtype=np.int64), 0
    for server in servers:  # levels begin at the most that there is, not at the largest size
        level = max(level, usable[server])
    while count < len(servers):  # a pass a level: servers have few, and nothing is sorted
        for server in servers:  # those of the level keep the order given
            if usable[server] == level:
                order[count] = server
                count += 1
        level -= 1
    return order


@array_kernel
def fewest_servers(
    servers: IntArray,  # (s,) owned, ascending
    usable: IntArray,  # (S,) usable GPUs of each server
    size: IntArray,  # (S,) GPUs of each server that the gang could ever use
    gang: int,
) -> IntArray:
    """Servers, in order of filling, of the placement that `fits_compactly` says is there.

    Of servers that can give the same the lowest index goes first. Empty if it is not there now.
    """
    most = 0
    for server in servers:  # the length of both tallies
        most = max(most, usable[server], size[server])
    tally, sizes = np.zeros(most + 1, dtype=np.int64), np.zeros(most + 1, dtype=np.int64)
    for server in servers:  # the event loop keeps both; callers of this hand none over
        tally[usable[server]] += 1
        sizes[size[server]] += 1
    if not fits_compactly(tally, sizes, gang):
        return servers[:0]
    largest = largest_of(sizes)
    if not fills_largest(sizes, largest, gang):
        return emptiest_first(servers, usable)[: fewest_of_largest(sizes, gang)]
    level, whole = last_level(tally, largest, gang), gang // largest if gang > largest else 0
    chosen, last = np.empty(whole + 1, dtype=np.int64), NONE
    found = 0
    for server in servers:  # ascending, once: whole servers before the one for the rest
        if found < whole and usable[server] == largest:
            chosen[found] = server
            found += 1
        elif last == NONE and level > 0 and usable[server] == level:
            last = server
    chosen[found] = last
    return chosen[: found + (1 if level > 0 else 0)]


@array_kernel
def rack_room(servers: IntArray, room: IntArray, rack: IntArray, racks: int) -> IntArray:
    """(R,) room of the owned servers of each rack."""
    total = np.zeros(racks, dtype=np.int64)
    for server in servers:
        total[rack[server]] += room[server]
    return total


@array_kernel
def nearest_first(
    servers: IntArray, usable: IntArray, rack: IntArray, racks: int, gang: int
) -> IntArray:
    """(s,) owned servers, from the one where `closest` begins: then its rack's, then all others."""
    room, emptiest, fullest = rack_room(servers, usable, rack, racks), 0, NONE
    for each in range(racks):  # the lowest on ties; one with nothing usable is not the fullest
        if room[each] > 0 and (fullest == NONE or room[each] < room[fullest]):
            fullest = each
        if room[each] > room[emptiest]:
            emptiest = each
    seed, roomiest = NONE, NONE
    for server in servers:  # ties go to the first
        here, fits = rack[server], usable[server] >= gang
        if here == emptiest and (roomiest == NONE or usable[server] > usable[roomiest]):
            roomiest = server
        if not fits or here not in (fullest, emptiest):
            continue
        nearer = seed == NONE or (here == fullest and rack[seed] != fullest)
        if nearer or (here == rack[seed] and usable[server] < usable[seed]):
            seed = server
    if seed == NONE:  # no server of these racks holds all
        seed = roomiest
    distance = np.where(rack[servers] == rack[seed], 1, 2)
    distance[servers == seed] = 0
    order: IntArray = servers[np.argsort(distance, kind="mergesort")]
    return order
