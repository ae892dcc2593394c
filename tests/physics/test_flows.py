"""Bytes between servers, inside them and on links, and max-min sharing of links, by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.errors import PhysicsError
from sim.physics.heavy_edge import cut_bytes, edges_of, graph_of_job, mapping_of_job
from sim.physics.job_load import link_weights, make_load_scratch
from sim.physics.link_network import LinkNetwork
from sim.physics.physics import Physics
from sim.physics.reference import AloneStep, compact_gpus
from sim.physics.traffic import LOAD_ENTRY, MIX, PARAMETER_SERVER, RING, CommGraph, comm_graph
from sim.physics.traffic import mix_shape as shape_of
from sim.topology.topology import Topology
from tests.physics import network_worlds as worlds
from tests.physics.network_twin import fill
from tests.physics.network_worlds import GB, flows_of, local_of, network_of, racks, traffic_of
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, play, world

M, A, T = 12.0, 5.0, 8.0
PS = {"pattern": PARAMETER_SERVER, "grad_bytes": M}
TWO, THREE, FOUR = (PS | {"ps_count": shards} for shards in (2, 3, 4))
CHAIN = {"pattern": MIX, "grad_bytes": M, "stages": 4, "activation_bytes": A}
PIPELINE = CHAIN | {"stages": 2}  # and two copies: workers 0, 1 are stage 0 of them, 2, 3 stage 1
TENSOR = {"pattern": MIX, "grad_bytes": 0.0, "tensor_width": 2, "tensor_bytes": T}
COPIES = TENSOR | {"grad_bytes": M}
ALL = {"pattern": MIX, "grad_bytes": 16.0, "tensor_width": 2, "stages": 2, "activation_bytes": 6.0,
       "tensor_bytes": 4.0}  # fmt: skip
MIXES = st.fixed_dictionaries({
    "pattern": st.just(MIX),
    "grad_bytes": st.sampled_from([0.0, 0.3 * GB, GB]),
    "stages": st.integers(1, 4),
    "tensor_width": st.integers(1, 4),
    "activation_bytes": st.sampled_from([0.0, 0.2 * GB, 2.0 * GB]),
    "tensor_bytes": st.sampled_from([0.0, 0.5 * GB, 4.0 * GB]),
})  # fmt: skip


def each_way(num_bytes: float, *pairs: tuple[int, int]) -> dict[tuple[int, int], float]:
    return {pair: num_bytes for a, b in pairs for pair in ((a, b), (b, a))}


@pytest.mark.parametrize(
    ("row", "hosts", "flows", "steps"),
    [
        # One shard beside worker 0: two workers push M each into server 0, and fetch M each.
        (PS, (0, 1, 2), each_way(M, (0, 1), (0, 2)), 2),
        # A shard a worker: every pair exchanges a push and a fetch of M / 3.
        (THREE, (0, 1, 2), each_way(2 * M / 3, (0, 1), (0, 2), (1, 2)), 2),
        # Shards beside workers 0 and 1, both on server 0: server 1 pushes M and fetches M.
        (TWO, (0, 0, 1), each_way(M, (0, 1)), 2),
        # Shards beside workers 0 and 2 of 4: both on server 0; one on each; 1 and 0; 1 alone.
        (TWO, (0, 1, 0, 1), each_way(2 * M, (0, 1)), 2),
        (TWO, (0, 0, 1, 1), each_way(2 * M, (0, 1)), 2),
        (TWO, (1, 2, 0, 0), each_way(M / 2, (1, 2), (0, 2)) | each_way(1.5 * M, (0, 1)), 2),
        (TWO, (1, 0, 1, 2), each_way(M, (0, 1), (1, 2)), 2),
        # Four stages, A forwards and A backwards over each boundary, two steps each; two stages a
        # server: only the middle boundary leaves one.
        (CHAIN, (0, 1, 2, 3), each_way(A, (0, 1), (1, 2), (2, 3)), 6),
        (CHAIN, (0, 0, 1, 1), each_way(A, (0, 1)), 2),
        # A copy a server: two gradient rings of 2 (2 - 1) / 2 x M / 2. A stage a server: two A.
        (PIPELINE, (0, 1, 0, 1), each_way(M, (0, 1)), 2),
        (PIPELINE, (0, 0, 1, 1), each_way(2 * A, (0, 1)), 2),
        # Groups (0, 1) and (2, 3) are whole, or both are cut: 2 (2 - 1) / 2 x T each way.
        (TENSOR, (0, 0, 1, 1), {}, 0),
        (TENSOR, (0, 1, 1, 2), each_way(T, (0, 1), (1, 2)), 2),
        (TENSOR, (0, 1, 1, 0), each_way(2 * T, (0, 1)), 2),
        # Copies that are neighbours of a ring: gradients stay inside, groups do not.
        (COPIES, (0, 1, 0, 1), each_way(2 * T, (0, 1)), 2),
        # 2 tensor x 2 copies x 2 stages, a stage a server: rings and groups stay inside; each of
        # the 4 workers of stage 0 sends A / 2 to its partner, and gets as much back.
        (ALL, (0, 0, 0, 0, 1, 1, 1, 1), each_way(12.0, (0, 1)), 2),
    ],
)
def test_flows_by_hand(row, hosts, flows, steps):
    assert flows_of(traffic_of(row), *hosts) == (flows, steps)


@pytest.mark.parametrize(
    ("row", "hosts", "inside"),
    [
        ({"grad_bytes": M}, (0, 0, 0, 0, 1), [(18.0, 6), (0.0, 0)]),
        # Worker 0 pushes M / 2 into its own shard and into worker 2's, which fetches M / 2 of it.
        (TWO, (0, 1, 0, 1), [(1.5 * M, 2), (0.0, 0)]),
        (TWO, (0, 0, 1, 1), [(M, 2), (M, 2)]),
        # One shard of four workers: M from worker 0 beside it, three fetch M each.
        (PS, (0, 0, 0, 0), [(4 * M, 2)]),
        # A shard a worker: each pushes M / 4 into all four; three fetch M / 4 of its own.
        (FOUR, (0, 0, 0, 0), [(1.75 * M, 2)]),
        (FOUR, (0, 1, 2, 3), [(M / 4, 2)] * 4),
        # Shards 0 to 2 of five are worker 0's: it pushes M, and the other fetches 3 / 5 M.
        (PS | {"ps_count": 5}, (0, 0), [(8 * M / 5, 2)]),
        (PIPELINE, (0, 1, 0, 1), [(2 * A, 2)] * 2),  # A to the partner and A from it
        (PIPELINE, (0, 0, 1, 1), [(M / 2, 2)] * 2),  # a ring of two
        (TENSOR, (0, 1, 1, 0), [(0.0, 0)] * 2),
        (COPIES, (0, 1, 0, 1), [(M / 2, 2)] * 2),
        # Tensor ring of 2: 1 x 4 / 2; gradient ring of 2: 1 x 16 / 4; the boundary adds A.
        (ALL, (0, 0, 0, 0, 1, 1, 1, 1), [(2.0 + 4.0, 4)] * 2),
        (ALL, (0,) * 8, [(2.0 + 4.0 + 6.0, 6)]),
    ],
)
def test_bytes_inside_servers_by_hand(row, hosts, inside):
    assert local_of(traffic_of(row), *hosts) == inside


@pytest.mark.parametrize("pattern", [RING, MIX])
def test_a_ring_passes_each_server_once_as_first_named(pattern):
    """Six copies on (2,0,2,1,0,1): 2 -> 0 -> 1 -> 2, as a plain ring and as a mix of copies alone.

    Each hop carries 2 (3 - 1) / 3 M = 16.
    """
    traffic = traffic_of({"pattern": pattern, "grad_bytes": M})
    flows, steps = worlds.flow_list(traffic, [2, 0, 2, 1, 0, 1])
    assert (flows, steps) == ([(2, 0, 16.0), (0, 1, 16.0), (1, 2, 16.0)], 4)
    assert local_of(traffic, 2, 0, 2, 1, 0, 1) == [(M, 2)] * 3


@pytest.mark.parametrize(("gang", "shape"), [(8, (4, 2, 1)), (6, (2, 1, 3)), (7, (1, 1, 7)),
                                             (4, (4, 1, 1)), (1, (1, 1, 1))])  # fmt: skip
def test_a_gang_that_does_not_divide_gets_a_smaller_mix(gang, shape):
    assert shape_of(4, 2, gang) == shape


def loads_of(network: LinkNetwork, servers: list[int], gpus_on: list[int]) -> dict[int, float]:
    """Bytes by directed link."""
    entry = np.zeros(200, dtype=LOAD_ENTRY)
    gang = worlds.measured(np.repeat(servers, gpus_on).tolist())[0]
    scratch = replace(make_load_scratch(network, sum(gpus_on)), gang=gang)
    count, heaviest, _ = link_weights(network, 0, len(servers), scratch, entry, 0)
    assert not scratch.link["num_bytes"].any(), "scratch is not left clean"
    bytes_on = (entry["weight"][:count] * heaviest).tolist()
    return dict(zip(entry["link"][:count].tolist(), bytes_on, strict=True))


def test_ring_over_four_servers_in_two_racks():
    """Each server sends 2 (4 - 1) / 4 M = 18 to the next; two hops cross the racks.

                     spine
          leaf 0 /           \\ leaf 1        uplinks: links 4 and 5
         /    \\               /    \\
       s0 --> s1 ----------> s2 --> s3        NICs: links 0 to 3
        ^                            |
        +----------------------------+

    Link l is 2 l going up, 2 l + 1 coming down.
    """
    network = network_of(racks(), traffic_of({"grad_bytes": M}))
    nics, uplinks = range(8), (8, 9, 10, 11)
    told = loads_of(network, [0, 1, 2, 3], [4, 4, 4, 4])
    assert told == dict.fromkeys((*nics, *uplinks), 18.0)  # one flow out and in at each leaf
    # The order of placement decides who is whose neighbour: here all four hops cross.
    crossing = dict.fromkeys(nics, 18.0) | dict.fromkeys(uplinks, 2 * 18.0)
    assert loads_of(network, [0, 2, 1, 3], [4, 4, 4, 4]) == crossing
    # A ring of two uses both directions of both NICs.
    assert loads_of(network, [0, 1], [1, 3]) == dict.fromkeys(range(4), M)


def test_incast_of_a_parameter_server_and_bytes_up_that_come_down():
    """s1 --M--> s0 <--M-- s2: NIC 0 takes in 2 M and sends out 2 M, the others M either way."""
    network = network_of(racks(servers=3, per_rack=3), traffic_of(PS))
    found = loads_of(network, [0, 1, 2], [1, 1, 1])
    assert found == {0: 2 * M, 1: 2 * M, 2: M, 3: M, 4: M, 5: M}
    network = network_of(racks(servers=6, per_rack=2), traffic_of({"grad_bytes": M}))
    loads = loads_of(network, [0, 3, 5, 2], [1, 2, 3, 1])
    up = sum(num_bytes for link, num_bytes in loads.items() if link % 2 == 0)
    assert up == pytest.approx(sum(loads.values()) / 2)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
def test_with_a_worker_a_server_rings_are_not_folded(gang, width, stages):
    traffic = traffic_of({"pattern": MIX, "grad_bytes": M, "tensor_width": width,
                          "stages": stages, "tensor_bytes": 9.0})  # fmt: skip
    cut = worlds.between_servers(comm_graph(traffic, 0, gang), np.arange(gang), gang)
    total, _ = flows_of(traffic, *range(gang))
    assert sum(total.values()) == pytest.approx(cut.sum())
    assert all(cut[pair] == pytest.approx(num_bytes) for pair, num_bytes in total.items())


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
    cut = worlds.between_servers(comm_graph(traffic, 0, len(hosts)), np.array(hosts), 5)
    found = np.zeros_like(cut)
    for pair, num_bytes in flows_of(traffic, *hosts)[0].items():
        found[pair] = num_bytes
    assert found == pytest.approx(cut)


@given(MIXES, st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_folded_rings_send_no_more_than_flat_ones(row, hosts):
    traffic = traffic_of(row)
    sent = sum(flows_of(traffic, *hosts)[0].values())
    cut = cut_bytes(edges_of(comm_graph(traffic, 0, len(hosts))), np.array(hosts))
    assert sent <= cut * (1 + 1e-12)


def test_a_communication_graph_is_checked():
    with pytest.raises(PhysicsError, match="workers 0 to 1"):
        CommGraph(2, np.array([0]), np.array([2]), np.array([1.0]))
    with pytest.raises(PhysicsError, match="above 0"):
        CommGraph(2, np.array([0]), np.array([1]), np.array([0.0]))


# --- Heavy edges --------------------------------------------------------------------------------


def finish_s(physics: Physics, topology: Topology, gpus: list[int]) -> float:
    """When one job of 1 s of work, alone on `gpus`, is done."""
    script = Scripted(Decision(starts=(Start(0, np.array(gpus)),)))
    run = play(world([Job(0, len(gpus), 1.0)], topology, physics=physics), script)
    return float(run.finish_s[0])


def test_the_run_feels_the_mapping():
    """Light gradients: heavy edges take the copies apart, 0.1 instead of 2 x 5 gigabits.

    1 s of work on stages a server, the reference, is 1 s. Step there: 1 s of compute, 10 gigabits
    at 10 Gbps, 0.05 gigabits at 100 Gbps inside: 2.0005 s. A copy a server: 1 s, 0.1 gigabits at
    10 Gbps, 10 gigabits inside at 100 Gbps: 1.11 s.
    """
    topology = racks(servers=2, per_rack=2, gpus=2)
    light = PIPELINE | {"grad_bytes": 0.1 * GB, "activation_bytes": 5 * GB}
    network = network_of(topology, traffic_of(light))
    copies, stages = [0, 2, 1, 3], [0, 1, 2, 3]
    seconds = [
        worlds.placement_seconds(network, topology, 0, np.array(gpus)) for gpus in (copies, stages)
    ]
    assert seconds[0] == pytest.approx((2 * 5 / 100, 0.1 / 10))
    assert seconds[1] == pytest.approx((0.1 / 2 / 100, 2 * 5 / 10))
    physics = worlds.linked(topology, light)
    assert finish_s(physics, topology, stages) == 1.0
    assert finish_s(physics, topology, copies) == pytest.approx(1.11 / 2.0005, rel=1e-12)


@st.composite
def mappings(draw: st.DrawFn) -> tuple[dict[str, float], IntArray]:
    """Traffic of a mix, and the GPUs that each of four servers of four gives."""
    give = draw(st.lists(st.integers(0, 4), min_size=4, max_size=4).filter(lambda g: sum(g) > 0))
    return draw(MIXES), np.array(give)


@pytest.mark.slow
@given(mappings())
@settings(max_examples=25, deadline=None)
def test_alpha_of_a_heavy_edge_mapping_is_what_the_kernel_charges(mapping):
    row, give = mapping
    topology = racks()
    physics = worlds.linked(topology, row)
    host = mapping_of_job(physics, 0, int(give.sum()), give)
    gpus = np.concatenate([4 * server + np.arange(n) for server, n in enumerate(give)])
    by_worker = np.empty_like(gpus)
    by_worker[np.argsort(host, kind="stable")] = gpus
    assert (topology.gpu_server[by_worker] == host).all()
    alone = AloneStep(physics, topology)
    reference_s = alone.step_s(0, compact_gpus(topology, len(gpus)))
    expected = pytest.approx(alone.step_s(0, by_worker) / reference_s, rel=1e-12)
    assert finish_s(physics, topology, by_worker.tolist()) == expected


@given(mappings())
def test_heavy_edges_never_cut_more_than_blocks(mapping):
    """Blocks: the same servers, fullest first, filled in order of workers."""
    row, give = mapping
    physics = worlds.linked(racks(), row)
    gang = int(give.sum())
    edges = edges_of(graph_of_job(physics, 0, gang))
    order = np.argsort(-give, kind="stable")
    blocks = np.repeat(order, give[order])
    assert cut_bytes(edges, mapping_of_job(physics, 0, gang, give)) <= cut_bytes(edges, blocks)


Weights = list[dict[int, float]]


ONE_UPLINK = [{0: 1.0, 3: 1.0}, {1: 1.0, 3: 1.0}, {2: 1.0, 3: 1.0}]  # own NICs, one uplink
LEFT, BOTH, RIGHT = {0: 1.0}, {0: 1.0, 1: 1.0}, {1: 1.0}


@pytest.mark.parametrize(
    ("jobs", "capacity", "rates"),
    [
        ([{0: 1.0}, {0: 1.0}], [10.0], [5.0, 5.0]),
        # Job 1 puts half of its heaviest link's bytes here: 1 r + 0.5 r = 9, so both run at 6.
        ([{0: 1.0}, {0: 0.5, 1: 1.0}], [9.0, 100.0], [6.0, 6.0]),
        # Everybody rises to 24 / 3 = 8, where the uplink is full; no NIC is. At 40 it is no limit.
        (ONE_UPLINK, [10.0, 10.0, 10.0, 24.0], [8.0, 8.0, 8.0]),
        (ONE_UPLINK, [10.0, 10.0, 10.0, 40.0], [10.0, 10.0, 10.0]),
        # A slow NIC of 4 stops job 0; the others share what it leaves: (24 - 4) / 2.
        (ONE_UPLINK, [4.0, 12.0, 12.0, 24.0], [4.0, 10.0, 10.0]),
        ([{}, {0: 1.0}], [3.0], [float("inf"), 3.0]),  # a job without links is not held up
        # RIGHT on link 1 squeezes BOTH, which leaves LEFT more on link 0: no bug.
        ([LEFT, BOTH], [10.0, 6.0], [5.0, 5.0]),
        ([LEFT, BOTH, RIGHT], [10.0, 6.0], [7.0, 3.0, 3.0]),
        # Link 2 stops job 0 at 0.5; link 0 keeps job 1's 1e-17, which rounding has swallowed.
        ([{0: 1.0, 2: 1.0}, {0: 1e-17, 1: 1.0}], [1.0, 5.0, 0.5], [0.5, 5.0]),
    ],
)
def test_by_hand(jobs, capacity, rates):
    assert fill(jobs, capacity) == rates


@st.composite
def cases(draw) -> tuple[Weights, list[float]]:
    links = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    even = draw(st.booleans())  # equal weights and capacities make ties
    weights = []
    for _ in range(draw(st.integers(1, 12))):
        chosen = np.sort(rng.choice(links, rng.integers(1, links + 1), replace=False))
        share_of = np.ones(len(chosen)) if even else rng.uniform(0.01, 1.0, len(chosen))
        share_of = share_of / share_of.max()
        weights.append(dict(zip(chosen.tolist(), share_of.tolist(), strict=True)))
    capacity = rng.integers(1, 4, links) * 1.0 if even else rng.uniform(0.1, 10.0, links)
    return weights, capacity.tolist()


def used(weights: Weights, rates: list[float], link: int) -> float:
    return sum(job.get(link, 0.0) * rate for job, rate in zip(weights, rates, strict=True))


@given(cases())
def test_no_link_above_capacity_and_every_job_has_its_bottleneck(case):
    """The definition: a full link on which no job is faster, for every job."""
    weights, capacity = case
    rates = fill(weights, capacity)
    for link, most in enumerate(capacity):
        assert used(weights, rates, link) <= most * (1 + 1e-9)
    for job, rate in zip(weights, rates, strict=True):
        assert any(
            used(weights, rates, link) >= capacity[link] * (1 - 1e-9)
            and all(r <= rate * (1 + 1e-9)
                    for other, r in zip(weights, rates, strict=True) if link in other)
            for link in job
        )  # fmt: skip
