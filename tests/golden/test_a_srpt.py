"""A-SRPT: the order of a virtual machine, head of line blocking, the delay rule.

And the virtual machine itself: preemptive SRPT, optimal against brute force.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision
from sim.placers.by_job import CompactWait
from sim.placers.by_room import FirstFit, Packed
from sim.schedulers.a_srpt import ASrpt, VirtualMachine
from sim.schedulers.orders import Spjf
from sim.sharing import NoSharing
from sim.topology.outages import Change
from sim.view import Signal
from tests.sim import worlds
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, changes, charted, cluster, gantt, parts, physics_of, play, world


def a_srpt(**knobs) -> ASrpt:
    plain = {"placer": FirstFit(), "efficiency": 1.0, "theta": None, "delta": 0.1, "tau": 1.0}
    return ASrpt(**{**plain, "skip_blocked": False, **knobs})


SPJF = Spjf(placer=FirstFit(), sharing=NoSharing(), skip_blocked=False)
MEETING = [Job(0, 2, 4), Job(1, 1, 2), Job(1, 1, 3)]
# Virtual work A 2, B 2.5, C 3: they join at 2, 4.5 and 7.5; A takes longer than predicted.
HEAD = [Job(0, 1, 20, estimate_s=4), Job(0, 2, 2.5), Job(0, 1, 6)]
CASES = {  # what is seen -> scheduler, jobs, GPUs of the one server, the chart, a column 0.5 s
    # Virtual work is duration x gang / 2: A 4, B 1, C 1.5. A has 3 left at 1 and gives way to B,
    # then to C: B joins at 2, C at 3.5, A at 6.5.
    "the real order is that of virtual completion": (
        a_srpt(), MEETING, 2, "....Bbbb.....Aaaaaaaa .......CcccccAaaaaaaa"),
    "spjf starts at once and orders by duration": (
        SPJF, MEETING, 2, "AaaaaaaaBbbb AaaaaaaaCccccc"),
    "the head blocks those behind it": (
        a_srpt(), HEAD, 2, f"....A{'a' * 39}BbbbbCccccccccccc {'.' * 44}Bbbbb"),
    "with skip_blocked they may start": (
        a_srpt(skip_blocked=True), HEAD, 2,
        f"....A{'a' * 39}Bbbbb {'.' * 15}Cccccccccccc{'.' * 17}Bbbbb"),
    "predictions decide, not durations": (
        a_srpt(), [Job(0, 1, 1, 6), Job(0, 1, 5, 2)], 1, "....Bbbbbbbbbb..Aa"),
    # Half as fast: A's 2 s of virtual work last 4, then B's 4.
    "a slower virtual machine holds jobs longer": (
        a_srpt(efficiency=0.5), [Job(0, 1, 4)] * 2, 2, "........AaaaaaaaBbbbbbbb"),
}  # fmt: skip
test_the_chart_is_as_drawn = worlds.as_drawn(CASES, column_s=0.5)


def test_a_part_of_a_gpu_is_that_part_of_the_virtual_work():
    # Virtual work: A and B 10 x 0.5 / 2 each, C 10 / 2. Whole GPUs would double A and B.
    yard = world([Job(0, 1, 10)] * 3, cluster(1, 2), traits=parts(500, 500, 1000), max_tenants=2)
    run = play(yard, a_srpt())
    assert gantt(run) == {"A": (2.5, 12.5, (0,)), "B": (5, 15, (0,)), "C": (10, 20, (1,))}


def test_a_job_of_no_work_passes_at_once():
    run = play(world([Job(0, 1, 4), Job(1, 1, 0)], cluster(1, 2)), a_srpt())
    assert gantt(run) == {"A": (2, 6, (0,)), "B": (1, 1, (0,))}


# Two servers of two GPUs; a gang over both takes steps of 3 s, on one of 1 s. Virtual work: A 1, B
# and C 1.25, D 2, E 0.25, so they join at 1, 2.25, 3.5, 5.5 and 5.75.
#           1   2.25 3.5  5   5.5  5.75 6.75 7.25  8.5
# GPU 0     A   A    A    -   -    E    -    D           When D joins, GPUs 0 and 3 are free: apart,
# GPU 1     -   B    B    B   B    B    B    D           12 s instead of 4, so it may wait for 8 s.
# GPU 2     -   -    C    C   C    C    C    C     -     E passes. When B ends, D has GPUs 0 and 1.
# GPU 3     -   -    -    -   -    -    -    -     -
APART = [Job(0, 1, 4), Job(0, 1, 5), Job(0, 1, 5), Job(0, 2, 4), Job(5.5, 1, 1)]
OTHERS = {"A": (1, 5, (0,)), "B": (2.25, 7.25, (1,)), "C": (3.5, 8.5, (2,))}
AT_ONCE = {"D": (5.5, 17.5, (0, 3)), "E": (7.25, 8.25, (1,))}
LATE = {"D": (7.25, 11.25, (0, 1)), "E": (5.75, 6.75, (0,))}


@pytest.mark.parametrize(
    ("jobs", "knobs", "stays"),
    [
        (APART, {"theta": 1.5}, LATE),  # it waits and lets E pass
        (APART, {}, AT_ONCE),  # without the rule it starts apart and blocks
        (APART, {"theta": 3.0}, AT_ONCE),  # spread anywhere costs 3 at most: nothing is lost
        (APART, {"theta": 1.5, "delta": 2.0}, AT_ONCE),
        # A tenth of the 8 s that D would lose is its patience: it starts at 6.3 where it is.
        (APART[:4], {"theta": 1.5, "tau": 0.1}, {"D": (6.3, 18.3, (0, 3))}),
        # F joins at 6, when E has taken GPU 0 and D fits nowhere: others go on passing.
        ([*APART, Job(5.75, 1, 1)], {"theta": 1.5}, {**LATE, "F": (6, 7, (3,))}),
        # F joins at 6.5, past 6.3: GPU 3 stays idle until D has a second one.
        ([*APART, Job(6.25, 1, 1)], {"theta": 1.5, "tau": 0.1},
         {"D": (6.75, 18.75, (0, 3)), "E": LATE["E"], "F": (7.25, 8.25, (1,))}),
    ],
)  # fmt: skip
def test_a_gang_waits_for_a_compact_place_as_long_as_that_pays(jobs, knobs, stays):
    topology = cluster(2, 2)
    physics = physics_of(topology, server_s=[0.0, 0.0, 2.0])
    assert gantt(play(world(jobs, topology, physics=physics), a_srpt(**knobs))) == OTHERS | stays


def test_nobody_waits_for_a_type_that_it_refuses():
    # Virtual work is 10 x 2 / 4. A gang of the second type (bit 1) takes four times as long on the
    # best place that it can have, for which it does not wait.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 4.0), server_s=[0.0, 0.0, 2.0])
    second = {"demands": replace(parts(1000)["demands"], type_mask=np.array([0b10]))}
    yard = world([Job(0, 2, 10)], topology, physics=physics, traits=second)
    assert gantt(play(yard, a_srpt(theta=1.5))) == {"A": (5, 45, (2, 3))}


def test_nobody_waits_for_a_faster_type():
    # A holds the fast server to 40.2. B joins at 6 and sends nothing: it takes the slow one.
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 4.0))
    yard = world([Job(0, 2, 40, 0.4), Job(1, 2, 10)], topology, physics=physics)
    assert gantt(play(yard, a_srpt(theta=1.5))) == {
        "A": (0.2, pytest.approx(40.2), (0, 1)), "B": (6, 46, (2, 3)),
    }  # fmt: skip


def test_nobody_waits_for_a_server_that_is_away():
    # The one server for both is away from 0.5 to 100. B joins at 6, as A did, when it is back.
    topology = cluster(3, [2, 1, 1])
    physics = physics_of(topology, server_s=[0.0, 0.0, 2.0, 2.0])
    away = changes((0.5, 0, Change.FAIL), (100.0, 0, Change.OPEN))
    yard = world([Job(1, 2, 10), Job(101, 2, 10)], topology, physics=physics, outages=away)
    found = gantt(play(yard, a_srpt(theta=1.5)))
    assert found == {"A": (6, 36, (2, 3)), "B": (106, 116, (0, 1))}


def test_nobody_waits_for_a_place_that_cores_forbid():
    # Each server has cores for one of the two workers: A joins at 5 and starts on both at once.
    topology = replace(cluster(2, 2), server_cpu_milli=np.full(2, 1000))
    physics = physics_of(topology, server_s=[0.0, 0.0, 2.0])
    traits = worlds.demands((1000, 1000, 0, 0b1))
    yard = world([Job(0, 2, 10)], topology, physics=physics, traits=traits)
    assert gantt(play(yard, a_srpt(theta=1.5)))["A"][0] == 5


def test_the_best_place_is_that_of_links_without_jobs():
    # A keeps the NICs of servers 1 and 3 busy. B joins at 6 and finds 0 and 2, of two racks: 1.8 s,
    # where 0 and 1 without A would take 1.5. So it waits for 0.2 of its duration.
    topology = cluster(4, [2, 2, 2, 1], servers_per_rack=2, types=("x", "y"))
    physics = physics_of(topology, server_s=[0.0, 0.0, 0.5, 2.0, 2.0], nic_factor=(1.0, 1.0, 3.0),
                         compute_s=(1.0, 1.2))  # fmt: skip
    network = replace(physics.network, rack_s=np.array([[0.0, 0.0, 0.3]]))
    yard = world([Job(0, 2, 50), Job(1, 4, 8.75)], topology,
                 physics=replace(physics, network=network))  # fmt: skip
    scheduler = a_srpt(placer=CompactWait(most_slowdown=1.3), theta=1.1)
    first = Decision(starts=(worlds.start(0, 2, 6),))
    run = play(yard, Scripted(first, *[scheduler.decide] * 9, needs=scheduler.needs))
    assert gantt(run)["B"][0] == 7.75


def test_it_reads_profiles_only_to_delay():
    assert a_srpt().needs == Signal.PREDICTION
    judging = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
    assert a_srpt(theta=1.5, placer=Packed()).needs == judging
    assert a_srpt().name == "a_srpt+first_fit+nodelay"


def test_a_job_withdrawn_leaves_the_virtual_machine_and_another_run_starts_anew():
    # A (work 2) would be done at 2, but its user gives up at 1. B (work 3) begins there and gives
    # way to C (0.5) at 1.5: they are done at 2 and at 4.5.
    trace, scheduler = [Job(0, 1, 4), Job(0, 1, 6), Job(1.5, 1, 1)], a_srpt()
    for _ in range(2):
        yard = world(trace, cluster(1, 2), traits=worlds.fates(1.0, np.inf, np.inf))
        stays = gantt(play(yard, scheduler))
        assert stays == {"B": (4.5, 10.5, (0,)), "C": (2, 3, (0,))}


def test_who_is_evicted_keeps_the_place_in_the_order():
    # A runs from 2 on the only server, which fails at 3 and is back at 4. B has joined at 3.5; A is
    # before it, and does not pass the virtual machine again.
    outages = changes((3.0, 0, Change.FAIL), (4.0, 0, Change.OPEN))
    trace = [Job(0, 2, 2), Job(0, 2, 3)]
    assert charted(trace, cluster(1, 2), a_srpt(), outages=outages) == "..A.AaBbb*2"


# --- The virtual machine ---------------------------------------------------------------------


def completions(jobs: list[tuple[float, float]]) -> dict[int, float]:
    """Completion time of each job of (release, work), as whoever wakes at `next_s` sees it."""
    machine, found = VirtualMachine(), {}
    for job in sorted(range(len(jobs)), key=lambda j: jobs[j][0]):
        run_until(machine, jobs[job][0], found)
        machine.submit(job, jobs[job][1])
    run_until(machine, np.inf, found)
    return found


def run_until(machine: VirtualMachine, end_s: float, found: dict[int, float]) -> None:
    while machine.next_s is not None and machine.next_s <= end_s:
        at_s = machine.next_s
        done = machine.advance(at_s)
        assert done, "whoever wakes at next_s finds a job completed"
        found.update(dict.fromkeys(done, at_s))
    if end_s < np.inf:
        assert machine.advance(end_s) == []


def least_total(jobs: list[tuple[float, float]]) -> float:
    """Least total completion time over all choices at every arrival and completion."""

    def best(now_s: float, left: tuple[float, ...]) -> float:
        ready = [j for j, (at, _) in enumerate(jobs) if at <= now_s and left[j] > 0]
        later = [at for at, _ in jobs if at > now_s]
        if not ready:
            return best(min(later), left) if later else 0.0
        totals = []
        for job in ready:
            end_s = min([now_s + left[job], *later])
            rest = left[job] - (end_s - now_s)
            after = (*left[:job], rest, *left[job + 1 :])
            totals.append((end_s if rest == 0 else 0.0) + best(end_s, after))
        return min(totals)

    return best(0.0, tuple(work for _, work in jobs))


# Whole seconds, so that sums are exact.
seconds = st.integers(0, 6).map(float)
works = st.integers(1, 6).map(float)


@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(st.tuples(seconds, works), min_size=1, max_size=4))
def test_it_has_the_least_total_completion_time(jobs):
    assert sum(completions(jobs).values()) == least_total(jobs)


def test_a_shorter_newcomer_takes_over():
    # At 1 A has 3 left, B brings 1; C (2.5) waits for B, not for A.
    assert completions([(0, 4), (1, 1), (1, 2.5)]) == {1: 2, 2: 4.5, 0: 7.5}


def test_equals_do_not_take_over_and_go_by_row():
    assert completions([(0, 2), (1, 1), (1, 1)]) == {0: 2, 1: 3, 2: 4}


def test_equals_of_one_instant_go_by_row_however_the_clock_rounds():
    # On the clock 7 + 4.8 is a little late: by remainders the second would take over the first.
    done = completions([(7, 4.8), (7, 4.8), (10, 0.2)])
    assert (list(done), done[0]) == ([2, 0, 1], pytest.approx(12.0))


def test_work_below_the_clock_s_grain_is_done_at_once():
    machine = VirtualMachine()
    assert machine.advance(1e9) == []
    machine.submit(3, 1e-9)
    machine.submit(4, 5.0)
    assert machine.advance(1e9) == [3]
    assert machine.next_s == 1e9 + 5.0


def test_a_dropped_job_costs_nothing():
    machine = VirtualMachine()
    machine.advance(0.0)
    for job, work_s in ((0, 1.0), (1, 2.0), (2, 3.0)):
        machine.submit(job, work_s)
    machine.drop(0)
    machine.drop(2)
    machine.drop(7)
    assert (machine.jobs, machine.next_s, len(machine)) == ([1], pytest.approx(2.0), 1)
    assert machine.advance(10.0) == [1]
    assert machine.next_s is None
