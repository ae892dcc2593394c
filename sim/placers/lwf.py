"""Least workload first: small gangs to the GPUs with least work left, others to such servers."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.engine.codes import LWF
from sim.errors import GpuYardError
from sim.jit import array_kernel, kernel
from sim.signals import Signal
from sim.slots import Slots


class Lwf:
    """LWF-kappa of Wang, Shi, Wang and Chu (arXiv 2002.10105).

    The workload of a GPU is the predicted work left of the jobs on it. A gang of at most `kappa`
    takes the usable GPUs with least workload, wherever they are. A larger one fills servers in the
    order of their total workload, least first, so that it stays together; kappa = 1 was best there.

    Left open and chosen here: in the paper jobs share GPUs, and nearly every server has room.
    Where they do not, one with little work may have no room, so servers with room for the whole
    gang come before the others. Work left is predicted seconds at speed 1 (the paper adds expected
    communication to compute; a prediction here is of the whole job). Ties go to the lowest server
    and GPU; on a server the GPUs with least workload come first. A rule is not told who started or
    stopped on a GPU earlier in the same decision, only how many are on it: those that have come
    count the mean work left of waiting jobs, those that went their share of the GPU's. Never waits.
    """

    name = "lwf"
    needs = Signal.PREDICTION
    engine_code = LWF

    def __init__(self, *, kappa: int) -> None:
        """`kappa`: largest gang that need not stay together.

        Raises:
            GpuYardError: it is no whole number of 0 or more.
        """
        if not (isinstance(kappa, int) and kappa >= 0):
            raise GpuYardError(f"placer.kappa is {kappa!r}; it must be a whole number, 0 or more")
        self.kappa = kappa

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None if fewer than `gang` are usable."""
        del rng
        if slots.usable_per_server[slots.servers].sum() < gang:
            return None
        gpus = np.flatnonzero(slots.usable)
        load_s = gpu_workload_s(slots)
        if gang <= self.kappa:
            return gpus[np.argsort(load_s[gpus], kind="stable")[:gang]]
        topology = slots.topology
        server = topology.gpu_server[gpus]
        total_s = np.bincount(topology.gpu_server, weights=load_s, minlength=topology.num_servers)
        short = slots.usable_per_server[server] < gang
        return gpus[np.lexsort((load_s[gpus], server, total_s[server], short))[:gang]]


def gpu_workload_s(slots: Slots) -> FloatArray:
    """(G,) predicted work left of the jobs on each GPU, in seconds at speed 1."""
    view = slots.view
    left_s = view.jobs.predicted_remaining_s
    # Empty entries are -1: they read the last job, and count nothing.
    load_s: FloatArray = np.where(view.tenant >= 0, left_s[view.tenant], 0.0).sum(axis=1)
    if not np.array_equal(slots.tenants, view.tenants):
        waiting_s = float(left_s[view.queued].mean()) if len(view.queued) > 0 else 0.0
        _follow_changes(load_s, np.array(view.tenants), slots.tenants, waiting_s)
    return load_s


@kernel
def workload_s(before_s: float, before: int, now: int, waiting_s: float) -> float:
    """Workload of a GPU with `now` tenants; as the decision began it had `before`, `before_s`.

    `waiting_s`: mean work left of waiting jobs.
    """
    if now == before:
        return before_s
    return float(before_s * min(now / max(before, 1), 1.0) + max(now - before, 0) * waiting_s)


@array_kernel
def _follow_changes(load_s: FloatArray, before: IntArray, now: IntArray, waiting_s: float) -> None:
    """Workloads as of now in place of those as the decision began."""
    for gpu in range(len(load_s)):
        load_s[gpu] = workload_s(load_s[gpu], before[gpu], now[gpu], waiting_s)
