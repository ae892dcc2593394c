"""Worker i runs on the i-th GPU of a placement: what mappings of workers to servers change."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.physics.heavy_edge import cut_bytes, graph_of_job, mapping_of_job
from sim.physics.link_network import MAX_MIN
from sim.physics.physics import Physics
from sim.physics.reference import AloneStep, compact_gpus
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, comm_graph
from sim.topology.topology import Topology
from tests.physics.network_worlds import (
    GB,
    between_servers,
    catalogue_of,
    flow_list,
    flows_of,
    local_of,
    network_of,
    placement_seconds,
    racks,
    traffic_of,
)
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, physics_of, play, world

M, A, T = 12.0, 5.0, 8.0
PIPELINE = {"pattern": MIX, "grad_bytes": M, "stages": 2, "activation_bytes": A}
MIXES = st.fixed_dictionaries({
    "pattern": st.just(MIX),
    "grad_bytes": st.sampled_from([0.0, 0.3 * GB, GB]),
    "stages": st.integers(1, 4),
    "tensor_width": st.integers(1, 4),
    "activation_bytes": st.sampled_from([0.0, 0.2 * GB, 2.0 * GB]),
    "tensor_bytes": st.sampled_from([0.0, 0.5 * GB, 4.0 * GB]),
})  # fmt: skip


def test_a_pipeline_of_two_stages_and_two_copies_is_cut_either_way():
    """Workers 0, 1 are stage 0 of the copies, 2, 3 are stage 1; gradient rings (0, 1) and (2, 3).

        (0,1,0,1): a copy a server              (0,0,1,1): a stage a server

          s0: w0   s1: w1   <- ring 0 ->          s0: w0  w1   ring 0 inside
              A|       A|                             A|   A|
              w2       w3   <- ring 1 ->          s1: w2  w3   ring 1 inside

    Each ring of two servers sends 2 (2 - 1) / 2 x M / 2 each way; the left mapping has two of them
    and no boundary, the right one two boundaries of A each way and no ring. Two steps either way.
    Inside: left A to the partner and A from it, right a ring of two, M / 2.
    """
    traffic = traffic_of(PIPELINE)
    assert flows_of(traffic, 0, 1, 0, 1) == ({(0, 1): M, (1, 0): M}, 2)
    assert flows_of(traffic, 0, 0, 1, 1) == ({(0, 1): 2 * A, (1, 0): 2 * A}, 2)
    assert local_of(traffic, 0, 1, 0, 1) == [(2 * A, 2)] * 2
    assert local_of(traffic, 0, 0, 1, 1) == [(M / 2, 2)] * 2
    # Light gradients: heavy edges take the copies apart, 0.1 instead of 2 x 5 gigabits.
    light = traffic_of(PIPELINE | {"grad_bytes": 0.1 * GB, "activation_bytes": 5 * GB})
    topology = racks(servers=2, per_rack=2, gpus=2)
    network = network_of(topology, light)
    copies, stages = (placement_seconds(network, topology, 0, np.array(gpus))
                      for gpus in ([0, 2, 1, 3], [0, 1, 2, 3]))  # fmt: skip
    assert copies == pytest.approx((2 * 5 / 100, 0.1 / 10))
    assert stages == pytest.approx((0.1 / 2 / 100, 2 * 5 / 10))


def test_the_run_feels_the_mapping():
    """The same pipeline in a run: 1 s of work on stages a server, the reference, is 1 s.

    Step there: 1 s of compute, 10 gigabits at 10 Gbps, 0.05 gigabits at 100 Gbps inside: 2.0005 s.
    A copy a server: 1 s, 0.1 gigabits at 10 Gbps, 10 gigabits inside at 100 Gbps: 1.11 s.
    """
    topology = racks(servers=2, per_rack=2, gpus=2)
    physics = linked(topology, PIPELINE | {"grad_bytes": 0.1 * GB, "activation_bytes": 5 * GB})
    assert finish_s(physics, topology, [0, 1, 2, 3]) == 1.0
    assert finish_s(physics, topology, [0, 2, 1, 3]) == pytest.approx(1.11 / 2.0005, rel=1e-12)


def test_shards_stand_beside_the_workers_named():
    # Shards 0 and 1 of 2 beside workers 0 and 2 of 4: both on server 0 for (0,1,0,1).
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": M, "ps_count": 2})
    assert flows_of(traffic, 0, 1, 0, 1) == ({(0, 1): 2 * M, (1, 0): 2 * M}, 2)
    assert local_of(traffic, 0, 1, 0, 1) == [(2 * M, 2), (0.0, 0)]
    # One each for (0,0,1,1): two workers push M / 2 into the other's shard and fetch it there.
    assert flows_of(traffic, 0, 0, 1, 1) == ({(0, 1): 2 * M, (1, 0): 2 * M}, 2)
    assert local_of(traffic, 0, 0, 1, 1) == [(M, 2), (M, 2)]
    # Three servers tell them apart: shards on servers 1 and 0, and on 1 alone.
    assert flows_of(traffic, 1, 2, 0, 0)[0] == {
        (1, 2): M / 2, (2, 1): M / 2, (0, 2): M / 2, (2, 0): M / 2,
        (1, 0): 3 * M / 2, (0, 1): 3 * M / 2,
    }  # fmt: skip
    assert flows_of(traffic, 1, 0, 1, 2)[0] == {
        (1, 0): M, (0, 1): M, (1, 2): M, (2, 1): M,
    }  # fmt: skip


def test_tensor_groups_find_their_servers():
    # Groups (0, 1) and (2, 3): whole for (0,0,1,1), both cut for (0,1,1,0).
    traffic = traffic_of({"pattern": MIX, "grad_bytes": 0.0, "tensor_width": 2, "tensor_bytes": T})
    assert flows_of(traffic, 0, 0, 1, 1) == ({}, 0)
    assert flows_of(traffic, 0, 1, 1, 0) == ({(0, 1): 2 * T, (1, 0): 2 * T}, 2)
    assert local_of(traffic, 0, 1, 1, 0) == [(0.0, 0)] * 2
    # (0,1,0,1) with copies that are neighbours of a ring: gradients stay inside, groups do not.
    traffic = traffic_of({"pattern": MIX, "grad_bytes": M, "tensor_width": 2, "tensor_bytes": T})
    assert flows_of(traffic, 0, 1, 0, 1) == ({(0, 1): 2 * T, (1, 0): 2 * T}, 2)
    assert local_of(traffic, 0, 1, 0, 1) == [(M / 2, 2)] * 2


def test_a_ring_passes_each_server_once_as_first_named():
    """Six copies on (2,0,2,1,0,1): 2 -> 0 -> 1 -> 2, as a plain ring and as a mix of copies alone.

    Each hop carries 2 (3 - 1) / 3 M = 16.
    """
    for pattern in (RING, MIX):
        traffic = traffic_of({"pattern": pattern, "grad_bytes": M})
        flows, steps = flow_list(traffic, [2, 0, 2, 1, 0, 1])
        assert flows == [(2, 0, 16.0), (0, 1, 16.0), (1, 2, 16.0)]
        assert steps == 4
        assert local_of(traffic, 2, 0, 2, 1, 0, 1) == [(M, 2)] * 3


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=20),
    st.sampled_from([PARAMETER_SERVER, MIX]), st.integers(1, 6), st.integers(1, 4),
)  # fmt: skip
def test_any_mapping_sends_what_it_cuts_of_the_graph(hosts, pattern, a, b):
    """Shards and stage boundaries; rings are folded by server, so they are switched off."""
    traffic = traffic_of({
        "pattern": pattern, "grad_bytes": M if pattern == PARAMETER_SERVER else 0.0,
        "ps_count": a, "tensor_width": a, "stages": b, "activation_bytes": A,
    })  # fmt: skip
    cut = between_servers(comm_graph(traffic, 0, len(hosts)), np.array(hosts), 5)
    found = np.zeros_like(cut)
    for pair, num_bytes in flows_of(traffic, *hosts)[0].items():
        found[pair] = num_bytes
    assert found == pytest.approx(cut)


@given(MIXES, st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_folded_rings_send_no_more_than_flat_ones(row, hosts):
    traffic = traffic_of(row)
    sent = sum(flows_of(traffic, *hosts)[0].values())
    cut = cut_bytes(comm_graph(traffic, 0, len(hosts)), np.array(hosts))
    assert sent <= cut * (1 + 1e-12)


# --- Heavy edges --------------------------------------------------------------------------------


def linked(topology: Topology, row: dict[str, float], sharing: int = MAX_MIN) -> Physics:
    """Physics of one profile on shared links."""
    network = network_of(topology, traffic_of(row), sharing=sharing, overlap_frac=0.0,
                         alpha_local_s=0.0, alpha_server_s=0.0)  # fmt: skip
    return replace(physics_of(topology), catalogue=catalogue_of(1), links=network)


def finish_s(physics: Physics, topology: Topology, gpus: list[int]) -> float:
    """When one job of 1 s of work, alone on `gpus`, is done."""
    script = Scripted(Decision(starts=(Start(0, np.array(gpus)),)))
    run = play(world([Job(0, len(gpus), 1.0)], topology, physics=physics), script)
    return float(run.finish_s[0])


@st.composite
def mappings(draw: st.DrawFn) -> tuple[dict[str, float], IntArray]:
    """Traffic of a mix, and the GPUs that each of four servers of four gives."""
    give = draw(st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(lambda g: sum(g) > 0))
    return draw(MIXES), np.array(give)


def mapped_gpus(physics: Physics, give: IntArray) -> tuple[IntArray, IntArray]:
    """Heavy-edge mapping on so many GPUs of each server: server and GPU of each worker."""
    host = mapping_of_job(physics, 0, int(give.sum()), give)
    gpus = np.concatenate([4 * server + np.arange(n) for server, n in enumerate(give)])
    by_worker = np.empty_like(gpus)
    by_worker[np.argsort(host, kind="stable")] = gpus
    return host, by_worker


@pytest.mark.slow
@given(mappings())
@settings(max_examples=25, deadline=None)
def test_alpha_of_a_heavy_edge_mapping_is_what_the_kernel_charges(mapping):
    row, give = mapping
    topology = racks()
    physics = linked(topology, row)
    host, gpus = mapped_gpus(physics, give)
    assert (topology.gpu_server[gpus] == host).all()
    alone = AloneStep(physics, topology)
    alpha_s = alone.step_s(0, gpus)
    reference_s = alone.step_s(0, compact_gpus(topology, len(gpus)))
    assert finish_s(physics, topology, gpus.tolist()) == pytest.approx(
        alpha_s / reference_s, rel=1e-12
    )


@given(mappings())
def test_heavy_edges_never_cut_more_than_blocks(mapping):
    """Blocks: the same servers, fullest first, filled in order of workers."""
    row, give = mapping
    physics = linked(racks(), row)
    gang = int(give.sum())
    graph = graph_of_job(physics, 0, gang)
    order = np.argsort(-give, kind="stable")
    blocks = np.repeat(order, give[order])
    assert cut_bytes(graph, mapping_of_job(physics, 0, gang, give)) <= cut_bytes(graph, blocks)
