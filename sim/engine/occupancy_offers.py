"""Which GPUs of which servers a job may be offered; compiled steps of `sim.engine.occupancy`."""

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import array_kernel, kernel
from sim.physics.slowing import NO_COST, WHOLE, joining_cost
from sim.physics.slowing_tables import Slowing, seat
from sim.room_rules import has_seat, least_cost, leave_at, leave_cheapest, left_over


@array_kernel
def offer_empty(
    tenants: IntArray,
    server_first_gpu: IntArray,
    servers: IntArray,
    usable: BoolArray,
    per_server: IntArray,
) -> None:
    """Mark the empty GPUs of `servers`."""
    for server in servers:
        count = 0
        for gpu in range(server_first_gpu[server], server_first_gpu[server + 1]):
            if tenants[gpu] == 0:
                usable[gpu] = True
                count += 1
        per_server[server] = count


@array_kernel
def offer_parts(  # noqa: PLR0917 - arrays go by position into compiled code
    milli: IntArray,
    tenants: IntArray,
    most_tenants: int,
    ask_milli: int,
    tight: bool,
    usable: BoolArray,
    cost: FloatArray,
) -> None:
    """Mark the GPUs on which a job finds the thousandths it asks for beside its tenants'.

    With `tight` only GPUs that have tenants. `cost` is filled with what would be left over.
    """
    for gpu in range(len(milli)):
        cost[gpu] = left_over(tenants[gpu], most_tenants, milli[gpu], ask_milli, tight)
        usable[gpu] = cost[gpu] < NO_COST


@array_kernel
def offer_tightest(
    server_first_gpu: IntArray,
    servers: IntArray,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Leave the cheapest of the usable GPUs of `servers`, all of them on ties."""
    least = NO_COST
    for server in servers:
        first, last = server_first_gpu[server], server_first_gpu[server + 1]
        least = min(least, least_cost(usable, cost, first, last))
    for server in servers:
        first, last = server_first_gpu[server], server_first_gpu[server + 1]
        per_server[server] = leave_at(usable, cost, first, last, least)


@kernel
def _cost_of_joining(  # noqa: PLR0917 - arrays go by position into compiled code
    others: IntArray,  # the GPU's tenants
    slowing: Slowing,
    feasible: BoolArray,  # (T, P, P)
    kind: int,  # the GPU's type
    profile_of: IntArray,
    profile: int,
    least_speed: float,
    milli_of: IntArray,  # empty where no job asks for less than a GPU
    ask_milli: int,
    crowd: IntArray,  # scratch
) -> float:
    """`joining_cost` of one more tenant."""
    last = len(others)
    for k in range(last):
        theirs = milli_of[others[k]] if len(milli_of) > 0 else WHOLE
        seat(crowd, k, profile_of[others[k]], theirs)
    seat(crowd, last, profile, ask_milli)
    return float(joining_cost(slowing, feasible, kind, crowd, last, least_speed))


@array_kernel
def offer_shared(  # noqa: PLR0917 - the same
    tenants: IntArray,
    tenant: IntArray,
    server_first_gpu: IntArray,
    servers: IntArray,
    server_type: IntArray,
    profile_of: IntArray,
    profile: int,
    slowing: Slowing,
    feasible: BoolArray,
    least_speed: float,
    milli_of: IntArray,
    milli: IntArray,
    ask_milli: int,
    limit_milli: int,
    crowd: IntArray,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Mark GPUs of `servers` that may take one more tenant, with `joining_cost`.

    `milli_of` is empty where no job asks for less than a GPU, `milli` where no sum is limited.
    """
    for server in servers:
        kind = server_type[server]
        count = 0
        for gpu in range(server_first_gpu[server], server_first_gpu[server + 1]):
            held = milli[gpu] if len(milli) > 0 else 0
            if not has_seat(tenants[gpu], tenant.shape[1], held, ask_milli, limit_milli):
                continue
            price = _cost_of_joining(
                tenant[gpu, : tenants[gpu]], slowing, feasible, kind, profile_of, profile,
                least_speed, milli_of, ask_milli, crowd,
            )  # fmt: skip
            if price < NO_COST:
                usable[gpu] = True
                cost[gpu] = price
                count += 1
        per_server[server] = count


@array_kernel
def limit_workers(
    room: IntArray,  # (S,) workers that each server can take
    server_first_gpu: IntArray,
    servers: IntArray,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Leave each of `servers` no more usable GPUs than workers it has room for.

    The cheapest stay, the lowest ids on ties; GPUs of other servers are unmarked.
    """
    mine = np.zeros(len(room), dtype=np.bool_)
    for server in servers:
        mine[server] = True
    for server in range(len(room)):
        first, last = server_first_gpu[server], server_first_gpu[server + 1]
        count, most = 0, room[server] if mine[server] else 0
        for gpu in range(first, last):
            count += 1 if usable[gpu] else 0
        per_server[server] = leave_cheapest(usable, cost, first, last, count, most)
