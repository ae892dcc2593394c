"""Who gives way to a waiting job whose turn has come."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.engine.occupancy import Occupancy
from sim.gandiva.orders import Orders
from sim.placing.affinity import Affinity
from sim.placing.filling import fill_servers


class Room(NamedTuple):
    """GPUs for a job, and who must leave for it."""

    gpus: IntArray
    leavers: list[int]


class Turns:
    """Running jobs in the order in which they give way: the longest on their GPUs first.

    A gang takes over the GPUs of one of its own size where there is one, so a turn passes from
    place to place unchanged. Else a server is cleared for it as far as needed, the one with most
    empty GPUs first. A gang that no server can take whole has as many leave as it needs. Jobs that
    start in this decision, or are still restarting, give way to nobody.
    """

    def __init__(
        self,
        orders: Orders,
        since_s: Mapping[int, float],
        affinity: Affinity,
        rng: np.random.Generator,
    ) -> None:
        """`since_s`: when each running job got its GPUs."""
        self._orders, self._affinity, self._rng = orders, affinity, rng
        view = orders.view
        worked = [job for job in orders.untouched() if view.jobs.resume_s[job] < view.now_s]
        self._order = sorted(worked, key=lambda job: (since_s[job], job))
        self._of_gang: dict[int, list[int]] = defaultdict(list)
        self._on_server: dict[int, list[int]] = defaultdict(list)
        self._may_leave = np.zeros(len(view.jobs.num_gpus) + 1, dtype=np.bool_)
        self._may_leave[self._order] = True
        self._may_leave[-1] = True  # nobody (-1) is in nobody's way
        for job in self._order:
            self._of_gang[int(view.jobs.num_gpus[job])].append(job)
            for server in set(view.topology.gpu_server[view.gpus_of(job)].tolist()):
                self._on_server[server].append(job)

    def give_way(self, job: int) -> Room | None:
        """Room for `job`, booked nowhere yet; None if nobody's leaving would let it in."""
        gang = int(self._orders.view.jobs.num_gpus[job])
        for find in (self._swap, self._cleared_server, self._as_many_as_needed):
            room = find(job, gang)
            if room is not None:
                return room
        return None

    def left(self, job: int) -> None:
        """`job` gives its GPUs up."""
        self._may_leave[job] = False

    def _swap(self, job: int, gang: int) -> Room | None:
        view, occupancy = self._orders.view, self._orders.occupancy
        for holder in self._of_gang[gang]:
            if not self._may_leave[holder]:
                continue
            gpus = view.gpus_of(holder)
            there = np.unique(occupancy.tenant[gpus])
            there = there[there >= 0]
            for leavers in ([holder], there.tolist()):
                if not self._may_leave[leavers].all():
                    continue
                trial = self._without(leavers)
                if trial.exclusive(view, job).usable[gpus].all():
                    return Room(gpus.copy(), leavers)
        return None

    def _cleared_server(self, job: int, gang: int) -> Room | None:
        view, occupancy = self._orders.view, self._orders.occupancy
        server = view.topology.gpu_server
        number = view.topology.num_servers
        clearable = self._may_leave[occupancy.tenant].all(axis=1)
        most = np.bincount(server[clearable], minlength=number)
        empty = np.bincount(server[occupancy.tenants == 0], minlength=number)
        for chosen in np.argsort(-empty, kind="stable").tolist():
            if most[chosen] < gang:
                continue
            trial, leavers = occupancy.copy(), []
            for holder in self._on_server[chosen]:
                if not self._may_leave[holder]:
                    continue
                trial.release(holder, view.gpus_of(holder))
                leavers.append(holder)
                slots = trial.exclusive(view, job)
                if slots.usable_per_server[chosen] >= gang:
                    gpus = fill_servers(
                        np.array([chosen]), np.array([gang]), view.topology.server_first_gpu,
                        slots.usable, slots.tenants, gang,
                    )  # fmt: skip
                    return Room(gpus, self._in_the_way(leavers, gpus))
        return None

    def _as_many_as_needed(self, job: int, gang: int) -> Room | None:
        view = self._orders.view
        trial, leavers = self._orders.occupancy.copy(), []
        slots = trial.exclusive(view, job)
        if slots.most_per_server.max() >= gang:
            return None  # it waits for a server rather than spread at the cost of others
        for holder in self._order:
            if not self._may_leave[holder]:
                continue
            trial.release(holder, view.gpus_of(holder))
            leavers.append(holder)
            gpus = self._affinity.place(gang, trial.exclusive(view, job), self._rng)
            if gpus is not None:
                return Room(gpus, self._in_the_way(leavers, gpus))
        return None

    def _without(self, leavers: list[int]) -> Occupancy:
        trial = self._orders.occupancy.copy()
        for job in leavers:
            trial.release(job, self._orders.view.gpus_of(job))
        return trial

    def _in_the_way(self, leavers: list[int], gpus: IntArray) -> list[int]:
        """Those of `leavers` on these GPUs; all of them where cores and memory count too."""
        view = self._orders.view
        if view.jobs.demands is not None:
            return leavers
        taken = set(gpus.tolist())
        return [job for job in leavers if not taken.isdisjoint(view.gpus_of(job).tolist())]
