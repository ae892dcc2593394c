"""Links of a three-tier tree: racks below the aggregations of their pod, pods below cores."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.topology.links import LinkGraph, link_graph


def pod_links(
    *,
    server_rack: IntArray,
    nic_gbps: FloatArray,
    uplink_gbps: FloatArray,
    rack_pod: IntArray,
    pod_uplink_gbps: FloatArray,
    spines: int,
) -> LinkGraph:
    """Every pod has `spines` aggregations; aggregation i leads to core i, of `spines` cores.

    Args:
        server_rack: (S,)
        nic_gbps: (S,)
        uplink_gbps: (R,) of a rack, over its links to all aggregations of its pod together.
        rack_pod: (R,)
        pod_uplink_gbps: (D,) of a pod, over the links of all its aggregations together.
        spines: number of planes.
    """
    servers, racks, pods = len(server_rack), len(rack_pod), len(pod_uplink_gbps)
    first_agg = servers + racks
    first_core = first_agg + pods * spines
    rack = np.repeat(np.arange(racks), spines)
    plane_of_rack = np.tile(np.arange(spines), racks)
    agg = np.arange(pods * spines)
    return link_graph(
        level_names=("server", "rack switch", "aggregation", "core"),
        level_sizes=(servers, racks, pods * spines, spines),
        lower=np.concatenate([np.arange(servers), servers + rack, first_agg + agg]),
        upper=np.concatenate(
            [
                servers + server_rack,
                first_agg + rack_pod[rack] * spines + plane_of_rack,
                first_core + agg % spines,
            ]
        ),
        gbps=np.concatenate(
            [
                nic_gbps,
                np.repeat(uplink_gbps / spines, spines),
                np.repeat(pod_uplink_gbps / spines, spines),
            ]
        ),
    )
