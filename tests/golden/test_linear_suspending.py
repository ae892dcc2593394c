"""The linear score that suspends jobs for others, weighed by hand: those not named are 0."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.arrays import FloatArray, IntArray
from sim.errors import GpuYardError, SimulationError
from sim.jobs import ANY_TYPE
from sim.kernel.layout import State
from sim.run import Kind
from sim.scoring.linear_score import LinearScore
from sim.scoring.scratch import Scratch
from sim.scoring.table import OfSuspension
from sim.scoring.weights import FORWARD_FEATURES, START_FEATURES, SUSPEND_FEATURES
from sim.scoring.window import refresh
from sim.simulator import Simulator, simulate
from tests.engine.playing import assert_same
from tests.golden.test_linear_score import assert_loops_agree, linear, random_yard, weights_drawn
from tests.oracle.cases import Case, cases
from tests.sim.worlds import Attempt, Job, attempts, charted, cluster, demands, play, world

STARTS = {"bias": 1.0}


def suspending(suspend, start=STARTS, *forward, **given) -> LinearScore:
    return linear(start, *forward, suspend=suspend, **given)


def test_who_has_most_left_makes_room_and_goes_on_where_it_was():
    # C takes 50 s of B, who has 1,900 s left, A 900; coming back costs 10 s.
    jobs = [Job(0, 1, 1000), Job(0, 1, 2000), Job(100, 1, 50)]
    run = play(world(jobs, cluster(1, 2), restart_s=10.0), suspending({"bias": 1.0}))
    assert attempts(run.log) == {
        "A": [(0, 1000, (0,))], "B": [(0, 100, (1,)), (150, 2060, (1,))], "C": [(100, 150, (1,))],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "gpus", "bias", "drawing"),
    [
        # Nobody goes for a job that has more left.
        ([Job(0, 1, 100), Job(0, 1, 200), Job(50, 1, 500)], [2], 9.0, "AaCccccccccc Bbbb"),
        # A score below waiting suspends nobody.
        ([Job(0, 1, 1000), Job(100, 1, 50)], [1], -1.0, f"A{'a' * 19}B"),
        # D wants two GPUs of one server; A alone would free two of them: who need not go stays.
        ([Job(0, 2, 1000), Job(0, 1, 3000), Job(100, 2, 50)], [3], 1.0,
         f"AaCA{'a' * 17}*2 B{'b' * 59}"),
        # A gang over two servers empties both.
        ([Job(0, 2, 1000), Job(0, 2, 2000), Job(100, 4, 50)], [2, 2], 1.0,
         f"AaCA{'a' * 17}*2 BbCB{'b' * 37}*2"),
    ],
)  # fmt: skip
def test_who_goes_and_who_need_not(jobs, gpus, bias, drawing):
    scheduler = suspending({"bias": bias})
    assert charted(jobs, cluster(len(gpus), gpus), scheduler, column_s=50.0) == drawing


@pytest.mark.parametrize(
    ("most_s", "stay"),
    [
        (None, {"A": [(0, 1000), (2500, 6500)], "B": [(1000, 2500), (6500, 10000)]}),
        (800.0, {"A": [(0, 1000), (6000, 10000)], "B": [(1000, 6000)]}),
    ],
)
def test_who_ran_for_longer_than_rest_most_s_do_not_push_each_other_aside(most_s, stay):
    # All were to end after 60 s. At 1000 B, which has done nothing, goes before A. At 2500, when C
    # comes elsewhere, A has done 1,000 s and B 1,500: both above 800.
    jobs = [Job(0, 1, 5000, estimate_s=60), Job(1000, 1, 5000, estimate_s=60),
            Job(2500, 1, 10, home=1)]  # fmt: skip
    scheduler = suspending({"bias": 1.0}, rest_share=1.0, rest_most_s=most_s)
    run = play(world(jobs, cluster(2, 1), partitions=2), scheduler)
    stays = attempts(run.log)
    assert {job: [(at.start_s, at.end_s) for at in stays[job]] for job in "AB"} == stay


@pytest.mark.parametrize(("weight", "server"), [(1.0, 1), (-1.0, 0)])
def test_weights_say_on_which_server_room_is_made(weight: float, server: int):
    # On server 0 both A and B have to go (1,900 GPU-seconds left), on server 1 C (3,800). A and B
    # then take GPUs of C, who has more left than either.
    jobs = [Job(0, 1, 1000), Job(0, 1, 1100), Job(0, 2, 2000), Job(100, 2, 50)]
    run = play(world(jobs, cluster(2, 2)), suspending({"bias": 9.0, "work_ratio": weight}))
    stays = attempts(run.log)
    gone = {0: {"A", "B", "C"}, 1: {"C"}}[server]
    assert {job for job, of_job in stays.items() if len(of_job) > 1} == gone
    assert stays["D"] == [Attempt(100, 150, (2 * server, 2 * server + 1))]


def test_room_is_made_in_another_partition_to_which_the_job_is_handed():
    # B has less left than C, A more: C goes to partition 0 and runs there at once.
    jobs = [Job(0, 1, 1000, home=0), Job(0, 1, 120, home=1), Job(100, 1, 50, home=1)]
    run = play(world(jobs, cluster(2, 1), partitions=2), suspending({"bias": 1.0}))
    assert attempts(run.log)["C"] == [Attempt(100, 150, (0,))]
    rows = zip(run.log.time_s.tolist(), run.log.kind.tolist(), run.log.job.tolist(), strict=True)
    at_100 = [(kind, job) for time_s, kind, job in rows if time_s == 100]
    assert at_100[1:] == [(Kind.PREEMPT, 0), (Kind.FORWARD, 2), (Kind.START, 2)]
    stuck = world(jobs, cluster(2, 1), partitions=2, max_forwards=0)
    stuck = play(stuck, suspending({"bias": 1.0}))
    assert stuck.preemptions.sum() == 0


def test_who_was_suspended_goes_on_elsewhere_at_once_where_there_is_room():
    # C wants both GPUs of a server; A makes room and moves to the GPU beside B.
    jobs = [Job(0, 1, 1000), Job(0, 1, 1000), Job(100, 2, 50)]
    apart = {"bias": 1.0, "fragments": 0.5}
    scheduler = suspending({"bias": 3.0, "homeless": -5.0}, start=apart)
    assert charted(jobs, cluster(2, 2), scheduler, column_s=50.0) == (
        f"AaC ..C B{'b' * 19} ..A{'a' * 17}"
    )


def test_who_is_on_no_server_that_the_gang_takes_stays():
    # A server's 4 cores hold two workers of D. A and B have all cores of theirs, C half. A's server
    # and one more are needed: B's has most empty GPUs, but D's third worker fits beside C.
    jobs = [Job(0, 1, 1000), Job(1, 1, 900), Job(2, 2, 1000), Job(100, 3, 50)]
    asks = [(1000, cores, 0, ANY_TYPE) for cores in (4000, 4000, 1000, 2000)]
    topology = replace(cluster(3, 4), server_cpu_milli=np.full(3, 4000))
    yard = world(jobs, topology, traits=demands(*asks))
    run = play(yard, suspending({"bias": 1.0}))
    stays = attempts(run.log)
    assert stays["D"] == [Attempt(100, 150, (0, 1, 10))]
    assert [len(stays[job]) for job in "ABC"] == [2, 1, 1]


def test_features_of_one_suspension():
    # At 600 B (1 GPU, 60 s) waits; A has 3,000 s left and runs since 0. No other place for A.
    jobs = [Job(0, 2, 3600), Job(600, 1, 60)]
    scheduler = suspending({"bias": -1.0})
    simulator = world(jobs, cluster(1, 2))
    simulator.advance()
    views = simulator.views(scheduler.needs)
    simulator.apply(scheduler.decide(views.view()))
    simulator.advance()
    assert scheduler.decide(views.view()).preempts == ()
    scoring = scheduler.scoring(views.view())
    seen = dict(zip(SUSPEND_FEATURES, scoring.suspend_x.tolist(), strict=True))
    logs = {"duration": 60 / 3600, "work_ratio": 6000 / 60, "least_ratio": 3000 / 60, "ran": 2,
            "victims_left": 3000 / 3600, "wait": 3060 / 120}  # fmt: skip
    known = {name: np.log(ratio) / 2.5 for name, ratio in logs.items()} | {
        "bias": 1.0, "age": 0.0, "gang": 0.0, "occupancy": 1.0, "pressure": np.log(1.5),
        "waste": 0.5, "homeless": 1.0, "times": 0.0, "elsewhere": 0.0,
    }  # fmt: skip
    assert {name: seen[name] for name in known} == pytest.approx(known, rel=1e-12)
    assert len(scoring.scratch.suspension) == len(OfSuspension)


def drawn(seed: int, **given) -> LinearScore:
    rng = np.random.default_rng(seed)
    suspend, start, forward = (
        weights_drawn(names, rng) for names in (SUSPEND_FEATURES, START_FEATURES, FORWARD_FEATURES)
    )
    return suspending(suspend | {"bias": 4.0}, start, forward, **given)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_run_in_compiled_code_is_the_same_run(seed: int):
    run = simulate(random_yard(seed), drawn(seed, patience_s=3000.0), 0, None, compiled=False)
    assert run.preemptions.sum() > 0
    assert_same(play(random_yard(seed), drawn(seed, patience_s=3000.0)), run)


def _told(state: State) -> list[bytes]:
    """All that decisions change."""
    arrays = (state.world, state.job, state.gpu, state.tenant, state.server, state.rack)
    return [each.tobytes() for each in (*arrays, state.partition, state.placed, *state.free_gpus)]


def _counted_along(scratch: Scratch) -> list[IntArray | FloatArray]:
    counts = [scratch.partition[name] for name in scratch.partition.dtype.names if name != "due"]
    return [each.copy() for each in (*counts, scratch.ahead.free_s, scratch.ahead.release_s)]


@settings(max_examples=40)
@given(case=cases(most_partitions=3, most_jobs=30, life=True), seed=st.integers(0, 99))
def test_orders_keep_the_counts_and_happen_to_the_run_as_they_did_to_its_copy(
    case: Case, seed: int
) -> None:
    scheduler, simulator = drawn(seed, patience_s=20.0), Simulator(**case.arguments())
    views, state = simulator.views(scheduler.needs), simulator.state
    with contextlib.suppress(SimulationError):
        while simulator.advance():
            before, view = _told(state), views.view()
            decision = scheduler.decide(view)
            assert _told(state) == before  # nothing has happened to the run
            scratch = scheduler.scoring(view).scratch
            along = _counted_along(scratch)
            refresh(scratch)
            for mine, anew in zip(along, _counted_along(scratch), strict=True):
                assert np.array_equal(mine, anew)
            simulator.apply(decision)
            assert np.array_equal(scratch.state.tenant, state.tenant)
            for column in ("cpu_free_milli", "memory_free_mib", "nic_jobs"):
                assert np.array_equal(scratch.state.server[column], state.server[column]), column
            assert np.array_equal(scratch.state.rack["uplink_jobs"], state.rack["uplink_jobs"])


@settings(max_examples=15)
@given(case=cases(most_partitions=3, most_jobs=30, life=True), seed=st.integers(0, 9))
def test_any_weights_are_legal_and_the_loop_decides_as_who_is_asked(case: Case, seed: int) -> None:
    assert_loops_agree(case, drawn(seed, patience_s=20.0, window=1 + seed % 5), seed)


def test_all_weights_of_suspensions_are_given_or_none():
    with pytest.raises(GpuYardError, match=r"scheduler\.weights\.suspend\.ran is None"):
        weights = suspending({}).weights
        del weights["suspend"]["ran"]
        LinearScore(window=4, patience_s=0.0, use_durations=True, rest_share=0.0, weights=weights,
                    weights_file=None)  # fmt: skip
    with pytest.raises(GpuYardError, match="has 'rann'; it takes bias"):
        suspending({"rann": 1.0})
    assert set(suspending({"ran": 2.0}).weights) == {"start", "forward", "suspend"}
