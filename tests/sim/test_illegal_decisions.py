"""Illegal decisions end the run and say who and why; a scheduler sees what its needs name."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.decision import Decision, Forward, Start
from sim.errors import InvalidDecision, SignalError
from sim.jobs import ANY_TYPE
from sim.kernel.layout import State
from sim.physics.physics import Physics
from sim.simulator import Simulator
from sim.topology.outages import Change
from sim.view import ClusterView, Signal, information_of
from tests.sim.scripted import Scripted, looked
from tests.sim.worlds import Job, changes, cluster, demands, elastic, physics_of, play, start, world

# At t=2 (partition 0 is GPUs 0, 1; partition 1 is 2, 3): A runs on GPU 0, B and C wait, D is to
# come. Profiles 0 and 1 do not fit together.
JOBS = [Job(0, 1, 100), Job(1, 1, 5, profile=1), Job(2, 2, 5), Job(9, 1, 5)]


def yard(max_tenants: int = 1, max_forwards: int = 1) -> Simulator:
    topology = cluster(2, 2)
    physics = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)), infeasible=[(0, 1)])
    return world(
        JOBS, topology, physics=physics, partitions=2, max_tenants=max_tenants,
        max_forwards=max_forwards,
    )  # fmt: skip


def refused(message: str):
    """Expects `InvalidDecision` with these words; `...` stands for any."""
    words = ".*".join(re.escape(part) for part in message.split("..."))
    return pytest.raises(InvalidDecision, match=words)


def starts(*given: Start) -> Decision:
    return Decision(starts=given)


def forwards(*given: tuple[int, int]) -> Decision:
    return Decision(forwards=tuple(Forward(*each) for each in given))


FIRST = (starts(start(0, 0)), Decision())
ILLEGAL = {  # what is told -> of what
    "there is no job row 7 (rows 0 to 3) at t=2.0 s": starts(start(7, 1)),
    "there is no job row -1 ...at t=2.0 s": Decision(preempts=(-1,)),
    "there is no job row 4 ": forwards((4, 1)),
    "job B (row 1): must be running, but is waiting at t=2.0 s": Decision(preempts=(1,)),
    "job A (row 0): is preempted twice in one decision; name it once at t=2.0 s":
        Decision(preempts=(0, 0)),
    "job A (row 0): must be waiting, but is running at t=2.0 s": starts(start(0, 1)),
    "job B (row 1): is started twice in one decision; name it once at t=2.0 s":
        starts(start(1, 1), start(1, 1)),
    "job D (row 3): must be waiting, but is not arrived yet at t=2.0 s": starts(start(3, 1)),
    "job A (row 0): must be waiting, but is running at t=2.0 s...": forwards((0, 1)),
    "job B (row 1): cannot be forwarded from partition 0 to 2; ...0 to 1 at t=2.0 s":
        forwards((1, 2)),
    "job B (row 1): cannot be forwarded from partition 0 to 0; ": forwards((1, 0)),
    "job B (row 1): is forwarded twice in one decision, ...partition 0 at t=2.0 s":
        forwards((1, 1), (1, 0)),
    "job C (row 2): needs 2 GPUs, the decision names 1 at t=2.0 s": starts(start(2, 1)),
    "job B (row 1): needs 1 GPU, the decision names 0 at t=2.0 s": starts(start(1)),
    "job B (row 1): there is no GPU 4 (GPUs 0 to 3) at t=2.0 s": starts(start(1, 4)),
    "job B (row 1): there is no GPU -1 ": starts(start(1, -1)),
    "job B (row 1): GPU 2 belongs to partition 1, the job to 0; ... at t=2.0 s":
        starts(start(1, 2)),
    "job C (row 2): GPU 1 is named twice at t=2.0 s": starts(start(2, 1, 1)),
    "job B (row 1): GPU 0 is held by job rows 0 with 1000 thousandths; max_tenants is 1, and "
    "together they may ask for 1000 at t=2.0 s": starts(start(1, 0)),
    "wake_s is not after now, at t=2.0 s": Decision(wake_s=2.0),
    "wake_s is not after now, at t=2.0 s...": Decision(wake_s=-1.0),
}  # fmt: skip


@pytest.mark.parametrize("message", ILLEGAL)
def test_an_illegal_decision_is_refused_by_name(message: str):
    with refused(message):
        play(yard(), Scripted(*FIRST, ILLEGAL[message]))


GPU = np.array([1])
UNLIKE = {  # what is no decision: what is told of it -> what it is
    "None; it must be a Decision, or WAIT": None,
    "starts=Start(...; it must be a tuple of Start": Decision(starts=start(1, 1)),
    "3 in starts; it must be a tuple of Start": Decision(starts=(3,)),
    "preempts=0; it must be a tuple of rows of jobs": Decision(preempts=0),
    "0.5 in preempts; ... whole numbers, like (job,": Decision(preempts=(0.5,)),
    "False in preempts; it must be a tuple of rows": Decision(preempts=(False,)),
    "1180591620717411303424 in preempts; it must be a tuple of rows": Decision(preempts=(2**70,)),
    "a start of job 1180591620717411303424; it must be a row": starts(Start(2**70, GPU)),
    "Forward(job=1180591620717411303424, partition=0); its job, ": forwards((2**70, 0)),
    "preempts=array([1]); it must be a tuple of rows": Decision(preempts=GPU),
    "(1, 1) in forwards; ... tuple of Forward": Decision(forwards=((1, 1),)),
    "Forward(job=1, partition=0.5); its job, ": forwards((1, 0.5)),
    "a start of job 1.4; it must be a row": starts(Start(1.4, GPU)),
    "a start of job 'B'; it must be a row of a job": starts(Start("B", GPU)),
    "a start of job row 1 on gpus 1; they must be": starts(Start(1, 1)),
    "gpus array([1.5]); they must be": starts(Start(1, GPU + 0.5)),
    "gpus array([ True]); they must be": starts(Start(1, GPU > 0)),
    "gpus [[0], [0, 1]]; they ": starts(Start(1, [[0], [0, 1]])),
    "row 1 with lease_s=nan; it must be a n": starts(Start(1, GPU, np.nan)),
    "wake_s=nan; it must be a time in seconds, or None": Decision(wake_s=float("nan")),
    "wake_s='3'; it must be a time in seconds, or None": Decision(wake_s="3"),
    "again='no'; it must be True or False": Decision(again="no"),
}


@pytest.mark.parametrize("message", UNLIKE)
def test_what_is_no_decision_is_refused_with_who_gave_it(message: str):
    with refused(f"Scripted.decide gives ...{message}"):
        play(yard(), Scripted(*FIRST, UNLIKE[message]))


def test_whole_numbers_of_any_kind_are_taken_and_empty_lists():
    row, small = np.int32(1), np.array([1], dtype=np.uint8)
    run = play(
        yard(),
        Scripted(
            *FIRST,
            Decision(starts=[Start(row, small, np.float32(9))], preempts=[], wake_s=np.int64(3)),
            Decision(starts=(Start(2, [0, 1]),), preempts=(np.int64(0), row)),
            Decision(starts=(Start(0, (0,)), Start(1, [1]))),
            Decision(),  # D arrives
            Decision(starts=(start(3, 1),)),
        ),
    )  # fmt: skip
    assert run.start_s.tolist()[:3] == [0.0, 2.0, 3.0]
    with pytest.raises(InvalidDecision, match="the decision names 0"):
        play(yard(), Scripted(*FIRST, Decision(starts=(Start(1, np.array([])),))))


# Two servers of 2 GPUs, types x and y; each has 4 cores and 100 MiB. At t=2 server 1 is away.
# A holds 700 thousandths of GPU 0, and 3 cores and 60 MiB with it.
ASKS = [(700, 3000, 60, -1), (400, 0, 0, -1), (1000, 1500, 0, -1), (1000, 0, 50, -1),
        (1000, 0, 0, 0b10), (1000, 0, 0, -1)]  # fmt: skip


def demanding() -> Simulator:
    topology = cluster(2, 2, types=("x", "y"))
    topology = dataclasses.replace(
        topology, server_cpu_milli=np.array([4000, 4000]), server_memory_mib=np.array([100, 100])
    )
    jobs = [Job(0, 1, 50), *[Job(2, 1, 50)] * 4, Job(2, 2, 50)]
    traits = demands(*ASKS) | elastic([1] * 6, [1, 1, 1, 1, 1, 3])
    return world(
        jobs, topology, traits=traits, outages=changes((1.0, 1, Change.CLOSE)), max_tenants=3,
        physics=physics_of(topology, compute_s=(1.0, 1.0)), gpu_oversubscription=1.0,
    )  # fmt: skip


def test_what_tenants_may_ask_for_is_rounded_not_cut():
    limit = world([Job(0, 1, 1)], cluster(1, 1), max_tenants=3, gpu_oversubscription=2.01)
    assert limit.state.world[0]["gpu_limit_milli"] == 2010  # 2.01 * 1000 is 2009.99...


LIFE = {  # what is told -> of what
    "job B (row 1): GPU 0 is held by job rows 0 with 700 thousandths; max_tenants is 3, and "
    "together they may ask for 1000 at t=2.0 s": start(1, 0),
    "job B (row 1): GPU 2 is on server 1, which is away at t=2.0 s": start(1, 2),
    "job C (row 2): its workers need 1500 thousandths of a core each, server 0 of GPU 1 has 1000 "
    "free at t=2.0 s": start(2, 1),
    "job D (row 3): its workers need 50 MiB each, server 0 of GPU 1 has 40 free at": start(3, 1),
    "job E (row 4): GPU 1 is of type 0, which the job does not accept": start(4, 1),
    "job F (row 5): needs 1 to 3 GPUs, the decision names 4 at t=2.0 s": start(5, 0, 1, 2, 3),
    "job F (row 5): needs 1 to 3 GPUs, the decision names 0": start(5),
    "job F (row 5): gets a lease that does not end after now; ... at t=2.0 s": start(
        5, 1, lease_s=0.0
    ),
    "job F (row 5): gets a lease that does not end after now": start(5, 1, lease_s=1e-300),
}


@pytest.mark.parametrize("message", LIFE)
def test_demands_absences_sizes_and_leases_are_refused_by_name(message: str):
    with refused(message):
        play(demanding(), Scripted(FIRST[0], starts(LIFE[message])))


def test_the_workers_of_one_start_count_together():
    # Each worker of the gang wants 3 of the server's 4 cores: one would fit, two do not.
    topology = dataclasses.replace(cluster(1, 2), server_cpu_milli=np.array([4000]))
    yard = world([Job(0, 2, 5)], topology, traits=demands((1000, 3000, 0, ANY_TYPE)))
    with refused("3000 thousandths of a core each, ... GPU 1 has 4000"):
        play(yard, Scripted(starts(start(0, 0, 1))))


def test_a_profile_that_does_not_fit_beside_the_holder():
    with refused("job B (row 1): does not fit in the memory of GPU 0 beside job rows 0 at t=2.0 s"):
        play(yard(max_tenants=2), Scripted(*FIRST, starts(start(1, 0))))


def test_one_forward_too_many():
    there = dataclasses.replace(forwards((1, 1)), again=True)
    with refused("job B (row 1): was forwarded 1 times, ...max_forwards allows at t=2.0 s"):
        play(yard(), Scripted(*FIRST, there, forwards((1, 0))))


def test_a_finished_job_does_not_start_again():
    jobs, begin = [Job(0, 1, 1), Job(2, 1, 5)], starts(start(0, 0))
    with refused("job A (row 0): must be waiting, but is finished"):
        play(world(jobs, cluster(1, 2)), Scripted(begin, begin))


def test_many_forwards_fill_no_buffer():
    # 40 jobs go to and fro, 99 forwards each: far more lines than the kernel's buffer has.
    def shuffle(view):
        at = view.jobs.partition
        if len(view.queued) < 40 or int(view.jobs.forwards[view.queued].max()) == 99:
            own = [start(j, int(at[j])) for j in view.queued.tolist()]
            idle = {g for g in (0, 1) if view.tenants[g] == 0}
            first = {int(s.gpus[0]): s for s in reversed(own) if int(s.gpus[0]) in idle}
            return Decision(starts=tuple(first.values()) if len(view.jobs.submit_s) == 40 else ())
        moves = tuple(Forward(j, 1 - int(at[j])) for j in view.queued.tolist())
        return Decision(forwards=moves, again=True)

    trace = [Job(0, 1, 5, home=row % 2) for row in range(40)]
    simulator = world(trace, cluster(2, 1), partitions=2, max_forwards=99)
    run = play(simulator, Scripted(*[shuffle] * 1000))
    assert run.forwards.tolist() == [99] * 40
    assert len(run.log.time_s) == 40 * (3 + 99)
    assert run.finish_s.max() == 100.0  # 20 jobs of 5 s on each GPU


COLUMNS: dict[str, tuple[Signal, Callable[[ClusterView], object]]] = {
    "jobs.duration_s": (Signal.DURATION, lambda view: view.jobs.duration_s),
    "jobs.remaining_s": (Signal.DURATION, lambda view: view.jobs.remaining_s),
    "jobs.estimate_s": (Signal.PREDICTION, lambda view: view.jobs.estimate_s),
    "jobs.predicted_remaining_s": (Signal.PREDICTION, lambda view: view.jobs.predicted_remaining_s),
    "jobs.profile": (Signal.PROFILE, lambda view: view.jobs.profile),
    "view.belief": (Signal.INTERFERENCE, lambda view: view.belief),
}


def look(read: Callable[[ClusterView], Any], needs: Signal) -> Any:
    return looked(world([Job(0, 1, 5, estimate_s=7)], cluster(1, 1)), read, needs=needs)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_needs_its_signal_and_no_other(column: str):
    signal, read = COLUMNS[column]
    look(read, signal)
    others = Signal.DURATION | Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
    with pytest.raises(SignalError, match=rf"{column} needs {signal.name}.*needs"):
        look(read, others & ~signal)


def test_the_columns_say_what_they_are_named():
    assert look(lambda view: view.jobs.duration_s.tolist(), Signal.DURATION) == [5]
    assert look(lambda view: view.jobs.estimate_s.tolist(), Signal.PREDICTION) == [7]


@pytest.mark.parametrize(
    "window", ["tenants", "tenant", "server_free", "partition_of_server", "nic_jobs", "uplink_jobs"]
)
def test_windows_cannot_be_written_through(window: str):
    def write(view: ClusterView) -> None:
        getattr(view, window)[...] = 1

    with pytest.raises(ValueError, match="read-only"):
        look(write, Signal.NONE)


def test_nothing_public_leads_to_the_whole_state():
    def public(view: ClusterView) -> list[object]:
        return [vars(at)[name] for at in (view, view.jobs) for name in vars(at) if name[0] != "_"]

    assert not any(isinstance(value, State | Physics) for value in look(public, Signal.NONE))


def test_job_columns_cannot_be_written_through():
    with pytest.raises(ValueError, match="read-only"):
        look(lambda view: view.jobs.submit_s.fill(0), Signal.NONE)


def test_information_classes():
    assert information_of(Signal.PROFILE) == "none"
    assert information_of(Signal.PREDICTION | Signal.PROFILE) == "predicted"
    assert information_of(Signal.PREDICTION | Signal.DURATION) == "oracle"


def test_a_partition_s_view_holds_its_own_jobs_and_servers():
    # Partition 0 is servers 0 and 1, partition 1 is server 2; jobs B and D arrive at 1.
    jobs = [Job(0, 1, 5), Job(0, 1, 5, home=1), Job(0, 1, 5), Job(1, 1, 5, home=1)]
    views: list[ClusterView] = []

    def look(view: ClusterView) -> Decision:
        views.append(view.narrowed(1, view.queued[view.jobs.partition[view.queued] == 1]))
        here = [Start(row, np.array([gpu])) for row, gpu in ((0, 0), (1, 2), (2, 1), (3, 2))]
        return Decision(starts=tuple(start for start in here if start.job in view.queued))

    def wait(view: ClusterView) -> Decision:
        views.append(view.narrowed(1, view.queued))
        return Decision()

    play(world(jobs, cluster(3, 1), partitions=2), Scripted(look, wait, look))
    first, second, _ = views
    assert (first.queued.tolist(), first.running.tolist()) == ([1], [])
    assert (second.queued.tolist(), second.running.tolist()) == ([3], [1])
    assert (second.partition, second.servers.tolist(), second.num_partitions) == (1, [2], 2)
    assert second.gpus_of(1).tolist() == [2]
