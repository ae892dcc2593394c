"""A scheduler's scratch copy of who holds what, for trying several starts in one decision."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, read_only
from sim.errors import GpuYardError
from sim.jobs import WHOLE_GPU_MILLI, ask_of
from sim.kernel.allocation import (
    ALL_WELL,
    bar,
    count_workers,
    leave_tightest,
    offer_parts,
    offer_shared,
    parts_fit,
    try_occupying,
    try_vacating,
    vacate_all,
)
from sim.physics.laws import NO_COST
from sim.physics.mix_table import empty_tenants
from sim.view import ClusterView, Signal, Slots, held_in

SHARING_NEEDS = Signal.PROFILE | Signal.INTERFERENCE
ANY_SPEED = 0.0  # `least_speed` that every pair exceeds


class Occupancy:
    """Who holds what as of a view; a decision is planned on it, then returned.

    It is a copy of the state's `Allocation`, on which GPUs are taken and left as in a run. The
    arrays are used again by the next one, which brings up to date the servers that have changed.
    """

    def __init__(self, view: ClusterView) -> None:
        """As the state stands."""
        self._spares = view.spares
        self._copy = view.spares.taken()
        self._allocation = self._copy.allocation
        self._tenants: IntArray | None = None

    def __del__(self) -> None:
        """Leave the arrays to the next."""
        self._spares.spare.append(self._copy)

    def copy(self) -> "Occupancy":
        """A scratch copy of the scratch copy."""
        twin = Occupancy.__new__(Occupancy)
        twin._spares, twin._tenants = self._spares, self._tenants
        twin._copy = self._spares.taken(self._allocation)
        twin._allocation = twin._copy.allocation
        return twin

    def shown(self, view: ClusterView) -> ClusterView:
        """`view` with who holds what as it is here, for as long as this copy is kept."""
        held = held_in(self._allocation) | {"spares": view.spares}
        return ClusterView(**{**view.__dict__, **held})

    @property
    def tenant(self) -> IntArray:
        """(G, C) jobs on each GPU, NO_JOB behind the last; to be read only, and at once."""
        return self._allocation.tenant

    @property
    def tenants(self) -> IntArray:
        """(G,) how many."""
        if self._tenants is None:
            self._tenants = self._copy.tenants.copy()
        return self._tenants

    def occupy(self, job: int, gpus: IntArray) -> None:
        """Book `job` on `gpus`; GpuYardError where one of them is full, or there is no such GPU."""
        # A copy of what is given: of one type, whatever that is.
        wrong = try_occupying(self._allocation, job, np.array(gpus), next(self._spares.versions))
        if wrong != ALL_WELL:
            raise GpuYardError(f"job row {job} cannot be booked on GPU {gpus[wrong]}: no room")
        self._tenants = None

    def vacate(self, job: int, gpus: IntArray) -> None:
        """Free `gpus` of `job`; GpuYardError where it does not hold one of them."""
        wrong = try_vacating(self._allocation, job, np.array(gpus), next(self._spares.versions))
        if wrong != ALL_WELL:
            raise GpuYardError(f"job row {job} cannot leave GPU {gpus[wrong]}: it is not on it")
        self._tenants = None

    def vacate_all(self, held: Iterable[tuple[int, IntArray]]) -> None:
        """The same of several jobs, each with its GPUs."""
        if not (pairs := list(held)):
            return
        jobs, gpus = zip(*pairs, strict=True)
        last = np.array(list(accumulate(map(len, gpus))))
        every, versions = np.concatenate(gpus), self._spares.versions
        wrong = vacate_all(self._allocation, np.array(jobs), every, last, next(versions))
        if wrong != ALL_WELL:
            raise GpuYardError(f"job row {jobs[wrong]} cannot leave GPUs that it is not on")
        self._tenants = None

    def bar(self, gpus: IntArray) -> None:
        """Offer these GPUs to nobody any more."""
        bar(self._allocation, np.array(gpus), next(self._spares.versions))
        self._tenants = None

    def in_the_way(
        self, view: ClusterView, job: int, gpus: IntArray, victims: Sequence[int]
    ) -> list[int]:
        """Those of `victims` that have to give way if `job` is to have `gpus`.

        Who holds one of them; then, where its workers still lack cores or memory, others on these
        servers, in the order given.
        """
        trial, lost = self.copy(), set(gpus.tolist())
        blockers = [victim for victim in victims if lost & set(view.gpus_of(victim).tolist())]
        trial.vacate_all((blocker, view.gpus_of(blocker)) for blocker in blockers)
        if view.jobs.demands is None:
            return blockers
        server_of = view.topology.gpu_server
        for victim in victims:
            held = view.gpus_of(victim)
            lacks = trial._lacks(view, job, gpus)[server_of[held]]
            if victim not in blockers and lacks.any():
                trial.vacate(victim, held)
                blockers.append(victim)
        return blockers

    def workers(self, job: int) -> tuple[IntArray, IntArray]:
        """(S,) workers of `job` that each server could take now, were its GPUs empty, and at most.

        0 while it is away.
        """
        now, most = np.zeros((2, len(self._allocation.server)), dtype=np.int64)
        count_workers(self._allocation, job, now, most)
        return now, most

    def has_room(self, view: ClusterView, job: int, gpus: IntArray) -> bool:
        """Whether the servers of `gpus` have cores and memory for a worker of `job` on each."""
        return not self._lacks(view, job, gpus).any()

    def fits(self, view: ClusterView, job: int, gpus: IntArray) -> bool:
        """Whether `job` finds what it asks for on these very GPUs.

        `exclusive` offers the first ones alone where cores or memory do not go round.
        """
        return parts_fit(self._allocation, job, gpus) and self.has_room(view, job, gpus)

    def _lacks(self, view: ClusterView, job: int, gpus: IntArray) -> BoolArray:
        """(S,) where cores or memory do not suffice for a worker of `job` on each of `gpus`."""
        wanted = np.bincount(view.topology.gpu_server[gpus], minlength=view.topology.num_servers)
        return wanted > self.workers(job)[0]

    def exclusive(self, view: ClusterView, job: int) -> Slots:
        """GPUs of the servers that `view` owns on which `job` finds what it asks for.

        That is empty GPUs; a job that asks for part of a GPU may also join jobs that do, where
        their parts are together at most a GPU.
        """
        usable, per_server, cost = self._blank()
        if view.jobs.demands is None and view.partition is None:
            usable[:], per_server[:] = (
                self._allocation.free_gpus.gpu,
                self._allocation.free_gpus.usable,
            )
        else:
            offer_parts(self._allocation, job, view.servers, False, usable, per_server, cost)
        cost.fill(1.0)  # what is left over slows nobody
        return self._slots(view, job, usable, per_server, cost)

    def tightest(
        self, view: ClusterView, job: int, gang: int | None = None, on: BoolArray | None = None
    ) -> Slots | None:
        """Of those GPUs the ones with tenants, for one worker those with least left over.

        For `gang` workers, None: as it asks; on servers `on` (S,), None: any. None for whole GPUs.
        """
        if ask_of(view.jobs.demands, job).gpu_milli >= WHOLE_GPU_MILLI:
            return None
        usable, per_server, cost = self._blank()
        servers = view.servers if on is None else view.servers[on[view.servers]]
        offer_parts(self._allocation, job, servers, True, usable, per_server, cost)
        if (view.jobs.num_gpus[job] if gang is None else gang) == 1:
            leave_tightest(self._allocation, servers, usable, cost)
            left = view.topology.gpu_server[usable]
            per_server = np.bincount(left, minlength=len(per_server))
        cost.fill(1.0)
        return replace(self._slots(view, job, usable, per_server, cost), servers=servers)

    def shared(self, view: ClusterView, job: int, least_speed: float) -> Slots:
        """GPUs of the owned servers with room for one more tenant beside which `job` fits.

        A shared GPU is offered only if its tenants, `job` included, are together predicted to run
        faster than `least_speed` jobs alone (1 is what taking turns would give). Needs PROFILE and
        INTERFERENCE: what fits and what it costs is the belief's answer. `cost` also tells of GPUs
        that are not offered for want of cores or memory beside others; it is NO_COST elsewhere.
        """
        _ = view.jobs.profile  # raises where profiles are not granted
        belief, tenants = view.belief, empty_tenants(self.tenant.shape[1])
        usable, per_server, cost = self._blank()
        cost.fill(NO_COST)
        offer_shared(
            self._allocation, job, view.servers, belief.slowing, belief.pairs.feasible, tenants,
            view.gpu_limit_milli, float(least_speed), usable, per_server, cost,
        )  # fmt: skip
        return self._slots(view, job, usable, per_server, cost)

    def _blank(self) -> tuple[BoolArray, IntArray, FloatArray]:
        gpus, servers = len(self._allocation.gpu), len(self._allocation.server)
        return np.zeros(gpus, np.bool_), np.zeros(servers, np.int64), np.empty(gpus)

    def _slots(
        self, view: ClusterView, job: int, usable: BoolArray, per_server: IntArray, cost: FloatArray
    ) -> Slots:
        # A copy that may be written to, as the engine's own may: one type, compiled once.
        most = self._copy.most if view.jobs.demands is None else self.workers(job)[1]
        return Slots(
            topology=view.topology, servers=view.servers, usable=usable,
            usable_per_server=per_server, most_per_server=np.array(most), tenants=self.tenants,
            gpu_milli=read_only(self._allocation.gpu["milli"]), cost=cost, view=view, job=job,
        )  # fmt: skip
