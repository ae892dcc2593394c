"""Small clusters with link graphs, and networks that share their links, drawn for hypothesis."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sim.physics.link_network import DUTY, K_WAY, MAX_MIN, make_link_network
from sim.physics.physics import Physics
from sim.physics.traffic import MIX, PARAMETER_SERVER, RING, Traffic
from sim.topology.generators import bcube, fat_tree, leaf_spine, vl2
from sim.topology.topology import Topology

Draw = Callable[..., Any]
INSIDE = {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 2, "nvlink_gbps": 300.0,
          "pcie_gbps": 90.0, "socket_gbps": 40.0}  # fmt: skip
BYTES_A_GBPS = 1e9 / 8.0  # what 1 Gbps moves in a second


def linked_topology(draw: Draw, gpu_types: tuple[str, ...], equal_servers: bool) -> Topology:
    """3 to 6 servers of 1 to 4 GPUs on any of the four fabrics."""
    size = draw(st.sampled_from([[4], [2], [1]] if equal_servers else [[4], [1, 3], [2, 2, 4]]),
                label="sizes")  # fmt: skip
    inside = INSIDE if size == [4] and draw(st.booleans(), label="inside") else None
    plain: dict[str, Any] = {
        "name": "case", "gpus_per_server": size, "gpu_types": list(gpu_types),
        "intra_gbps": 80.0, "inside": inside,
    }  # fmt: skip
    fabric = draw(st.sampled_from(["leaf-spine", "fat-tree", "vl2", "bcube"]), label="fabric")
    if fabric == "fat-tree":
        servers = draw(st.integers(3, 6), label="servers")
        return fat_tree(k=4, servers=servers, nic_gbps=10.0, fabric_gbps=8.0, **plain)
    if fabric == "vl2":
        return vl2(aggregation_ports=4, intermediate_ports=2, servers_per_rack=2, nic_gbps=10.0,
                   fabric_gbps=7.0, **plain)  # fmt: skip
    if fabric == "bcube":
        return bcube(n=2, k=1, port_gbps=10.0, **plain)
    return leaf_spine(
        servers=draw(st.integers(3, 6), label="servers"), servers_per_rack=2, nic_gbps=10.0,
        oversubscription=draw(st.sampled_from([1.0, 3.0])), spines=2, **plain,
    )  # fmt: skip


def with_links(
    draw: Draw, physics: Physics, topology: Topology, rng: np.random.Generator
) -> Physics:
    """The physics with links that jobs share by one of the three rules."""
    network = make_link_network(
        sharing=draw(st.sampled_from([MAX_MIN, K_WAY, DUTY]), label="sharing"),
        overlap_frac=draw(st.sampled_from([0.0, 0.25]), label="overlap"), alpha_local_s=1e-5,
        alpha_server_s=5e-5, eta_frac=0.3, traffic=_traffic(len(physics.catalogue.names), rng),
        catalogue=physics.catalogue, topology=topology,
    )  # fmt: skip
    return replace(physics, links=network)


def _traffic(profiles: int, rng: np.random.Generator) -> Traffic:
    def sizes() -> np.ndarray:
        return rng.choice([0.0, 0.3, 1.0, 4.0], profiles) * BYTES_A_GBPS

    return Traffic(
        pattern=rng.choice([RING, RING, PARAMETER_SERVER, MIX], profiles), grad_bytes=sizes(),
        ps_count=rng.integers(1, 4, profiles), stages=rng.choice([1, 2, 3], profiles),
        tensor_width=rng.choice([1, 2], profiles), activation_bytes=sizes(), tensor_bytes=sizes(),
    )  # fmt: skip
