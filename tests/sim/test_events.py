"""The order of what happens at one instant, wake-ups, restarts, speeds."""

import pytest

from sim.decision import MOST_TURNS, Decision, Forward
from sim.errors import EndlessRun, SimulationError
from sim.placers.by_room import Consolidated
from tests.sim.scripted import Scripted
from tests.sim.worlds import (
    Job,
    chart,
    charted,
    cluster,
    fifo,
    gantt,
    physics_of,
    play,
    start,
    story,
    world,
)


def test_finishes_come_before_arrivals_before_starts():
    run = play(world([Job(0, 1, 5), Job(0, 1, 5), Job(5, 2, 1)], cluster(1, 2)), fifo())
    assert story(run)[4:] == [
        (5, "FINISH", 0), (5, "FINISH", 1), (5, "ARRIVAL", 2), (5, "START", 2), (6, "FINISH", 2),
    ]  # fmt: skip


def test_jobs_that_end_together_finish_in_order_of_rows_not_of_starts():
    scripted = Scripted(
        Decision(starts=(start(1, 0),), wake_s=1.0), Decision(starts=(start(0, 1),))
    )
    run = play(world([Job(0, 1, 4), Job(0, 1, 5)], cluster(1, 2)), scripted)
    assert story(run)[-2:] == [(5, "FINISH", 0), (5, "FINISH", 1)]


def test_a_job_of_no_time_makes_another_round_at_the_same_instant():
    # Both want the one GPU at 0; A is over at once, so B starts at 0 too.
    scheduler = fifo()
    run = play(world([Job(0, 1, 0), Job(0, 1, 3)], cluster(1, 1)), scheduler)
    assert story(run) == [
        (0, "ARRIVAL", 0), (0, "ARRIVAL", 1), (0, "START", 0), (0, "FINISH", 0), (0, "START", 1),
        (3, "FINISH", 1),
    ]  # fmt: skip
    assert run.decisions == 2


def test_wake_ups_happen_once_and_the_last_word_counts():
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=4.0),  # t=0
        Decision(wake_s=2.5),  # t=1, B arrives: replaces 4.0
        Decision(),  # t=2.5: none
        Decision(starts=(start(1, 0),)),  # t=10, A is over
    )
    play(world([Job(0, 1, 10), Job(1, 1, 1)], cluster(1, 1)), scripted)
    assert scripted.asked_s == [0.0, 1.0, 2.5, 10.0]


def test_a_wake_up_asks_even_with_an_empty_queue_and_else_nobody_is_asked():
    scripted = Scripted(Decision(starts=(start(0, 0),), wake_s=4.0))
    play(world([Job(0, 1, 10)], cluster(1, 1)), scripted)
    assert scripted.asked_s == [0.0, 4.0]
    scripted = Scripted(Decision(starts=(start(0, 0),)), Decision(starts=(start(1, 0),)))
    play(world([Job(0, 1, 3), Job(7, 1, 1)], cluster(1, 1)), scripted)
    assert scripted.asked_s == [0.0, 7.0]


def test_again_asks_once_more_after_the_orders_took_effect():
    seen = []

    def second(view):
        lists = (each.tolist() for each in (view.running, view.queued, view.tenants))
        seen.append((view.now_s, *lists))
        return Decision(starts=(start(1, 1),))

    scripted = Scripted(Decision(starts=(start(0, 0),), again=True), second)
    play(world([Job(0, 1, 3), Job(0, 1, 3)], cluster(1, 2)), scripted)
    assert seen == [(0.0, [0], [1], [1, 0])]


def test_who_asks_for_more_without_end_is_stopped():
    scripted = Scripted(*[Decision(again=True)] * MOST_TURNS)
    with pytest.raises(EndlessRun, match=rf"asked {MOST_TURNS} times at one instant.*again=False"):
        play(world([Job(0, 1, 3)], cluster(1, 1)), scripted)


def test_migration_keeps_the_work_and_pays_the_restart():
    # A 0-4 on GPU 0, moved to GPU 1 at 4: 2 s of restart, 6 s of work left: ends at 12.
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=4.0), Decision(preempts=(0,), starts=(start(0, 1),))
    )
    run = play(world([Job(0, 1, 10)], cluster(1, 2), restart_s=2.0), scripted)
    assert chart(run) == "Aaaa ....Aaaaaaaa"
    assert run.run_s.tolist() == [12.0] and run.preemptions.tolist() == [1]


def test_a_preemption_during_the_restart_loses_only_the_restart():
    # Stopped at 4 and at 5 (one second into a restart of two): the third attempt restarts anew.
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=4.0),
        Decision(preempts=(0,), starts=(start(0, 1),), wake_s=5.0),
        Decision(preempts=(0,), starts=(start(0, 0),)),
    )
    found = charted([Job(0, 1, 10)], cluster(1, 2), scripted, restart_s=2.0)
    assert found == "Aaaa.Aaaaaaaa ....A"


def test_the_worst_worker_and_each_pair_s_excess_count():
    # Gang A on GPUs 0 and 1. B joins GPU 0 (2x), then C joins GPU 0 (1 + 1 + 0.5 = 2.5x) and GPU 1
    # stays free of others. A: 2 s at 1, 2 s at 1/2 = 3, then 7 s of work at 0.4 = 17.5 s.
    topology = cluster(1, 2)
    physics = physics_of(topology, slowdown=((1.0, 2.0, 1.5), (1.0,) * 3, (1.0,) * 3))
    jobs = [Job(0, 2, 10), Job(2, 1, 90, profile=1), Job(4, 1, 90, profile=2)]
    scripted = Scripted(*[Decision(starts=(start(row, *gpus),)) for row, gpus in
                          enumerate([(0, 1), (0,), (0,)])])  # fmt: skip
    run = play(world(jobs, topology, physics=physics, max_tenants=3), scripted)
    assert run.finish_s[0] == pytest.approx(21.5)


def test_a_slower_gpu_type_and_a_shared_nic():
    # Type y needs 2 s a step, the reference x 1 s. Across servers 1 s more, 3 s where two spread
    # jobs meet on a NIC. A (x and y): worst worker 2 + 1 -> 1/3 until 3; then 2 + 3 -> 1/5.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(
        topology, compute_s=(1.0, 2.0), server_s=(0.0, 0.0, 1.0), nic_factor=(1.0, 1.0, 3.0)
    )
    scripted = Scripted(Decision(starts=(start(0, 0, 2),)), Decision(starts=(start(1, 1, 3),)))
    run = play(world([Job(0, 2, 3), Job(3, 2, 4)], topology, physics=physics), scripted)
    # A: 1 s of work by 3, 2 left at 1/5: 13. B: 2 s of work by 13, 2 left at 1/3: 19.
    assert run.finish_s.tolist() == pytest.approx([13.0, 19.0])


def test_a_forward_costs_no_time():
    scripted = Scripted(Decision(forwards=(Forward(0, 1),), starts=(start(0, 1),)))
    run = play(world([Job(3, 1, 2)], cluster(2, 1), partitions=2), scripted)
    assert story(run) == [(3, "ARRIVAL", 0), (3, "FORWARD", 0), (3, "START", 0), (5, "FINISH", 0)]
    assert run.log.partition.tolist() == [0, 1, 1, 1]


def test_jobs_that_wait_for_ever_are_named():
    jobs = [Job(0, 1, 5), Job(1, 4, 5), Job(2, 4, 5)]
    message = (
        r"2 jobs wait forever from t=5\.0 s on: .*The first is job B \(4 GPUs\) in partition 0"
    )
    with pytest.raises(SimulationError, match=message) as error:
        play(world(jobs, cluster(1, 2)), fifo())
    assert "; that has 2 GPUs in all, so let it go elsewhere" in str(error.value)


def test_a_run_that_is_over_is_not_played_again_under_another_name():
    simulator = world([Job(0, 1, 1.0)], cluster(1, 1))
    play(simulator, fifo())
    with pytest.raises(SimulationError, match="this run is over; make a Simulator for each"):
        play(simulator, fifo(skip_blocked=False))


def test_no_jobs_is_an_error():
    with pytest.raises(SimulationError, match="no jobs"):
        world([], cluster(1, 1))


def test_the_compact_placement_on_the_reference_type_is_speed_one_to_the_last_bit():
    topology = cluster(3, 2)
    physics = physics_of(topology, compute_s=(0.1,), server_s=(0.0, 0.0, 0.7, 0.9))
    scheduler = fifo(Consolidated(), skip_blocked=False)
    run = play(world([Job(0, 5, 0.3)], topology, physics=physics), scheduler)
    assert gantt(run)["A"][:2] == (0, 0.3)
