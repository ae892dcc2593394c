"""A fork of a run: the same end to the last digit, and neither disturbs the other."""

import copy
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision, Start
from sim.errors import SimulationError
from sim.kernel.layout import State
from sim.protocols import Scheduler
from sim.run import Run
from sim.simulator import Simulator
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS
from tests.oracle.random_decider import RandomDecider
from tests.sim.same_runs import assert_same
from tests.sim.worlds import Job, cluster, world


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
