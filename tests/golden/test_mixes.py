"""Three jobs on one GPU with a table of mixes written by hand, and a host that is too small."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from sim.arrays import FloatArray, IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import ANY_SPEED, Occupancy
from sim.errors import PhysicsError
from sim.physics.catalogue import HostNeeds, HostTables
from sim.physics.mix_table import MixTable, PairTable, mix_table
from sim.view import Signal
from tests.sim.scripted import Scripted, looked
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world


class ByHand(NamedTuple):
    """Excess of a victim beside two others: the same whoever they are."""

    excess: tuple[float, float, float]  # of victim 0, 1, 2

    def table(self, pairs: PairTable) -> MixTable:
        def predict(kind: int, victim: int, mixes: IntArray) -> FloatArray:
            del kind
            return np.full(len(mixes), 1.0 + self.excess[victim])

        return mix_table(pairs, 2, predict)


def start(job: int, *gpus: int) -> Decision:
    return Decision(starts=(Start(job, np.array(gpus)),))


# [victim][aggressor]. By pairs alone A beside B and C would be 2.5 times slower.
SLOWDOWN = ((1.0, 2.0, 1.5), (2.0, 1.0, 1.0), (1.0, 1.0, 1.0))


def test_three_jobs_on_one_gpu():
    # Beside both others A is 4 times slower, B 2 times (its pair with A), C 5 times.
    #       0     2     4                        14   16     19.8
    # A     1     1/2   1/4, 10 s: 2.5 s of work by 14; B gone: 1/1.5; done at 16
    # B           1/2   1/2: 1 + 5 s of work by 14
    # C                 1/5: 2 s by 14, beside A alone at 1 by 16: 4; alone: done
    # A 2 + 1 + 2.5 = 5.5 by 14, then 2 s at 2/3: 6.83 s of work. C: 2 + 2 = 4 by 16, 3.8 more.
    topology = cluster(1, 1)
    physics = replace(physics_of(topology, slowdown=SLOWDOWN), mix_law=ByHand((3.0, 0.0, 4.0)))
    jobs = [Job(0, 1, 5.5 + 4 / 3), Job(2, 1, 6, profile=1), Job(4, 1, 7.8, profile=2)]
    script = Scripted(start(0, 0), start(1, 0), start(2, 0))
    run = play(world(jobs, topology, physics=physics, max_tenants=3), script)
    assert {job: stay[1] for job, stay in gantt(run).items()} == pytest.approx(
        {"A": 16.0, "B": 14.0, "C": 19.8}
    )


def test_what_a_newcomer_is_told_it_would_cost():
    # C beside A and B: its own slow-down is 5; it adds 4 - 2 = 2 to A's, nothing to B's: 5 x 3.
    topology = cluster(1, 1)
    physics = replace(physics_of(topology, slowdown=SLOWDOWN), mix_law=ByHand((3.0, 0.0, 4.0)))

    def look(view):
        scratch = Occupancy(view)
        scratch.occupy(0, np.array([0]))
        scratch.occupy(1, np.array([0]))
        return scratch.shared(view, 2, ANY_SPEED).cost.tolist()

    yard = world([Job(0, 1, 9, profile=p) for p in range(3)], topology, physics=physics,
                 max_tenants=3)  # fmt: skip
    cost = looked(yard, look, needs=Signal.PROFILE | Signal.INTERFERENCE)
    assert cost == [pytest.approx(15.0)]


def test_a_law_that_tells_other_pairs_is_refused():
    topology = cluster(1, 1)
    other = physics_of(topology, slowdown=((1.0, 9.0, 9.0),) * 3).pairs

    class Stuck:
        def table(self, pairs: PairTable) -> MixTable:
            del pairs
            return ByHand((0.0, 0.0, 0.0)).table(other)

    physics = replace(physics_of(topology, slowdown=SLOWDOWN), mix_law=Stuck())
    with pytest.raises(PhysicsError, match="of other pairs"):
        world([Job(0, 1, 1)], topology, physics=physics, max_tenants=3)


def hosted(pcie_mbs: int = 4000):
    """A server of 2 GPUs with 4 cores: profile 0 wants 4 and waits for half its step, 1 wants 2."""
    topology = cluster(1, 2)
    needs = HostNeeds(np.array([4000, 2000]), np.array([1000, 1000]), np.array([0.5, 0.0]))
    host = HostTables(needs, np.array([4000]), np.array([pcie_mbs]))
    return topology, replace(physics_of(topology, slowdown=((1.0,) * 2,) * 2), host=host)


def test_a_scarce_host_slows_who_waits_for_it_while_it_is_scarce():
    # A alone: 4 of 4 cores. With B on the other GPU 6 of 4: A's waiting half takes 1.5 times as
    # long, B waits for nothing.
    #       0    2         7    10.?
    # A     1    1/1.25    1
    # B          1
    # A: 2 s, 5 s at 0.8 = 4, then 4 more: 11.
    topology, physics = hosted()
    script = Scripted(start(0, 0), start(1, 1))
    run = play(world([Job(0, 1, 10), Job(2, 1, 5, profile=1)], topology, physics=physics), script)
    assert run.finish_s.tolist() == pytest.approx([11.0, 7.0])
    assert run.interference_s.tolist() == pytest.approx([1.0, 0.0])


def test_the_scarcer_of_cores_and_pcie_counts_and_a_gang_loads_its_own_server():
    # A holds both GPUs: 8 of 4 cores, PCIe 2 of 1: twice; with PCIe of 0.5 GB/s four times.
    for pcie_mbs, speed in ((1000, 1 / 1.5), (500, 1 / 2.5)):
        topology, physics = hosted(pcie_mbs)
        run = play(world([Job(0, 2, 10)], topology, physics=physics), Scripted(start(0, 0, 1)))
        assert run.finish_s.tolist() == pytest.approx([10.0 / speed])
