"""Every physics, network and belief file builds what it names."""

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.reference import reference_comm_s
from sim.physics.shipped_files import ShippedProfiles
from tests.contract.compositions import CONF
from tests.physics.network_worlds import built, racks
from tests.topology.test_topology_conf import FILES, build


def load(name: str):
    return OmegaConf.load(CONF / name)


@pytest.mark.parametrize("name", FILES)
def test_every_link_network_on_every_topology(name: str) -> None:
    topology, catalogue = build(name), ShippedProfiles()
    heavy = int(np.argmax(catalogue.sync_bytes))
    for network in ("kway", "duty", "max_min"):
        model = built(f"network/{network}.yaml")
        links, tables = model.links(catalogue, topology), model.tables(catalogue, topology)
        assert len(links.server) == topology.num_servers
        assert (tables.server_s[heavy, 2:] > 0).all() and not tables.server_s[:, :2].any()
    gangs = np.array([1, 2, 16])  # alone: the same under every law
    comm_s = reference_comm_s(links, topology, len(catalogue.names), gangs)[heavy]
    assert comm_s[0] == 0.0 < comm_s[1] < comm_s[2] < np.inf


def test_profiles_and_interference_shipped():
    catalogue = built("profiles/shipped.yaml")
    for name in ("none", "shipped"):
        assert built(f"interference/{name}.yaml").pair_table(catalogue).source == name


@pytest.mark.parametrize("name", ["alpha_beta", "none"])
def test_tables_alone_have_no_links(name):
    model = built(f"network/{name}.yaml")
    tables = model.tables(ShippedProfiles(), racks(gpus=8))
    assert tables.server_s.shape == (24, 5)
    assert (tables.server_s.max() > 0) == (name == "alpha_beta")
    assert model.links(ShippedProfiles(), build("small_leaf_spine")) is None


def test_mixes_and_host():
    pairs = built("interference/shipped.yaml").pair_table(ShippedProfiles())
    assert built("mixes/pair_sum.yaml").table(pairs) is None
    config = OmegaConf.create({"max_tenants": 4, "mixes": load("mixes/power.yaml")})
    law = instantiate(config.mixes)
    assert law.table(pairs).slowdown.shape == (3, 24, 24 + 300 + 2600)
    topology, shared = racks(servers=2, gpus=8), built("host/shared.yaml")
    assert built("host/none.yaml").tables(ShippedProfiles(), topology) is None
    tables = shared.tables(ShippedProfiles(), topology)
    assert tables.server_cpu_milli.tolist() == [32_000, 32_000]
    assert tables.server_pcie_mbs.tolist() == [48_000, 48_000]
    with pytest.raises(PhysicsError, match="use profiles=shipped"):
        shared.tables(Catalogue(**{**vars(ShippedProfiles()), "host": None}), topology)


@pytest.mark.parametrize("path", ["interference/measured.yaml", "profiles/measured.yaml"])
def test_measured_reads_the_environment(path, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUYARD_DATA", str(tmp_path))
    with pytest.raises(Exception, match=str(tmp_path)):  # hydra wraps the missing file's error
        instantiate(load(path))


@pytest.mark.parametrize("name", ["none", "linear", "learned", "oracle"])
def test_belief(name):
    belief = load(f"belief/{name}.yaml")
    assert belief.info in {"none", "linear", "learned", "oracle"}
    if name in {"none", "oracle"}:
        assert belief.model is None
    else:
        table = instantiate(belief.model).pair_table(ShippedProfiles())
        assert table.slowdown.shape == (3, 24, 24)
