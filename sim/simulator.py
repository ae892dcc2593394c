"""One simulated run: lets time pass, asks, checks, applies, records.

It can also be set to one instant as told from outside: who waits, who runs where and how far.
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.arrays import FloatArray, IntArray, RowArray
from sim.decision import Decision, Start, check_turns, endless, refusal, stuck
from sim.engine.building import engine_loop
from sim.engine.composed import Composed, rule_of
from sim.engine.given import check_decision
from sim.engine.loop import EngineLoop
from sim.errors import SimulationError
from sim.jobs import CANCELLED, JobTable
from sim.kernel import step
from sim.kernel.attempts import cordon
from sim.kernel.building import make_state
from sim.kernel.layout import FINISHED, QUEUED, WITHDRAWN, State
from sim.physics.physics import Physics
from sim.protocols import Loop, Looping, Scheduler, drive
from sim.run import EventLog, GpuLists, Kind, Rules, Run
from sim.topology.outages import Outages
from sim.topology.topology import Topology
from sim.view import Signal, ViewMaker

# Starts a GPU and waiting job while no job arrives, ends or keeps work: then none ever will.
PATIENCE = 1000


class Recorder:
    """Copies what the kernel logged, before its buffers can run full."""

    def __init__(self, state: State) -> None:
        """Record the log of `state`."""
        self._state = state
        self._rows: list[RowArray] = []
        self._gpus: list[IntArray] = []
        self._jobs = (-1, -1)  # arrivals and jobs left, when one of them or work kept last changed
        self._kept_s: float | None = None  # work kept, summed over all jobs; None: not summed yet
        self._since_s, self._starts = 0.0, 0

    def fork(self, state: State) -> "Recorder":
        """A recorder with the same past that goes on with `state`."""
        twin = Recorder(state)
        twin._rows, twin._gpus = self._rows.copy(), self._gpus.copy()
        return twin

    def half_full(self) -> bool:
        """Whether to flush before the next kernel call: each writes less than half a buffer."""
        state, world = self._state, self._state.world
        rows, gpus = int(world["num_logged"][0]), int(world["num_logged_gpus"][0])
        return 2 * rows > len(state.log) or 2 * gpus > len(state.log_gpus)

    def endless_since_s(self) -> float | None:
        """Since when jobs only start and stop, if they have for long; call before each flush."""
        world = self._state.world[0]
        now = int(world["next_arrival"]), int(world["num_left"])
        kept_s = None if now != self._jobs else float(self._state.job["saved_s"].sum())
        if kept_s is None or kept_s != self._kept_s:
            self._jobs, self._kept_s = now, kept_s
            self._since_s, self._starts = float(world["now_s"]), 0
            return None
        kinds = self._state.log["kind"][: int(world["num_logged"])]
        self._starts += int(np.count_nonzero(kinds == Kind.START))
        most = PATIENCE * (len(self._state.gpu) + int(world["num_queued"]))
        return self._since_s if self._starts > most else None

    def flush(self) -> None:
        """Move the kernel's log here."""
        state, world = self._state, self._state.world
        self._rows.append(state.log[: int(world["num_logged"][0])].copy())
        self._gpus.append(state.log_gpus[: int(world["num_logged_gpus"][0])].copy())
        world["num_logged"] = world["num_logged_gpus"] = 0

    def __len__(self) -> int:
        """Events so far."""
        return sum(map(len, self._rows)) + int(self._state.world["num_logged"][0])

    def log(self) -> EventLog:
        """The whole log so far."""
        self.flush()
        rows = np.concatenate(self._rows)
        first = np.concatenate([[0], np.cumsum(rows["gpus"])])
        return EventLog(
            time_s=rows["time_s"].copy(), kind=rows["kind"].copy(), job=rows["job"].copy(),
            partition=rows["partition"].copy(), gpus=GpuLists(first, np.concatenate(self._gpus)),
        )  # fmt: skip


OUTCOME_COLUMNS = (  # fields of a `Run` and of a row of the state
    "finish_s", "run_s", "preemptions", "forwards", "partition", "lost_s", "comm_s", "restarts",
    "run_gpu_s", "served_gpu_s",
)  # fmt: skip
Progress = Callable[[int, float], None]  # (jobs finished, simulated seconds)
NO_INTS: IntArray = np.empty(0, dtype=np.int64)


class Simulator:
    """The mutable world of one run; schedulers only see its views."""

    def __init__(
        self, *, jobs: JobTable, topology: Topology, physics: Physics, belief: Physics,
        partition_of_server: IntArray, rules: Rules, outages: Outages,
    ) -> None:  # fmt: skip
        """A cluster at time 0. `belief` is what schedulers with INTERFERENCE are told."""
        if len(jobs) == 0:
            raise SimulationError("the workload has no jobs; widen its window")
        if (home := int(np.max(jobs.home))) > (last := int(np.max(partition_of_server))):
            fault = f"a job arrives at partition {home}, and there are 0 to {last}"
            raise SimulationError(f"{fault}; play windows drawn for as many agents")
        self.jobs = jobs
        self._work = jobs.as_work()
        self.topology = topology
        self.physics = physics
        self.belief = belief
        self.partition_of_server = partition_of_server
        self.rules = rules
        self.state: State = make_state(
            jobs=self._work, topology=topology, physics=physics,
            server_partition=partition_of_server, rules=rules, outages=outages,
        )  # fmt: skip
        self._recorder = Recorder(self.state)

    def fork(self, into: "Simulator | None" = None) -> "Simulator":
        """This run as it stands, to be played on by itself: neither disturbs the other.

        Physics and all else that a run never changes are shared. A view, or a loop, belongs to
        the run that it was made for. `into` is an earlier fork of this run that may be overwritten.
        """
        twin = copy.copy(self) if into is None else into
        if into is None:
            twin.state = self.state.copied(shared=State.FIXED)
        else:
            twin.state.overwrite(self.state, shared=State.FIXED)
        twin._recorder = self._recorder.fork(twin.state)
        return twin

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return float(self.state.world["now_s"][0])

    def views(self, needs: Signal) -> ViewMaker:
        """The maker of views that grant `needs`."""
        return ViewMaker(
            state=self.state, jobs=self._work, topology=self.topology, belief=self.belief,
            max_forwards=self.rules.max_forwards, granted=needs,
        )  # fmt: skip

    def python_decides(self, scheduler: Scheduler) -> str:
        """Why no compiled loop plays as `scheduler` decides here; empty where one does."""
        if isinstance(scheduler, Looping):
            return scheduler.why_python()
        rule = rule_of(scheduler, self.state)
        return rule if isinstance(rule, str) else ""

    def asks(self, scheduler: Scheduler) -> str:
        """The method of its own that its compiled loop asks Python for; empty where none is."""
        if isinstance(scheduler, Looping) or self.python_decides(scheduler):
            return ""
        loop = self.loop_of(scheduler)
        return loop.asks if isinstance(loop, EngineLoop) else ""

    def loop_of(self, scheduler: Scheduler) -> Loop | None:
        """What plays as `scheduler` decides, from the beginning; None where Python has to.

        Raises:
            SignalError: the scheduler reads what this run does not have.
        """
        views = self.views(scheduler.needs)
        if isinstance(scheduler, Looping):
            return None if scheduler.why_python() else scheduler.loop(self.state, views)
        rule = rule_of(scheduler, self.state)
        if isinstance(rule, str):
            return None
        misled = not np.array_equal(self.physics.pairs.feasible, self.belief.pairs.feasible)
        assert isinstance(scheduler, Composed)
        return engine_loop(scheduler, rule, self.state, views, misled=misled)

    def play(self, loop: Loop, progress: Progress | None) -> None:
        """Run a loop to the end; raises InvalidDecision, after which the run cannot go on."""

        def tell() -> None:
            if progress is not None:
                progress(self.finished(), self.now_s)

        verdict = drive(loop, self.flush, tell)
        if verdict == step.STUCK:
            raise stuck(self.state, self.jobs)
        if verdict == step.ILLEGAL:
            raise refusal(*loop.fault, self.state, self.jobs)

    def advance(self) -> bool:
        """Let time pass until a decision is due; False when everything is over."""
        if self._recorder.half_full():
            self.flush()
        while (verdict := step.advance_until_decision(self.state)) == step.FULL:
            self.flush()
        if verdict == step.STUCK:
            raise stuck(self.state, self.jobs)
        return verdict != step.OVER

    def flush(self) -> None:
        """Move what compiled code has logged out of its way.

        Raises:
            EndlessRun: jobs have long only started and stopped; none arrived, ended or kept work.
        """
        since_s = self._recorder.endless_since_s()
        self._recorder.flush()
        if since_s is not None:
            raise endless(self.state, self.jobs, since_s)

    def forget_log(self) -> None:
        """For runs whose log nobody reads: make room for what comes."""
        self.state.world["num_logged"] = self.state.world["num_logged_gpus"] = 0

    def apply(self, decision: Decision, by: Scheduler | None = None) -> None:
        """Check and apply what `by` gives; after an InvalidDecision the run cannot go on."""
        check_decision(by, decision)
        self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        """Apply what is a decision for certain."""
        starts, preempts, forwards = decision.starts, decision.preempts, decision.forwards
        wake_s = np.inf if decision.wake_s is None else float(decision.wake_s)
        if decision.is_empty and wake_s > self.now_s:
            self.state.world["wake_s"] = wake_s
            return
        gangs = [len(start.gpus) for start in starts]
        verdict, job, what = step.apply_decision(
            self.state,
            np.array(preempts, dtype=np.int64) if preempts else NO_INTS,
            np.array([(f.job, f.partition) for f in forwards], dtype=np.int64).reshape(-1, 2),
            np.array([start.job for start in starts], dtype=np.int64),
            np.concatenate([[0], np.cumsum(gangs)]).astype(np.int64),
            np.concatenate([NO_INTS, *(start.gpus for start in starts)]).astype(np.int64),
            np.array([np.nan if s.lease_s is None else s.lease_s for s in starts], np.float64),
            np.nan if decision.wake_s is None else wake_s,
        )
        if self._recorder.half_full():
            self.flush()
        if verdict != step.LEGAL:
            raise refusal(verdict, job, what, self.state, self.jobs)

    def num_events(self) -> int:
        """That were logged so far."""
        return len(self._recorder)

    def finished(self) -> int:
        """Jobs that are done or withdrawn."""
        return len(self.jobs) - int(self.state.world["num_left"][0])

    def outcome(self, scheduler: str, decisions: int, decision_s: float, loop_s: float) -> Run:
        """The run so far as a value."""
        row = self.state.job
        columns: dict[str, Any] = {name: row[name].copy() for name in OUTCOME_COLUMNS}
        if self.jobs.speed is not None:
            columns["lost_s"] /= self.jobs.speed
        return Run(
            scheduler=scheduler, jobs=self.jobs, topology=self.topology,
            partition_of_server=self.partition_of_server, start_s=row["first_start_s"].copy(),
            interference_s=row["slow_s"].copy(), **columns, log=self._recorder.log(),
            decisions=decisions, decision_s=decision_s, loop_wall_s=loop_s,
            outcome=self._outcomes(), models=self.physics.catalogue.names, watts=self.physics.watts,
        )  # fmt: skip

    def _outcomes(self) -> IntArray:
        """(J,) COMPLETED, FAILED, CANCELLED; -1: still in the system."""
        row = self.state.job
        left: IntArray = np.where(row["status"] == WITHDRAWN, CANCELLED, -1)
        return np.where(row["status"] == FINISHED, row["outcome"], left)


def simulate(
    simulator: Simulator, scheduler: Scheduler, seed: int, progress: Progress | None, *,
    compiled: bool = True,
) -> Run:  # fmt: skip
    """Run `scheduler` to the end of the trace; `progress` is called about every 1,000 decisions.

    With `compiled`, a scheduler that has a compiled loop is played by it where that is possible:
    the same decisions, much faster; what deciding cost is NaN, for it cannot be told from the rest.

    Raises:
        SimulationError: the run is over, or its jobs wait for ever.
    """
    if simulator.finished() == len(simulator.jobs):
        raise SimulationError("this run is over; make a Simulator for each scheduler")
    scheduler.reset(seed)
    loop = simulator.loop_of(scheduler) if compiled else None
    if loop is not None:
        began = time.perf_counter()
        simulator.play(loop, progress)
        loop_s = time.perf_counter() - began
        run = simulator.outcome(scheduler.name, loop.decisions, np.nan, loop_s)
        return replace(run, decides=compiled_but(loop.asks if isinstance(loop, EngineLoop) else ""))
    views = simulator.views(scheduler.needs)
    decisions, turns, decision_s = 0, 0, 0.0
    began = time.perf_counter()
    again = False
    while again or simulator.advance():
        asked = time.perf_counter()
        decision = scheduler.decide(views.view())
        decision_s += time.perf_counter() - asked
        decisions += 1
        simulator.apply(decision, scheduler)
        again = decision.again
        turns = turns + 1 if again and decision.is_empty else 0
        check_turns(scheduler.name, turns)
        if progress is not None and decisions % 1000 == 0:
            progress(simulator.finished(), simulator.now_s)
    loop_s = time.perf_counter() - began
    run = simulator.outcome(scheduler.name, decisions, decision_s, loop_s)
    why = simulator.python_decides(scheduler) or "compiled=false"
    return replace(run, decides=f"python ({why})")


def compiled_but(asked: str) -> str:
    """Who decides in compiled code that asks for one method in Python, or (empty) for none."""
    return f"compiled ({asked} is asked)" if asked else "compiled"


@dataclass(frozen=True)
class Instant:
    """What has become of every job of the table up to now; jobs that do not run wait."""

    now_s: float
    placements: Sequence[tuple[int, IntArray]]  # (row, its GPUs) of the running, first to start
    ready_s: FloatArray  # (J,) when it first could queue: submitted, all its parents done
    progress_s: FloatArray  # (J,) work done
    attained_gpu_s: FloatArray  # (J,) GPU seconds of service
    started_s: FloatArray  # (J,) of the attempt that runs; NaN where none does
    resume_s: FloatArray  # (J,) when that attempt began, or begins, to make progress
    restarts: IntArray  # (J,) times it lost its GPUs
    forwards: IntArray  # (J,)
    closed: Sequence[int]  # servers that take nobody new; who runs there stays


def set_to(simulator: Simulator, at: Instant) -> None:
    """Bring a fresh run to an instant, as if all had happened that led to it.

    Schedulers may be asked and decisions applied then; time is not meant to go on. Partitions are
    those of `jobs.home`.

    Raises:
        InvalidDecision: a placement of a running job is impossible.
    """
    state, row = simulator.state, simulator.state.job
    world = state.world[0]
    count = len(row)
    world["now_s"] = at.now_s
    world["next_arrival"] = count
    row["status"] = QUEUED
    row["ready_s"] = at.ready_s
    world["ready_s"] = at.ready_s[at.ready_s > row["submit_s"]].max(initial=-np.inf)
    row["progress_s"] = row["saved_s"] = row["seen_progress_s"] = at.progress_s
    state.queue[:count] = np.arange(count)
    world["queue_first"], world["num_queued"] = 0, count
    simulator._carry_out(Decision(tuple(Start(job, gpus) for job, gpus in at.placements)))
    running = np.array([job for job, _ in at.placements], dtype=np.int64)
    _date(simulator, at, running)
    row["restarts"] = row["preemptions"] = at.restarts
    row["forwards"] = at.forwards
    for server in at.closed:
        cordon(state, server)
    first, waiting = int(world["queue_first"]), int(world["num_queued"])
    state.joined[:waiting] = state.queue[first : first + waiting]
    world["num_joined"] = waiting
    simulator.forget_log()


def _date(simulator: Simulator, at: Instant, running: IntArray) -> None:
    """Write when those who run began, and what service that comes to."""
    row = simulator.state.job
    for name in ("started_s", "resume_s"):
        row[name][running] = getattr(at, name)[running]
    row["first_start_s"][running] = at.started_s[running]
    row["rated_s"][running] = np.maximum(at.now_s, at.resume_s[running])
    under_way_s = np.zeros(len(row))
    under_way_s[running] = np.maximum(0.0, at.now_s - at.resume_s[running])
    row["attained_gpu_s"] = at.attained_gpu_s
    row["served_gpu_s"] = at.attained_gpu_s - under_way_s * row["held"]
