"""Every file of conf/topology builds, has the size its first line says, and carries its name."""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.topology.topology import Topology
from tests.topology.fabrics import check_tree, links_of

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.stem for path in (ROOT / "conf" / "topology").glob("*.yaml"))
NEED_A_PATH = {
    "described": ["topology.path=docs/examples/cluster.yaml"],
    "node_list": [
        "topology.path=docs/examples/inventory.csv",
        "topology.columns.server=server",
        "topology.columns.rack=rack",
        "topology.gpus=8",
        "topology.gpu_type=p100",
    ],
}


def values_of(name: str) -> dict[str, Any]:
    """The group file as a program composes it, with the data folder filled in."""
    extra = [word.replace("docs/", f"{ROOT}/docs/") for word in NEED_A_PATH.get(name, [])]
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose(overrides=[f"+topology={name}", *extra])
    values = OmegaConf.to_container(config.topology, resolve=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


@cache
def build(name: str) -> Topology:
    data = Path(os.environ.get("GPUYARD_DATA", ROOT.parent / "shared" / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUYARD_DATA", str(data.resolve()))
        values = values_of(name)
    path = values.get("path")
    if path and not Path(path).exists():
        pytest.skip(f"{path} is not here: set GPUYARD_DATA to a folder with public node lists")
    return instantiate(values, _convert_="all")


@pytest.mark.parametrize("name", FILES)
def test_every_file_builds(name: str):
    topology = build(name)
    check_tree(topology)
    if name not in NEED_A_PATH:
        assert topology.name == name
        text = (ROOT / "conf" / "topology" / f"{name}.yaml").read_text()
        told = re.search(r"(\d[\d,]*) GPUs", text.splitlines()[0])
        assert told and int(told.group(1).replace(",", "")) == topology.num_gpus
        racks = re.search(r"(\d[\d,]*) racks", text)
        assert racks is None or int(racks.group(1).replace(",", "")) == topology.num_racks
    far = topology.num_servers - 1
    hops = len(links_of(topology).path(0, far))
    assert (2 if topology.num_racks > 1 else 1) < hops <= links_of(topology).longest_route


def test_nothing_grows_with_pairs_of_servers():
    """100,000 GPUs: pairs of servers would need a thousand times as much."""
    links = links_of(build("huge_leaf_spine"))
    held = sum(v.nbytes for v in vars(links).values() if isinstance(v, np.ndarray))
    assert held < 2 * 2**20


# Facts of the public lists, from their own documentation and the trace papers -----------------


@pytest.mark.parametrize(
    ("name", "servers", "gpus"),
    [
        ("openb_nodes", 1213, 6212),
        ("pai_machines", 1814, 6742),
        ("lingjun", 847, 6776),
        ("philly_vcs", 352, 2816),
        ("helios_venus_vcs", 135, 1080),
        ("helios_earth_vcs", 151, 1208),
        ("spot_nodes", 4278, 10412),
    ],
)
def test_sizes_of_public_lists(name: str, servers: int, gpus: int):
    topology = build(name)
    assert (topology.num_servers, topology.num_gpus) == (servers, gpus)


def test_lingjun_is_a_clos_of_three_tiers():
    topology = build("lingjun")
    links = links_of(topology)
    sizes = np.bincount(links.node_level)
    assert (topology.num_racks, sizes[2] // sizes[3]) == (119, 3)
    assert np.bincount(topology.server_rack).max() == 8
    assert topology.inside is not None
