"""Leaf-spine generator: racks of equal servers below leaf switches, leaves below a full spine."""

import numpy as np

from sim.errors import TopologyError
from sim.topology.topology import Topology


def leaf_spine(
    *,
    name: str,
    servers: int,
    gpus_per_server: int,
    servers_per_rack: int,
    gpu_types: list[str],
    intra_gbps: float,
    nic_gbps: float,
    oversubscription: float,
) -> Topology:
    """Build a leaf-spine cluster; server s has GPU type `gpu_types[s % len(gpu_types)]`.

    A rack's uplink carries its servers' NIC bandwidth divided by `oversubscription`; the last
    rack may hold fewer servers.
    """
    for key, value in {"servers": servers, "gpus_per_server": gpus_per_server,
                       "servers_per_rack": servers_per_rack}.items():  # fmt: skip
        if value < 1:
            raise TopologyError(f"topology.{key} is {value}; it must be at least 1")
    if not gpu_types:
        raise TopologyError("topology.gpu_types is empty; name at least one GPU type")
    for key, rate in {"intra_gbps": intra_gbps, "nic_gbps": nic_gbps,
                      "oversubscription": oversubscription}.items():  # fmt: skip
        if rate <= 0:
            raise TopologyError(f"topology.{key} is {rate}; it must be above 0")
    distinct = tuple(dict.fromkeys(gpu_types))
    rack = np.arange(servers) // servers_per_rack
    in_rack = np.bincount(rack)
    return Topology(
        name=name,
        gpu_types=distinct,
        gpu_server=np.repeat(np.arange(servers), gpus_per_server),
        server_first_gpu=np.arange(servers + 1) * gpus_per_server,
        server_gpu_type=np.array(
            [distinct.index(gpu_types[s % len(gpu_types)]) for s in range(servers)]
        ),
        server_rack=rack,
        nic_gbps=np.full(servers, float(nic_gbps)),
        uplink_gbps=in_rack.astype(np.float64) * (nic_gbps / oversubscription),
        intra_gbps=np.full(servers, float(intra_gbps)),
    )
