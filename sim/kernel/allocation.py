"""Who holds what: the only code that changes it.

The kernel acts so on the state of a run, and whoever tries something out on copies of the arrays
that say who holds what (`Allocation`). A server's `version` tells copies apart: one number, one
content.
"""

from dataclasses import dataclass, fields
from itertools import count
from typing import NamedTuple

from sim.arrays import BoolArray, FloatArray, IntArray, RowArray, read_only
from sim.handle import Handle
from sim.jit import kernel
from sim.jobs import WHOLE_GPU_MILLI
from sim.kernel.free_gpus import (
    Asks,
    FreeGpus,
    least_cost,
    leave_at,
    leave_cheapest,
    left_over,
    may_join,
    set_most,
    set_usable,
    workers_for,
)
from sim.kernel.layout import NO_JOB, State
from sim.physics.laws import NO_COST, joining_cost
from sim.physics.mix_table import Slowing, put_tenant


@dataclass(frozen=True, eq=False)
class Allocation(Handle):
    """What a `State` says of who holds what: its own arrays, or copies."""

    job: RowArray  # (J,) JOB, of which only what they ask for is read
    gpu: RowArray  # (G,) GPU
    tenant: IntArray  # (G, C)
    server: RowArray  # (S,) SERVER
    free_gpus: FreeGpus
    partition: RowArray  # (M,) PARTITION


Seated = State | Allocation  # members of one name are alike


def allocation_of(state: Seated) -> Allocation:
    """The state's own arrays."""
    return Allocation(**{each.name: getattr(state, each.name) for each in fields(Allocation)})


@kernel
def note_release(allocation: Seated, partition: int) -> None:
    """GPUs of the partition became usable, or its servers others."""
    allocation.partition[partition].releases += 1
    allocation.partition[partition].version += 1


@kernel
def change_usable(allocation: Seated, server: int, change: int) -> None:
    """So many GPUs more of a server are without a tenant; none is usable while it is away."""
    where = allocation.server[server]
    if change != 0 and where.closed == 0:
        set_usable(
            allocation.free_gpus, where.partition, server,
            allocation.free_gpus.usable[server] + change,
        )  # fmt: skip


@kernel
def occupy(allocation: Seated, job: int, gpus: IntArray) -> None:
    """Make `job` the last tenant of `gpus`; each has room for one."""
    row, rows, free_gpus = allocation.job[job], allocation.gpu, allocation.free_gpus
    server, change = rows[gpus[0]].server, 0
    for gpu in gpus:  # GPUs of a server mostly stand together: its tally is written once
        tenants = rows[gpu].tenants
        if rows[gpu].server != server:
            change_usable(allocation, server, change)
            server, change = rows[gpu].server, 0
        if tenants == 0:
            free_gpus.gpu[gpu] = False
            change -= 1
        allocation.tenant[gpu, tenants] = job
        rows[gpu].tenants = tenants + 1
        rows[gpu].version += 1
        rows[gpu].milli += row.gpu_milli
        allocation.server[server].version += 1
        allocation.server[server].cpu_free_milli -= row.cpu_milli
        allocation.server[server].memory_free_mib -= row.memory_mib
    change_usable(allocation, server, change)
    allocation.partition[allocation.server[server].partition].version += 1


@kernel
def vacate(allocation: Seated, job: int, gpus: IntArray) -> None:
    """Take `job` off `gpus`, on each of which it is."""
    row, rows, free_gpus = allocation.job[job], allocation.gpu, allocation.free_gpus
    server, change = rows[gpus[0]].server, 0
    for gpu in gpus:  # as in `occupy`, one change of the tally for a server's GPUs
        last = rows[gpu].tenants - 1
        if rows[gpu].server != server:
            change_usable(allocation, server, change)
            server, change = rows[gpu].server, 0
        found = False
        for k in range(last):  # the others keep their order: sums over tenants stay the same
            found = found or allocation.tenant[gpu, k] == job
            if found:
                allocation.tenant[gpu, k] = allocation.tenant[gpu, k + 1]
        allocation.tenant[gpu, last] = NO_JOB
        rows[gpu].tenants = last
        rows[gpu].version += 1
        rows[gpu].milli -= row.gpu_milli
        allocation.server[server].version += 1
        allocation.server[server].cpu_free_milli += row.cpu_milli
        allocation.server[server].memory_free_mib += row.memory_mib
        if last == 0:
            free_gpus.gpu[gpu] = allocation.server[server].closed == 0
            change += 1
    change_usable(allocation, server, change)
    note_release(allocation, allocation.server[server].partition)


@kernel
def workers_on(allocation: Seated, ask: Asks, server: int, empty: bool) -> int:
    """Workers that a server could take, were its GPUs empty; 0 while it is away.

    With `empty` its cores and memory are, too.
    """
    where = allocation.server[server]
    if where.closed > 0:
        return 0
    size = where.last_gpu - where.first_gpu
    cpu_milli = where.cpu_milli if empty else where.cpu_free_milli
    memory_mib = where.memory_mib if empty else where.memory_free_mib
    return workers_for(ask, size, where.gpu_type, cpu_milli, memory_mib)


@kernel
def parts_on(
    allocation: Seated, ask: Asks, server: int, tight: bool, usable: BoolArray, cost: FloatArray
) -> int:
    """Mark the GPUs of a server on which a job finds what it asks for; how many.

    `cost` is what would be left over. No more are marked than workers have cores and memory there.
    """
    where, most_tenants, found = allocation.server[server], allocation.tenant.shape[1], 0
    workers = workers_on(allocation, ask, server, False)
    for gpu in range(where.first_gpu, where.last_gpu):  # all: marks of the last offer are void
        row, left = allocation.gpu[gpu], NO_COST
        if workers > 0:
            left = left_over(row.tenants, most_tenants, row.milli, ask.gpu_milli, tight)
        usable[gpu] = left < NO_COST
        cost[gpu] = left
        found += left < NO_COST
    return leave_cheapest(usable, cost, where.first_gpu, where.last_gpu, found, workers)


@kernel
def parts_fit(allocation: Allocation, job: int, gpus: IntArray) -> bool:
    """Whether a job finds room on these very GPUs, cores and memory apart (`left_over`)."""
    most_tenants, ask_milli = allocation.tenant.shape[1], allocation.job[job].gpu_milli
    for gpu in gpus:
        row = allocation.gpu[gpu]
        if left_over(row.tenants, most_tenants, row.milli, ask_milli, False) >= NO_COST:
            return False
    return True


@kernel
def gather_tenants(allocation: Seated, ask: Asks, gpu: int, tenants: IntArray) -> int:
    """Fill the tenants with the tenants of a GPU and a newcomer after them; where it stands."""
    count = allocation.gpu[gpu].tenants
    for k in range(count):
        other = allocation.job[allocation.tenant[gpu, k]]
        put_tenant(tenants, k, other.profile, other.gpu_milli)
    put_tenant(tenants, count, ask.profile, ask.gpu_milli)
    return int(count)


@kernel
def sharing_cost(
    allocation: Seated,
    ask: Asks,
    gpu: int,
    slowing: Slowing,
    feasible: BoolArray,  # (T, P, P)
    tenants: IntArray,  # scratch
    limit_milli: int,
    least_speed: float,
) -> float:
    """What a GPU that may have tenants costs a newcomer (`joining_cost`); NO_COST: no room."""
    row = allocation.gpu[gpu]
    if row.tenants == 0 and ask.gpu_milli <= WHOLE_GPU_MILLI:
        return 1.0
    if not may_join(row.tenants, allocation.tenant.shape[1], row.milli, ask.gpu_milli, limit_milli):
        return NO_COST
    last = gather_tenants(allocation, ask, gpu, tenants)
    gpu_type = allocation.server[row.server].type
    return float(joining_cost(slowing, feasible, gpu_type, tenants, last, least_speed))


@kernel
def count_workers(allocation: Allocation, job: int, now: IntArray, most: IntArray) -> None:
    """Write `workers_on` each server of `job`, as it is and were it empty."""
    for server in range(len(most)):
        now[server] = workers_on(allocation, allocation.job[job], server, False)
        most[server] = workers_on(allocation, allocation.job[job], server, True)


@kernel
def offer_parts(
    allocation: Allocation, job: int, servers: IntArray, tight: bool, usable: BoolArray,
    per_server: IntArray, cost: FloatArray,
) -> None:  # fmt: skip
    """Mark the GPUs of `servers` on which `job` finds what it asks for (`parts_on`)."""
    for server in servers:
        per_server[server] = parts_on(allocation, allocation.job[job], server, tight, usable, cost)


@kernel
def leave_tightest(
    allocation: Seated, servers: IntArray, usable: BoolArray, cost: FloatArray
) -> None:
    """Leave the cheapest of the usable GPUs of `servers`, all of them on ties."""
    least = NO_COST
    for server in servers:  # least of all servers: a part goes where it fits best anywhere
        where = allocation.server[server]
        least = min(least, least_cost(usable, cost, where.first_gpu, where.last_gpu))
    for server in servers:  # a second pass, for only now the least of all is known
        where = allocation.server[server]
        leave_at(usable, cost, where.first_gpu, where.last_gpu, least)


@kernel
def offer_shared(
    allocation: Allocation, job: int, servers: IntArray, slowing: Slowing, feasible: BoolArray,
    tenants: IntArray, limit_milli: int, least_speed: float, usable: BoolArray,
    per_server: IntArray, cost: FloatArray,
) -> None:  # fmt: skip
    """Mark the GPUs of `servers` that have room for `job`, the cheapest if workers have too little.

    `cost` is the `sharing_cost` of all of them.
    """
    ask, least = allocation.job[job], least_speed
    for server in servers:  # server by server: each has cores and memory for so many workers
        where, found, most = (
            allocation.server[server],
            0,
            workers_on(allocation, ask, server, False),
        )
        first, last = where.first_gpu, where.last_gpu if most > 0 else where.first_gpu
        for gpu in range(first, last):  # none where no worker fits: nothing is marked there yet
            price = sharing_cost(
                allocation, ask, gpu, slowing, feasible, tenants, limit_milli, least
            )
            usable[gpu] = price < NO_COST
            cost[gpu] = price
            found += price < NO_COST
        per_server[server] = leave_cheapest(usable, cost, first, last, found, most)


@kernel
def _bring(mine: Allocation, theirs: Allocation) -> None:
    """Have `mine` say what `theirs` says; servers of one version are alike."""
    for server in range(len(mine.server)):  # versions are compared, so that few are copied
        own, other = mine.server[server], theirs.server[server]
        if own.version == other.version and own.closed == other.closed:
            continue
        own.version, own.closed = other.version, other.closed
        own.cpu_free_milli, own.memory_free_mib = other.cpu_free_milli, other.memory_free_mib
        for gpu in range(own.first_gpu, own.last_gpu):  # all: a version tells of the whole server
            mine.gpu[gpu].tenants = theirs.gpu[gpu].tenants
            mine.gpu[gpu].milli = theirs.gpu[gpu].milli
            mine.free_gpus.gpu[gpu] = theirs.free_gpus.gpu[gpu]
            for k in range(mine.tenant.shape[1]):  # empty places, too: rows are shown as a whole
                mine.tenant[gpu, k] = theirs.tenant[gpu, k]
        set_most(mine.free_gpus, own.partition, server, theirs.free_gpus.most[server])
        set_usable(mine.free_gpus, own.partition, server, theirs.free_gpus.usable[server])


ALL_WELL = -1


@kernel
def _mark(allocation: Allocation, gpus: IntArray, version: int) -> None:
    for gpu in gpus:  # a server named again gets the same number, to no harm
        allocation.server[allocation.gpu[gpu].server].version = version


@kernel
def try_occupying(allocation: Allocation, job: int, gpus: IntArray, version: int) -> int:
    """`occupy` in a copy; i if `gpus[i]` is none, has no room or is named twice, else ALL_WELL.

    Its servers get `version`, which no other content may have; they are as they were if it fails.
    """
    for i, gpu in enumerate(gpus):  # all are checked before the first is taken
        if not 0 <= gpu < len(allocation.gpu) or allocation.gpu[gpu].version == version:
            return i
        if allocation.gpu[gpu].tenants >= allocation.tenant.shape[1]:
            return i
        allocation.gpu[gpu].version = version
    if len(gpus) > 0:
        occupy(allocation, job, gpus)
        _mark(allocation, gpus, version)
    return ALL_WELL


@kernel
def try_vacating(allocation: Allocation, job: int, gpus: IntArray, version: int) -> int:
    """The same of `vacate`: i if `gpus[i]` is none, is named twice, or the job is not on it."""
    for i, gpu in enumerate(gpus):  # all are checked before the first is left
        found = False
        if 0 <= gpu < len(allocation.gpu) and allocation.gpu[gpu].version != version:
            for k in range(allocation.gpu[gpu].tenants):  # tenants are by start: it may be anywhere
                found = found or allocation.tenant[gpu, k] == job
        if not found:
            return i
        allocation.gpu[gpu].version = version
    if len(gpus) > 0:
        vacate(allocation, job, gpus)
        _mark(allocation, gpus, version)
    return ALL_WELL


@kernel
def vacate_all(
    allocation: Allocation, jobs: IntArray, gpus: IntArray, last: IntArray, stamp: int
) -> int:
    """The same of several jobs, those of `jobs[i]` up to `last[i]` in `gpus`; i if it fails."""
    first = 0
    for i in range(len(jobs)):
        if try_vacating(allocation, jobs[i], gpus[first : last[i]], stamp + 2 * i) != ALL_WELL:
            return i
        first = last[i]
    return ALL_WELL


@kernel
def bar(allocation: Allocation, gpus: IntArray, version: int) -> None:
    """Nobody finds room on these GPUs of a copy any more."""
    for gpu in gpus:
        if allocation.free_gpus.gpu[gpu]:
            allocation.free_gpus.gpu[gpu] = False
            change_usable(allocation, allocation.gpu[gpu].server, -1)
        allocation.gpu[gpu].tenants = allocation.tenant.shape[1]
    _mark(allocation, gpus, version)


FIRST_COPIED, APART = 2**40, 2**20  # versions in copies: beyond those of a run, a block an act


class Copied(NamedTuple):
    """A copy, and columns of it: a field of a record array costs as much as a short copy."""

    allocation: Allocation
    tenants: IntArray  # (G,)
    most: IntArray  # (S,) GPUs that each server could give were it empty; read-only


class Spares:
    """Copies of what one state says of who holds what, made once and used again and again."""

    def __init__(self, state: Seated) -> None:
        """Nothing is copied before somebody asks."""
        self._allocation = allocation_of(state)
        self.spare: list[Copied] = []  # that nobody looks at
        self.versions = count(FIRST_COPIED, APART)  # that no server of the state or a copy has

    def taken(self, like: Allocation | None = None) -> Copied:
        """A copy of `like`, or of the state as it stands; to be given back."""
        source = self._allocation if like is None else like
        if not self.spare:
            allocation = source.copied(shared=("job",))
            return Copied(
                allocation, allocation.gpu["tenants"], read_only(allocation.free_gpus.most)
            )
        copy = self.spare.pop()
        _bring(copy.allocation, source)
        return copy

    def forget(self) -> None:
        """What was copied is void: the state is another's by now."""
        for copy in self.spare:
            copy.allocation.server["version"] = -1  # that no server has
