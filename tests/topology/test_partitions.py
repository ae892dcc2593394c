"""Partitions: runs of servers, or whole virtual clusters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import TopologyError
from sim.topology.topology import Topology, contiguous_partitions, group_partitions
from tests.topology.fabrics import a_leaf_spine


def grouped(groups: list[str]) -> Topology:
    topology = a_leaf_spine(servers=len(groups), per_rack=2, spines=1)  # GPUs 2 1 3 2 1 3 ...
    return replace(topology, server_group=np.array(groups, dtype=np.object_))


def test_groups_are_dealt_by_size():
    # GPUs of a: 2 + 1 = 3, of b: 3 + 2 = 5, of c: 1; b first, then a to the other, c to a's
    topology = grouped(["a", "a", "b", "b", "c"])
    assert group_partitions(topology, 2).tolist() == [1, 1, 0, 0, 1]
    assert group_partitions(topology, 3).tolist() == [1, 1, 0, 0, 2]
    assert group_partitions(topology, 1).tolist() == [0] * 5


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=20), st.data())
def test_groups_stay_whole_and_every_partition_gets_one(groups: list[str], data: st.DataObject):
    topology = grouped(groups)
    count = data.draw(st.integers(1, len(set(groups))))
    partition = group_partitions(topology, count)
    assert set(partition.tolist()) == set(range(count))
    owner = dict(zip(groups, partition.tolist(), strict=True))
    assert [owner[group] for group in groups] == partition.tolist()
    gpus = np.bincount(partition, topology.gpus_per_server, count)
    largest = max(
        topology.gpus_per_server[np.array(groups) == group].sum() for group in set(groups)
    )
    assert gpus.max() - gpus.min() <= largest


def test_impossible_divisions_are_refused():
    with pytest.raises(TopologyError, match=r"agents\.count is 3; the cluster t has 2 groups"):
        group_partitions(grouped(["a", "b"]), 3)
    with pytest.raises(TopologyError, match="has no groups"):
        group_partitions(a_leaf_spine(servers=4, per_rack=2, spines=1), 1)
    with pytest.raises(TopologyError, match=r"agents\.count is 5"):
        contiguous_partitions(a_leaf_spine(servers=4, per_rack=2, spines=1), 5)


@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_contiguous_partitions_are_runs_and_keep_racks_where_they_divide(
    servers: int, per_rack: int, data: st.DataObject
):
    topology = a_leaf_spine(servers=servers, per_rack=per_rack, spines=1)
    count = data.draw(st.integers(1, servers))
    partition = contiguous_partitions(topology, count)
    assert np.all(np.diff(partition) >= 0)
    assert set(partition.tolist()) == set(range(count))
    if topology.num_racks % count == 0:
        for rack in range(topology.num_racks):
            assert len(set(partition[topology.server_rack == rack])) == 1
