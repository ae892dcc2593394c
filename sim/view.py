"""What a scheduler may know (`Signal`), what it sees, and which GPUs a placer is offered.

A view has read-only windows on the state, and only what the `needs` of the scheduler name: they are
part of its type, granted by the view, printed with every result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, FloatArray, IntArray, read_only
from sim.errors import SignalError, amount, nearest
from sim.jit import kernel
from sim.jobs import JobTable
from sim.kernel.allocation import Seated, Spares
from sim.kernel.layout import RUNNING, State
from sim.physics.physics import Physics
from sim.topology.topology import Topology


class Signal(Flag):
    """Information beyond what every real scheduler sees (queue, gang sizes, ages, occupancy)."""

    NONE = 0
    DURATION = auto()  # true work and remaining time (an oracle)
    PREDICTION = auto()  # the duration estimator's estimate
    PROFILE = auto()  # which model profile a job trains
    INTERFERENCE = auto()  # predicted co-location slow-downs (the belief, not the physics)
    SPEED = auto()  # how long an iteration of a running job takes now, as a monitor measures it


def information_of(needs: Signal) -> str:
    """The information class of a scheduler: what it knows of durations.

    What "predicted" is worth the estimator says: its own `information`, such as `limit`, stands in
    results instead.
    """
    if Signal.DURATION in needs:
        return "oracle"
    return "predicted" if Signal.PREDICTION in needs else "none"


T = TypeVar("T", bound=np.generic)


def _fixed(column: npt.NDArray[T]) -> npt.NDArray[T]:
    """A copy of a column of rows that a run does not change.

    Contiguous, so that compiled code meets one type: a column itself is another where there is but
    one row, and each type is compiled anew.
    """
    return read_only(column.copy())


class _Live:
    """Who waits and who runs, as the state has it; what is read at each decision is looked up once.

    A field of a record array costs as much as a short copy.
    """

    def __init__(self, state: State) -> None:
        self._state, world = state, state.world
        self._first, self._queued = world["queue_first"], world["num_queued"]
        self._running = world["num_running"]

    def queued(self) -> IntArray:
        """A window on the waiting jobs, in order of submission."""
        first = self._first[0]
        return self._state.queue[first : first + self._queued[0]]

    def running(self) -> IntArray:
        """A window on the running jobs, in the kernel's order."""
        return self._state.running[: self._running[0]]


@kernel
def _refresh_left(
    left_s: FloatArray, queued: IntArray, running: IntArray, work_s: FloatArray,
    seen_progress_s: FloatArray, least_s: float,
) -> None:  # fmt: skip
    """Write work less progress, at least `least_s`, of those who wait or run."""
    for job in queued:  # not all J rows; a stop may have set these back
        left_s[job] = max(work_s[job] - seen_progress_s[job], least_s)
    for job in running:  # the two lists are windows on different arrays
        left_s[job] = max(work_s[job] - seen_progress_s[job], least_s)


class _Left:
    """(J,) work less progress, brought up to date for those who wait or run."""

    def __init__(self, state: State, work_s: FloatArray, least_s: float) -> None:
        """Nothing is worked out before it is read; results below `least_s` are `least_s`."""
        self._live, self._seen_s = _Live(state), state.job["seen_progress_s"]
        self._work_s, self._least_s = read_only(np.ascontiguousarray(work_s)), least_s
        self._column = self._shown = np.empty(0)

    def now(self) -> FloatArray:
        """As of this decision."""
        if len(self._shown) == 0:
            self._column = np.maximum(self._work_s - self._seen_s, self._least_s)
            self._shown = read_only(self._column)
        else:
            queued, running = self._live.queued(), self._live.running()
            _refresh_left(self._column, queued, running, self._work_s, self._seen_s, self._least_s)
        return self._shown


class JobColumns:
    """Columns of the job table, (J,) each; reading one that was not granted raises SignalError.

    Progress-dependent columns are current for queued and running jobs at a decision;
    `attained_gpu_s` of a job that has left is what it had. `resume_s` of a running job is when its
    attempt began, or after a restart begins, to make progress. The traits (`sim.jobs`) of a table
    that has none are None.
    """

    def __init__(self, *, state: State, jobs: JobTable, granted: Signal) -> None:
        """Windows on `state`; `granted` is what the scheduler's `needs` name."""
        self._state = state
        self._estimate_s = read_only(jobs.estimate_s)
        self._is_predicted = False  # as far as anybody has looked
        self._granted = granted
        row = state.job
        self.submit_s = _fixed(row["submit_s"])
        self.num_gpus = _fixed(row["num_gpus"])
        self._profile = _fixed(row["profile"])
        self.partition = read_only(row["partition"])
        self.forwards = read_only(row["forwards"])
        self.preemptions = read_only(row["preemptions"])
        self.restarts = read_only(row["restarts"])
        self.attained_gpu_s = read_only(row["attained_gpu_s"])
        self.progress_s = read_only(row["seen_progress_s"])
        self.resume_s = read_only(row["resume_s"])
        self.lease_end_s = read_only(row["lease_end_s"])  # of a running job
        self.held = read_only(row["held"])  # GPUs of a running job
        # Rows are far apart: what is read whole at each decision is kept as columns.
        self._work_s = _fixed(row["work_s"])
        self._left_s = _Left(state, self._work_s, -np.inf)
        self._predicted_left_s = _Left(state, self._estimate_s, 0.0)
        self.demands = jobs.demands
        self.elastic = jobs.elastic
        self.identity = jobs.identity
        self.urgency = jobs.urgency
        self.precedence = jobs.precedence

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Only a column that is not there comes here."""
            known = sorted(key for key in {*vars(self), *vars(type(self))} if key[0] != "_")
            hint = nearest(name, known) or f"; it has {', '.join(known)}"
            message = f"jobs has no column {name!r}{hint}"
            raise AttributeError(message, name=None)  # or Python adds a hint of its own

    def _require(self, signal: Signal, column: str) -> None:
        if signal not in self._granted:
            raise SignalError(
                f"column jobs.{column} needs {signal.name}, which this scheduler did not ask for; "
                f"add Signal.{signal.name} to its `order_needs` (an order's; else `needs`)"
            )

    @property
    def duration_s(self) -> FloatArray:
        """True work (DURATION)."""
        self._require(Signal.DURATION, "duration_s")
        return read_only(self._state.job["work_s"])

    @property
    def remaining_s(self) -> FloatArray:
        """True work left, at speed 1 (DURATION)."""
        self._require(Signal.DURATION, "remaining_s")
        return self._left_s.now()

    @property
    def estimate_s(self) -> FloatArray:
        """Predicted work (PREDICTION)."""
        self._require(Signal.PREDICTION, "estimate_s")
        unknown = 0 if self._is_predicted else int(np.isnan(self._estimate_s).sum())
        if unknown:
            raise SignalError(
                f"{unknown} of {amount(len(self._estimate_s), 'job')} have no duration prediction; "
                "choose estimator=group_median or limit (noisy and oracle look at the truth), or a "
                "scheduler that needs none"
            )
        self._is_predicted = True
        return self._estimate_s

    @property
    def predicted_remaining_s(self) -> FloatArray:
        """Predicted work left, 0 once the prediction is exceeded (PREDICTION)."""
        self._require(Signal.PREDICTION, "predicted_remaining_s")
        _ = self.estimate_s  # raises where nothing is predicted
        return self._predicted_left_s.now()

    @property
    def profile(self) -> IntArray:
        """Row of the profile catalogue (PROFILE)."""
        self._require(Signal.PROFILE, "profile")
        return self._profile

    @property
    def step_s(self) -> FloatArray:
        """Seconds an iteration takes now, checkpoints left out (SPEED).

        NaN where none is made: for jobs that do not run, and while a restart is under way.
        """
        self._require(Signal.SPEED, "step_s")
        row, world = self._state.job, self._state.world[0]
        step_s = np.full(len(row), np.nan)
        at = np.flatnonzero((row["status"] == RUNNING) & (row["resume_s"] <= world["now_s"]))
        work_s = row["reference_step_s"][at] * row["gain"][at]  # of an iteration
        step_s[at] = work_s * world["pace"] / row["rate"][at]
        return step_s


@dataclass(frozen=True)
class ClusterView:
    """One scheduler's view at one decision epoch; of a partition where `partition` is a number."""

    now_s: float
    queued: IntArray  # (q,) waiting jobs in order of submission, of this partition
    running: IntArray  # (r,) running jobs, ascending, of this partition
    jobs: JobColumns
    topology: Topology
    servers: IntArray  # (s,) servers owned, ascending
    partition: int | None  # None: the whole cluster
    partition_of_server: IntArray  # (S,)
    num_partitions: int
    own_servers: tuple[IntArray, ...]  # by partition, ascending
    tenants: IntArray  # (G,) jobs on each GPU
    tenant: IntArray  # (G, C) those jobs; entries from `tenants` on are -1
    server_free: IntArray  # (S,) GPUs without a tenant; 0 while the server is away
    nic_jobs: IntArray  # (S,) multi-server jobs on each server
    uplink_jobs: IntArray  # (R,) multi-rack jobs in each rack
    max_forwards: int
    granted: Signal
    placed: IntArray  # GPUs of running job j: placed[slot[j]:slot[j] + jobs.held[j]]
    slot: IntArray  # (J,)
    server_closed: IntArray  # (S,) 0: the server is up
    server_cpu_free_milli: IntArray  # (S,)
    server_memory_free_mib: IntArray  # (S,)
    gpu_milli: IntArray  # (G,) thousandths promised to its tenants
    gpu_limit_milli: int
    server_type: IntArray  # (S,) catalogue row of each server's GPU type
    spares: Spares  # for `sim.engine.occupancy`, where a decision is tried out
    _state: State  # of `state_of`
    _belief: Physics  # of `belief`

    def __repr__(self) -> str:
        """When, how many jobs, and the size of the cluster or partition: no arrays."""
        gpus = int(self.topology.gpus_per_server[self.servers].sum())
        where = "" if self.partition is None else f"partition {self.partition}, "
        return (
            f"<ClusterView at t={self.now_s:.1f} s: {len(self.queued)} jobs queued, "
            f"{len(self.running)} running, {where}{len(self.servers)} servers, {gpus} GPUs>"
        )

    @property
    def belief(self) -> Physics:
        """Profiles, predicted co-location and communication tables (INTERFERENCE)."""
        if Signal.INTERFERENCE not in self.granted:
            raise SignalError("view.belief needs INTERFERENCE; add it to the scheduler's `needs`")
        return self._belief

    def gpus_of(self, job: int) -> IntArray:
        """GPUs of a running job."""
        return self.placed[self.slot[job] : self.slot[job] + self.jobs.held[job]]

    def narrowed(self, partition: int, queued: IntArray) -> "ClusterView":
        """The view of one partition's scheduler, with the given queue."""
        here = self.running[self.jobs.partition[self.running] == partition]
        servers = self.own_servers[partition]
        return _view_of(
            self.__dict__, queued=queued, running=here, partition=partition, servers=servers
        )


def state_of(view: ClusterView) -> State:
    """The whole state, for compiled code: it reads of it what `view.granted` names, and no more."""
    return view._state


def _view_of(fields: Mapping[str, Any], **others: Any) -> ClusterView:
    """A view of these fields; a frozen class sets them one by one, which takes far longer."""
    view = object.__new__(ClusterView)
    view.__dict__.update(fields, **others)
    return view


def held_in(state: Seated) -> dict[str, Any]:
    """Fields of a view that say who holds what: windows on `state`."""
    return {
        "tenants": read_only(state.gpu["tenants"]),
        "tenant": read_only(state.tenant),
        "server_free": read_only(state.free_gpus.usable),
        "server_cpu_free_milli": read_only(state.server["cpu_free_milli"]),
        "server_memory_free_mib": read_only(state.server["memory_free_mib"]),
        "gpu_milli": read_only(state.gpu["milli"]),
        "spares": Spares(state),
    }


class ViewMaker:
    """Makes the views of one run for one scheduler; the windows are made once."""

    def __init__(
        self,
        *,
        state: State,
        jobs: JobTable,
        topology: Topology,
        belief: Physics,
        max_forwards: int,
        granted: Signal,
    ) -> None:
        """Prepare windows on `state`."""
        self._live, self._now_s = _Live(state), state.world["now_s"]
        self._state, self._table, self._granted = state, jobs, granted
        divided, count = state.server["partition"], int(state.world["num_partitions"][0])
        self._fixed = {
            "_state": state,
            **held_in(state),
            "jobs": JobColumns(state=state, jobs=jobs, granted=granted),
            "topology": topology,
            "servers": np.arange(topology.num_servers),
            "partition": None,
            "partition_of_server": _fixed(state.server["partition"]),
            "num_partitions": count,
            "own_servers": tuple(read_only(np.flatnonzero(divided == m)) for m in range(count)),
            "nic_jobs": read_only(state.server["nic_jobs"]),
            "uplink_jobs": read_only(state.rack["uplink_jobs"]),
            "max_forwards": max_forwards,
            "granted": granted,
            "placed": read_only(state.placed),
            "slot": _fixed(state.job["first"]),
            "_belief": belief,
            "server_type": _fixed(state.server["type"]),
            "server_closed": read_only(state.server["closed"]),
            "gpu_limit_milli": int(state.world["gpu_limit_milli"][0]),
        }

    def partly_done(self) -> JobColumns:
        """The columns as if each job had been preempted with half of its work done."""
        state = self._state.copied(shared=State.FIXED)
        row = state.job
        row["seen_progress_s"] = row["work_s"] / 2
        row["attained_gpu_s"] = row["seen_progress_s"] * row["num_gpus"]
        row["preemptions"] = row["restarts"] = 1
        return JobColumns(state=state, jobs=self._table, granted=self._granted)

    def view(self) -> ClusterView:
        """The view of this instant."""
        running = self._live.running().copy()
        running.sort()
        return _view_of(
            self._fixed,
            now_s=float(self._now_s[0]),
            queued=self._live.queued().copy(),
            running=running,
        )


@dataclass(frozen=True)
class Slots:
    """Usable GPUs of the servers a scheduler owns; GPUs of other servers are never usable."""

    topology: Topology
    servers: IntArray  # (s,) servers owned, ascending
    usable: BoolArray  # (G,) GPU may take this gang's worker
    usable_per_server: IntArray  # (S,) usable GPUs of each server
    most_per_server: IntArray  # (S,) such GPUs if every server that is up were empty
    tenants: IntArray  # (G,) jobs on each GPU now
    gpu_milli: IntArray  # (G,) thousandths promised to them
    cost: (
        FloatArray  # (G,) predicted slow-down (self x worst victim) of a worker there; 1 if unknown
    )
    # For placers that judge the job and not its gang alone. The view is as the decision began:
    # who was started or suspended in it since shows in `usable`, `tenants`, `gpu_milli` alone.
    view: ClusterView
    job: int

    def on(self, allowed: BoolArray) -> "Slots":
        """Those on servers that are `allowed` (S,)."""
        return replace(
            self,
            servers=self.servers[allowed[self.servers]],
            usable=self.usable & allowed[self.topology.gpu_server],
            usable_per_server=np.where(allowed, self.usable_per_server, 0),
        )
