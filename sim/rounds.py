"""Round-based schedulers: GPUs are given out anew at every round, and kept in between."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.errors import GpuYardError
from sim.occupancy import Occupancy
from sim.protocols import Placer
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView

ROUNDING_S = 1e-6  # a wake-up that falls this little before a boundary counts as on it


class Share(NamedTuple):
    """What one job is to have for a round."""

    job: int
    gpus: int
    gpu_type: int | None = None  # row of `Topology.gpu_types`; None: any


class RoundScheduler(ABC):
    """Every `round_s`, `allot` says which jobs get how many GPUs; the others are preempted.

    A running job that is to keep its number of GPUs, on the type it has, keeps its very GPUs.
    Jobs are placed on empty GPUs in the order of the list; whoever finds no place waits. Between
    rounds nobody is preempted: jobs of `newcomers` start on what is free. Rounds begin at
    multiples of `round_s`, or when a job comes after the next one was due.
    """

    order_name: str
    order_needs: Signal
    one_queue = True  # it owns the whole cluster

    def __init__(self, *, placer: Placer, round_s: float) -> None:
        """`round_s`: seconds between redistributions.

        Raises:
            GpuYardError: it is not above 0.
        """
        if not 0 < round_s < float("inf"):
            raise GpuYardError(f"scheduler.round_s is {round_s}; it must be above 0")
        self.placer = placer
        self.round_s = round_s
        self.needs = self.order_needs | placer.needs
        self._rng = np.random.default_rng(0)
        self._due_s = -np.inf

    @property
    def name(self) -> str:
        """`order+placer`."""
        return f"{self.order_name}+{self.placer.name}"

    def reset(self, seed: int) -> None:
        """Begin with a round at the first job."""
        self._rng = np.random.default_rng(seed)
        self._due_s = -np.inf

    @abstractmethod
    def allot(self, view: ClusterView) -> list[Share]:
        """Who gets how many GPUs in the round that begins, most important first."""

    def newcomers(self, view: ClusterView) -> list[Share]:
        """Who may start between rounds, in this order: here every waiting job, its whole gang."""
        return [Share(job, int(view.jobs.num_gpus[job])) for job in view.queued.tolist()]

    def decide(self, view: ClusterView) -> Decision:
        """A new distribution where a round is due, else what fits beside it."""
        if view.now_s >= self._due_s - ROUNDING_S:
            self._due_s = (np.floor((view.now_s + ROUNDING_S) / self.round_s) + 1) * self.round_s
            preempts, starts = self._redistribute(view, self.allot(view))
        else:
            preempts, starts = [], self._placed(view, Occupancy(view), self.newcomers(view))
        return Decision(starts=tuple(starts), preempts=tuple(preempts), wake_s=float(self._due_s))

    def _redistribute(
        self, view: ClusterView, shares: Sequence[Share]
    ) -> tuple[list[int], list[Start]]:
        occupancy = Occupancy(view)
        wanted = {share.job: share for share in shares if share.gpus > 0}
        preempts = [
            job for job in view.running.tolist()
            if job not in wanted or not stays(view, wanted[job])
        ]  # fmt: skip
        for job in preempts:
            occupancy.release(job, view.gpus_of(job))
        keeps = set(view.running.tolist()) - set(preempts)
        moves = [share for share in wanted.values() if share.job not in keeps]
        return preempts, self._placed(view, occupancy, moves)

    def _placed(
        self, view: ClusterView, occupancy: Occupancy, shares: Sequence[Share]
    ) -> list[Start]:
        """Start who finds a place, in order, booking it in `occupancy`."""
        starts = []
        for share in shares:
            slots = of_type(occupancy.exclusive(view, share.job), share.gpu_type)
            gpus = self.placer.place(share.gpus, slots, self._rng)
            if gpus is not None:
                occupancy.take(share.job, gpus)
                starts.append(Start(share.job, gpus))
        return starts


def stays(view: ClusterView, share: Share) -> bool:
    """Whether a running job already has its share."""
    gpus = view.gpus_of(share.job)
    if len(gpus) != share.gpus:
        return False
    types = view.topology.server_gpu_type[view.topology.gpu_server[gpus]]
    return share.gpu_type is None or bool((types == share.gpu_type).all())


def of_type(slots: Slots, gpu_type: int | None) -> Slots:
    """The slots on servers with that type of GPU."""
    if gpu_type is None:
        return slots
    topology = slots.topology
    server: IntArray = topology.server_gpu_type == gpu_type
    return Slots(
        **{
            **vars(slots),
            "servers": slots.servers[server[slots.servers]],
            "usable": slots.usable & server[topology.gpu_server],
            "usable_per_server": np.where(server, slots.usable_per_server, 0),
        }
    )
