"""Who holds what: the only code that changes it.

The kernel acts so on the state of a run, and whoever tries something out on copies of the arrays
that say who holds what (`Seats`). A server's `version` tells copies apart: one number, one content.
"""

from dataclasses import dataclass, fields
from itertools import count
from typing import NamedTuple

from sim.arrays import BoolArray, FloatArray, IntArray, RowArray, read_only
from sim.handle import Handle
from sim.jit import kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.layout import NO_JOB, State
from sim.kernel.rooms import Rooms, set_most, set_usable
from sim.physics.mix_table import Slowing, put_tenant
from sim.physics.slowing import NO_COST, joining_cost
from sim.room_rules import (
    Asks,
    least_cost,
    leave_at,
    leave_cheapest,
    left_over,
    may_join,
    workers_for,
)


@dataclass(frozen=True, eq=False)
class Seats(Handle):
    """What a `State` says of who holds what: its own arrays, or copies."""

    job: RowArray  # (J,) JOB, of which only what they ask for is read
    gpu: RowArray  # (G,) GPU
    tenant: IntArray  # (G, C)
    server: RowArray  # (S,) SERVER
    rooms: Rooms
    partition: RowArray  # (M,) PARTITION


Seated = State | Seats  # members of one name are alike


def seats_of(state: State) -> Seats:
    """The state's own arrays."""
    return Seats(**{each.name: getattr(state, each.name) for each in fields(Seats)})


@kernel
def note_release(seats: Seated, partition: int) -> None:
    """GPUs of the partition became usable, or its servers others."""
    seats.partition[partition].releases += 1
    seats.partition[partition].version += 1


@kernel
def change_usable(seats: Seated, server: int, change: int) -> None:
    """So many GPUs more of a server are without a tenant; none is usable while it is away."""
    where = seats.server[server]
    if change != 0 and where.closed == 0:
        set_usable(seats.rooms, where.partition, server, seats.rooms.usable[server] + change)


@kernel
def occupy(seats: Seated, job: int, gpus: IntArray) -> None:
    """Make `job` the last tenant of `gpus`; each has room for one."""
    row, rows, rooms = seats.job[job], seats.gpu, seats.rooms
    server, change = rows[gpus[0]].server, 0
    for gpu in gpus:
        tenants = rows[gpu].tenants
        if rows[gpu].server != server:
            change_usable(seats, server, change)
            server, change = rows[gpu].server, 0
        if tenants == 0:
            rooms.gpu[gpu] = False
            change -= 1
        seats.tenant[gpu, tenants] = job
        rows[gpu].tenants = tenants + 1
        rows[gpu].version += 1
        rows[gpu].milli += row.gpu_milli
        seats.server[server].version += 1
        seats.server[server].cpu_free_milli -= row.cpu_milli
        seats.server[server].memory_free_mib -= row.memory_mib
    change_usable(seats, server, change)
    seats.partition[seats.server[server].partition].version += 1


@kernel
def vacate(seats: Seated, job: int, gpus: IntArray) -> None:
    """Take `job` off `gpus`, on each of which it is."""
    row, rows, rooms = seats.job[job], seats.gpu, seats.rooms
    server, change = rows[gpus[0]].server, 0
    for gpu in gpus:
        last = rows[gpu].tenants - 1
        if rows[gpu].server != server:
            change_usable(seats, server, change)
            server, change = rows[gpu].server, 0
        found = False
        for k in range(last):  # the others keep their order: sums over tenants stay the same
            found = found or seats.tenant[gpu, k] == job
            if found:
                seats.tenant[gpu, k] = seats.tenant[gpu, k + 1]
        seats.tenant[gpu, last] = NO_JOB
        rows[gpu].tenants = last
        rows[gpu].version += 1
        rows[gpu].milli -= row.gpu_milli
        seats.server[server].version += 1
        seats.server[server].cpu_free_milli += row.cpu_milli
        seats.server[server].memory_free_mib += row.memory_mib
        if last == 0:
            rooms.gpu[gpu] = seats.server[server].closed == 0
            change += 1
    change_usable(seats, server, change)
    note_release(seats, seats.server[server].partition)


@kernel
def workers_on(seats: Seated, ask: Asks, server: int, empty: bool) -> int:
    """Workers that a server could take, were its GPUs empty; 0 while it is away.

    With `empty` its cores and memory are, too.
    """
    where = seats.server[server]
    if where.closed > 0:
        return 0
    size = where.last_gpu - where.first_gpu
    cpu_milli = where.cpu_milli if empty else where.cpu_free_milli
    memory_mib = where.memory_mib if empty else where.memory_free_mib
    return workers_for(ask, size, where.gpu_type, cpu_milli, memory_mib)


@kernel
def parts_on(
    seats: Seated, ask: Asks, server: int, tight: bool, usable: BoolArray, cost: FloatArray
) -> int:
    """Mark the GPUs of a server on which a job finds what it asks for; how many.

    `cost` is what would be left over. No more are marked than workers have cores and memory there.
    """
    where, most_tenants, found = seats.server[server], seats.tenant.shape[1], 0
    workers = workers_on(seats, ask, server, False)
    for gpu in range(where.first_gpu, where.last_gpu):
        row, left = seats.gpu[gpu], NO_COST
        if workers > 0:
            left = left_over(row.tenants, most_tenants, row.milli, ask.gpu_milli, tight)
        usable[gpu] = left < NO_COST
        cost[gpu] = left
        found += left < NO_COST
    return leave_cheapest(usable, cost, where.first_gpu, where.last_gpu, found, workers)


@kernel
def gather_tenants(seats: Seated, ask: Asks, gpu: int, tenants: IntArray) -> int:
    """Fill the tenants with the tenants of a GPU and a newcomer after them; where it stands."""
    count = seats.gpu[gpu].tenants
    for k in range(count):
        other = seats.job[seats.tenant[gpu, k]]
        put_tenant(tenants, k, other.profile, other.gpu_milli)
    put_tenant(tenants, count, ask.profile, ask.gpu_milli)
    return int(count)


@kernel
def sharing_cost(
    seats: Seated,
    ask: Asks,
    gpu: int,
    slowing: Slowing,
    feasible: BoolArray,  # (T, P, P)
    tenants: IntArray,  # scratch
    limit_milli: int,
    least_speed: float,
) -> float:
    """What a GPU that may have tenants costs a newcomer (`joining_cost`); NO_COST: no room."""
    row = seats.gpu[gpu]
    if row.tenants == 0 and ask.gpu_milli <= WHOLE_GPU_MILLI:
        return 1.0
    if not may_join(row.tenants, seats.tenant.shape[1], row.milli, ask.gpu_milli, limit_milli):
        return NO_COST
    last, kind = gather_tenants(seats, ask, gpu, tenants), seats.server[row.server].type
    return float(joining_cost(slowing, feasible, kind, tenants, last, least_speed))


@kernel
def count_workers(seats: Seats, job: int, now: IntArray, most: IntArray) -> None:
    """Write `workers_on` each server of `job`, as it is and were it empty."""
    for server in range(len(most)):
        now[server] = workers_on(seats, seats.job[job], server, False)
        most[server] = workers_on(seats, seats.job[job], server, True)


@kernel
def offer_parts(
    seats: Seats,
    job: int,
    servers: IntArray,
    tight: bool,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Mark the GPUs of `servers` on which `job` finds what it asks for (`parts_on`)."""
    for server in servers:
        per_server[server] = parts_on(seats, seats.job[job], server, tight, usable, cost)


@kernel
def leave_tightest(seats: Seated, servers: IntArray, usable: BoolArray, cost: FloatArray) -> None:
    """Leave the cheapest of the usable GPUs of `servers`, all of them on ties."""
    least = NO_COST
    for server in servers:
        where = seats.server[server]
        least = min(least, least_cost(usable, cost, where.first_gpu, where.last_gpu))
    for server in servers:
        where = seats.server[server]
        leave_at(usable, cost, where.first_gpu, where.last_gpu, least)


@kernel
def offer_shared(
    seats: Seats,
    job: int,
    servers: IntArray,
    slowing: Slowing,
    feasible: BoolArray,
    tenants: IntArray,
    limit_milli: int,
    least_speed: float,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Mark the GPUs of `servers` that have room for `job`, with `sharing_cost`."""
    ask, least = seats.job[job], least_speed
    for server in servers:
        where, found, most = seats.server[server], 0, workers_on(seats, ask, server, False)
        first, last = where.first_gpu, where.last_gpu if most > 0 else where.first_gpu
        for gpu in range(first, last):
            price = sharing_cost(seats, ask, gpu, slowing, feasible, tenants, limit_milli, least)
            if price < NO_COST:
                usable[gpu] = True
                cost[gpu] = price
                found += 1
        per_server[server] = leave_cheapest(usable, cost, first, last, found, most)


@kernel
def _bring(mine: Seats, theirs: Seats) -> None:
    """Have `mine` say what `theirs` says; servers of one version are alike."""
    for server in range(len(mine.server)):
        here, there = mine.server[server], theirs.server[server]
        if here.version == there.version and here.closed == there.closed:
            continue
        here.version, here.closed = there.version, there.closed
        here.cpu_free_milli, here.memory_free_mib = there.cpu_free_milli, there.memory_free_mib
        for gpu in range(here.first_gpu, here.last_gpu):
            mine.gpu[gpu].tenants = theirs.gpu[gpu].tenants
            mine.gpu[gpu].milli = theirs.gpu[gpu].milli
            mine.rooms.gpu[gpu] = theirs.rooms.gpu[gpu]
            for k in range(mine.tenant.shape[1]):
                mine.tenant[gpu, k] = theirs.tenant[gpu, k]
        set_most(mine.rooms, here.partition, server, theirs.rooms.most[server])
        set_usable(mine.rooms, here.partition, server, theirs.rooms.usable[server])


ALL_WELL = -1


@kernel
def _mark(seats: Seats, gpus: IntArray, version: int) -> None:
    for gpu in gpus:
        seats.server[seats.gpu[gpu].server].version = version


@kernel
def try_occupying(seats: Seats, job: int, gpus: IntArray, version: int) -> int:
    """`occupy` in a copy; i if `gpus[i]` is none, has no room or is named twice, else ALL_WELL.

    Its servers get `version`, which no other content may have; they are as they were if it fails.
    """
    for i, gpu in enumerate(gpus):
        if not 0 <= gpu < len(seats.gpu) or seats.gpu[gpu].version == version:
            return i
        if seats.gpu[gpu].tenants >= seats.tenant.shape[1]:
            return i
        seats.gpu[gpu].version = version
    if len(gpus) > 0:
        occupy(seats, job, gpus)
        _mark(seats, gpus, version)
    return ALL_WELL


@kernel
def try_vacating(seats: Seats, job: int, gpus: IntArray, version: int) -> int:
    """The same of `vacate`: i if `gpus[i]` is none, is named twice, or the job is not on it."""
    for i, gpu in enumerate(gpus):
        found = False
        if 0 <= gpu < len(seats.gpu) and seats.gpu[gpu].version != version:
            for k in range(seats.gpu[gpu].tenants):
                found = found or seats.tenant[gpu, k] == job
        if not found:
            return i
        seats.gpu[gpu].version = version
    if len(gpus) > 0:
        vacate(seats, job, gpus)
        _mark(seats, gpus, version)
    return ALL_WELL


@kernel
def vacate_all(seats: Seats, jobs: IntArray, gpus: IntArray, last: IntArray, stamp: int) -> int:
    """The same of several jobs, those of `jobs[i]` up to `last[i]` in `gpus`; i if it fails."""
    first = 0
    for i in range(len(jobs)):
        if try_vacating(seats, jobs[i], gpus[first : last[i]], stamp + 2 * i) != ALL_WELL:
            return i
        first = last[i]
    return ALL_WELL


@kernel
def bar(seats: Seats, gpus: IntArray, version: int) -> None:
    """Nobody finds room on these GPUs of a copy any more."""
    for gpu in gpus:
        if seats.rooms.gpu[gpu]:
            seats.rooms.gpu[gpu] = False
            change_usable(seats, seats.gpu[gpu].server, -1)
        seats.gpu[gpu].tenants = seats.tenant.shape[1]
    _mark(seats, gpus, version)


FIRST_COPIED, APART = 2**40, 2**20  # versions in copies: beyond those of a run, a block an act


class Copied(NamedTuple):
    """A copy, and columns of it: a field of a record array costs as much as a short copy."""

    seats: Seats
    tenants: IntArray  # (G,)
    most: IntArray  # (S,) GPUs that each server could give were it empty; read-only


class Spares:
    """Copies of what one state says of who holds what, made once and used again and again."""

    def __init__(self, state: State) -> None:
        """Nothing is copied before somebody asks."""
        self._seats = seats_of(state)
        self.spare: list[Copied] = []  # that nobody looks at
        self.versions = count(FIRST_COPIED, APART)  # that no server of the state or a copy has

    def taken(self, like: Seats | None = None) -> Copied:
        """A copy of `like`, or of the state as it stands; to be given back."""
        source = self._seats if like is None else like
        if not self.spare:
            seats = source.copied(shared=("job",))
            return Copied(seats, seats.gpu["tenants"], read_only(seats.rooms.most))
        copy = self.spare.pop()
        _bring(copy.seats, source)
        return copy

    def forget(self) -> None:
        """What was copied is void: the state is another's by now."""
        for copy in self.spare:
            copy.seats.server["version"] = -1  # that no server has
