"""A run as Parquet: jobs, events, decisions, servers; without pandas, whose import takes long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, IntArray, T, TextArray
from sim.errors import amount
from sim.files import ReportError
from sim.report.job_times import NAMES, given_up, jct_s, queue_delay_s
from sim.report.timeline import IN_SYSTEM, blocked_at_arrival, gpu_lists, last_start, outcomes
from sim.run import EventLog, GpuLists, Kind, Run
from sim.topology.topology import Topology

if TYPE_CHECKING:
    import pandas as pd


BOOL, NUMBERS = "b", "iuf"  # kinds of numpy arrays


def parquet_bytes(columns: Mapping[str, Any]) -> bytes:
    """A table as the bytes of a parquet file.

    Columns are equally long: numbers, texts (None where there is none), or integer arrays.
    """
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    table = pa.table({name: _column(values) for name, values in columns.items()})
    buffer = BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def read_parquet(path: Path, columns: Sequence[str], *, fix: str) -> dict[str, Any]:
    """Columns of a parquet file: numpy arrays, `GpuLists`, or object arrays of texts.

    Raises:
        ReportError: the file is missing, cut off, no parquet file, or lacks a column; with `fix`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise ReportError(f"{path} is not there; {fix}")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise ReportError(f"{path} is cut off or no parquet file ({what}); {fix}") from None
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise ReportError(f"{path}: column {missing[0]} is missing; {fix}")
    return {name: _values(table.column(name).combine_chunks()) for name in columns}


def _column(values: Any) -> Any:
    """An arrow array, made from its buffers: `pyarrow.array` would import pandas."""
    if not isinstance(values, np.ndarray):
        return _lists(values)
    if values.dtype.kind == BOOL:
        return _from_buffers("bool_", len(values), np.packbits(values, bitorder="little"))
    if values.dtype.kind in NUMBERS:
        return _from_buffers(values.dtype.name, len(values), np.ascontiguousarray(values))
    return _texts(values.tolist())


def _from_buffers(arrow_type: str, length: int, *buffers: npt.NDArray[Any]) -> Any:
    """Arrow array without missing values; `arrow_type` names a type of pyarrow like `int64`."""
    import pyarrow as pa

    held = [None, *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(getattr(pa, arrow_type)(), length, held)


def _texts(values: Sequence[str | None]) -> Any:
    """Arrow array of texts; None is a missing one."""
    import pyarrow as pa

    present = np.array([value is not None for value in values], dtype=np.bool_)
    parts = [b"" if value is None else str(value).encode() for value in values]
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    mask = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_string(), len(parts), buffers)


def _lists(arrays: Sequence[IntArray]) -> Any:
    """A column of lists, without a Python object for each number."""
    import pyarrow as pa

    lists = gpu_lists(arrays)
    numbers = _column(lists.ids.astype(np.int64))
    offsets = pa.py_buffer(lists.first.astype(np.int64))
    list_type = pa.large_list(pa.int64())
    return pa.Array.from_buffers(list_type, len(arrays), [None, offsets], children=[numbers])


def _values(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        flat = column.flatten().to_numpy(zero_copy_only=False)
        sizes = column.value_lengths().to_numpy(zero_copy_only=False)
        return GpuLists(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), flat)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


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
    started: BoolArray  # (J,) at some time, says the file of jobs
    ended: BoolArray  # (J,) finished or was withdrawn, says that file
    server_name: TextArray  # (S,)
    server_rack: IntArray  # (S,)
    server_first_gpu: IntArray  # (S + 1,)


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
    gpu_types = np.array(topology.gpu_types, dtype=object)
    return {
        "server": np.arange(topology.num_servers),
        "name": server_names(topology),
        "rack": topology.server_rack,
        "partition": run.partition_of_server,
        "gpu_type": gpu_types[topology.server_gpu_type],
        "first_gpu": topology.server_first_gpu[:-1],
        "gpus": topology.gpus_per_server,
    }


def read_recorded(folder: Path) -> Recorded:
    """What a run with `log_decisions=true` left in `folder`; ReportError: it cannot be read."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: there is no such folder; path=FOLDER names that of a run")
    events = read_parquet(
        folder / EVENTS_FILE, ("time_s", "kind", "job", "job_id", "partition", "gpus"), fix=FIX
    )
    servers = read_parquet(
        folder / SERVERS_FILE, ("name", "rack", "partition", "first_gpu", "gpus"), fix=FIX
    )
    path = folder / "jobs.parquet"
    jobs = read_parquet(path, ("job_id", "num_gpus", "submit_s", "start_s", "finish_s"), fix=FIX)
    least = _or_else(path, "least_gpus", jobs["num_gpus"])
    most = _or_else(path, "most_gpus", jobs["num_gpus"])
    blocked = _or_else(path, "blocked", np.zeros(len(jobs["job_id"]), dtype=np.bool_))
    log = _log(folder / EVENTS_FILE, events, len(jobs["job_id"]))
    _check_of_one_run(folder / EVENTS_FILE, log, events["job_id"], jobs, servers["partition"])
    return Recorded(
        log=log,
        job_id=jobs["job_id"],
        least_gpus=least,
        most_gpus=most,
        blocked=blocked,
        started=np.isfinite(jobs["start_s"]),
        ended=np.isfinite(jobs["finish_s"]),
        server_name=servers["name"],
        server_rack=servers["rack"],
        server_first_gpu=np.append(servers["first_gpu"], servers["gpus"].sum()),
    )


def _check_of_one_run(
    path: Path, log: EventLog, names: TextArray, jobs: dict[str, Any], homes: IntArray
) -> None:
    """Refuse events that are not of these jobs and servers, or not at their times."""
    of_jobs = log.job >= 0
    found = jobs["job_id"][log.job[of_jobs]]
    bad = ~np.isfinite(log.time_s) | (log.partition < 0) | (log.partition > homes.max())
    bad[of_jobs] |= names[of_jobs] != found
    ends = np.isin(log.kind, (Kind.FINISH, Kind.WITHDRAW))
    first = np.full(len(jobs["job_id"]), len(log.kind))
    starts = np.flatnonzero(log.kind == Kind.START)
    np.minimum.at(first, log.job[starts], starts)
    once = np.isin(np.arange(len(log.kind)), first)
    arrivals = log.kind == Kind.ARRIVAL
    for column, rows in (("submit_s", arrivals), ("start_s", once), ("finish_s", ends)):
        bad[rows] |= log.time_s[rows] != jobs[column][log.job[rows]]
    if bad.any():
        event = int(np.argmax(bad))
        raise ReportError(
            f"{path}: event {event} (t={log.time_s[event]} s, job {names[event]}, partition "
            f"{log.partition[event]}) is not of {path.with_name('jobs.parquet')}; {FIX}"
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
            f"has {amount(jobs, 'job')}: the files are of different runs; {FIX}"
        )
    return EventLog(
        time_s=events["time_s"],
        kind=np.array(kinds, dtype=np.int64),
        job=events["job"],
        partition=events["partition"],
        gpus=events["gpus"],
    )


MEASURED_PARTS = ("lost_s", "comm_s", "interference_s", "restarts", "run_gpu_s")
OUTCOME_NAMES = {IN_SYSTEM: None, **{value: name for name, value in NAMES.items()}}


def job_columns(run: Run) -> dict[str, Any]:
    """All jobs in order of submission; NaN where a job never started or finished.

    The columns that only some runs have (parts of run time, elastic jobs, DAGs) come last.
    """
    jobs = run.jobs
    columns = {
        "job_id": jobs.job_id,
        "submit_s": jobs.submit_s,
        "num_gpus": jobs.num_gpus,
        "duration_s": jobs.duration_s,
        "estimate_s": jobs.estimate_s,
        "profile": jobs.profile,
        "home": jobs.home,
        "partition": run.partition,
        "start_s": run.start_s,
        "finish_s": run.finish_s,
        "run_s": run.run_s,
        "jct_s": np.where(given_up(run), np.nan, jct_s(run)),  # as means count them
        "queue_delay_s": np.where(given_up(run), np.nan, queue_delay_s(run)),
        "preemptions": run.preemptions,
        "forwards": run.forwards,
        "measured": jobs.measured,
        "outcome": np.array([OUTCOME_NAMES[code] for code in outcomes(run).tolist()], dtype=object),
    }
    parts = {name: getattr(run, name) for name in MEASURED_PARTS}
    columns |= {name: part for name, part in parts.items() if part is not None}
    if run.models:
        columns["model"] = np.array(run.models, dtype=object)[jobs.profile]
    if len(run.topology.gpu_types) > 1:
        columns["ran_on"] = _ran_on(run)
    if jobs.demands is not None:
        columns["gpu_milli"] = jobs.demands.gpu_milli
    if jobs.identity is not None:
        columns |= {"user": jobs.identity.user, "vc": jobs.identity.vc}
    if jobs.urgency is not None:
        columns["deadline_s"] = jobs.urgency.deadline_s
    if jobs.elastic is not None:
        columns |= {"least_gpus": jobs.elastic.least_gpus, "most_gpus": jobs.elastic.most_gpus}
    if jobs.precedence is not None:
        columns |= {"workflow": jobs.precedence.workflow, "blocked": blocked_at_arrival(run)}
    return columns


def _ran_on(run: Run) -> TextArray:
    """(J,) GPU types of each job's last start, like `k80+v100`; None where it never started."""
    log, topology = run.log, run.topology
    type_of_gpu = np.repeat(topology.server_gpu_type, topology.gpus_per_server)
    names = np.full(len(run.jobs), None, dtype=object)
    last = last_start(run)
    for row in last[last >= 0].tolist():
        gpu_types = sorted(set(type_of_gpu[log.gpus[row]].tolist()))
        names[log.job[row]] = "+".join(topology.gpu_types[gpu_type] for gpu_type in gpu_types)
    return names


def job_frame(run: Run) -> pd.DataFrame:
    """The same as a frame."""
    import pandas as pd

    return pd.DataFrame(job_columns(run))


ORDERS = (Kind.PREEMPT, Kind.FORWARD, Kind.START)


def decision_columns(run: Run) -> dict[str, Any]:
    """Starts, preemptions and forwards in order of time.

    `partition` holds the job after the order; `gpus` are those taken or given back, else empty.
    """
    log = run.log
    rows = np.flatnonzero(np.isin(log.kind, ORDERS))
    return {
        "time_s": log.time_s[rows],
        "order": kind_names(log.kind[rows]),
        "job_id": run.jobs.job_id[log.job[rows]],
        "partition": log.partition[rows],
        "gpus": [log.gpus[row] for row in rows.tolist()],
    }
