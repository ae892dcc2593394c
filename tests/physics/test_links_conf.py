"""Every link network on every topology file: links, what schedulers are told, reference times."""

from pathlib import Path

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.physics.reference import reference_comm_s
from sim.physics.shipped_files import ShippedProfiles
from tests.topology.test_topology_conf import FILES, build

CONF = Path(__file__).parents[2] / "conf" / "network"


@pytest.mark.parametrize("network", ["max_min", "kway", "duty"])
@pytest.mark.parametrize("name", FILES)
def test_every_network_on_every_topology(name: str, network: str) -> None:
    topology, catalogue = build(name), ShippedProfiles()
    model = instantiate(OmegaConf.load(CONF / f"{network}.yaml"))
    links, tables = model.links(catalogue, topology), model.tables(catalogue, topology)
    assert len(links.server) == topology.num_servers
    heavy = int(np.argmax(catalogue.sync_bytes))
    assert (tables.server_s[heavy, 2:] > 0).all() and not tables.server_s[:, :2].any()
    gangs = np.array([1, 2, 16])
    comm_s = reference_comm_s(links, topology, len(catalogue.names), gangs)[heavy]
    assert comm_s[0] == 0.0 < comm_s[1] < comm_s[2] < np.inf


@pytest.mark.parametrize("name", ["none", "alpha_beta"])
def test_tables_alone_have_no_links(name: str) -> None:
    model = instantiate(OmegaConf.load(CONF / f"{name}.yaml"))
    topology = build("small_leaf_spine")
    assert model.links(ShippedProfiles(), topology) is None
