"""What no scheduler can change: GPU-seconds, room, work, leases; forks end as what they left."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.errors import SimulationError
from sim.kernel.layout import State
from sim.protocols import Scheduler
from sim.report.balance import check_run
from sim.run import Kind, Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import NO_OUTAGES
from sim.view import ClusterView, Signal
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS
from tests.oracle.random_decider import EVERYTHING, RandomDecider
from tests.sim.ledger import Ledger
from tests.sim.same_runs import assert_same
from tests.sim.worlds import Job, cluster, world

lives = cases(most_partitions=3, life=True)


class Noting:
    """The random decider, with a note of the leases it grants."""

    name = "noting"
    needs: Signal = EVERYTHING

    def __init__(self) -> None:
        self._decider = RandomDecider(whims=60)
        self.leases: dict[tuple[float, int], float] = {}

    def reset(self, seed: int) -> None:
        self._decider.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        decision = self._decider.decide(view)
        for start in decision.starts:
            # The last word at an instant counts: a job may stop and start several times in one.
            self.leases[view.now_s, start.job] = np.inf if start.lease_s is None else start.lease_s
        return decision


def played(case: Case, seed: int) -> tuple[Simulator, Run, Ledger]:
    """A run of random decisions; where jobs wait for ever, up to there."""
    simulator, scheduler = Simulator(**case.arguments()), Noting()
    try:
        run = simulate(simulator, scheduler, seed, None)
    except SimulationError:
        run = simulator.outcome("stuck", 0, 0.0, 0.0)
    return simulator, run, Ledger(case, run, scheduler.leases)


def anything(case: Case, seed: int) -> Run:
    return played(case, seed)[1]


def best_speed(case: Case) -> np.ndarray:
    """(J,) an upper bound: no communication, no neighbour, the fastest GPU type."""
    reference_s = Simulator(**case.arguments()).state.job["reference_step_s"]
    return reference_s / case.physics.catalogue.compute_s.min(axis=1)[case.jobs.profile]


@settings(max_examples=80)
@given(case=lives, seed=st.integers(0, 99))
def test_gpu_seconds_room_leases_parents_absences_and_losses(case: Case, seed: int) -> None:
    _, run, ledger = played(case, seed)
    assert not ledger.began and not any(ledger.tenants.values())
    in_s, out_s = float(run.run_gpu_s.sum()), float(sum(ledger.gpu_s.values()))
    assert in_s == pytest.approx(out_s) == pytest.approx(ledger.busy_gpu_s)
    for job in range(len(run.jobs)):
        assert run.run_gpu_s[job] == pytest.approx(ledger.gpu_s[job])
        held = [kind for _, kind in ledger.stops[job]]
        stops = sum(kind not in (Kind.FINISH, Kind.WITHDRAW) for kind in held)
        assert run.restarts[job] == stops - ledger.renewals[job]
        assert ledger.starts[job] - stops in (0, 1)
    assert np.all(run.forwards <= case.rules.max_forwards)
    check_run(run)
    check_losses(case, run, ledger)


def check_losses(case: Case, run: Run, ledger: Ledger) -> None:
    """No stop costs more than the work since the last checkpoint."""
    every_s = case.rules.checkpoint_work_s
    speed = 1.0 if run.jobs.speed is None else run.jobs.speed
    most_s = np.minimum(np.inf if every_s is None else every_s / speed, run.jobs.duration_s)
    losing = {Kind.EVICT} if case.rules.preempt_saves else {Kind.EVICT, Kind.PREEMPT}
    for job in range(len(run.jobs)):
        stops = sum(kind in losing for _, kind in ledger.stops[job])
        assert run.lost_s[job] >= 0
        if stops == 0:
            assert run.lost_s[job] == 0
        else:
            assert run.lost_s[job] <= most_s[job] * stops * (1 + 1e-9)


@settings(max_examples=60)
@given(case=cases(most_partitions=2, physics=False, life=True), seed=st.integers(0, 99))
def test_work_done_is_the_work_asked_for_and_the_work_lost(case: Case, seed: int) -> None:
    """Without physics a job computes `pace` seconds a second, whatever befalls it."""
    case = dataclasses.replace(case, jobs=dataclasses.replace(case.jobs, elastic=None))
    simulator, run, _ = played(case, seed)
    every_s = case.rules.checkpoint_work_s
    pace = 1.0 if every_s is None else every_s / (every_s + case.rules.checkpoint_s)
    served_s = simulator.state.job["served_gpu_s"] / run.jobs.num_gpus
    work_s, speed = run.jobs.as_work().duration_s, run.jobs.speed
    lost_s = run.lost_s if speed is None else run.lost_s * speed
    finished = simulator.state.job["progress_s"] == work_s
    finished &= ~np.isnan(run.finish_s)
    done_s = simulator.state.job["progress_s"] + lost_s
    assert served_s * pace == pytest.approx(done_s, abs=1e-9)
    assert done_s[finished] == pytest.approx((work_s + lost_s)[finished])
    restarts_s = run.run_s - served_s
    assert np.all(restarts_s >= -1e-9)
    restart_s = case.rules.restart_s + case.rules.restart_s_per_gpu * run.jobs.num_gpus
    assert np.all(restarts_s <= run.restarts * restart_s + 1e-9)


@settings(max_examples=40)
@given(case=cases(most_partitions=3), seed=st.integers(0, 99))
def test_everybody_finishes_where_nothing_goes_wrong(case: Case, seed: int) -> None:
    run = simulate(Simulator(**case.arguments()), RandomDecider(whims=60), seed, None)
    assert np.all(run.finish_s >= run.jobs.submit_s)
    assert run.outcome.tolist() == [0] * len(run.jobs)
    assert run.run_gpu_s == pytest.approx(run.run_s * run.jobs.num_gpus)


@settings(max_examples=40)
@given(case=cases(most_partitions=2, physics=True), seed=st.integers(0, 99))
def test_nobody_is_faster_than_the_best_gpu_alone(case: Case, seed: int) -> None:
    run = anything(case, seed)
    least_s = run.jobs.duration_s / best_speed(case)
    assert np.all(run.run_s >= least_s * (1 - 1e-9))
    assert np.all(run.finish_s - run.jobs.submit_s >= least_s * (1 - 1e-9))
    parts_s = run.comm_s + run.interference_s
    assert np.all(parts_s <= run.run_s * (1 + 1e-9))


@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"las", "srtf"}))
@settings(max_examples=10)
@given(case=cases(most_partitions=1, physics=False), sharing=st.sampled_from(sorted(SHARINGS)))
def test_without_physics_a_job_runs_for_its_duration_exactly(
    order: str, case: Case, sharing: str
) -> None:
    scheduler = ORDERS[order](PLACERS["packed"](), SHARINGS[sharing]())
    run = simulate(Simulator(**case.arguments()), scheduler, 0, None)
    assert np.array_equal(run.finish_s, run.start_s + run.jobs.duration_s)
    assert np.all(run.start_s >= run.jobs.submit_s)
    assert not run.preemptions.any()


@settings(max_examples=30)
@given(case=cases(most_partitions=2, life=True), seed=st.integers(0, 9))
def test_outages_of_servers_that_nobody_needs_change_nothing(case: Case, seed: int) -> None:
    """The traits alone, and with outages after everything is over: the same events."""
    quiet = dataclasses.replace(case, outages=NO_OUTAGES)
    run = anything(quiet, seed)
    end_s = float(run.log.time_s[-1])
    late = case.outages
    if len(late):
        late = dataclasses.replace(late, at_s=late.at_s + end_s + 1.0)
    other = anything(dataclasses.replace(case, outages=late), seed)
    kept = other.log.job >= 0
    if not np.any(run.outcome < 0):
        assert run.log.time_s.tolist() == other.log.time_s.tolist()
        assert kept.all()


def play_on(simulator: Simulator, scheduler: Scheduler, again: bool, most: float = np.inf) -> bool:
    """Decide up to `most` times; whether the same instant asks again (False at the end)."""
    views, decisions = simulator.views(scheduler.needs), 0
    while decisions < most and (again or alive(simulator)):
        decision = scheduler.decide(views.view())
        simulator.apply(decision)
        again, decisions = decision.again, decisions + 1
    return again


def alive(simulator: Simulator) -> bool:
    """Let time pass; False at the end, also where some jobs wait for ever."""
    try:
        return simulator.advance()
    except SimulationError:
        return False


def ended(simulator: Simulator) -> Run:
    return simulator.outcome("run", 0, 0.0, 0.0)


@settings(max_examples=60)
@given(case=cases(most_partitions=3, life=True, mixes=True), turn=st.integers(0, 60))
def test_a_fork_ends_as_the_run_does(case: Case, turn: int):
    simulator = Simulator(**case.arguments())
    scheduler = RandomDecider(whims=40)
    scheduler.reset(turn)
    again = play_on(simulator, scheduler, False, turn)
    twin, same = simulator.fork(), copy.deepcopy(scheduler)
    play_on(twin, same, again)  # to the end before the run itself goes on
    play_on(simulator, scheduler, again)
    assert_same(ended(simulator), ended(twin))


@settings(max_examples=30)
@given(
    case=cases(most_partitions=1), turn=st.integers(0, 30), order=st.sampled_from(sorted(ORDERS))
)
def test_plain_schedulers_go_on_from_a_fork(case: Case, turn: int, order: str):
    def scheduler() -> Scheduler:
        made = ORDERS[order](PLACERS["consolidated"](), SHARINGS["off"]())
        made.reset(0)
        return made

    simulator, decider = Simulator(**case.arguments()), scheduler()
    again = play_on(simulator, decider, False, turn)
    twin = simulator.fork()
    play_on(simulator, decider, again)
    play_on(twin, scheduler(), again)
    assert_same(ended(simulator), ended(twin))


def test_a_fork_that_decides_otherwise_ends_otherwise_and_leaves_the_run_alone():
    # Two jobs of one GPU each, A 10 s and B 4 s; the run starts A first, its fork B.
    simulator = world([Job(0, 1, 10), Job(0, 1, 4)], cluster(1, 1))
    simulator.advance()
    twin = simulator.fork()
    for one, order in ((twin, (1, 0)), (simulator, (0, 1))):
        for job in order:
            one.apply(Decision(starts=(Start(job, np.array([0])),)))
            one.advance()
    assert ended(simulator).finish_s.tolist() == [10.0, 14.0]
    assert ended(twin).finish_s.tolist() == [14.0, 4.0]


def test_forks_share_what_a_run_never_changes():
    state = world([Job(0, 1, 10)], cluster(1, 1)).state
    twin = state.copied(shared=State.FIXED)
    assert twin.physics is state.physics
    assert not np.shares_memory(twin.job, state.job)
    assert not np.shares_memory(twin.loads.job, state.loads.job)


def test_copies_and_pickles_of_a_state_are_runs_of_their_own():
    simulator = world([Job(0, 1, 10)], cluster(1, 1))
    for twin in (copy.deepcopy(simulator.state), pickle.loads(pickle.dumps(simulator.state))):
        other = simulator.fork()
        other.state = twin
        other.advance()
        assert other.now_s == 0.0
        assert twin.world["num_queued"][0] == 1
        assert simulator.state.world["num_queued"][0] == 0
