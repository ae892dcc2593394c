"""A scheduler's scratch copy of who holds what, for trying several starts in one decision."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.engine.demands_room import WHOLE_GPU, DemandsRoom, ask_of
from sim.jit import array_kernel, kernel
from sim.physics.mix_table import Slowing, empty_crowd, seat
from sim.physics.slowing import NO_COST, WHOLE, joining_cost
from sim.room_rules import has_seat, least_cost, leave_at, leave_cheapest, left_over
from sim.signals import Signal
from sim.slots import Slots
from sim.traits import WHOLE_GPU_MILLI
from sim.view import ClusterView


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


NO_PARTS: IntArray = np.zeros(0, dtype=np.int64)


@array_kernel
def _release(tenants: IntArray, tenant: IntArray, job: int, gpus: IntArray) -> None:
    for gpu in gpus:
        kept = 0
        for k in range(tenants[gpu]):
            if tenant[gpu, k] != job:
                tenant[gpu, kept] = tenant[gpu, k]
                kept += 1
        tenant[gpu, kept : tenants[gpu]] = -1
        tenants[gpu] = kept


class Occupancy:
    """Mutable copy of the tenants as of a view; a decision is planned on it, then returned."""

    def __init__(self, view: ClusterView) -> None:
        """Copy the cluster's tenants, and what else jobs ask for where any does."""
        self._view = view
        self.tenants = view.tenants.copy()
        self.tenant = view.tenant.copy()
        limited = view.gpu_limit_milli < WHOLE_GPU_MILLI * view.tenant.shape[1]
        asks = limited or view.jobs.demands is not None or bool(view.server_closed.any())
        self._room = DemandsRoom(view) if asks else None

    def take(self, job: int, gpus: IntArray) -> None:
        """Book `job` on `gpus`."""
        self.tenant[gpus, self.tenants[gpus]] = job
        self.tenants[gpus] += 1
        if self._room is not None:
            self._room.book(job, gpus, 1)

    def release(self, job: int, gpus: IntArray) -> None:
        """Free `gpus` of `job`."""
        _release(self.tenants, self.tenant, job, gpus)
        if self._room is not None:
            self._room.book(job, gpus, -1)

    def in_the_way(
        self, view: ClusterView, job: int, gpus: IntArray, victims: Sequence[int]
    ) -> list[int]:
        """Those of `victims` that have to give way if `job` is to have `gpus`.

        Who holds one of them; then, where its workers still lack cores or memory, others on these
        servers, in the order given.
        """
        trial, lost = self.copy(), set(gpus.tolist())
        losers = [victim for victim in victims if lost & set(view.gpus_of(victim).tolist())]
        for loser in losers:
            trial.release(loser, view.gpus_of(loser))
        if trial._room is None:
            return losers
        server_of, ask = view.topology.gpu_server, ask_of(view.jobs.demands, job)
        wanted = np.bincount(server_of[gpus], minlength=view.topology.num_servers)
        for victim in victims:
            held = view.gpus_of(victim)
            lacks = wanted > trial._room.workers(ask)
            if victim not in losers and lacks[server_of[held]].any():
                trial.release(victim, held)
                losers.append(victim)
        return losers

    def copy(self) -> "Occupancy":
        """A scratch copy of the scratch copy."""
        twin = Occupancy.__new__(Occupancy)
        twin._view = self._view
        twin.tenants = self.tenants.copy()
        twin.tenant = self.tenant.copy()
        twin._room = None if self._room is None else self._room.copy()
        return twin

    def _blank(self) -> tuple[BoolArray, IntArray, FloatArray]:
        topology = self._view.topology
        return (
            np.zeros(topology.num_gpus, dtype=np.bool_),
            np.zeros(topology.num_servers, dtype=np.int64),
            np.ones(topology.num_gpus),
        )

    def _slots(
        self, view: ClusterView, job: int, u: BoolArray, n: IntArray, cost: FloatArray
    ) -> Slots:
        """The GPUs marked, as far as the servers have room for workers of `job`."""
        most = view.topology.gpus_per_server
        if self._room is not None:
            ask = ask_of(view.jobs.demands, job)
            workers = self._room.workers(ask)
            limit_workers(workers, view.topology.server_first_gpu, view.servers, u, n, cost)
            most = self._room.most_workers(ask)
        return Slots(
            topology=view.topology,
            servers=view.servers,
            usable=u,
            usable_per_server=n,
            most_per_server=most,
            tenants=self.tenants,
            cost=cost,
            view=view,
            job=job,
        )

    def most_room(self, view: ClusterView, shares: bool) -> int:
        """A gang larger than this has no room on the servers that `view` owns, wherever it looks.

        GPUs without a tenant, or where jobs share or ask for parts with a place for one more.
        """
        most = self.tenant.shape[1] if shares or self._room is not None else 1
        owned = view.partition_of_server[view.topology.gpu_server] == view.partition
        room = self.tenants < most
        return int(np.count_nonzero(room if view.partition is None else room & owned))

    def exclusive(self, view: ClusterView, job: int) -> Slots:
        """GPUs of the servers that `view` owns on which `job` finds what it asks for.

        That is empty GPUs; a job that asks for part of a GPU may also join jobs that do, where
        their parts are together at most a GPU.
        """
        usable, per_server, cost = self._blank()
        if self._room is None:
            first = view.topology.server_first_gpu
            offer_empty(self.tenants, first, view.servers, usable, per_server)
            return self._slots(view, job, usable, per_server, cost)
        return self._parts(view, self._room, job, False)

    def tightest(self, view: ClusterView, job: int) -> Slots | None:
        """Of those GPUs the ones with tenants, for one worker those with least left over.

        None for jobs that ask for whole GPUs.
        """
        if self._room is None or ask_of(view.jobs.demands, job).gpu_milli >= WHOLE_GPU_MILLI:
            return None
        slots = self._parts(view, self._room, job, True)
        if view.jobs.num_gpus[job] == 1:
            first, count = view.topology.server_first_gpu, slots.usable_per_server
            offer_tightest(first, view.servers, slots.usable, count, slots.cost)
        # What is left over slows nobody.
        return Slots(**{**vars(slots), "cost": np.ones_like(slots.cost)})

    def _parts(self, view: ClusterView, room: DemandsRoom, job: int, tight: bool) -> Slots:
        usable, per_server, cost = self._blank()
        ask, most = ask_of(view.jobs.demands, job), self.tenant.shape[1]
        offer_parts(room.milli, self.tenants, most, ask.gpu_milli, tight, usable, cost)
        slots = self._slots(view, job, usable, per_server, cost)
        return slots if tight else Slots(**{**vars(slots), "cost": np.ones_like(cost)})

    def shared(self, view: ClusterView, job: int, least_speed: float) -> Slots:
        """GPUs of the owned servers with room for one more tenant beside which `job` fits.

        A shared GPU is offered only if its tenants, `job` included, are together predicted to run
        faster than `least_speed` jobs alone (1 is what taking turns would give). Needs PROFILE and
        INTERFERENCE: what fits and what it costs is the belief's answer.
        """
        usable, per_server, cost = self._blank()
        pairs, profile = view.belief.pairs, view.jobs.profile
        demands, room = view.jobs.demands, self._room
        ask = WHOLE_GPU if demands is None else ask_of(demands, job)
        offer_shared(
            self.tenants, self.tenant, view.topology.server_first_gpu, view.servers,
            view.server_type, profile, profile[job], view.belief.slowing, pairs.feasible,
            least_speed, NO_PARTS if demands is None else demands.gpu_milli,
            NO_PARTS if room is None else room.milli, ask.gpu_milli, view.gpu_limit_milli,
            empty_crowd(self.tenant.shape[1]), usable, per_server, cost,
        )  # fmt: skip
        return self._slots(view, job, usable, per_server, cost)


SHARING_NEEDS = Signal.PROFILE | Signal.INTERFERENCE
ANY_SPEED = 0.0  # `least_speed` that every pair exceeds
