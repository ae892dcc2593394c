"""Bytes between servers and on links, worked by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import PhysicsError
from sim.physics.link_load import link_weights, make_load_scratch
from sim.physics.link_network import LinkNetwork
from sim.physics.traffic import LOAD_ENTRY, MIX, PARAMETER_SERVER, CommGraph, comm_graph, mix_shape
from tests.physics.network_worlds import (
    between_servers,
    flows_of,
    local_of,
    measured,
    network_of,
    racks,
    traffic_of,
)

M = 12.0


def loads_of(network: LinkNetwork, servers: list[int], gpus_on: list[int]) -> dict[int, float]:
    """Bytes by directed link."""
    entry = np.zeros(200, dtype=LOAD_ENTRY)
    scratch = replace(
        make_load_scratch(network, sum(gpus_on)),
        gang=measured(np.repeat(servers, gpus_on).tolist())[0],
    )
    count, heaviest, _ = link_weights(network, 0, len(servers), scratch, entry, 0)
    assert not scratch.link["num_bytes"].any(), "scratch is not left clean"
    return {
        link: weight * heaviest
        for link, weight in zip(entry["link"][:count].tolist(), entry["weight"][:count].tolist(),
                                strict=True)
    }  # fmt: skip


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
    hop = 18.0
    nics = {directed: hop for directed in range(8)}
    uplinks = {directed: hop for directed in (8, 9, 10, 11)}  # one flow out and in at each leaf
    assert loads_of(network, [0, 1, 2, 3], [4, 4, 4, 4]) == nics | uplinks
    # The order of placement decides who is whose neighbour: here all four hops cross.
    crossing = {directed: 2 * hop for directed in (8, 9, 10, 11)}
    assert loads_of(network, [0, 2, 1, 3], [4, 4, 4, 4]) == nics | crossing


def test_ring_of_two_uses_both_directions_of_both_nics():
    network = network_of(racks(), traffic_of({"grad_bytes": M}))
    assert loads_of(network, [0, 1], [1, 3]) == {0: M, 1: M, 2: M, 3: M}


def test_parameter_server_incast():
    """One shard beside worker 0: two workers push M each into server 0, and fetch M each.

    s1 --M--> s0 <--M-- s2: NIC 0 takes in 2 M and sends out 2 M, the others M either way.
    The worker beside the shard stays inside its server.
    """
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": M})
    assert flows_of(traffic, 0, 1, 2) == (
        {(0, 1): M, (0, 2): M, (1, 0): M, (2, 0): M}, 2
    )  # fmt: skip
    network = network_of(racks(servers=3, per_rack=3), traffic)
    assert loads_of(network, [0, 1, 2], [1, 1, 1]) == {
        0: 2 * M, 1: 2 * M, 2: M, 3: M, 4: M, 5: M
    }  # fmt: skip


def test_parameter_server_shards_spread_the_incast():
    # Three shards, one a worker: every ordered pair exchanges a push and a fetch of M / 3.
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": M, "ps_count": 3})
    total, _ = flows_of(traffic, 0, 1, 2)
    assert total == {(i, j): 2 * M / 3 for i in range(3) for j in range(3) if i != j}
    # Two workers on server 0, one on server 1, shards 0 and 1 of 2 beside workers 0 and 1:
    # both on server 0. Server 1 pushes M and fetches M.
    traffic = traffic_of({"pattern": PARAMETER_SERVER, "grad_bytes": M, "ps_count": 2})
    assert flows_of(traffic, 0, 0, 1)[0] == {(0, 1): M, (1, 0): M}


def test_pipeline_chain():
    """Four stages on four servers, A forwards and A backwards over each boundary.

    s0 <-A-> s1 <-A-> s2 <-A-> s3, three boundaries, two steps each.
    """
    traffic = traffic_of({"pattern": MIX, "grad_bytes": M, "stages": 4, "activation_bytes": 5.0})
    chain = {(a, b): 5.0 for a, b in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]}
    assert flows_of(traffic, 0, 1, 2, 3) == (chain, 6)
    # Two stages a server: only the middle boundary leaves a server.
    assert flows_of(traffic, 0, 0, 1, 1) == ({(0, 1): 5.0, (1, 0): 5.0}, 2)


def test_tensor_groups_stay_inside_where_servers_hold_them():
    traffic = traffic_of({"pattern": MIX, "grad_bytes": 0.0, "tensor_width": 2,
                          "tensor_bytes": 8.0})  # fmt: skip
    assert flows_of(traffic, 0, 0, 1, 1) == ({}, 0)
    # Workers 0 | 1 2 | 3: both groups (0, 1) and (2, 3) are cut: 2 (2 - 1) / 2 x 8 each way.
    total, steps = flows_of(traffic, 0, 1, 1, 2)
    assert total == {(0, 1): 8.0, (1, 0): 8.0, (1, 2): 8.0, (2, 1): 8.0}
    assert steps == 2


def test_mix_of_all_three():
    """8 workers = 2 tensor x 2 copies x 2 stages on two servers of four: one stage each.

    Gradient rings and tensor groups stay inside; each of the 4 workers of stage 0 sends A / 2 to
    its partner, and gets as much back.
    """
    row = {"pattern": MIX, "grad_bytes": 16.0, "tensor_width": 2, "stages": 2,
           "activation_bytes": 6.0, "tensor_bytes": 4.0}  # fmt: skip
    traffic = traffic_of(row)
    assert mix_shape(2, 2, 8) == (2, 2, 2)
    assert flows_of(traffic, 0, 0, 0, 0, 1, 1, 1, 1) == ({(0, 1): 12.0, (1, 0): 12.0}, 2)
    # Inside: tensor ring of 2: 1 x 4 / 2; gradient ring of 2: 1 x 16 / 4.
    assert local_of(traffic, 0, 0, 0, 0, 1, 1, 1, 1)[0] == (2.0 + 4.0, 4)
    # All on one server: the boundary adds A / 2 to and from the partner.
    assert local_of(traffic, 0, 0, 0, 0, 0, 0, 0, 0)[0] == (2.0 + 4.0 + 6.0, 6)


@pytest.mark.parametrize(("gang", "shape"), [(8, (4, 2, 1)), (6, (2, 1, 3)), (7, (1, 1, 7)),
                                             (4, (4, 1, 1)), (1, (1, 1, 1))])  # fmt: skip
def test_a_gang_that_does_not_divide_gets_a_smaller_mix(gang, shape):
    assert mix_shape(4, 2, gang) == shape


def test_rings_inside_servers():
    traffic = traffic_of({"grad_bytes": M})
    assert local_of(traffic, 0, 0, 0, 0, 1)[0] == (18.0, 6)
    assert local_of(traffic, 0, 0, 0, 0, 1)[1] == (0.0, 0)


def test_two_ends_of_a_fat_tree_pair_carry_the_same():
    """What goes up somewhere comes down somewhere: bytes up equal bytes down."""
    traffic = traffic_of({"grad_bytes": M})
    network = network_of(racks(servers=6, per_rack=2), traffic)
    loads = loads_of(network, [0, 3, 5, 2], [1, 2, 3, 1])
    up = sum(num_bytes for link, num_bytes in loads.items() if link % 2 == 0)
    assert up == pytest.approx(sum(loads.values()) / 2)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
def test_with_a_worker_a_server_rings_are_not_folded(gang, width, stages):
    traffic = traffic_of({"pattern": MIX, "grad_bytes": M, "tensor_width": width,
                          "stages": stages, "tensor_bytes": 9.0})  # fmt: skip
    cut = between_servers(comm_graph(traffic, 0, gang), np.arange(gang), gang)
    total, _ = flows_of(traffic, *range(gang))
    assert sum(total.values()) == pytest.approx(cut.sum())
    assert all(cut[pair] == pytest.approx(num_bytes) for pair, num_bytes in total.items())


def test_a_communication_graph_is_checked():
    with pytest.raises(PhysicsError, match="workers 0 to 1"):
        CommGraph(2, np.array([0]), np.array([2]), np.array([1.0]))
    with pytest.raises(PhysicsError, match="above 0"):
        CommGraph(2, np.array([0]), np.array([1]), np.array([0.0]))
