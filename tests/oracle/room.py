"""What is free in the middle of a decision, for deciders that must stay legal."""

import numpy as np

from sim.view import ClusterView


class Room:
    """Tenants of every GPU, cores and memory of every server, while orders are being made."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.tenants = [row[row >= 0].tolist() for row in view.tenant]
        self._server_of = view.topology.gpu_server.tolist()
        self._cpu_milli = view.server_cpu_free_milli.tolist()
        self._memory_mib = view.server_memory_free_mib.tolist()

    def _demand(self, name: str, job: int, plain: int) -> int:
        demands = self._view.jobs.demands
        return plain if demands is None else int(getattr(demands, name)[job])

    def _book(self, job: int, gpu: int, sign: int) -> None:
        server = self._server_of[gpu]
        self._cpu_milli[server] -= sign * self._demand("cpu_milli", job, 0)
        self._memory_mib[server] -= sign * self._demand("memory_mib", job, 0)

    def release(self, job: int) -> None:
        for gpu in self._view.gpus_of(job).tolist():
            self.tenants[gpu].remove(job)
            self._book(job, gpu, -1)

    def take(self, job: int, gpus: list[int]) -> None:
        for gpu in gpus:
            self.tenants[gpu].append(job)
            self._book(job, gpu, 1)

    def fits(self, job: int, gpu: int, partition: int, most: int) -> bool:
        """Whether one worker of `job` may go there; `most` tenants at most."""
        view, server = self._view, self._server_of[gpu]
        profile = view.jobs.profile
        kind = view.topology.server_gpu_type[server]
        beside = view.belief.pairs.feasible[view.server_type[server], profile[job]]
        milli = sum(self._demand("gpu_milli", other, 1000) for other in self.tenants[gpu])
        return bool(
            view.partition_of_server[server] == partition
            and view.server_closed[server] == 0
            and (self._demand("type_mask", job, -1) >> int(kind)) & 1
            and len(self.tenants[gpu]) < most
            and milli + self._demand("gpu_milli", job, 1000) <= view.gpu_limit_milli
            and all(
                beside[profile[other]] or self._together(job, other) <= 1000
                for other in self.tenants[gpu]
            )
            and self._demand("cpu_milli", job, 0) <= self._cpu_milli[server]
            and self._demand("memory_mib", job, 0) <= self._memory_mib[server]
        )

    def _together(self, one: int, other: int) -> int:
        return self._demand("gpu_milli", one, 1000) + self._demand("gpu_milli", other, 1000)

    def pick(self, job: int, order: list[int], partition: int, most: int, wanted: int) -> list[int]:
        """Up to `wanted` GPUs for `job`, the first of `order` that fit together."""
        picked: list[int] = []
        for gpu in order:
            if len(picked) < wanted and self.fits(job, gpu, partition, most):
                self._book(job, gpu, 1)
                picked.append(gpu)
        for gpu in picked:
            self._book(job, gpu, -1)
        return picked

    def shuffled(self, rng: np.random.Generator) -> list[int]:
        return rng.permutation(len(self.tenants)).tolist()
