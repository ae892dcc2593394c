"""The law of communication of one placement, compiled and of many; a job alone on given GPUs."""

import dataclasses
from itertools import product

import numpy as np
import pytest

from sim.decision import Decision, Start
from sim.physics.laws import NetworkTables, Spread, busy_s, columns_s, comm_of, quiet_s
from sim.physics.physics import Physics
from sim.physics.reference import AloneStep, scattered_gpus
from sim.physics.traffic import MIX
from tests.physics.network_worlds import GB, linked, racks
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, cluster, physics_of, play, world

RNG = np.random.default_rng(3)
BEYOND = 9  # any table's end


TABLES = NetworkTables(
    RNG.random((4, 5)), RNG.random((4, 7)), RNG.random((4, 3)),
    np.array([1.0, 1.0, 1.7]), np.array([1.0, 1.0, 2.3, 2.9]),
)  # fmt: skip


def by_hand(p: int, spread: Spread) -> float:
    most, servers, racks, nic, uplink = (
        min(count, table.shape[-1] - 1)
        for count, table in zip(spread, TABLES.members().values(), strict=True)
    )
    between_s = TABLES.server_s[p, servers] * TABLES.nic_factor[nic]
    rack_s = TABLES.rack_s[p, racks] * TABLES.uplink_factor[uplink]
    return float(TABLES.local_s[p, most] + between_s + rack_s)


@pytest.mark.parametrize("counts", [*product((1, 4, BEYOND), (1, 6, BEYOND), (1, 2, BEYOND))])
def test_one_law(counts):
    for nic, uplink in product((1, 2, BEYOND), repeat=2):
        spread = Spread(*counts, nic, uplink)
        assert busy_s(comm_of(TABLES, 2, spread)) == by_hand(2, spread)
    alone = comm_of(TABLES, 2, Spread(*counts))
    assert quiet_s(alone) == alone.local_s + alone.server_s + alone.rack_s == busy_s(alone)


def test_many_at_once():
    most, servers, racks = np.array([1, 4, BEYOND]), np.array([1, 3, BEYOND]), np.array([1, 1, 2])
    all_s = columns_s(TABLES, slice(None), most, servers, racks)
    assert all_s.shape == (4, 3)
    spreads = [Spread(*each) for each in zip(most, servers, racks, strict=True)]
    assert all_s.tolist() == [[by_hand(p, each) for each in spreads] for p in range(4)]
    own = np.array([3, 0, 2])
    assert columns_s(TABLES, own, most, servers, racks).tolist() == [
        all_s[p, k] for k, p in enumerate(own)
    ]


PLACES = ([0, 1], [0, 4], [4, 12], [0, 1, 4, 5], [0, 4, 1, 5], [0, 4, 8, 12], [3])


def charged_s(physics: Physics, topology, gpus) -> float:
    """Step that the kernel charges: what 1 s of work takes, over the reference step."""
    jobs = [Job(0, len(gpus), 1.0)]
    script = Scripted(Decision(starts=(Start(0, np.array(gpus)),)))
    run = play(world(jobs, topology, physics=physics), script)
    alone = AloneStep(physics, topology)
    least_s = alone.compute_s(0, np.array(gpus)) + alone.least_comm_s(0, len(gpus))
    return float(run.finish_s[0]) * least_s


@pytest.mark.parametrize("law", ["links", "tables"])
@pytest.mark.parametrize("gpus", PLACES)
def test_it_steps_as_in_a_run(gpus, law):
    topology = racks()
    physics = linked(topology, {})
    if law == "tables":
        tables = dataclasses.replace(
            physics_of(topology, server_s=[0.0, 0.0, 0.5, 0.7, 0.9]).network,
            rack_s=np.array([[0.0, 0.0, 0.25]]),
            local_s=np.array([[0.0, 0.0, 0.1, 0.2, 0.3]]),
        )
        physics = dataclasses.replace(physics_of(topology), network=tables)
    alone = AloneStep(physics, topology)
    assert alone.step_s(0, np.array(gpus)) == pytest.approx(charged_s(physics, topology, gpus))


def test_the_slowest_type_sets_the_pace():
    topology = cluster(2, 2, types=("x", "y"))
    physics = physics_of(topology, compute_s=(1.0, 2.5))
    alone = AloneStep(physics, topology)
    slow = np.flatnonzero(topology.server_gpu_type == 1)[0]
    first = int(topology.server_first_gpu[slow])
    assert alone.step_s(0, np.array([first])) == 2.5
    assert alone.step_s(0, np.array([0, 2])) == 2.5


PAIRS = {"pattern": MIX, "tensor_width": 2, "tensor_bytes": 10 * GB, "grad_bytes": 0.1 * GB}


def test_what_is_cut_matters_on_links_and_the_least_is_on_the_fewest_servers():
    # Two tensor pairs on two servers: two and two keep both whole, three and one cut one.
    topology = racks()
    alone = AloneStep(linked(topology, PAIRS), topology)
    assert alone.step_s(0, np.array([0, 1, 4, 5])) < 0.6 * alone.step_s(0, np.array([0, 1, 2, 4]))
    assert alone.least_comm_s(0, 4) == alone.comm_s(0, np.arange(4))
    assert alone.least_comm_s(0, 6) <= alone.comm_s(0, np.arange(6))
    assert alone.least_comm_s(0, 6) < alone.most_comm_s(0, 6)


def test_the_widest_spread_takes_a_server_each():
    topology = racks(servers=4, gpus=4)
    assert scattered_gpus(topology, 2).tolist() == [0, 8]  # servers 0 and 2: two racks
    assert scattered_gpus(topology, 4).tolist() == [0, 4, 8, 12]
    assert scattered_gpus(topology, 6).tolist() == [0, 4, 8, 12, 1, 9]
    assert sorted(scattered_gpus(topology, 16).tolist()) == list(range(16))
