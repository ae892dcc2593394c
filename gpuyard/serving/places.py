"""Who holds which GPUs, as a request tells it."""

from collections.abc import Sequence

import numpy as np

from gpuyard.launch.errors import nearest
from gpuyard.serving.forms import RequestError, RunningJob
from marl.env.game import Game
from sim.arrays import IntArray
from sim.report.run_tables import server_names

SHOWN = 5  # names in one message


class Places:
    """Servers and GPUs of a game, by the names and numbers of requests."""

    def __init__(self, game: Game) -> None:
        """Names are those of the cluster's file, else numbers."""
        self._game, self._topology = game, game.topology
        self._owner = game.partition_of_server[game.topology.gpu_server]  # (G,)
        self.names = [str(name) for name in server_names(game.topology)]  # (S,)
        self._server_of = {name: at for at, name in enumerate(self.names)}

    def of(self, running: Sequence[RunningJob]) -> list[IntArray]:
        """GPUs of each running job.

        Raises:
            RequestError: naming the job and what is wrong with its placement.
        """
        tenants = np.zeros(self._topology.num_gpus, dtype=np.int64)
        found: list[IntArray] = []
        for at, job in enumerate(running):
            if (job.placement is None) == (job.servers is None):
                raise RequestError(f"{_named(at, job)}: give placement or servers, one of the two")
            if job.placement is not None:
                found.append(self._given(job.placement, at, job))
            else:
                found.append(np.zeros(0, dtype=np.int64))
        if found:
            np.add.at(tenants, np.concatenate(found), 1)
        for at, job in enumerate(running):
            if job.servers is not None:
                found[at] = self._lowest_free(job.servers, tenants, f"running[{at}] (job {job.id})")
                tenants[found[at]] += 1
        self._few_enough(tenants, running, found)
        if self._game.partitions > 1 and found:
            self._one_partition(running, found)
        return found

    def _few_enough(
        self, tenants: IntArray, running: Sequence[RunningJob], found: Sequence[IntArray]
    ) -> None:
        most = self._game.rules.max_tenants
        if tenants.max() > most:
            gpu = int(np.argmax(tenants > most))
            held = [job.id for job, gpus in zip(running, found, strict=True) if gpu in gpus]
            raise RequestError(
                f"running: GPU {gpu} is in the placements of jobs {', '.join(held[:SHOWN])}; at "
                f"most {most} may share one (max_tenants)"
            )

    def _given(self, placement: list[int], at: int, job: RunningJob) -> IntArray:
        count = self._topology.num_gpus
        if min(placement) < 0 or max(placement) >= count:
            gpu = next(gpu for gpu in placement if not 0 <= gpu < count)
            raise RequestError(
                f"{_named(at, job)}.placement: there is no GPU {gpu}; {self._topology.name} has "
                f"GPUs 0 to {count - 1} (GET /cluster)"
            )
        if len(set(placement)) < len(placement):
            twice = next(gpu for gpu in placement if placement.count(gpu) > 1)
            raise RequestError(f"{_named(at, job)}.placement: GPU {twice} is named twice")
        return np.array(placement, dtype=np.int64)

    def _lowest_free(self, servers: dict[str, int], tenants: IntArray, where: str) -> IntArray:
        """The first GPUs without a tenant on each server."""
        chosen: list[int] = []
        first = self._topology.server_first_gpu
        for name, wanted in servers.items():
            server = self.server(name, f"{where}.servers")
            gpus = np.arange(first[server], first[server + 1])
            free = gpus[tenants[gpus] == 0]
            if len(free) < wanted:
                raise RequestError(
                    f"{where}.servers: {wanted} GPUs of {name}, which has {len(free)} that no "
                    "other job of the request holds"
                )
            chosen += free[:wanted].tolist()
        return np.array(chosen, dtype=np.int64)

    def _one_partition(self, running: Sequence[RunningJob], found: Sequence[IntArray]) -> None:
        sizes = np.array([len(gpus) for gpus in found])
        owners = self._owner[np.concatenate(found)]
        same = np.repeat(owners[np.cumsum(sizes) - sizes], sizes) == owners
        if same.all():
            return
        at = int(np.searchsorted(np.cumsum(sizes), int(np.argmin(same)), side="right"))
        told = ", ".join(map(str, np.unique(self._owner[found[at]]).tolist()))
        raise RequestError(
            f"{_named(at, running[at])}: its GPUs lie in partitions {told}; a job stays inside one "
            "(agents.count is the number of partitions)"
        )

    def server(self, name: str, where: str) -> int:
        """The number of the server of that name; `where` it is named.

        Raises:
            RequestError: there is none.
        """
        found = self._server_of.get(name)
        if found is None:
            near = nearest(name, self.names)
            hint = f"did you mean {near}?" if near else "GET /cluster lists them"
            raise RequestError(f"{where}: there is no server {name!r}; {hint}")
        return found


def _named(at: int, job: RunningJob) -> str:
    """Where a job stands in the request, for messages."""
    return f"running[{at}] (job {job.id})"
