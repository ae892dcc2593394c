"""Heavy edge: as few servers as are free now, workers that talk most on the same one."""

import numpy as np

from sim.arrays import IntArray
from sim.engine.codes import HEAVY_EDGE
from sim.placing.filling import fill_servers
from sim.placing.heavy_edge import mapping_of_job
from sim.signals import Signal
from sim.slots import Slots


class HeavyEdge:
    """The Heavy-Edge GPU mapping of A-SRPT (Luo, Liu, Lee and Shroff, arXiv 2501.05563).

    The servers with most usable GPUs, as few as hold the gang, lowest index on ties; onto these
    the job's communication graph is mapped (`sim.placing.heavy_edge`). GPUs are named in order of
    workers: worker i runs on the i-th. Without a link network nobody knows what jobs send:
    then the graph is a ring of equal weights, and workers fill servers in order. Never waits.

    Link networks charge the mapping as it is.
    """

    name = "heavy_edge"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = HEAVY_EDGE

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs in order of workers, or None if fewer than `gang` are usable."""
        del rng
        view, first = slots.view, slots.topology.server_first_gpu
        profile = int(view.jobs.profile[slots.job])
        usable = slots.usable_per_server[slots.servers]
        order = np.argsort(-usable, kind="stable")
        room = np.cumsum(usable[order])
        if len(room) == 0 or room[-1] < gang:
            return None
        chosen = order[: int(np.searchsorted(room, gang)) + 1]
        servers = slots.servers[chosen]
        host = mapping_of_job(view.belief, profile, gang, usable[chosen])
        take = np.bincount(host, minlength=len(servers))
        gpus = fill_servers(servers, take, first, slots.usable, slots.tenants, gang)
        # `gpus` stand server by server; the workers of each in ascending order.
        by_worker = np.empty(gang, dtype=np.int64)
        by_worker[np.argsort(host, kind="stable")] = gpus
        return by_worker
