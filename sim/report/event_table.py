"""The whole event log of a run in files: `events.parquet`, and the cluster in `servers.parquet`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, IntArray, T, TextArray
from sim.event_log import EventLog, Kind
from sim.metrics.event_effects import blocked_at_arrival
from sim.report.errors import ReportError
from sim.report.parquet import read_parquet
from sim.run import Run
from sim.topology.topology import Topology

EVENTS_FILE, SERVERS_FILE = "events.parquet", "servers.parquet"
FIX = "run it again with log_decisions=true"


@dataclass(frozen=True)
class Recorded:
    """An event log as it was read back, with what is needed to follow it."""

    log: EventLog
    job_id: TextArray  # (J,)
    least_gpus: IntArray  # (J,) a start has at least so many GPUs
    most_gpus: IntArray  # (J,)
    blocked: BoolArray  # (J,) came before its parents were done
    server_name: TextArray  # (S,)
    server_rack: IntArray  # (S,)
    server_partition: IntArray  # (S,)
    server_first_gpu: IntArray  # (S + 1,)


def recorded_of(run: Run) -> Recorded:
    """The same without files."""
    elastic = run.jobs.elastic
    return Recorded(
        log=run.log,
        job_id=run.jobs.job_id,
        least_gpus=run.jobs.num_gpus if elastic is None else elastic.least_gpus,
        most_gpus=run.jobs.num_gpus if elastic is None else elastic.most_gpus,
        blocked=blocked_at_arrival(run),
        server_name=server_names(run.topology),
        server_rack=run.topology.server_rack,
        server_partition=run.partition_of_server,
        server_first_gpu=run.topology.server_first_gpu,
    )


def kind_names(kind: IntArray) -> TextArray:
    """(E,) names of kinds, in small letters."""
    names = np.array([each.name.lower() for each in Kind], dtype=object)
    return names[kind]


def server_names(topology: Topology) -> TextArray:
    """(S,) names of the cluster's file, else numbers."""
    if topology.server_name is not None:
        return topology.server_name
    return np.array([str(server) for server in range(topology.num_servers)], dtype=object)


def event_columns(run: Run) -> dict[str, Any]:
    """Every event in order of occurrence; a server's have job -1 and no job_id."""
    log = run.log
    names = np.array([*run.jobs.job_id.tolist(), None], dtype=object)  # row -1 reads the None
    return {
        "event": np.arange(len(log.kind)),
        "time_s": log.time_s,
        "kind": kind_names(log.kind),
        "job": log.job,
        "job_id": names[log.job],
        "partition": log.partition,
        "gpus": log.gpus,
    }


def server_columns(run: Run) -> dict[str, Any]:
    """Every server with its place."""
    topology = run.topology
    kinds = np.array(topology.gpu_types, dtype=object)
    return {
        "server": np.arange(topology.num_servers),
        "name": server_names(topology),
        "rack": topology.server_rack,
        "partition": run.partition_of_server,
        "gpu_type": kinds[topology.server_gpu_type],
        "first_gpu": topology.server_first_gpu[:-1],
        "gpus": topology.gpus_per_server,
    }


def read_recorded(folder: Path) -> Recorded:
    """What a run with `log_decisions=true` left in `folder`.

    Raises:
        ReportError: a file is missing, cut off or of another shape; the message has the fix.
    """
    if not folder.is_dir():
        raise ReportError(f"{folder}: there is no such folder; path=FOLDER names that of a run")
    events = read_parquet(
        folder / EVENTS_FILE, ("time_s", "kind", "job", "partition", "gpus"), fix=FIX
    )
    servers = read_parquet(
        folder / SERVERS_FILE, ("name", "rack", "partition", "first_gpu", "gpus"), fix=FIX
    )
    jobs = read_parquet(folder / "jobs.parquet", ("job_id", "num_gpus"), fix=FIX)
    path = folder / "jobs.parquet"
    least = _or_else(path, "least_gpus", jobs["num_gpus"])
    most = _or_else(path, "most_gpus", jobs["num_gpus"])
    blocked = _or_else(path, "blocked", np.zeros(len(jobs["job_id"]), dtype=np.bool_))
    return Recorded(
        log=_log(folder / EVENTS_FILE, events, len(jobs["job_id"])),
        job_id=jobs["job_id"],
        least_gpus=least,
        most_gpus=most,
        blocked=blocked,
        server_name=servers["name"],
        server_rack=servers["rack"],
        server_partition=servers["partition"],
        server_first_gpu=np.append(servers["first_gpu"], servers["gpus"].sum()),
    )


def _or_else(path: Path, column: str, otherwise: npt.NDArray[T]) -> npt.NDArray[T]:
    """A column of a job table that only some runs have."""
    try:
        found: npt.NDArray[T] = read_parquet(path, (column,), fix=FIX)[column]
    except ReportError:
        return otherwise
    return found


def _log(path: Path, events: dict[str, Any], jobs: int) -> EventLog:
    codes = {each.name.lower(): int(each) for each in Kind}
    kinds = [codes.get(name, -1) for name in events["kind"]]
    bad = [row for row, code in enumerate(kinds) if code < 0]
    if bad:
        name = events["kind"][bad[0]]
        raise ReportError(f"{path}: event {bad[0]} is of kind {name!r}; known: {', '.join(codes)}")
    outside = np.flatnonzero((events["job"] < -1) | (events["job"] >= jobs))
    if len(outside):
        raise ReportError(
            f"{path}: event {outside[0]} is of job {events['job'][outside[0]]}, but jobs.parquet "
            f"has {jobs} jobs: the files are of different runs; {FIX}"
        )
    return EventLog(
        time_s=events["time_s"],
        kind=np.array(kinds, dtype=np.int64),
        job=events["job"],
        partition=events["partition"],
        gpus=events["gpus"],
    )
