"""Every physics, network and belief file builds what it names."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.physics.shipped_files import ShippedProfiles
from sim.topology.leaf_spine import leaf_spine

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
    topology = leaf_spine(
        name="c",
        servers=4,
        gpus_per_server=8,
        servers_per_rack=2,
        gpu_types=["p100"],
        intra_gbps=100.0,
        nic_gbps=10.0,
        oversubscription=2.0,
    )
    tables = instantiate(load(f"network/{name}.yaml")).tables(ShippedProfiles(), topology)
    assert tables.server_s.shape == (24, 5)
    assert (tables.server_s.max() > 0) == (name == "alpha_beta")


@pytest.mark.parametrize("path", ["interference/measured.yaml", "profiles/measured.yaml"])
def test_measured_reads_the_environment(path, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUYARD_DATA", str(tmp_path))
    with pytest.raises(Exception, match=str(tmp_path)):  # hydra wraps the missing file's error
        instantiate(load(path))


@pytest.mark.parametrize("name", ["none", "additive", "linear", "learned", "oracle"])
def test_belief(name):
    belief = load(f"belief/{name}.yaml")
    assert belief.info in {"none", "linear", "learned", "oracle"}
    if name in {"none", "oracle"}:
        assert belief.model is None
    else:
        table = instantiate(belief.model).pair_table(ShippedProfiles())
        assert table.slowdown.shape == (3, 24, 24)
