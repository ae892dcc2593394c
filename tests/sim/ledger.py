"""Who holds what, replayed from a log alone; refuses what no cluster could do."""

from collections import Counter, defaultdict

import numpy as np

from sim.jobs import COMPLETED
from sim.run import Kind, Run
from tests.oracle.cases import Case
from tests.sim.worlds import STOPS


class Ledger:
    """Replays the log of a run of `case`, event by event."""

    def __init__(self, case: Case, run: Run, leases: dict[tuple[float, int], float]) -> None:
        """`leases`: seconds granted to starts, by (time, job)."""
        self.case, self.run, self.leases = case, run, leases
        self.tenants: defaultdict[int, list[int]] = defaultdict(list)  # of a GPU
        self.began: dict[int, float] = {}
        self.away: set[int] = set()
        self.gpu_s: Counter[int] = Counter()  # of a job, from its stays
        self.busy_gpu_s = 0.0  # integral over time of tenants on all GPUs
        self.starts: Counter[int] = Counter()
        self.renewals: Counter[int] = Counter()  # starts where the job was, as if never stopped
        self._left: dict[int, tuple[float, list[int]]] = {}  # when and where, its work kept
        self.stops: defaultdict[int, list[tuple[float, Kind]]] = defaultdict(list)
        self.finished_s: dict[int, float] = {}
        self.gone: set[int] = set()
        self._last_s = 0.0
        log = run.log
        for time_s, kind, job, gpus in zip(log.time_s, log.kind, log.job, log.gpus, strict=True):
            self._pass(float(time_s))
            self._event(float(time_s), Kind(kind), int(job), gpus.tolist())

    def _pass(self, time_s: float) -> None:
        assert time_s >= self._last_s
        held = sum(len(jobs) for jobs in self.tenants.values())
        self.busy_gpu_s += held * (time_s - self._last_s)
        self._last_s = time_s

    def _event(self, time_s: float, kind: Kind, job: int, gpus: list[int]) -> None:
        servers = {int(self.case.topology.gpu_server[gpu]) for gpu in gpus}
        if kind == Kind.SERVER_DOWN:
            self.away |= servers
        elif kind == Kind.SERVER_UP:
            assert not any(self.tenants[gpu] for gpu in gpus)
            self.away -= servers
        elif kind == Kind.START:
            assert not servers & self.away
            self._start(time_s, job, gpus)
        elif kind in STOPS:
            self._stop(time_s, kind, job, gpus)

    def _start(self, time_s: float, job: int, gpus: list[int]) -> None:
        assert job not in self.began and job not in self.gone and len(set(gpus)) == len(gpus)
        self._check_size(job, len(gpus))
        self._check_parents(time_s, job)
        self.began[job] = time_s
        self.starts[job] += 1
        self.renewals[job] += self._left.pop(job, None) == (time_s, gpus)
        for gpu in gpus:
            self.tenants[gpu].append(job)
            assert len(self.tenants[gpu]) <= self.case.rules.max_tenants
        self._check_room(gpus)

    def _stop(self, time_s: float, kind: Kind, job: int, gpus: list[int]) -> None:
        if kind == Kind.FINISH:
            self.finished_s[job] = time_s
        if kind in (Kind.FINISH, Kind.WITHDRAW):
            self.gone.add(job)
        self.stops[job].append((time_s, kind))
        if not gpus:
            assert kind == Kind.WITHDRAW and job not in self.began
            return
        began_s = self.began.pop(job)
        assert time_s <= began_s + self.leases.get((began_s, job), np.inf)
        self.gpu_s[job] += (time_s - began_s) * len(gpus)
        if kind == Kind.EXPIRE or (kind == Kind.PREEMPT and self.case.rules.preempt_saves):
            self._left[job] = (time_s, gpus)
        for gpu in gpus:
            self.tenants[gpu].remove(job)

    def _check_size(self, job: int, gpus: int) -> None:
        gang, elastic = int(self.run.jobs.num_gpus[job]), self.run.jobs.elastic
        least = gang if elastic is None else elastic.least_gpus[job]
        most = gang if elastic is None else elastic.most_gpus[job]
        assert least <= gpus <= most

    def _check_parents(self, time_s: float, job: int) -> None:
        links, fates = self.run.jobs.precedence, self.run.jobs.fates
        if links is None:
            return
        for parent in links.parents[links.first[job] : links.first[job + 1]].tolist():
            assert self.finished_s[parent] <= time_s
            assert fates is None or fates.outcome[parent] == COMPLETED

    def _check_room(self, gpus: list[int]) -> None:
        """Thousandths of these GPUs; cores, memory and types of their servers."""
        demands, topology, rules = self.run.jobs.demands, self.case.topology, self.case.rules
        if demands is None:
            return
        over = rules.gpu_oversubscription or rules.max_tenants
        for gpu in gpus:
            server = int(topology.gpu_server[gpu])
            assert sum(demands.gpu_milli[j] for j in self.tenants[gpu]) <= 1000 * over
            inside = range(*topology.server_first_gpu[server : server + 2].tolist())
            jobs = [job for each in inside for job in self.tenants[each]]
            for whole, part in (
                (topology.server_cpu_milli, demands.cpu_milli),
                (topology.server_memory_mib, demands.memory_mib),
            ):
                assert whole is None or sum(part[job] for job in jobs) <= whole[server]
            kind = int(topology.server_gpu_type[server])
            assert all((int(demands.type_mask[job]) >> kind) & 1 for job in jobs)
