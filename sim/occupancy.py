"""A scheduler's scratch copy of who holds what, for trying several starts in one decision."""

import numpy as np
from numba import njit

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView


@njit(cache=True)
def _offer(
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


@njit(cache=True)
def _offer_shared(
    tenants: IntArray,
    tenant: IntArray,
    server_first_gpu: IntArray,
    servers: IntArray,
    server_type: IntArray,
    profile_of: IntArray,
    profile: int,
    slowdown: FloatArray,
    feasible: BoolArray,
    least_speed: float,
    usable: BoolArray,
    per_server: IntArray,
    cost: FloatArray,
) -> None:
    """Mark GPUs of `servers` that may take one more tenant, with self x worst victim slow-down.

    A GPU with tenants counts only if all of them together are faster than `least_speed`.
    """
    for server in servers:
        kind = server_type[server]
        count = 0
        for gpu in range(server_first_gpu[server], server_first_gpu[server + 1]):
            if tenants[gpu] >= tenant.shape[1]:
                continue
            own, victim, speed, fits = 1.0, 1.0, 0.0, True
            for k in range(tenants[gpu]):
                other = profile_of[tenant[gpu, k]]
                fits = fits and feasible[kind, profile, other]
                own += slowdown[kind, profile, other] - 1.0
                victim = max(victim, slowdown[kind, other, profile])
                speed += 1.0 / slowdown[kind, other, profile]
            if fits and (tenants[gpu] == 0 or speed + 1.0 / own > least_speed):
                usable[gpu] = True
                cost[gpu] = own * victim
                count += 1
        per_server[server] = count


@njit(cache=True)
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
        """Copy the cluster's tenants."""
        self._view = view
        self.tenants = view.tenants.copy()
        self.tenant = view.tenant.copy()

    def take(self, job: int, gpus: IntArray) -> None:
        """Book `job` on `gpus`."""
        self.tenant[gpus, self.tenants[gpus]] = job
        self.tenants[gpus] += 1

    def release(self, job: int, gpus: IntArray) -> None:
        """Free `gpus` of `job`."""
        _release(self.tenants, self.tenant, job, gpus)

    def copy(self) -> "Occupancy":
        """A scratch copy of the scratch copy."""
        twin = Occupancy.__new__(Occupancy)
        twin._view = self._view
        twin.tenants = self.tenants.copy()
        twin.tenant = self.tenant.copy()
        return twin

    def _blank(self) -> tuple[BoolArray, IntArray, FloatArray]:
        topology = self._view.topology
        return (
            np.zeros(topology.num_gpus, dtype=np.bool_),
            np.zeros(topology.num_servers, dtype=np.int64),
            np.ones(topology.num_gpus),
        )

    def _slots(self, view: ClusterView, u: BoolArray, n: IntArray, cost: FloatArray) -> Slots:
        return Slots(
            topology=view.topology,
            servers=view.servers,
            usable=u,
            usable_per_server=n,
            tenants=self.tenants,
            cost=cost,
        )

    def exclusive(self, view: ClusterView) -> Slots:
        """Empty GPUs of the servers that `view` owns."""
        usable, per_server, cost = self._blank()
        first = view.topology.server_first_gpu
        _offer(self.tenants, first, view.servers, usable, per_server)
        return self._slots(view, usable, per_server, cost)

    def shared(self, view: ClusterView, job: int, least_speed: float) -> Slots:
        """GPUs of the owned servers with room for one more tenant beside which `job` fits.

        A shared GPU is offered only if its tenants, `job` included, are together predicted to run
        faster than `least_speed` jobs alone (1 is what taking turns would give). Needs PROFILE and
        INTERFERENCE: what fits and what it costs is the belief's answer.
        """
        usable, per_server, cost = self._blank()
        pairs = view.belief.pairs
        profile = view.jobs.profile
        _offer_shared(
            self.tenants, self.tenant, view.topology.server_first_gpu, view.servers,
            view.server_type, profile, profile[job], pairs.slowdown, pairs.feasible, least_speed,
            usable, per_server, cost,
        )  # fmt: skip
        return self._slots(view, usable, per_server, cost)


SHARING_NEEDS = Signal.PROFILE | Signal.INTERFERENCE
ANY_SPEED = 0.0  # `least_speed` that every pair exceeds
