"""Every physics, network and belief file builds what it names."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.shipped_files import ShippedProfiles
from tests.physics.network_worlds import racks

CONF = Path(__file__).parents[2] / "conf"


def load(name: str):
    return OmegaConf.load(CONF / name)


def test_profiles_and_interference_shipped():
    catalogue = instantiate(load("profiles/shipped.yaml"))
    for name, source in (("none", "none"), ("shipped", "shipped")):
        table = instantiate(load(f"interference/{name}.yaml")).pair_table(catalogue)
        assert table.source == source


@pytest.mark.parametrize("name", ["alpha_beta", "none"])
def test_network(name):
    tables = instantiate(load(f"network/{name}.yaml")).tables(ShippedProfiles(), racks(gpus=8))
    assert tables.server_s.shape == (24, 5)
    assert (tables.server_s.max() > 0) == (name == "alpha_beta")


def test_mixes_and_host():
    pairs = instantiate(load("interference/shipped.yaml")).pair_table(ShippedProfiles())
    assert instantiate(load("mixes/pair_sum.yaml")).table(pairs) is None
    config = OmegaConf.create({"max_tenants": 4, "mixes": load("mixes/power.yaml")})
    law = instantiate(config.mixes)
    assert law.table(pairs).slowdown.shape == (3, 24, 24 + 300 + 2600)
    topology = racks(servers=2, gpus=8)
    assert instantiate(load("host/none.yaml")).tables(ShippedProfiles(), topology) is None
    shared = instantiate(load("host/shared.yaml"))
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
