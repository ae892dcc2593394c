"""Servers and GPUs by the names and numbers of requests, and who holds which."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import accumulate, chain

import numpy as np

from gpuyard.launch.errors import instead
from gpuyard.serving.forms import RequestError, RunningJob, WaitingJob
from marl.env.world import World
from sim.arrays import BoolArray, IntArray
from sim.errors import amount
from sim.jobs import WHOLE_GPU_MILLI
from sim.report.run_tables import server_names

SHOWN = 5  # names in one message


class Places:
    """Servers and GPUs of a world, by the names and numbers of requests."""

    def __init__(self, world: World) -> None:
        """Names are those of the cluster's file, else numbers."""
        self._world, self._topology = world, world.topology
        self.owner = world.partition_of_server[world.topology.gpu_server]  # (G,)
        self.names = [str(name) for name in server_names(world.topology)]  # (S,)
        self.server_of = [self.names[at] for at in world.topology.gpu_server.tolist()]  # (G,)
        self._partitions = world.partitions
        self._server_of = {name: at for at, name in enumerate(self.names)}

    def of(self, running: Sequence[RunningJob]) -> list[IntArray]:
        """GPUs of each running job.

        Raises:
            RequestError: naming the job and what is wrong with its placement.
        """
        if not running:
            return []
        found = self._given(running)
        every, sizes = np.concatenate(found), [len(gpus) for gpus in found]
        milli = np.repeat([job.gpu_milli for job in running], sizes)
        tenants = np.bincount(every, minlength=self._topology.num_gpus)
        held_milli = np.bincount(every, milli, self._topology.num_gpus).astype(np.int64)
        for at, job in enumerate(running):
            if job.servers is not None:
                room = held_milli + job.gpu_milli <= WHOLE_GPU_MILLI
                found[at] = self._lowest(job.servers, room, named("running", at, job))
                tenants[found[at]] += 1
                held_milli[found[at]] += job.gpu_milli
        self._few_enough(tenants, running, found)
        if self._partitions > 1:
            self._one_partition(running, found)
        return found

    def free(self, running: Sequence[RunningJob]) -> dict[str, int]:
        """How many GPUs of each server nobody holds."""
        free = np.ones(self._topology.num_gpus, dtype=np.int64)
        for gpus in self.of(running):
            free[gpus] = 0
        counts = np.add.reduceat(free, self._topology.server_first_gpu[:-1])
        return dict(zip(self.names, counts.tolist(), strict=True))

    def servers_of(self, job: RunningJob) -> dict[str, int]:
        """How many GPUs a job holds on which server, by what a request says of it."""
        if job.servers is not None:
            return job.servers
        return dict(Counter(self.server_of[gpu] for gpu in job.placement or ()))

    def beside(self, gpu: int) -> set[str]:
        """Servers of the partition of a GPU."""
        mine = self._world.partition_of_server == self.owner[gpu]
        return {name for name, own in zip(self.names, mine.tolist(), strict=True) if own}

    def gpus_of(self, names: Collection[str]) -> set[int]:
        """GPUs of servers."""
        mine = np.array([name in names for name in self.names])
        return set(np.flatnonzero(mine[self._topology.gpu_server]).tolist())

    def in_pods(
        self, chosen: Sequence[int], closed: Collection[int], gpus: int
    ) -> dict[str, list[int]] | None:
        """As many GPUs as `chosen`, by server, whole pods of `gpus` on each; None: no room.

        The servers that were chosen come first, then those of the same partition with most room.

        Args:
            chosen: GPUs, of any servers.
            closed: GPUs that are none to choose.
            gpus: of a pod.
        """
        topology, first = self._topology, list(chosen)
        free = np.ones(topology.num_gpus, dtype=np.bool_)
        free[list(closed)] = False
        room = np.add.reduceat(free, topology.server_first_gpu[:-1], dtype=np.int64)
        room[self._world.partition_of_server != self.owner[first[0]]] = 0
        wanted = np.bincount(topology.gpu_server[first], minlength=len(room))
        found, left = dict[str, list[int]](), len(first) // gpus
        for server in np.lexsort((-room, -wanted)).tolist():
            pods = min(left, int(room[server]) // gpus)
            if pods:
                own = np.flatnonzero(free & (topology.gpu_server == server))
                best = own[np.argsort(~np.isin(own, first), kind="stable")]
                found[self.names[server]] = sorted(best[: pods * gpus].tolist())
                left -= pods
        return None if left else found

    def part_of(self, begun: RunningJob, gang: RunningJob) -> list[int]:
        """GPUs of a job that runs on a part of what `gang` was given; none: it does not."""
        given = np.array(gang.placement, dtype=np.int64)
        server = self._topology.gpu_server[given]
        asked = (begun.servers or {}).items()
        taken = [given[server == self._server_of.get(name, -1)][:count] for name, count in asked]
        part = begun.placement or np.concatenate(taken).tolist()
        full = begun.servers is None or len(part) == sum(begun.servers.values())
        return part if full and set(part) < set(given.tolist()) else []

    def _few_enough(
        self, tenants: IntArray, running: Sequence[RunningJob], found: Sequence[IntArray]
    ) -> None:
        most = self._world.rules.max_tenants
        if tenants.max() > most:
            gpu = int(np.argmax(tenants > most))
            held = [job.id for job, gpus in zip(running, found, strict=True) if gpu in gpus]
            raise RequestError(
                f"running: GPU {gpu} is in the placements of jobs {', '.join(held[:SHOWN])}; at "
                f"most {most} may share one (max_tenants)"
            )

    def _given(self, running: Sequence[RunningJob]) -> list[IntArray]:
        """The placements of those that give one; no GPU of the others."""
        count, placements = self._topology.num_gpus, [job.placement or () for job in running]
        for at, job in enumerate(running):
            if (job.placement is None) == (job.servers is None):
                raise RequestError(
                    f"{named('running', at, job)}: give placement or servers, one of the two"
                )
        every = list(chain.from_iterable(placements))
        if every and (min(every) < 0 or max(every) >= count):
            at, gpu = next(
                (at, gpu) for at, gpus in enumerate(placements) for gpu in gpus
                if not 0 <= gpu < count
            )  # fmt: skip
            raise RequestError(
                f"{named('running', at, running[at])}.placement: there is no GPU {gpu}; "
                f"{self._topology.name} has GPUs 0 to {count - 1} (GET /cluster)"
            )
        ends = list(accumulate(map(len, placements)))
        holder = np.searchsorted(ends, np.arange(len(every)), side="right")
        gpus = np.array(every, dtype=np.int64)
        places, times = np.unique(holder * count + gpus, return_counts=True)
        for at, gpu in zip(*divmod(places[times > 1], count), strict=True):
            raise RequestError(
                f"{named('running', at, running[at])}.placement: GPU {gpu} is named twice"
            )
        return [gpus[end - len(own) : end] for end, own in zip(ends, placements, strict=True)]

    def _lowest(self, servers: dict[str, int], room: BoolArray, where: str) -> IntArray:
        """The first GPUs with room for the job, or its part of one, on each server."""
        chosen: list[int] = []
        for name, wanted in servers.items():
            server = self.server(name, f"{where}.servers")
            free = np.flatnonzero(room & (self._topology.gpu_server == server))
            if len(free) < wanted:
                raise RequestError(
                    f"{where}.servers: {amount(wanted, 'GPU')} of {name}, which has {len(free)} "
                    "that other jobs of the request leave to it"
                )
            chosen += free[:wanted].tolist()
        return np.array(chosen, dtype=np.int64)

    def _one_partition(self, running: Sequence[RunningJob], found: Sequence[IntArray]) -> None:
        sizes = np.array([len(gpus) for gpus in found])
        owners = self.owner[np.concatenate(found)]
        same = np.repeat(owners[np.cumsum(sizes) - sizes], sizes) == owners
        if same.all():
            return
        at = int(np.searchsorted(np.cumsum(sizes), int(np.argmin(same)), side="right"))
        parts = ", ".join(map(str, np.unique(self.owner[found[at]]).tolist()))
        raise RequestError(
            f"{named('running', at, running[at])}: its GPUs lie in partitions {parts}; a job "
            "stays inside one (agents.count is the number of partitions)"
        )

    def server(self, name: str, where: str) -> int:
        """The number of the server of that name, named at `where`; RequestError: there is none."""
        found = self._server_of.get(name)
        if found is None:
            hint = instead(name, self.names, "GET /cluster lists them; leave out others")
            raise RequestError(f"{where}: there is no server {name!r}; {hint}")
        return found


def named(key: str, at: int, job: RunningJob | WaitingJob) -> str:
    """Where a job stands in the request, for messages."""
    return f"{key}[{at}] (job {job.id})"
