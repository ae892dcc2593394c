"""Hand-worked timelines of what befalls jobs and servers."""

from dataclasses import replace

import numpy as np
import pytest

from sim.decision import Decision
from sim.errors import SimulationError
from sim.jobs import ANY_TYPE, CANCELLED, COMPLETED, FAILED, NEVER_S, Attempts, Elastic
from sim.report.balance import balance_of
from sim.topology.outages import Change
from sim.view import Signal
from tests.sim.scripted import Scripted
from tests.sim.worlds import (
    Job,
    attempts,
    changes,
    chart,
    charted,
    cluster,
    demands,
    fates,
    fifo,
    parts,
    physics_of,
    play,
    start,
    story,
    waiting,
    world,
)

FAIL, CLOSE, OPEN = Change.FAIL, Change.CLOSE, Change.OPEN


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


# --- Leases ---------------------------------------------------------------------------------


def test_a_lease_ends_and_the_job_comes_back_after_the_other():
    # A has a lease of 4; B comes at 1 and takes over for its 3 s. A pays a restart of 2, then does
    # the 2 s that are left: 4 + 3 + 2 + 2 = 11.
    scripted = Scripted(
        Decision(starts=(start(0, 0, lease_s=4.0),)),  # 0
        Decision(),  # 1, B arrives
        Decision(starts=(start(1, 0),)),  # 4
        Decision(starts=(start(0, 0),)),  # 7
    )
    run = play(world([Job(0, 1, 6), Job(1, 1, 3)], cluster(1, 1), restart_s=2.0), scripted)
    assert chart(run) == "AaaaBbbAaaa"
    assert run.restarts.tolist() == [1, 0] and run.lost_s.tolist() == [0, 0]
    assert balance_of(run).restart == 2 and balance_of(run).overhead == 0
    assert run.preemptions.tolist() == [0, 0]


def test_a_lease_renewed_at_once_where_it_was_costs_nothing():
    leases = Scripted(*[Decision(starts=(start(0, 0, lease_s=4.0),))] * 3)
    assert charted([Job(0, 1, 10)], cluster(1, 1), leases, restart_s=2.0) == "AaaaAaaaAa"


@pytest.mark.parametrize("gpus", [(1, 0), (0, 2)])
def test_other_gpus_or_another_order_of_workers_are_a_restart(gpus: tuple[int, ...]):
    scripted = Scripted(
        Decision(starts=(start(0, 0, 1, lease_s=4.0),)), Decision(starts=(start(0, *gpus),))
    )
    run = play(world([Job(0, 2, 10)], cluster(1, 3), restart_s=2.0), scripted)
    assert run.finish_s.tolist() == [12.0]


def test_a_lease_that_ends_with_the_job_is_a_finish():
    scripted = Scripted(Decision(starts=(start(0, 0, lease_s=5.0),)))
    run = play(world([Job(0, 1, 5)], cluster(1, 1)), scripted)
    assert story(run)[-1] == (5, "FINISH", 0)


def test_a_lease_may_end_in_the_middle_of_a_restart():
    # Preempted at 3 and put back on GPU 1 for 1 s of a restart of 2; the restart begins anew at 4
    # on GPU 0, work goes on at 6, ends at 9.
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=3.0),
        Decision(preempts=(0,), starts=(start(0, 1, lease_s=1.0),)),
        Decision(starts=(start(0, 0),)),
    )
    assert charted([Job(0, 1, 6)], cluster(1, 2), scripted, restart_s=2.0) == "Aaa.Aaaaa ...A"


# --- Failures inside a job, users, parents --------------------------------------------------


def test_attempts_fail_where_the_trace_says_and_what_they_did_counts():
    # 8 s of work, failures at 3 and 7 of it, restarts of 2: 12 s.
    traits = {"attempts": Attempts(ints(0, 2), np.array([3.0, 7.0]))}
    run = play(world([Job(0, 1, 8)], cluster(1, 1), traits=traits, restart_s=2.0), fifo())
    assert chart(run) == "AaaAaaaaaAaa"
    assert [kind for _, kind, _ in story(run)] == [
        "ARRIVAL", "START", "FAIL", "START", "FAIL", "START", "FINISH",
    ]  # fmt: skip
    assert run.lost_s.tolist() == [0] and run.restarts.tolist() == [2]


def test_a_point_of_failure_is_passed_once_even_if_work_is_lost_behind_it():
    # A fails at 3 and starts again; its server fails at 5. Its last checkpoint is the 3 that the
    # failed attempt left, so work goes on from there at 6: 5 s more.
    traits = {"attempts": Attempts(ints(0, 1), np.array([3.0]))}
    outages = changes((5.0, 0, FAIL), (6.0, 0, OPEN))
    run = play(world([Job(0, 1, 8)], cluster(1, 1), traits=traits, outages=outages), fifo())
    assert chart(run) == "AaaAa.Aaaaa"
    assert run.lost_s.tolist() == [2]


def test_users_give_up_while_waiting_while_running_and_not_after_the_end():
    # A would run for 9, its user gives up at 5. B waits until then and ends at 8, the time at which
    # its user would have given up. C gives up at 2, waiting.
    traits = fates(5.0, 8.0, 2.0)
    jobs = [Job(0, 1, 9), Job(0, 1, 3), Job(0, 1, 1)]
    run = play(world(jobs, cluster(1, 1), traits=traits), fifo())
    assert story(run)[3:] == [
        (0, "START", 0), (2, "WITHDRAW", 2), (5, "WITHDRAW", 0), (5, "START", 1), (8, "FINISH", 1),
    ]  # fmt: skip
    assert run.finish_s.tolist() == [5, 8, 2]
    assert run.outcome.tolist() == [CANCELLED, COMPLETED, CANCELLED]
    assert np.isnan(run.start_s[2]) and run.run_s.tolist() == [5, 3, 0]


def test_a_user_who_gives_up_at_once_leaves_at_the_instant_of_arrival():
    run = play(world([Job(4, 1, 9)], cluster(1, 1), traits=fates(0.0)), fifo())
    assert story(run) == [(4, "ARRIVAL", 0), (4, "WITHDRAW", 0)]


def test_children_wait_for_all_parents():
    # C waits for A and B. D, submitted with B's end, has its parent already and never is blocked.
    jobs = [Job(0, 1, 3), Job(0, 1, 5), Job(1, 1, 2), Job(5, 1, 2)]
    run = play(world(jobs, cluster(1, 2), traits=waiting((), (), (0, 1), (1,))), fifo())
    assert story(run) == [
        (0, "ARRIVAL", 0), (0, "ARRIVAL", 1), (0, "START", 0), (0, "START", 1), (1, "ARRIVAL", 2),
        (3, "FINISH", 0), (5, "FINISH", 1), (5, "READY", 2), (5, "ARRIVAL", 3), (5, "START", 2),
        (5, "START", 3), (7, "FINISH", 2), (7, "FINISH", 3),
    ]  # fmt: skip


def test_a_parent_that_ends_badly_takes_its_descendants_with_it():
    # A fails at 3. B (blocked) and its child C go at once; D comes at 9 and goes as it comes.
    jobs = [Job(0, 1, 3), Job(1, 1, 1), Job(2, 1, 1), Job(9, 1, 1)]
    traits = waiting((), (0,), (1,), (2,)) | fates(*[NEVER_S] * 4, outcome=[FAILED, 0, 0, 0])
    run = play(world(jobs, cluster(1, 1), traits=traits), fifo())
    assert story(run)[4:] == [
        (3, "FINISH", 0), (3, "WITHDRAW", 1), (3, "WITHDRAW", 2), (9, "ARRIVAL", 3),
        (9, "WITHDRAW", 3),
    ]  # fmt: skip
    assert run.outcome.tolist() == [FAILED, CANCELLED, CANCELLED, CANCELLED]


def test_jobs_that_wait_for_each_other_are_named():
    jobs = [Job(0, 1, 3), Job(0, 1, 3), Job(0, 1, 3)]
    with pytest.raises(SimulationError, match=r"job B waits forever from t=3\.0 s on for parents"):
        play(world(jobs, cluster(1, 1), traits=waiting((), (2,), (1,))), fifo())


# --- Servers --------------------------------------------------------------------------------


def test_a_failing_server_costs_the_work_since_the_last_checkpoint():
    # Checkpoints every 4 s of work. It fails at 6, 4 s are kept; back at 9; a restart of 1; 6 s
    # left: 16.
    outages = changes((6.0, 0, FAIL), (9.0, 0, OPEN))
    yard = world([Job(0, 1, 10)], cluster(1, 1), outages=outages, checkpoint_work_s=4.0,
                 restart_s=1.0)  # fmt: skip
    run = play(yard, fifo())
    assert chart(run) == "Aaaaaa...Aaaaaaa"
    assert run.lost_s.tolist() == [2]
    assert story(run)[2:5] == [(6, "SERVER_DOWN", -1), (6, "EVICT", 0), (9, "SERVER_UP", -1)]


def test_failures_predictions_and_losses_are_in_the_seconds_of_durations():
    # On a y, twice as fast as the x that work is counted on: alone 10 s there, 20 of work. It
    # fails at 2; at 6, 4 of the work since then are lost with the server, and done again from 9 on.
    topology = cluster(1, 1, types=("y",))
    physics = physics_of(topology)
    catalogue = replace(physics.catalogue, gpu_types=("y", "x"), compute_s=np.array([[1.0, 2.0]]))
    both = replace(physics.pairs, slowdown=np.ones((2, 1, 1)), feasible=np.full((2, 1, 1), True))
    fast = replace(physics, catalogue=catalogue, reference_gpu="x", pairs=both)
    traits = {"speed": np.array([2.0]), "attempts": Attempts(ints(0, 1), np.array([2.0]))}
    yard = world([Job(0, 1, 10, 5)], topology, physics=fast, traits=traits, checkpoint_work_s=8.0,
                 outages=changes((6.0, 0, FAIL), (9.0, 0, OPEN)))  # fmt: skip
    seen = yard.views(Signal.DURATION | Signal.PREDICTION).view().jobs
    assert (seen.duration_s.tolist(), seen.estimate_s.tolist()) == ([20.0], [10.0])
    run = play(yard, fifo())
    stays = [(0, 2, (0,)), (2, 6, (0,)), (9, 9 + 10 - 6 + 2, (0,))]
    assert (run.lost_s.tolist(), attempts(run.log)["A"]) == ([2.0], stays)
    balance = balance_of(run)
    assert (balance.useful, balance.lost, balance.overhead) == (10.0, 2.0, 0.0)


def test_without_checkpoints_everything_is_lost_and_a_closing_server_loses_nothing():
    for change, lost_s, finish_s in ((FAIL, 6.0, 19.0), (CLOSE, 0.0, 13.0)):
        outages = changes((6.0, 0, change), (9.0, 0, OPEN))
        run = play(world([Job(0, 1, 10)], cluster(1, 1), outages=outages), fifo())
        assert (run.lost_s.tolist(), run.finish_s.tolist()) == ([lost_s], [finish_s])


def test_writing_checkpoints_slows_a_job_evenly():
    # 4 s of work, then 1 s of writing: 4/5 of the time computes. 8 s of work take 10 s.
    yard = world([Job(0, 1, 8)], cluster(1, 1), checkpoint_work_s=4.0, checkpoint_s=1.0)
    assert play(yard, fifo()).finish_s.tolist() == [10.0]


def test_a_preemption_that_saves_nothing_falls_back_to_the_checkpoint():
    # Stopped at 6 with checkpoints every 4: 2 s are lost, also where it goes on in its place,
    # and that is a restart (of 1 s): 6 + 1 + 6 = 13.
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=6.0), Decision(preempts=(0,), starts=(start(0, 0),))
    )
    yard = world([Job(0, 1, 10)], cluster(1, 1), checkpoint_work_s=4.0, preempt_saves=False,
                 restart_s=1.0)  # fmt: skip
    run = play(yard, scripted)
    assert (run.lost_s.tolist(), run.finish_s.tolist()) == ([2.0], [13.0])


def test_a_server_is_up_when_every_reason_is_gone_and_a_gang_falls_with_one_server():
    # Server 0 closes at 2 and fails at 3; one reason goes at 5, the other at 7. The gang of both
    # servers leaves at 2 and comes back at 7, with 8 of its 10 s to go.
    outages = changes((2.0, 0, CLOSE), (3.0, 0, FAIL), (5.0, 0, OPEN), (7.0, 0, OPEN))
    run = play(world([Job(0, 2, 10)], cluster(2, 1), outages=outages), fifo())
    assert chart(run) == "Aa.....Aaaaaaaa*2"
    kinds = [(time_s, kind) for time_s, kind, job in story(run) if job == -1]
    assert kinds == [(2, "SERVER_DOWN"), (7, "SERVER_UP")]


def test_at_one_instant_jobs_end_before_servers_go_and_arrivals_come_after():
    # A ends at 5 as its server fails; B arrives at 5 and finds it away; C has server 1.
    outages = changes((5.0, 0, FAIL), (8.0, 0, OPEN))
    jobs = [Job(0, 1, 5), Job(0, 1, 9), Job(5, 1, 2)]
    run = play(world(jobs, cluster(2, 1), outages=outages), fifo())
    assert story(run)[4:] == [
        (5, "FINISH", 0), (5, "SERVER_DOWN", -1), (5, "ARRIVAL", 2), (8, "SERVER_UP", -1),
        (8, "START", 2), (9, "FINISH", 1), (10, "FINISH", 2),
    ]  # fmt: skip


def test_outages_after_the_last_job_are_not_played():
    outages = changes((5.0, 0, FAIL), (50.0, 0, OPEN), (60.0, 1, FAIL))
    run = play(world([Job(0, 1, 5)], cluster(2, 1), outages=outages), fifo())
    assert story(run)[-1] == (5, "FINISH", 0)
    scripted = Scripted(Decision(starts=(start(0, 0),), wake_s=55.0))  # asked after the end
    run = play(world([Job(0, 1, 3)], cluster(2, 1), outages=outages), scripted)
    assert story(run)[-1] == (3, "FINISH", 0) and scripted.asked_s == [0, 55]


def test_jobs_whose_servers_never_come_back_are_named():
    message = r"1 job waits forever from t=4\.0 s on.* Away for good: 1 server\."
    with pytest.raises(SimulationError, match=message):
        play(world([Job(0, 2, 9)], cluster(2, 1), outages=changes((4.0, 1, CLOSE))), fifo())


def test_a_year_of_outages_beside_one_job_overruns_no_buffer():
    # 20,000 changes of server 1 while A runs on server 0: nobody is asked in all that time.
    rows = [(float(t), 1, FAIL if t % 2 else OPEN) for t in range(1, 20_001)]
    run = play(world([Job(0, 1, 30_000)], cluster(2, 4), outages=changes(*rows)), fifo())
    assert run.decisions == 1 and run.finish_s.tolist() == [30_000]
    assert len(run.log.time_s) == 3 + 20_000
    assert run.log.gpus[1 + 10_000].tolist() == [4, 5, 6, 7]


def test_a_job_of_no_work_ends_as_it_starts_whatever_a_restart_costs():
    run = play(world([Job(0, 1, 0)], cluster(1, 1), restart_s=9.0), fifo())
    assert story(run)[-1] == (0, "FINISH", 0)


# --- Demands and elastic gangs --------------------------------------------------------------


def test_parts_of_a_gpu_are_packed_by_best_fit_and_never_beside_whole_jobs():
    # Thousandths: A 600 opens GPU 0, B 500 GPU 1, C 400 fits beside A exactly, D 500 beside B,
    # E wants the whole of GPU 2. F 100 finds no room in 0 and 1 and none beside E: it waits.
    traits = parts(600, 500, 400, 500, 1000, 100)
    found = charted([Job(0, 1, 5)] * 6, cluster(1, 3), fifo(), traits=traits, max_tenants=4)
    assert found == "AaaaaFffff+Ccccc Bbbbb+Ddddd Eeeee"


def test_the_slow_down_beside_a_part_is_that_part_of_it():
    # Whole neighbours would double the step; a neighbour with 250 thousandths adds a quarter.
    # A and B, 8 s of work each at 1 / 1.25: both end at 10.
    topology = cluster(1, 1)
    physics = physics_of(topology, slowdown=((2.0,),))
    traits = parts(250, 250)
    yard = world([Job(0, 1, 8)] * 2, topology, physics=physics, traits=traits, max_tenants=2)
    run = play(yard, fifo())
    assert run.finish_s.tolist() == [10, 10]
    assert run.interference_s.tolist() == pytest.approx([2, 2])


def test_a_server_takes_no_more_workers_than_its_cores_and_memory_allow():
    # Each worker wants 3 of a server's 8 cores: two workers a server, so a gang of 4 takes two
    # servers of 4 GPUs; B wants 60 of the 100 MiB a worker: one a server, and type y for C.
    topology = cluster(2, 4, types=("x", "y"))
    cores, memory = ints(8000, 8000), ints(100, 100)
    topology = replace(topology, server_cpu_milli=cores, server_memory_mib=memory)
    traits = demands((1000, 3000, 0, ANY_TYPE), (1000, 0, 60, ANY_TYPE), (1000, 0, 0, 0b10))
    yard = world([Job(0, 4, 5), Job(0, 2, 5), Job(0, 1, 5)], topology, traits=traits,
                 physics=physics_of(topology, compute_s=(1.0, 1.0)))  # fmt: skip
    assert chart(play(yard, fifo())) == "Aaaaa*2 Bbbbb . Aaaaa*2 Bbbbb Ccccc"


def test_an_elastic_gang_runs_faster_on_more_and_slower_on_fewer():
    # Without communication n GPUs do n / 2 of the work of its 2. GPU 0 alone: 2 s of work by 4;
    # resized to 4 GPUs at 4, 8 s of work at speed 2: 8. Held: 4 + 16 GPU-seconds.
    scripted = Scripted(
        Decision(starts=(start(0, 0),), wake_s=4.0),
        Decision(preempts=(0,), starts=(start(0, 0, 1, 2, 3),)),
    )
    traits = {"elastic": Elastic(ints(1), ints(4))}
    run = play(world([Job(0, 2, 10)], cluster(1, 4), traits=traits), scripted)
    assert attempts(run.log) == {"A": [(0, 4, (0,)), (4, 8, (0, 1, 2, 3))]}
    assert run.run_gpu_s.tolist() == [20]


def test_measured_scaling_curves_replace_the_model():
    # Measured: 2 GPUs do 1.5 times the work of one. At 2 its speed is 1; on 1 GPU it is 1 / 1.5.
    topology = cluster(1, 2)
    physics = physics_of(topology)
    catalogue = type(physics.catalogue)(
        **{**vars(physics.catalogue), "speedup": np.array([[np.nan, 1.0, 1.5]])}
    )
    physics = type(physics)(**{**vars(physics), "catalogue": catalogue})
    traits = {"elastic": Elastic(ints(1), ints(2))}
    scripted = Scripted(Decision(starts=(start(0, 0),)))
    run = play(world([Job(0, 2, 10)], topology, physics=physics, traits=traits), scripted)
    assert run.finish_s.tolist() == pytest.approx([15])
