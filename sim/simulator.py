"""One simulated run: lets time pass, asks, checks, applies, records."""

import time
from collections.abc import Callable

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.errors import SimulationError
from sim.jobs import JobTable
from sim.kernel.advance import OVER, STUCK, advance_until_decision
from sim.kernel.apply import LEGAL, apply_decision
from sim.kernel.building import make_state
from sim.kernel.layout import State
from sim.outages import Outages
from sim.physics.physics import Physics
from sim.protocols import Scheduler
from sim.recorder import Recorder
from sim.refusal import refusal
from sim.rules import Rules
from sim.run import Run
from sim.signals import Signal
from sim.topology.topology import Topology
from sim.view import ViewMaker

Progress = Callable[[int, float], None]  # (jobs finished, simulated seconds)
NO_INTS: IntArray = np.empty(0, dtype=np.int64)
NO_PAIRS: IntArray = np.empty((0, 2), dtype=np.int64)


class Simulator:
    """The mutable world of one run; schedulers only see its views."""

    def __init__(
        self,
        *,
        jobs: JobTable,
        topology: Topology,
        physics: Physics,
        belief: Physics,
        partition_of_server: IntArray,
        rules: Rules,
        outages: Outages,
    ) -> None:
        """A cluster at time 0. `belief` is what schedulers with INTERFERENCE are told."""
        if len(jobs) == 0:
            raise SimulationError("the workload has no jobs; widen its window")
        self.jobs = jobs
        self.topology = topology
        self.belief = belief
        self.partition_of_server = partition_of_server
        self.rules = rules
        self.state: State = make_state(
            jobs=jobs,
            topology=topology,
            physics=physics,
            server_partition=partition_of_server,
            rules=rules,
            outages=outages,
        )
        self._recorder = Recorder(self.state)

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return float(self.state.world["now_s"][0])

    def views(self, needs: Signal) -> ViewMaker:
        """The maker of views that grant `needs`."""
        return ViewMaker(
            state=self.state,
            jobs=self.jobs,
            topology=self.topology,
            belief=self.belief,
            max_forwards=self.rules.max_forwards,
            granted=needs,
        )

    def advance(self) -> bool:
        """Let time pass until a decision is due; False when everything is over."""
        self._recorder.flush_if_half_full()
        verdict = advance_until_decision(self.state)
        if verdict == STUCK:
            world = self.state.world[0]
            waiting = int(world["num_queued"])
            job = int(self.state.queue[world["queue_first"]])
            raise SimulationError(
                f"{waiting} jobs wait forever from t={self.now_s:.1f} s on: nothing runs, nothing "
                f"arrives, and the scheduler starts none. The first is job "
                f"{self.jobs.job_id[job]} ({self.jobs.num_gpus[job]} GPUs) in partition "
                f"{self.state.job[job]['partition']}; does it fit there, and may it be forwarded?"
            )
        return verdict != OVER

    def apply(self, decision: Decision) -> None:
        """Check and apply; raises InvalidDecision, after which the run cannot go on."""
        starts, preempts, forwards = decision.starts, decision.preempts, decision.forwards
        if not (starts or preempts or forwards) and decision.wake_s is None:
            self.state.world["wake_s"] = np.inf
            return
        gangs = [len(start.gpus) for start in starts]
        verdict, job, what = apply_decision(
            self.state,
            np.array(preempts, dtype=np.int64) if preempts else NO_INTS,
            np.array([(f.job, f.partition) for f in forwards], dtype=np.int64)
            if forwards
            else NO_PAIRS,
            np.array([start.job for start in starts], dtype=np.int64),
            np.concatenate([[0], np.cumsum(gangs)]).astype(np.int64),
            np.concatenate([start.gpus for start in starts]).astype(np.int64)
            if starts
            else NO_INTS,
            _leases(starts),
            np.nan if decision.wake_s is None else float(decision.wake_s),
        )
        self._recorder.flush_if_half_full()
        if verdict != LEGAL:
            raise refusal(verdict, job, what, self.state, self.jobs)

    def finished(self) -> int:
        """Jobs that are done or withdrawn."""
        return len(self.jobs) - int(self.state.world["num_left"][0])

    def outcome(self, scheduler: str, decisions: int, decision_s: float, loop_s: float) -> Run:
        """The run so far as a value."""
        state = self.state
        return Run(
            scheduler=scheduler,
            jobs=self.jobs,
            topology=self.topology,
            partition_of_server=self.partition_of_server,
            start_s=state.job["first_start_s"].copy(),
            finish_s=state.job["finish_s"].copy(),
            run_s=state.job["run_s"].copy(),
            preemptions=state.job["preemptions"].copy(),
            forwards=state.job["forwards"].copy(),
            partition=state.job["partition"].copy(),
            log=self._recorder.log(),
            decisions=decisions,
            decision_s=decision_s,
            loop_wall_s=loop_s,
        )


def _leases(starts: tuple[Start, ...]) -> FloatArray:
    """(n,) seconds of each start's lease, NaN for none."""
    return np.array([np.nan if s.lease_s is None else s.lease_s for s in starts], np.float64)


def simulate(
    simulator: Simulator, scheduler: Scheduler, seed: int, progress: Progress | None
) -> Run:
    """Run `scheduler` to the end of the trace; `progress` is called about every 1,000 decisions."""
    scheduler.reset(seed)
    views = simulator.views(scheduler.needs)
    decisions, decision_s = 0, 0.0
    began = time.perf_counter()
    again = False
    while again or simulator.advance():
        asked = time.perf_counter()
        decision = scheduler.decide(views.view())
        decision_s += time.perf_counter() - asked
        decisions += 1
        simulator.apply(decision)
        again = decision.again
        if progress is not None and decisions % 1000 == 0:
            progress(simulator.finished(), simulator.now_s)
    loop_s = time.perf_counter() - began
    return simulator.outcome(scheduler.name, decisions, decision_s, loop_s)
