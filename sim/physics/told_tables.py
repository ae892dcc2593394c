"""Tables that come near a link network: what schedulers are told where the kernel shares links.

A scheduler that predicts step times reads tables over a placement's spread (`NetworkTables`). What
jobs do to each other on links does not fit there, so these are typical values: servers behind one
NIC each, the smallest of the cluster; crossing racks adds what the routes of one server a rack add;
k jobs on a NIC by the network's own law, as if nothing but that NIC held them up.
"""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics.catalogue import Catalogue
from sim.physics.flows import server_flows
from sim.physics.link_load import make_load_scratch
from sim.physics.link_network import BYTES_PER_GBIT, DUTY, LinkNetwork
from sim.physics.link_reference import LoneJob, compact_gpus
from sim.physics.network_tables import NetworkTables
from sim.physics.settle import k_way_factor
from sim.topology.topology import Topology

MOST_SPANNED = 64  # servers and racks tabulated; the last entry stands for more
MOST_TENANTS = 4  # factors are tabulated up to this many one-GPU tenants on every GPU below a link


def told_tables(network: LinkNetwork, catalogue: Catalogue, topology: Topology) -> NetworkTables:
    """Tables of a job alone on its spread, and factors of company."""
    exposed = 1.0 - network.overlap_frac
    size = int(topology.gpus_per_server.max())
    local_s = exposed * _local_s(network, topology, size)
    server_s = exposed * _server_s(network, topology, size)
    rack_gpus = np.bincount(topology.server_rack, weights=topology.gpus_per_server)
    nic_gbps = float(topology.nic_gbps.min())
    rooms = max(1.0, float(np.median(topology.uplink_gbps)) / nic_gbps)  # NICs an uplink serves
    busy = _busy(catalogue, local_s, server_s)
    return NetworkTables(
        local_s=local_s,
        server_s=server_s,
        rack_s=exposed * _rack_s(network, topology),
        nic_factor=_factor(network, busy, MOST_TENANTS * size, 1.0),
        uplink_factor=_factor(network, busy, MOST_TENANTS * int(rack_gpus.max()), rooms),
    )


def _local_s(network: LinkNetwork, topology: Topology, size: int) -> FloatArray:
    """(P, size + 1) seconds inside one of the largest servers."""
    alone = LoneJob(network, topology, size)
    table = np.zeros((len(network.profile), size + 1))
    for gang in range(2, size + 1):
        gpus = compact_gpus(topology, gang)
        for profile in range(len(table)):
            table[profile, gang] = alone.seconds(profile, gpus)[0]
    return table


def _nic_s(network: LinkNetwork, topology: Topology, profile: int, gpus_on: IntArray) -> float:
    """Seconds between servers that hang on one switch by a NIC each, latency included."""
    servers = len(gpus_on)
    scratch = make_load_scratch(network, int(gpus_on.sum()))
    scratch.gang["server"][:servers] = np.arange(servers)
    scratch.gang["gpus_on"][:servers] = gpus_on
    count, steps = server_flows(network.profile[profile], scratch.gang, servers, scratch.flow)
    flow = scratch.flow[:count]
    each_way = [
        np.bincount(flow[end], weights=flow["num_bytes"], minlength=1).max()
        for end in ("source", "target")
    ]
    rate = float(topology.nic_gbps.min()) * BYTES_PER_GBIT
    return float(max(each_way) / rate + steps * network.alpha_server_s)


def _server_s(network: LinkNetwork, topology: Topology, size: int) -> FloatArray:
    """(P, s + 1) seconds between s full servers of the largest size."""
    most = min(topology.num_servers, MOST_SPANNED)
    table = np.zeros((len(network.profile), most + 1))
    for profile in range(len(table)):
        for servers in range(2, most + 1):
            gpus_on = np.full(servers, size)
            table[profile, servers] = _nic_s(network, topology, profile, gpus_on)
    return table


def _rack_s(network: LinkNetwork, topology: Topology) -> FloatArray:
    """(P, r + 1) seconds that routes add to a worker in each of the first r racks."""
    most = min(topology.num_racks, MOST_SPANNED)
    first_server = np.searchsorted(topology.server_rack, np.arange(most))
    gpus = topology.server_first_gpu[first_server]
    alone = LoneJob(network, topology, most)
    table = np.zeros((len(network.profile), most + 1))
    for profile in range(len(table)):
        for racks in range(2, most + 1):
            through_links_s = alone.seconds(profile, gpus[:racks])[1]
            nic_s = _nic_s(network, topology, profile, np.ones(racks, dtype=np.int64))
            table[profile, racks] = max(0.0, through_links_s - nic_s)
    return table


def _busy(catalogue: Catalogue, local_s: FloatArray, server_s: FloatArray) -> float:
    """Mean share of its step that a profile on two servers keeps its NIC busy."""
    spread_s = server_s[:, min(2, server_s.shape[1] - 1)]
    step_s = catalogue.compute_s.mean(axis=1) + local_s[:, -1] + spread_s
    return float(np.mean(spread_s / step_s))


def _factor(network: LinkNetwork, busy: float, most: int, rooms: float) -> FloatArray:
    """(most + 1,) time with 0 .. most jobs on a link with room for `rooms` of them, over alone."""
    if network.sharing == DUTY:
        law = [1.0 + max(0, jobs - 1) * busy for jobs in range(most + 1)]
    else:
        law = [float(k_way_factor(jobs, network.eta_frac)) for jobs in range(most + 1)]
    factor = np.maximum(1.0, np.array(law) / rooms)
    factor[:2] = 1.0
    return factor
