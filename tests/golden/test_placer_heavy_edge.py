"""Heavy edge: few servers, and workers that talk most on the same one."""

from dataclasses import replace

import numpy as np
import pytest

from sim.physics.heavy_edge import cut_bytes, graph_of_job
from sim.physics.physics import Physics
from sim.physics.traffic import MIX
from sim.placers.by_job import HeavyEdge
from sim.placers.by_room import FirstFit
from sim.protocols import PatientPlacer, Placer
from sim.run import Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.topology import Topology
from tests.physics.network_worlds import GB, network_of, traffic_of
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

# Pairs of workers exchange a tensor of 10 Gb, 2 (2 - 1) / 2 of it over each hop: 1 s at a NIC's
# 10 Gbps. There is no other traffic.
PAIRS = {"pattern": MIX, "tensor_width": 2, "grad_bytes": 0.0}


def physics_with(topology: Topology, copies: int, **traffic: float) -> Physics:
    rows = {**PAIRS, "tensor_bytes": 10 * GB * copies, **traffic}
    links = network_of(topology, traffic_of(rows))
    return replace(physics_of(topology), links=links)


def run_with(placer: Placer) -> Run:
    topology = cluster(2, 4)
    # A holds one GPU of server 0; B is three pairs.
    trace = [Job(0, 1, 100), Job(1, 6, 10)]
    yard = world(trace, topology, physics=physics_with(topology, 1))
    return play(yard, Fifo(placer=placer, sharing=NoSharing(), skip_blocked=True))


def test_no_pair_is_cut():
    # Server 0 has three GPUs left, server 1 four. Heavy edge: two pairs on server 1, one on 0.
    # First fit: three workers on each, and the pair in between talks over the NICs.
    apart, beside = run_with(FirstFit()), run_with(HeavyEdge())
    assert gantt(beside)["B"][2] == (1, 2, 4, 5, 6, 7)
    assert gantt(apart)["B"][2] == (1, 2, 3, 4, 5, 6)
    assert gantt(beside)["B"][:2] == pytest.approx((1, 11), abs=0.6)  # what pairs cost inside
    assert gantt(apart)["B"][1] > 18


def test_gpus_stand_in_order_of_workers():
    # Two stages of two: worker 0 sends to 2 and 1 to 3, so 0 and 2 stay together.
    topology = cluster(2, 2)
    traffic = {"tensor_width": 1, "stages": 2, "tensor_bytes": 0.0, "activation_bytes": 9 * GB}
    physics = physics_with(topology, 1, **traffic)
    gpus = answer(HeavyEdge(), 4, topology, physics=physics)
    assert gpus == (0, 2, 1, 3)
    graph = graph_of_job(physics, 0, 4)
    assert cut_bytes(graph, topology.gpu_server[list(gpus)]) == 0.0
    assert cut_bytes(graph, np.array([0, 0, 1, 1])) == 36 * GB


def test_as_few_servers_as_there_are_now_most_usable_first():
    three = cluster(3, 4)
    held = [Held((0, 1, 2)), Held((4, 5))]  # 1, 2 and 4 are left
    assert answer(HeavyEdge(), 1, three, held) == (8,)
    assert answer(HeavyEdge(), 5, three, held) == (8, 9, 10, 11, 6)
    assert answer(HeavyEdge(), 7, three, held) == (8, 9, 10, 11, 6, 7, 3)
    assert answer(HeavyEdge(), 8, three, held) is None


def test_it_refuses_by_gang_alone():
    assert not isinstance(HeavyEdge(), PatientPlacer)
