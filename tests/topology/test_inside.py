"""How GPUs inside servers are joined: which hop is the slowest among a set of GPUs."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.servers import ServerInside, inside_of
from sim.topology.topology import NO_ISLAND, Inside
from tests.topology.fabrics import slowest_gbps

# Server 0, eight GPUs: two sockets, four switches, islands of four; server 1: four GPUs, no NVLink.
#   socket   0 0 0 0 1 1 1 1 | 0 0 1 1
#   switch   0 0 1 1 2 2 3 3 | 0 0 1 1
#   island   0 0 0 0 1 1 1 1 | - - - -
PAIRED = ServerInside(
    sockets=2, pcie_switches=4, nvlink_islands=2, nvlink_gbps=400.0, pcie_gbps=128.0,
    socket_gbps=80.0,
)  # fmt: skip
PLAIN = ServerInside(
    sockets=2, pcie_switches=2, nvlink_islands=0, nvlink_gbps=1.0, pcie_gbps=100.0, socket_gbps=50.0
)
INSIDE = inside_of([PAIRED, PLAIN], np.array([0, 1]), np.array([8, 4]))


def test_gpus_are_dealt_evenly_in_order():
    assert INSIDE.gpu_socket.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1]
    assert INSIDE.gpu_switch.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
    assert INSIDE.gpu_island.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, *([NO_ISLAND] * 4)]


@pytest.mark.parametrize(
    ("server", "gpus", "gbps"),
    [
        (0, [3], math.inf),
        (0, [], math.inf),
        (0, [0, 1], 400.0),
        (0, [0, 3], 400.0),  # one island though two switches
        (0, [3, 4], 80.0),
        (0, [0, 1, 2, 7], 80.0),
        (1, [8, 9], 100.0),
        (1, [9, 10], 50.0),
    ],
)
def test_the_slowest_hop_by_hand(server: int, gpus: list[int], gbps: float):
    assert slowest_gbps(INSIDE, server, np.array(gpus, dtype=np.int64)) == gbps


one_inside = st.builds(
    lambda sockets, per, islands: ServerInside(
        sockets=sockets, pcie_switches=sockets * per, nvlink_islands=islands, nvlink_gbps=300.0,
        pcie_gbps=100.0, socket_gbps=20.0,
    ),
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 3),
)  # fmt: skip


@given(one_inside, st.integers(1, 12))
def test_all_gpus_are_as_slow_as_the_slowest_pair_and_parts_are_even(one: ServerInside, gpus: int):
    """And a switch belongs to one socket."""
    inside = inside_of([one], np.array([0]), np.array([gpus]))
    pairs = [slowest_gbps(inside, 0, np.array(p)) for p in combinations(range(gpus), 2)]
    slowest = slowest_gbps(inside, 0, np.arange(gpus))
    assert slowest == min(pairs, default=math.inf)
    if gpus > 1:
        assert one.all_gpus_gbps(gpus) == slowest
    for switch in np.unique(inside.gpu_switch):
        assert len(np.unique(inside.gpu_socket[inside.gpu_switch == switch])) == 1
    sizes = np.bincount(inside.gpu_socket, minlength=one.sockets)
    assert sizes.max() - sizes.min() <= 1


def test_bad_insides_are_refused():
    with pytest.raises(TopologyError, match="multiple of the 2 sockets"):
        replace(PLAIN, pcie_switches=3)
    one, rate = np.zeros(1, dtype=np.int64), np.ones(1)
    with pytest.raises(TopologyError, match="above 0"):
        Inside(one, one, one, rate, rate, rate * np.nan)
    with pytest.raises(TopologyError, match="length"):
        Inside(one, one, np.zeros(2, dtype=np.int64), rate, rate, rate)
