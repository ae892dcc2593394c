"""Walked schedulers against the Python ones: the same log, byte for byte."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidDecision, SignalError, SimulationError
from sim.outages.changes import Change
from sim.partitioned import PartitionedScheduler
from sim.placers.best_fit import BestFit
from sim.placers.compact_wait import CompactWait
from sim.placers.consolidated import Consolidated
from sim.placers.random import Random
from sim.protocols import Scheduler
from sim.run import Run
from sim.schedulers.sjf import Sjf
from sim.sharing.off import NoSharing
from sim.simulator import Simulator, simulate
from sim.traits import ANY_TYPE, Demands
from sim.walk.loop import WalkLoop
from sim.walk.plan import rule_of
from tests.compiled.playing import asking, assert_same
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import FORWARDINGS, ORDERS, PLACERS, SHARINGS
from tests.sim.worlds import Job, attempts, changes, cluster, physics_of, world

JOBS = [Job(0.0, 2, 10.0), Job(1.0, 1, 5.0), Job(2.0, 4, 3.0)]
WALKED_ORDERS = ("fifo", "fifo_skip", "lif", "load_balance", "sjf", "smallest_gang", "tetris")
WALKED_PLACERS = {
    **{name: make for name, make in PLACERS.items() if name != "random"},
    "best_fit": BestFit,
    "compact_wait": lambda: CompactWait(most_slowdown=1.3),
}


def divided(child, forwarding: str) -> PartitionedScheduler:
    return PartitionedScheduler(child=child, forwarding=FORWARDINGS[forwarding]())


def plain(case: Case) -> Case:
    """The case, with jobs that ask for empty GPUs alone."""
    rules = replace(case.rules, gpu_oversubscription=None)
    return replace(case, jobs=replace(case.jobs, demands=None), rules=rules)


def played(case: Case, scheduler: Scheduler, *, walks: bool) -> Run:
    """The run, or as far as it got before it was stuck; by walking or by Python."""
    simulator = Simulator(**case.arguments())
    scheduler.reset(0)
    rule = rule_of(scheduler, simulator.state)
    assert rule is not None
    try:
        if not walks:
            return simulate(simulator, scheduler, 0, None, compiled=False)
        views = simulator.views(scheduler.needs)
        loop = WalkLoop(rule=rule, state=simulator.state, views=views)
        simulator.play(loop, None)
        return simulator.outcome(scheduler.name, loop.decisions, 0.0, 0.0)
    except SimulationError as error:
        return simulator.outcome(str(error), -1, 0.0, 0.0)


@pytest.mark.parametrize("sharing", sorted(SHARINGS))
@pytest.mark.parametrize("placer", sorted(WALKED_PLACERS))
@settings(max_examples=12)
@given(
    case=cases(most_partitions=3),
    order=st.sampled_from(WALKED_ORDERS),
    forwarding=st.sampled_from(sorted(FORWARDINGS.keys() - {"random"})),
)
def test_the_same_decisions_as_in_python(
    placer: str, sharing: str, case: Case, order: str, forwarding: str
) -> None:
    def scheduler() -> Scheduler:
        child = ORDERS[order](WALKED_PLACERS[placer](), SHARINGS[sharing]())
        return divided(child, forwarding)

    case = plain(case)
    assert_same(played(case, scheduler(), walks=True), played(case, scheduler(), walks=False))


@settings(max_examples=20)
@given(case=cases(most_partitions=1), sharing=st.sampled_from(sorted(SHARINGS)))
def test_one_queue_for_the_whole_cluster(case: Case, sharing: str) -> None:
    def scheduler() -> Scheduler:
        return ORDERS["sjf"](CompactWait(most_slowdown=1.3), SHARINGS[sharing]())

    case = plain(case)
    assert_same(played(case, scheduler(), walks=True), played(case, scheduler(), walks=False))


@settings(max_examples=60)
@given(
    case=cases(most_partitions=3, most_jobs=30),
    forwarding=st.sampled_from(sorted(FORWARDINGS.keys() - {"random"})),
)
def test_the_same_jobs_are_pushed_aside(case: Case, forwarding: str) -> None:
    def scheduler() -> Scheduler:
        return divided(ORDERS["srtf"](Consolidated(), NoSharing()), forwarding)

    case = plain(case)
    assert_same(played(case, scheduler(), walks=True), played(case, scheduler(), walks=False))


def test_srtf_with_two_queues_and_stealing():
    #        0  1  2  3  4 .. 10    A, of partition 0, loses GPU 0 to B; GPU 1 takes it as soon as
    # GPU 0  A  B  B  B             C, of partition 1, is over.
    # GPU 1     C  A  A  A ..
    yard = world(
        [Job(0.0, 1, 9.0), Job(1.0, 1, 3.0), Job(1.0, 1, 1.0, home=1)], cluster(2, 1),
        partitions=2, restart_s=0.0,
    )  # fmt: skip
    run = simulate(yard, divided(ORDERS["srtf"](Consolidated(), NoSharing()), "steal"), 0, None)
    assert np.isnan(run.decision_s)  # compiled
    assert attempts(run.log) == {
        "A": [(0.0, 1.0, (0,)), (2.0, 10.0, (1,))],
        "B": [(1.0, 4.0, (0,))],
        "C": [(1.0, 2.0, (1,))],
    }


@settings(max_examples=25)
@given(
    case=cases(most_partitions=2, mixes=True),
    sharing=st.sampled_from(["always", "fallback", "selective"]),
)
def test_the_same_decisions_where_the_belief_has_a_table_of_mixes(case: Case, sharing: str) -> None:
    def scheduler() -> Scheduler:
        return divided(ORDERS["lif"](PLACERS["least_interference"](), SHARINGS[sharing]()), "steal")

    case = plain(case)
    assert_same(played(case, scheduler(), walks=True), played(case, scheduler(), walks=False))


def rule_in(world_: Simulator, scheduler: Scheduler) -> object:
    return rule_of(scheduler, world_.state)


def sjf(placer=WALKED_PLACERS["compact_wait"]) -> Sjf:
    return Sjf(placer=placer(), sharing=NoSharing(), skip_blocked=True)


def test_what_is_walked():
    yard = world(JOBS, cluster(2, 2), partitions=2)
    assert rule_in(yard, divided(sjf(), "steal")) is not None
    assert yard.has_compiled_form(divided(sjf(), "steal"))
    assert rule_in(world(JOBS, cluster(2, 2)), sjf()) is not None


def test_python_decides_where_walking_knows_less():
    yard = world(JOBS, cluster(2, 2), partitions=2)
    assert rule_in(yard, sjf()) is None  # one queue, several partitions
    assert rule_in(yard, divided(sjf(Random), "steal")) is None
    assert rule_in(yard, divided(sjf(), "random")) is None  # it draws numbers
    srtf = ORDERS["srtf"](BestFit(), NoSharing())  # who gives way is found by trying
    assert rule_in(yard, divided(srtf, "steal")) is None


def test_a_subclass_may_decide_otherwise():
    class Backwards(Sjf):
        def order(self, view):
            return view.queued[::-1]

    backwards = Backwards(placer=BestFit(), sharing=NoSharing(), skip_blocked=True)
    assert rule_in(world(JOBS, cluster(2, 2)), backwards) is None


def test_python_decides_where_servers_go_away_or_jobs_ask_for_more():
    away = changes((1.0, 0, Change.CLOSE))
    assert rule_in(world(JOBS, cluster(2, 2), outages=away), sjf()) is None
    ones = np.ones(len(JOBS), dtype=np.int64)
    halves = Demands(ones * 500, ones * 0, ones * 0, ones * ANY_TYPE)
    assert rule_in(asking(JOBS, None), sjf()) is not None
    assert rule_in(asking(JOBS, halves), sjf()) is None


def test_what_the_cluster_refuses_is_told_as_where_python_decides():
    # It believes that two of these jobs fit on one GPU; they do not.
    topology = cluster(1, 1)
    told = []
    for compiled in (True, False):
        yard = world(
            [Job(0.0, 1, 10.0), Job(5.0, 1, 5.0)], topology, max_tenants=2,
            physics=physics_of(topology, infeasible=[(0, 0)]), belief=physics_of(topology),
        )  # fmt: skip
        lif = ORDERS["lif"](PLACERS["least_interference"](), SHARINGS["always"]())
        with pytest.raises(InvalidDecision) as error:
            simulate(yard, lif, 0, None, compiled=compiled)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "job B" in told[0]


def test_missing_predictions_are_told_as_where_python_decides():
    for compiled in (True, False):
        yard = world(JOBS, cluster(2, 2), partitions=2)
        yard.jobs.estimate_s[1] = np.nan
        with pytest.raises(SignalError, match="no duration predictions"):
            simulate(yard, divided(sjf(), "steal"), 0, None, compiled=compiled)


def test_a_scheduler_used_twice_begins_anew():
    scheduler = sjf()
    runs = [simulate(world(JOBS, cluster(2, 2)), scheduler, 0, None).finish_s for _ in range(2)]
    assert np.array_equal(*runs)
