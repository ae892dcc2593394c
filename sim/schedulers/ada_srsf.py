"""Ada-SRSF: least predicted service first; jobs over several servers keep apart on NICs."""

from dataclasses import replace

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.decision import Start
from sim.engine.composed import ByWorkLeft
from sim.engine.occupancy import Occupancy
from sim.errors import check_numbers
from sim.protocols import Placer, Sharing
from sim.view import ClusterView, Signal, Slots

MOST_BESIDE = 1  # jobs that another may join on a NIC


class AdaSrsf(ByWorkLeft):
    """Least predicted service first, admitted to their NICs by AdaDUAL; runs are not preempted.

    Ada-SRSF of Wang, Shi, Wang and Chu (arXiv 2002.10105). Jobs start in order of predicted service
    left (work x gang), shortest first, ties by submission; its configuration composes the paper's
    placement, `lwf`.

    AdaDUAL admits all-reduce messages: one that is ready starts at once on an idle link; beside
    one other of M_old bytes left only if M_new / M_old < b / (2 (b + eta)), where k messages on a
    link take a + k b M + (k - 1) eta M each; beside two or more it waits. A simulator of whole jobs
    has no messages to hold back. Here its fluid likeness admits *jobs*: a job over several servers
    exchanges its gradient all the time, so it starts only where the NIC of each of its servers
    carries at most one other such job, and its gradient bytes over the other's stay below the
    paper's limit; else it is placed on the other servers, or waits. Bytes are those of the believed
    profiles (`sync_bytes`); a job that exchanges none is in nobody's way. Later jobs may pass one
    that waits. With `network=kway` runs are charged by the very law from which the limit follows.
    """

    order_name = "ada_srsf"
    order_needs = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE

    def __init__(
        self, *, placer: Placer, sharing: Sharing, skip_blocked: bool, eta_frac: float
    ) -> None:
        """`eta_frac`: eta / b, 0 or more, what contention adds beyond taking turns."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=skip_blocked)
        check_numbers("scheduler", "0 or more", eta_frac=eta_frac)
        self.eta_frac = eta_frac

    def fill(
        self, view: ClusterView, occupancy: Occupancy, order: IntArray, skip_blocked: bool
    ) -> list[Start]:
        """Start what fits and is admitted, in order, booking it in `occupancy`."""
        starts: list[Start] = []
        admitting = _Admitting(self.placer, view, _Nics(view, occupancy), 0.5 / (1 + self.eta_frac))
        may_refuse = self.patient is None and not self.sharing.shares
        refused: set[tuple[int, ...]] = set()
        for job in order.tolist():
            like = self.class_of(view, job)
            if like in refused:
                continue
            admitting.held_back = False
            gpus = self.sharing.place(view, occupancy, job, admitting, self.rng)
            if gpus is not None:
                occupancy.occupy(job, gpus)
                admitting.nics.enter(job, gpus)
                starts.append(Start(job, gpus))
            elif not skip_blocked:
                break
            elif may_refuse and not admitting.held_back:
                refused.add(like)  # too few GPUs; who is held back may be followed by its like
        return starts


class _Nics:
    """Who exchanges gradients over the NIC of each server, at some point of a decision."""

    def __init__(self, view: ClusterView, occupancy: Occupancy) -> None:
        servers = view.topology.num_servers
        self._server = view.topology.gpu_server
        self._bytes = view.belief.catalogue.sync_bytes
        self._profile = view.jobs.profile
        gpu, at = np.nonzero(occupancy.tenant >= 0)
        # Every job once on each of its servers; of those the jobs with several.
        pairs = np.unique(occupancy.tenant[gpu, at] * servers + self._server[gpu])
        job, server = np.divmod(pairs, servers)
        num_bytes = self._bytes[self._profile[job]]
        counts = (np.bincount(job)[job] > 1) & (num_bytes > 0)
        self.jobs = np.bincount(server[counts], minlength=servers)
        self.least_bytes = np.full(servers, np.inf)  # of those on each NIC
        np.minimum.at(self.least_bytes, server[counts], num_bytes[counts])

    def bytes_of(self, job: int) -> float:
        """What a job exchanges in an iteration."""
        return float(self._bytes[self._profile[job]])

    def enter(self, job: int, gpus: IntArray) -> None:
        """Book a job that starts."""
        servers, num_bytes = np.unique(self._server[gpus]), self.bytes_of(job)
        if len(servers) > 1 and num_bytes > 0:
            self.jobs[servers] += 1
            self.least_bytes[servers] = np.minimum(self.least_bytes[servers], num_bytes)

    def closed_to(self, job: int, limit: float) -> BoolArray:
        """(S,) servers whose NIC the job may not join."""
        num_bytes = self.bytes_of(job)
        if num_bytes == 0:
            return np.zeros(len(self.jobs), dtype=np.bool_)
        large = num_bytes >= limit * self.least_bytes
        return (self.jobs > MOST_BESIDE) | ((self.jobs > 0) & large)


class _Admitting:
    """A placer whose gangs over several servers keep off NICs that are closed to them."""

    def __init__(self, placer: Placer, view: ClusterView, nics: _Nics, limit: float) -> None:
        self.name, self.needs = placer.name, placer.needs
        self.chooses_parts = getattr(placer, "chooses_parts", False)
        self.nics = nics
        self.held_back = False  # whether a NIC was why the last job got nothing
        self._placer = placer
        self._server = view.topology.gpu_server
        self._limit = limit

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """The placer's choice if it is admitted, else its choice among the other servers."""
        gpus = self._placer.place(gang, slots, rng)
        if gpus is None:
            return None
        closed = self.nics.closed_to(slots.job, self._limit)
        if self._admits(gpus, closed):
            return gpus
        # A server that holds the whole gang needs no NIC.
        shut = closed & (slots.usable_per_server < gang)
        rest = replace(
            slots,
            usable=slots.usable & ~shut[self._server],
            usable_per_server=np.where(shut, 0, slots.usable_per_server),
        )
        gpus = self._placer.place(gang, rest, rng)
        if gpus is not None and self._admits(gpus, closed):
            return gpus
        self.held_back = True
        return None

    def _admits(self, gpus: IntArray, closed: BoolArray) -> bool:
        servers = self._server[gpus]
        return bool((servers == servers[0]).all() or not closed[servers].any())
