"""Small worlds written by hand, and what happened in them as attempts on GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pytest

from sim.decision import Start
from sim.jobs import ANY_TYPE, Demands, Elastic, Fates, JobTable, Precedence
from sim.physics.catalogue import Catalogue
from sim.physics.laws import NetworkTables
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.placers.by_room import FirstFit
from sim.protocols import Placer, Scheduler, Sharing
from sim.run import EventLog, Kind, Rules, Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.simulator import Simulator, simulate
from sim.topology.generators import leaf_spine
from sim.topology.outages import NO_OUTAGES, Change, Outages
from sim.topology.topology import Topology, contiguous_partitions

FIRST_FIT, ALONE = FirstFit(), NoSharing()
STOPS = (Kind.FINISH, Kind.PREEMPT, Kind.FAIL, Kind.EVICT, Kind.EXPIRE, Kind.WITHDRAW)


class Job(NamedTuple):
    """One row of a hand-written trace; the estimate is exact unless given."""

    submit_s: float
    num_gpus: int
    duration_s: float
    estimate_s: float | None = None
    profile: int = 0
    home: int = 0


class Attempt(NamedTuple):
    """One stay of a job on its GPUs."""

    start_s: float
    end_s: float
    gpus: tuple[int, ...]


def job_table(jobs: Sequence[Job], **traits: Any) -> JobTable:
    """Jobs named A, B, C, ... in the order given."""

    def column(values: Sequence[float], dtype: type) -> Any:
        return np.array(values, dtype=dtype)

    estimates = [j.duration_s if j.estimate_s is None else j.estimate_s for j in jobs]
    table = JobTable(
        job_id=np.array([chr(ord("A") + row) for row in range(len(jobs))], dtype=object),
        submit_s=column([j.submit_s for j in jobs], np.float64),
        num_gpus=column([j.num_gpus for j in jobs], np.int64),
        duration_s=column([j.duration_s for j in jobs], np.float64),
        estimate_s=column(estimates, np.float64),
        profile=column([j.profile for j in jobs], np.int64),
        home=column([j.home for j in jobs], np.int64),
        measured=np.ones(len(jobs), dtype=np.bool_),
    )
    return replace(table, **traits)


def cluster(
    servers: int, gpus_per_server: int | list[int], *, servers_per_rack: int = 8,
    types: Sequence[str] = ("x",),
) -> Topology:  # fmt: skip
    return leaf_spine(
        name="hand", servers=servers, gpus_per_server=gpus_per_server,
        servers_per_rack=servers_per_rack, gpu_types=list(types), intra_gbps=80.0, nic_gbps=10.0,
        oversubscription=2.0,
    )  # fmt: skip


def physics_of(
    topology: Topology, *, slowdown: Sequence[Sequence[float]] = ((1.0,),),
    infeasible: Sequence[tuple[int, int]] = (), server_s: Sequence[float] | None = None,
    nic_factor: Sequence[float] = (1.0, 1.0), compute_s: Sequence[float] = (1.0,),
) -> Physics:  # fmt: skip
    """A step takes `compute_s[type]`; `slowdown[victim][aggressor]` on every type."""
    profiles, kinds = len(slowdown), len(topology.gpu_types)
    fits = np.ones((kinds, profiles, profiles), dtype=np.bool_)
    for a, b in infeasible:
        fits[:, a, b] = fits[:, b, a] = False
    spread = [0.0] * (topology.num_servers + 1) if server_s is None else list(server_s)
    return Physics(
        catalogue=Catalogue(
            names=tuple(f"p{p}" for p in range(profiles)),
            gpu_types=topology.gpu_types,
            compute_s=np.tile(np.array(compute_s, dtype=np.float64), (profiles, 1)),
            sync_bytes=np.zeros(profiles),
            gang_ok=np.ones(profiles, dtype=np.bool_),
            source="hand",
        ),
        pairs=PairTable(
            slowdown=np.tile(np.array(slowdown, dtype=np.float64), (kinds, 1, 1)),
            feasible=fits,
            source="hand",
        ),
        network=NetworkTables(
            local_s=np.zeros((profiles, 2)),
            server_s=np.tile(np.array(spread), (profiles, 1)),
            rack_s=np.zeros((profiles, 2)),
            nic_factor=np.array(nic_factor, dtype=np.float64),
            uplink_factor=np.ones(2),
        ),
        reference_gpu=topology.gpu_types[0],
    )


def rules_of(**given: Any) -> Rules:
    """Rules under which nothing special happens, but for what is given."""
    plain = {
        "max_tenants": 1, "gpu_oversubscription": None, "restart_s": 0.0,
        "restart_s_per_gpu": 0.0,
        "checkpoint_work_s": None, "checkpoint_s": 0.0, "preempt_saves": True, "max_forwards": 3,
    }  # fmt: skip
    return Rules(**{**plain, **given})


def world(
    jobs: Sequence[Job], topology: Topology, *, physics: Physics | None = None,
    belief: Physics | None = None, partitions: int = 1, outages: Outages = NO_OUTAGES,
    traits: Mapping[str, Any] | None = None, **rules: Any,
) -> Simulator:  # fmt: skip
    """A simulator at time 0; physics off unless given, and believed as it is.

    `traits` are fields of the job table, `rules` fields of `Rules`.
    """
    known = physics_of(topology) if physics is None else physics
    return Simulator(
        jobs=job_table(jobs, **(traits or {})), topology=topology, physics=known,
        belief=known if belief is None else belief,
        partition_of_server=contiguous_partitions(topology, partitions), rules=rules_of(**rules),
        outages=outages,
    )  # fmt: skip


def changes(*rows: tuple[float, int, Change]) -> Outages:
    """Outages from (time, server, change), in order."""
    at_s, server, change = np.array(rows, dtype=np.float64).T
    return Outages(at_s, server.astype(np.int64), change.astype(np.int64))


def start(job: int, *gpus: int, lease_s: float | None = None) -> Start:
    return Start(job, np.array(gpus, dtype=np.int64), lease_s)


def parts(*gpu_milli: int) -> dict[str, Demands]:
    """Traits of jobs whose workers take thousandths of a GPU, and ask for nothing else."""
    return demands(*((milli, 0, 0, ANY_TYPE) for milli in gpu_milli))


def demands(*rows: tuple[int, int, int, int]) -> dict[str, Demands]:
    """Traits of jobs whose workers ask for (thousandths of a GPU, of cores, MiB, types)."""
    return {"demands": Demands(*(np.array(column) for column in zip(*rows, strict=True)))}


def elastic(least: Sequence[int], most: Sequence[int]) -> dict[str, Elastic]:
    return {"elastic": Elastic(np.array(least), np.array(most))}


def fates(*withdraw_s: float, outcome: Sequence[int] | None = None) -> dict[str, Fates]:
    """Traits of jobs whose users give up then; all end well unless told."""
    ends = np.zeros(len(withdraw_s), dtype=np.int64) if outcome is None else np.array(outcome)
    return {"fates": Fates(ends, np.array(withdraw_s, dtype=np.float64))}


def waiting(
    *parents: Sequence[int], workflow: Sequence[int] | None = None
) -> dict[str, Precedence]:  # fmt: skip
    """Traits of jobs that wait for these rows; all of one workflow unless told."""
    first = np.cumsum([0, *map(len, parents)])
    rows = np.array([row for each in parents for row in each], dtype=np.int64)
    number = np.array(workflow or [0] * len(parents), dtype=np.int64)
    return {"precedence": Precedence(first, rows, number)}


def fifo(
    placer: Placer = FIRST_FIT, sharing: Sharing = ALONE, skip_blocked: bool = True
) -> Fifo:  # fmt: skip
    """First come, first served; who is blocked is passed by others unless told."""
    return Fifo(placer=placer, sharing=sharing, skip_blocked=skip_blocked)


def play(simulator: Simulator, scheduler: Scheduler, seed: int = 0) -> Run:
    return simulate(simulator, scheduler, seed, None)


def attempts(log: EventLog) -> dict[str, list[Attempt]]:
    """Every job's stays on GPUs, in order; jobs are named as in `job_table`."""
    began: dict[int, float] = {}
    stays: dict[str, list[Attempt]] = {}
    rows = zip(log.time_s.tolist(), log.kind.tolist(), log.job.tolist(), log.gpus, strict=True)
    for time_s, kind, job, gpus in rows:
        if kind == Kind.START:
            began[job] = time_s
        elif kind in STOPS and job in began:
            stay = Attempt(began.pop(job), time_s, tuple(sorted(gpus.tolist())))
            stays.setdefault(chr(ord("A") + job), []).append(stay)
    return stays


def story(run: Run) -> list[tuple[float, str, int]]:
    """When, what and which row, of every event."""
    log = run.log
    return [
        (float(t), Kind(kind).name, int(job))
        for t, kind, job in zip(log.time_s, log.kind, log.job, strict=True)
    ]


def gantt(run: Run) -> dict[str, tuple[float, float, tuple[int, ...]]]:
    """Start, finish and GPUs of jobs that ran in one go."""
    stays = attempts(run.log)
    assert all(len(of_job) == 1 for of_job in stays.values()), f"somebody was preempted: {stays}"
    return {job: tuple(of_job[0]) for job, of_job in stays.items()}


def chart(run: Run, column_s: float = 1.0) -> str:
    """What every GPU did from 0 on, a column each `column_s`, the GPUs parted by spaces.

    `Aaa` is one stay of A, `.` nobody; `+` parts tenants of one GPU, `*3` are three GPUs alike.
    """
    lines: dict[int, list[str]] = {}
    stays = sorted((stay, job) for job, of_job in attempts(run.log).items() for stay in of_job)
    for stay, job in stays:
        first, last = round(stay.start_s / column_s), round(stay.end_s / column_s)
        on_grid = (first * column_s, last * column_s) == stay[:2] and first < last
        assert on_grid, f"columns of {column_s} s do not show {job}: {stay}"
        for gpu in stay.gpus:
            tenants = lines.setdefault(gpu, [])
            at = next((n for n, each in enumerate(tenants) if len(each) <= first), len(tenants))
            before = "".join(tenants[at : at + 1]).ljust(first, ".")
            tenants[at : at + 1] = [before + job + job.lower() * (last - first - 1)]
    told = ["+".join(lines.get(gpu, ".")) for gpu in range(max(lines) + 1)]
    alike = [(line, len(list(same))) for line, same in groupby(told)]
    return " ".join(line if count == 1 else f"{line}*{count}" for line, count in alike)


def charted(
    jobs: Sequence[Job], topology: Topology, scheduler: Scheduler, *, column_s: float = 1.0,
    **yard: Any,
) -> str:  # fmt: skip
    """The chart of a run in a `world` of these jobs, and of what is given of it."""
    return chart(play(world(jobs, topology, **yard), scheduler), column_s)


def as_drawn(cases: Mapping[str, tuple], *columns: str, column_s: float = 1.0):
    """A test of all cases: scheduler, jobs, what `columns` name (or GPUs a server), the chart."""

    @pytest.mark.parametrize("case", cases)
    def test(case: str) -> None:
        scheduler, jobs, *given, drawing = cases[case]
        yard = dict(zip(columns or ["gpus"], given, strict=True))
        topology = cluster(yard.pop("servers", 1), yard.pop("gpus"))
        found = charted(jobs, topology, scheduler, column_s=column_s, **yard.pop("rules", yard))
        assert found == drawing, f"drawn as {drawing}, found {found}"

    return test
