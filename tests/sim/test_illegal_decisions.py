"""Every illegal decision ends the run, and the error says who, what, where and when."""

import numpy as np
import pytest

from sim.decision import Decision, Forward, Start
from sim.errors import InvalidDecision
from sim.kernel import apply as verdicts
from sim.simulator import Simulator
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, cluster, physics_of, play, world

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


def start(job: int, *gpus: int) -> Start:
    return Start(job, np.array(gpus, dtype=np.int64))


FIRST = (Decision(starts=(start(0, 0),)), Decision())
ILLEGAL = {
    "job that is not there": (
        Decision(starts=(start(7, 1),)),
        r"there is no job row 7 \(rows 0 to 3\) at t=2\.0 s",
    ),
    "negative job": (Decision(preempts=(-1,)), r"there is no job row -1 .*at t=2\.0 s"),
    "forward of no job": (Decision(forwards=(Forward(4, 1),)), r"there is no job row 4 "),
    "preempt a waiting job": (
        Decision(preempts=(1,)),
        r"job B \(row 1\): must be running, but is waiting at t=2\.0 s",
    ),
    "preempt twice": (
        Decision(preempts=(0, 0)),
        r"job A \(row 0\): must be running, but is waiting at t=2\.0 s",
    ),
    "start a running job": (
        Decision(starts=(start(0, 1),)),
        r"job A \(row 0\): must be waiting, but is running at t=2\.0 s",
    ),
    "start twice": (
        Decision(starts=(start(1, 1), start(1, 1))),
        r"job B \(row 1\): must be waiting, but is running at t=2\.0 s",
    ),
    "start before arrival": (
        Decision(starts=(start(3, 1),)),
        r"job D \(row 3\): must be waiting, but is not arrived yet at t=2\.0 s",
    ),
    "forward a running job": (
        Decision(forwards=(Forward(0, 1),)),
        r"job A \(row 0\): must be waiting, but is running at t=2\.0 s",
    ),
    "forward to nowhere": (
        Decision(forwards=(Forward(1, 2),)),
        r"job B \(row 1\): cannot be forwarded from partition 0 to 2; .*0 to 1 at t=2\.0 s",
    ),
    "forward to itself": (
        Decision(forwards=(Forward(1, 0),)),
        r"job B \(row 1\): cannot be forwarded from partition 0 to 0; ",
    ),
    "forward twice at once": (
        Decision(forwards=(Forward(1, 1), Forward(1, 0))),
        r"job B \(row 1\): is forwarded twice in one decision, .*partition 0 at t=2\.0 s",
    ),
    "too few GPUs": (
        Decision(starts=(start(2, 1),)),
        r"job C \(row 2\): needs 2 GPUs, the decision names 1 at t=2\.0 s",
    ),
    "no GPU at all": (
        Decision(starts=(start(1),)),
        r"job B \(row 1\): needs 1 GPUs, the decision names 0 at t=2\.0 s",
    ),
    "GPU that is not there": (
        Decision(starts=(start(1, 4),)),
        r"job B \(row 1\): there is no GPU 4 \(GPUs 0 to 3\) at t=2\.0 s",
    ),
    "negative GPU": (Decision(starts=(start(1, -1),)), r"job B \(row 1\): there is no GPU -1 "),
    "another partition's GPU": (
        Decision(starts=(start(1, 2),)),
        r"job B \(row 1\): GPU 2 belongs to partition 1, the job to 0; .* at t=2\.0 s",
    ),
    "one GPU twice": (
        Decision(starts=(start(2, 1, 1),)),
        r"job C \(row 2\): GPU 1 is named twice at t=2\.0 s",
    ),
    "held GPU": (
        Decision(starts=(start(1, 0),)),
        r"job B \(row 1\): GPU 0 is held by job rows 0 with 1000 thousandths; max_tenants is 1, "
        r"and together they may ask for 1000 at t=2\.0 s",
    ),
    "wake now": (Decision(wake_s=2.0), r"wake_s is not after now, at t=2\.0 s"),
    "wake in the past": (Decision(wake_s=-1.0), r"wake_s is not after now, at t=2\.0 s"),
}


@pytest.mark.parametrize("what", ILLEGAL)
def test_an_illegal_decision_is_refused_by_name(what: str):
    decision, message = ILLEGAL[what]
    with pytest.raises(InvalidDecision, match=message):
        play(yard(), Scripted(*FIRST, decision))


def test_a_profile_that_does_not_fit_beside_the_holder():
    decision = Decision(starts=(start(1, 0),))
    message = r"job B \(row 1\): does not fit in the memory of GPU 0 beside job rows 0 at t=2\.0 s"
    with pytest.raises(InvalidDecision, match=message):
        play(yard(max_tenants=2), Scripted(*FIRST, decision))


def test_one_forward_too_many():
    there, back = (
        Decision(forwards=(Forward(1, 1),), again=True),
        Decision(forwards=(Forward(1, 0),)),
    )
    message = r"job B \(row 1\): was forwarded 1 times, .*max_forwards allows at t=2\.0 s"
    with pytest.raises(InvalidDecision, match=message):
        play(yard(), Scripted(*FIRST, there, back))


def test_a_finished_job_does_not_start_again():
    jobs = [Job(0, 1, 1), Job(2, 1, 5)]
    with pytest.raises(InvalidDecision, match=r"job A \(row 0\): must be waiting, but is finished"):
        begin = Decision(starts=(start(0, 0),))
        play(world(jobs, cluster(1, 2)), Scripted(begin, Decision(starts=(start(0, 0),))))


def test_the_table_covers_every_verdict():
    named = [n for n in dir(verdicts) if n.isupper() and n not in ("LEGAL", "NOW_S", "WAKE_S")]
    own = {n for n in named if n not in ("QUEUED", "RUNNING", "FORWARD", "PREEMPT", "START")}
    assert own == {
        "NO_SUCH_JOB", "NOT_RUNNING", "NOT_QUEUED", "NO_SUCH_PARTITION", "TOO_MANY_FORWARDS",
        "WRONG_GANG", "NO_SUCH_GPU", "FOREIGN_GPU", "GPU_TWICE", "GPU_FULL", "DOES_NOT_FIT",
        "PAST_WAKE", "FORWARDED_TWICE", "SERVER_AWAY", "WRONG_TYPE", "NO_CORES", "NO_MEMORY",
            "PAST_LEASE",
    }  # fmt: skip


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
