"""What compiled code plays, what is left to Python and why, and that both tell the same errors."""

import time
from dataclasses import replace

import numpy as np
import pytest

from sim import protocols
from sim.engine.composed import PartitionedScheduler, PreemptiveScheduler, QueueScheduler
from sim.errors import GpuYardError, InvalidDecision, SignalError
from sim.jobs import ANY_TYPE
from sim.kernel.step import OVER, PAUSE
from sim.placers.by_job import CompactWait
from sim.placers.by_room import BestFit, Consolidated, FirstFit, Packed, Random
from sim.schedulers.easy import Easy
from sim.schedulers.orders import Fifo, Sjf, Spjf, Srtf
from sim.sharing import NoSharing
from sim.simulator import simulate
from sim.topology.outages import Change
from sim.view import Signal
from tests.oracle.catalogue import FORWARDINGS, ORDERS, PLACERS, SHARINGS
from tests.sim.worlds import (
    Job,
    attempts,
    changes,
    chart,
    charted,
    cluster,
    demands,
    parts,
    physics_of,
    play,
    world,
)

JOBS = [Job(0.0, 2, 10.0), Job(1.0, 1, 5.0), Job(1.0, 2, 0.0)]
THREE = [Job(0.0, 1, 5.0), Job(1.0, 1, 2.0), Job(2.0, 1, 3.0)]
PARTS = {"placer": Packed(), "sharing": NoSharing()}


class ByGang(QueueScheduler):
    order_name, order_needs = "by_gang", Signal.NONE

    def keys(self, jobs):
        return jobs.num_gpus + 0.0


def fifo(placer=Packed, sharing=NoSharing) -> Fifo:
    return Fifo(placer=placer(), sharing=sharing(), skip_blocked=False)


def sjf(placer=BestFit) -> Sjf:
    return Sjf(placer=placer(), sharing=NoSharing(), skip_blocked=True)


def divided(child: QueueScheduler, forwarding: str) -> PartitionedScheduler:
    return PartitionedScheduler(child=child, forwarding=FORWARDINGS[forwarding]())


def why(scheduler, *, partitions: int = 1, **more) -> str:
    return world(JOBS, cluster(2, 2), partitions=partitions, **more).python_decides(scheduler)


@pytest.mark.parametrize("forwarding", sorted(FORWARDINGS))
def test_partitions_are_compiled_whatever_forwards(forwarding: str):
    assert why(divided(sjf(), forwarding), partitions=2) == ""


def test_outages_demands_and_own_orders_are_compiled():
    class Backwards(Fifo):
        def order(self, view):
            return view.queued[::-1]

    assert why(fifo(), outages=changes((1.0, 0, Change.CLOSE))) == ""
    assert why(Backwards(placer=Packed(), sharing=NoSharing(), skip_blocked=False)) == ""
    assert why(Spjf(placer=Packed(), sharing=NoSharing(), skip_blocked=False)) == ""
    assert why(fifo(), traits=parts(500, 500, 500)) == ""


def test_preemption_is_compiled_whatever_places_and_shares():
    for placer in (CompactWait(most_slowdown=1.3), Packed(), Consolidated()):
        for sharing in SHARINGS.values():
            assert why(Srtf(placer=placer, sharing=sharing())) == ""


def test_a_scheduler_without_a_forwarding_rule_serves_each_partition_by_itself():
    # Both jobs are partition 0's, whose one GPU takes them one after the other.
    run = play(world([Job(0.0, 1, 5.0)] * 2, cluster(2, 1), partitions=2), sjf())
    assert (run.decides, chart(run)) == ("compiled", "AaaaaBbbbb")


@pytest.mark.parametrize("forwarding", ["own", "steal"])
def test_an_own_order_is_asked_only_where_it_counts(forwarding: str):
    # A, B, C are at home on GPU 0, D on GPU 1. Each may start at 0: asked, for GPU 0 alone. At 2 B
    # or C: asked. At 4 C is the last.
    class Counting(Fifo):
        asked = 0

        def order(self, view):
            Counting.asked += 1
            return view.queued

    jobs = [Job(0.0, 1, 2.0), Job(0.0, 1, 2.0), Job(0.0, 1, 3.0), Job(0.0, 1, 4.0)]
    homes = {"home": np.array([0, 0, 0, 1])}
    own = Counting(placer=Packed(), sharing=NoSharing(), skip_blocked=True)
    run, again = (
        simulate(world(jobs, cluster(2, 1), partitions=2, traits=homes), each, 0, None)
        for each in (divided(own, forwarding), divided(fifo(), forwarding))
    )
    assert run.decides == "compiled (Counting.order is asked)"
    assert chart(run) == chart(again) == "AaBbCcc Dddd"
    assert Counting.asked == 2


class Failing:
    """A placer that breaks."""

    name, needs = "failing", Signal.NONE

    def place(self, gang, slots, rng):  # noqa: ARG002  (the role asks for it)
        raise ZeroDivisionError("of the placer's own")


class Wrong:
    """A placer that names what there is not, or not the gang."""

    name, needs = "wrong", Signal.NONE

    def __init__(self, gpus):
        self.gpus = np.array(gpus)

    def place(self, gang, slots, rng):  # noqa: ARG002
        return self.gpus


def test_what_an_own_placer_raises_ends_the_run():
    for preempts in (False, True):
        parts = {"placer": Failing(), "sharing": NoSharing()}
        scheduler = Srtf(**parts) if preempts else Sjf(**parts, skip_blocked=True)
        with pytest.raises(ZeroDivisionError, match="of the placer's own"):
            simulate(world(JOBS, cluster(2, 2)), scheduler, 0, None)


@pytest.mark.parametrize(
    ("gpus", "words"),
    [([0, 7], "no GPU 7"), ([0, -1], "no GPU -1"), ([0], "names 1"), ([1, 1], "named twice")],
)
def test_what_an_own_placer_names_is_checked(gpus: list[int], words: str):
    with pytest.raises(InvalidDecision, match=words):
        simulate(world(JOBS, cluster(2, 2)), sjf(lambda: Wrong(gpus)), 0, None)


def test_an_own_order_may_name_only_who_waits():
    class Odd(Sjf):
        rows = ()

        def order(self, view):  # noqa: ARG002
            return np.array(self.rows)

    jobs = [Job(0.0, 1, 10.0), Job(0.0, 1, 5.0)]
    for rows, words in (((0, 99), "no job row 99"), ((0, 0), "is started twice in one")):
        odd = Odd(placer=BestFit(), sharing=NoSharing(), skip_blocked=True)
        odd.rows = rows
        for compiled in (True, False):
            with pytest.raises(InvalidDecision, match=words):
                simulate(world(jobs, cluster(2, 2)), odd, 0, None, compiled=compiled)


def test_preempting_makes_room_for_cores_too():
    # C wants one GPU and three cores. A holds GPU 0 with two of the four, B GPU 1 with two: A gives
    # way first and its GPU is enough, but not its cores.
    jobs = [Job(0.0, 1, 20.0), Job(0.0, 1, 10.0), Job(1.0, 1, 2.0)]
    asks = [(1000, cores, 0, ANY_TYPE) for cores in (2000, 2000, 3000)]
    topology = replace(cluster(1, 2), server_cpu_milli=np.array([4000]))
    yard = world(jobs, topology, traits=demands(*asks))
    run = play(yard, Srtf(placer=BestFit(), sharing=NoSharing()))
    assert run.decides == "compiled"
    assert run.start_s.tolist() == [0.0, 0.0, 1.0]
    assert run.preemptions.tolist() == [1, 1, 0]


def test_what_is_left_to_python_is_told_with_the_reason():
    class LastFit(FirstFit):
        def place(self, gang, slots, rng):  # noqa: ARG002  (the role asks for it)
            return np.flatnonzero(slots.usable)[-gang:]

    class OwnEasy(Easy):
        """It may fill otherwise."""

    easy = OwnEasy(placer=Packed(), sharing=NoSharing(), overrun_s=60.0)
    assert why(fifo(placer=LastFit)) == "LastFit is Python"
    assert why(fifo(placer=Random)) == "Random is Python"
    assert "`fill` of its own" in why(easy)
    assert why(Easy(placer=Packed(), sharing=NoSharing(), overrun_s=60.0)) == ""
    run = simulate(world(JOBS, cluster(2, 2)), fifo(placer=Random), 0, None)
    assert run.decides == "python (Random is Python)"
    assert simulate(world(JOBS, cluster(2, 2)), fifo(), 0, None).decides == "compiled"
    by_hand = simulate(world(JOBS, cluster(2, 2)), fifo(), 0, None, compiled=False)
    assert by_hand.decides == "python (compiled=false)"


@pytest.mark.parametrize("base", [Sjf, ByGang])
def test_an_order_by_view_goes_before_its_parents_code_and_keys(base: type[QueueScheduler]):
    class Backwards(base):
        def order(self, view):
            return view.queued[::-1]

    assert charted(THREE, cluster(1, 1), sjf()) == "AaaaaBbCcc"
    assert charted(THREE, cluster(1, 1), Backwards(**PARTS, skip_blocked=True)) == "AaaaaCccBb"


class Classes(PreemptiveScheduler):
    """Jobs of higher classes push off those of lower ones."""

    order_name, order_needs = "classes", Signal.NONE
    of_job = np.array([2.0, 1.0, 0.0, 1.0])

    def keys(self, jobs):
        return self.of_job[: len(jobs.num_gpus)]


def test_classes_of_priority_preempt_in_compiled_code():
    #  A (lowest) runs 0-1; B pushes it off and runs 1-2; C pushes off B and runs 2-5; B goes on
    #  till 8; D, of B's class, came later: 8-10. Then A has 9 s left, till 19.
    jobs = [Job(0.0, 1, 10.0), Job(1.0, 1, 4.0), Job(2.0, 1, 3.0), Job(3.0, 1, 2.0)]
    assert charted(jobs, cluster(1, 1), Classes(**PARTS)) == "ABCccBbbDdAaaaaaaaa"
    assert why(Classes(**PARTS)) == ""


def test_keys_by_which_running_jobs_are_preempted_change_by_arithmetic_alone():
    class Drifting(Classes):
        def keys(self, jobs):
            return np.log1p(jobs.attained_gpu_s)

    with pytest.raises(GpuYardError, match="keys of job row 0 is 0 at first and "):
        simulate(world(JOBS, cluster(2, 2)), Drifting(**PARTS), 0, None)


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
        with pytest.raises(SignalError, match="no duration prediction"):
            simulate(yard, divided(sjf(), "steal"), 0, None, compiled=compiled)


def test_srtf_with_two_queues_and_stealing():
    # A, of partition 0, loses GPU 0 to B; GPU 1 takes it as soon as C, of partition 1, is over.
    jobs = [Job(0.0, 1, 9.0), Job(1.0, 1, 3.0), Job(1.0, 1, 1.0, home=1)]
    scheduler = divided(Srtf(placer=Consolidated(), sharing=NoSharing()), "steal")
    for _ in range(2):  # used twice, it begins anew
        run = play(world(jobs, cluster(2, 1), partitions=2), scheduler)
        assert (run.decides, chart(run)) == ("compiled", "ABbb .CAaaaaaaa")


def test_progress_is_called_every_thousand_decisions():
    jobs = [Job(float(at), 1, 0.5) for at in range(2500)]
    calls: dict[bool, list[tuple[int, float]]] = {True: [], False: []}
    for compiled, seen in calls.items():
        simulator = world(jobs, cluster(1, 1))
        simulate(simulator, fifo(), 0, lambda *call, to=seen: to.append(call), compiled=compiled)
    assert calls[True] == calls[False] == [(999, 999.0), (1999, 1999.0)]


def test_what_deciding_costs_is_unknown_and_decisions_are_counted():
    run = simulate(world(JOBS, cluster(2, 2)), fifo(), 0, None)
    assert np.isnan(run.decision_s)
    assert run.decisions == 3  # at 0, at 1, and at 6, when B's GPU lets C in
    assert run.loop_wall_s > 0
    assert attempts(run.log)["A"][0].gpus == (0, 1)


def test_logs_longer_than_the_kernels_buffers_are_whole():
    """200,000 GPU ids go through buffers made for a fraction of them."""
    jobs = [Job(float(at), 8, 1.0) for at in range(12_000)]
    runs = {
        compiled: simulate(world(jobs, cluster(1, 8)), fifo(), 0, None, compiled=compiled)
        for compiled in (True, False)
    }
    assert len(runs[True].log.gpus.ids) == 2 * 8 * 12_000
    assert runs[True].log.gpus.ids.tobytes() == runs[False].log.gpus.ids.tobytes()
    assert runs[True].log.time_s.tobytes() == runs[False].log.time_s.tobytes()


class Counting:
    """A loop whose decisions take a time; notes how many it was let make at once."""

    fault = 0, 0, 0

    def __init__(self, decision_s: float, last: int) -> None:
        self.decision_s, self.last, self.decisions, self.counts = decision_s, last, 0, []

    def play(self, until: int) -> int:
        self.counts.append(until - self.decisions)
        time.sleep(self.decision_s * self.counts[-1])
        self.decisions = until
        return OVER if until >= self.last else PAUSE


def test_python_is_heard_every_1000_decisions_or_sooner_where_they_take_long(monkeypatch):
    monkeypatch.setattr(protocols, "LOOK_S", 0.02)
    quick, slow, told = Counting(0.0, 5000), Counting(0.015, 20), []
    assert protocols.drive(quick, list, lambda: told.append(quick.decisions)) == OVER
    assert quick.counts == [*(2**n for n in range(9)), 489, 1000, 1000, 1000, 1000]
    assert told == [1000, 2000, 3000, 4000]
    assert protocols.drive(slow, list, list) == OVER
    assert max(slow.counts) <= 2
