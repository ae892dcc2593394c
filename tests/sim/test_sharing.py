"""Which GPUs each sharing rule offers and what joining costs; an order that shares equally."""

import numpy as np
import pytest

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.jobs import Elastic
from sim.placers.by_room import FirstFit
from sim.protocols import Sharing
from sim.run import Run
from sim.schedulers.orders import Fifo
from sim.sharing import AlwaysShare, FallbackSharing, NoSharing, SelectiveSharing
from sim.view import ClusterView, Signal, Slots
from tests.sim.scripted import Scripted, looked
from tests.sim.worlds import Job, chart, charted, cluster, gantt, parts, physics_of, play, world


def run_with(sharing: Sharing, gpus: int, both: float, **more: object) -> Run:
    """A (10 s) and B (5 s, from 1 on): together each is `both` times slower."""
    topology = cluster(1, gpus)
    physics = physics_of(topology, slowdown=((both,),), **more)
    scheduler = Fifo(placer=FirstFit(), sharing=sharing, skip_blocked=False)
    trace = [Job(0, 1, 10), Job(1, 1, 5)]
    return play(world(trace, topology, physics=physics, max_tenants=2), scheduler)


SHARED, ALONE = "Aaaaaaaaaaaaaaa+.Bbbbbbbbbb", "AaaaaaaaaaBbbbb"
BESIDE = "Aaaaaaaaaa .Bbbbb"


@pytest.mark.parametrize(
    ("sharing", "gpus", "both", "drawing"),
    [
        (NoSharing(), 1, 2.0, ALONE),
        # At half speed each: B 1-11 does its 5; A has done 1 + 5 by then and needs 4 more: 15.
        (AlwaysShare(), 1, 2.0, SHARED),
        (FallbackSharing(), 1, 2.0, SHARED),
        (SelectiveSharing(threshold=0.9), 1, 2.0, SHARED),
        # Together 1/2 + 1/2 = 1, not above 1: B waits. With 1.6 each, 1.25 is above 1.2, not 1.3.
        (SelectiveSharing(threshold=1.0), 1, 2.0, ALONE),
        (SelectiveSharing(threshold=1.2), 1, 1.6, "Aaaaaaaaaaaaa+.Bbbbbbbb"),
        (SelectiveSharing(threshold=1.3), 1, 1.6, ALONE),
        # Always goes where the placer says, the others to an empty GPU first.
        (AlwaysShare(), 2, 2.0, SHARED),
        (FallbackSharing(), 2, 2.0, BESIDE),
        (SelectiveSharing(threshold=0.5), 2, 2.0, BESIDE),
    ],
)
def test_who_shares_and_where(sharing: Sharing, gpus: int, both: float, drawing: str):
    assert chart(run_with(sharing, gpus, both)) == drawing


def test_a_monitor_sees_how_long_an_iteration_takes_now():
    # A step takes 1 s alone; A and B on one GPU are 1.6 and 2.5 times slower. C waits.
    topology = cluster(1, 1)
    physics = physics_of(topology, slowdown=((1.0, 1.6), (2.5, 1.0)))
    jobs = [Job(0, 1, 10), Job(0, 1, 5, profile=1), Job(1, 1, 5)]
    first = Decision(starts=(Start(0, np.array([0])), Start(1, np.array([0]))))
    yard = world(jobs, topology, physics=physics, max_tenants=2)
    seen = looked(yard, lambda view: view.jobs.step_s.tolist(), first, needs=Signal.SPEED)
    assert seen == pytest.approx([1.6, 2.5, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    "sharing", [AlwaysShare(), FallbackSharing(), SelectiveSharing(threshold=0.9)]
)
def test_nobody_joins_where_memory_does_not_suffice(sharing: Sharing):
    assert chart(run_with(sharing, 1, 1.0, infeasible=[(0, 0)])) == ALONE


def test_costs_and_speeds_of_a_mix():
    # GPU 0 holds profiles 1 and 2, GPU 1 profile 1, GPU 2 is empty; D (profile 0) asks.
    slowdown = ((1.0, 1.5, 2.0), (3.0, 1.0, 1.0), (4.0, 1.0, 1.0))
    topology = cluster(1, 3)
    physics = physics_of(topology, slowdown=slowdown)
    jobs = [Job(0, 2, 9, profile=1), Job(0, 1, 9, profile=2), Job(0, 1, 9, profile=0)]

    def look(view):
        scratch = Occupancy(view)
        scratch.occupy(0, np.array([0, 1]))
        scratch.occupy(1, np.array([0]))
        slots = scratch.shared(view, 2, ANY_SPEED)
        # GPU 0: own 1 + 0.5 + 1, worst victim 4. GPU 1: own 1.5, victim 3.
        assert slots.usable.tolist() == [True, True, True]
        assert (slots.cost.tolist(), slots.usable_per_server.tolist()) == ([10.0, 4.5, 1.0], [3])
        # Speeds together: 1/3 + 1/4 + 1/2.5 = 0.98; 1/3 + 1/1.5 = 1; an empty GPU always counts.
        fast = scratch.shared(view, 2, 0.99)
        assert fast.usable.tolist() == [False, True, True]
        assert fast.usable_per_server.tolist() == [2]
        scratch.vacate(0, np.array([0, 1]))
        assert scratch.tenant.tolist() == [[1, -1, -1], [-1] * 3, [-1] * 3]
        assert scratch.tenants.tolist() == [1, 0, 0]
        assert view.tenants.tolist() == [0, 0, 0]  # the scratch copy is one

    yard = world(jobs, topology, physics=physics, max_tenants=3)
    looked(yard, look, needs=Signal.PROFILE | Signal.INTERFERENCE)


class LeastFragments:
    """One GPU a job: where least is left over that is too little for another 500 (FGD, ATC'23)."""

    name, needs, chooses_parts = "least_fragments", Signal.NONE, True
    usual_milli = 500

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        del gang, rng
        gpus, left = np.flatnonzero(slots.usable), 1000 - slots.gpu_milli
        wanted = slots.view.jobs.demands.gpu_milli[slots.job]
        before, after = (np.where(x < self.usual_milli, x, 0) for x in (left, left - wanted))
        return gpus[[np.argmin((after - before)[gpus])]] if len(gpus) else None


class Tightest(LeastFragments):
    name, chooses_parts = "tightest", False


@pytest.mark.parametrize("sharing", [NoSharing(), FallbackSharing()])
@pytest.mark.parametrize("asked", [False, True])
def test_a_placer_may_choose_the_gpu_of_a_part(sharing: Sharing, asked: bool):
    """A, D, E ask for half a GPU, B for .1, C for .3; `asked`: on a copy of the state."""

    def gpus_of(placer: LeastFragments) -> list[int]:
        fifo = Fifo(placer=placer, sharing=sharing, skip_blocked=False)
        traits = parts(500, 100, 300, 500, 500)
        yard = world([Job(0, 1, 10)] * 5, cluster(1, 3), traits=traits, max_tenants=4)
        run = play(yard, Scripted(fifo.decide, needs=fifo.needs) if asked else fifo)
        return [gpus[0] for _, _, gpus in gantt(run).values()]

    assert gpus_of(Tightest()) == [0, 0, 0, 1, 1]
    # B and C spare the other half of GPU 0 for D; on GPU 1, E would leave .1 that is of no use.
    assert gpus_of(LeastFragments()) == [0, 1, 1, 0, 2]


class EqualShares:
    """Whenever somebody comes or goes, gangs are resized to equal shares, within their limits.

    Jobs are served in order of rows; one whose least is more than what is left waits.
    """

    name = "equal_shares"
    needs = Signal.NONE

    def reset(self, seed: int) -> None:
        del seed

    def decide(self, view: ClusterView) -> Decision:
        present = sorted([*view.queued.tolist(), *view.running.tolist()])
        sizes = self._sizes(view, present)
        resized = [job for job in view.running.tolist() if sizes[job] != view.jobs.held[job]]
        free = set(range(view.topology.num_gpus))
        for job in set(view.running.tolist()) - set(resized):
            free -= set(view.gpus_of(job).tolist())
        starts = []
        for job in present:
            if sizes[job] and (job in resized or job in view.queued):
                gpus = sorted(free)[: sizes[job]]
                free -= set(gpus)
                starts.append(Start(job, np.array(gpus)))
        return Decision(starts=tuple(starts), preempts=tuple(resized))

    def _sizes(self, view: ClusterView, present: list[int]) -> dict[int, int]:
        elastic, sizes = view.jobs.elastic, dict.fromkeys(present, 0)
        left = view.topology.num_gpus
        for job in present:
            if elastic.least_gpus[job] <= left:
                sizes[job] = int(elastic.least_gpus[job])
                left -= sizes[job]
        while left > 0:
            growing = [j for j in present if 0 < sizes[j] < elastic.most_gpus[j]]
            if not growing:
                break
            sizes[min(growing, key=lambda j: sizes[j])] += 1
            left -= 1
        return sizes


def test_a_newcomer_takes_half_and_gives_it_back():
    # 4 GPUs, no communication: n GPUs do n / gang of the work a second. A (gang 2, 12 s, 24
    # GPU-seconds) has all 4 until 2; from then on A and B 2 each. B (gang 2, 3 s) is over at 5.
    # A has done 2 * 2 + 3 * 1 = 7 of its 12 by then; nobody asks, since nobody waits: on with 2.
    traits = {"elastic": Elastic(np.array([1, 1]), np.array([4, 4]))}
    yard = world([Job(0, 2, 12), Job(2, 2, 3)], cluster(1, 4), traits=traits)
    run = play(yard, EqualShares())
    assert chart(run) == "AaAaaaaaaa*2 AaBbb*2"
    assert run.run_gpu_s.tolist() == [8 + 16, 6]


def test_limits_are_kept_and_restarts_paid():
    # A runs on 3 to 5 GPUs, B on 2 only. A has all 4 (speed 1) until B comes at 1 and waits, for
    # A's least leaves 1. C, 1 GPU, comes at 2: A shrinks to 3 and restarts for 1 s. Of its 5 s 3
    # are left: at speed 3/4 from 3 on they take 4 s, till 7. C (5 s) ends then, too, and B starts.
    traits = {"elastic": Elastic(np.array([3, 2, 1]), np.array([5, 2, 1]))}
    jobs = [Job(0, 4, 5), Job(1, 2, 3), Job(2, 1, 5)]
    found = charted(jobs, cluster(1, 4), EqualShares(), traits=traits, restart_s=1.0)
    assert found == "AaAaaaaBbb*2 AaAaaaa AaCcccc"
