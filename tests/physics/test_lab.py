"""The lab's eight models: the table's figures, the network's patterns, the stand-ins' pairs."""

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import PhysicsError
from sim.physics.published_profiles import LabModel, LabProfiles
from sim.physics.reference import LoneJob
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles, StandIns
from sim.physics.traffic import PARAMETER_SERVER, RING
from sim.topology.topology import Topology
from tests.contract.compositions import CONF
from tests.physics.network_worlds import built

GIVEN = {"gpu_types": ["p100"], "volumes": "sizes", "nic_gbps": 6.0}
MODEL = {"size_mb": 1.0, "batch": 1, "compute_s": 1.0, "apart": 0.5, "together": 0.8, "local": 1.0}
# Samples/s of the table with two servers, and with one.
APART = {"resnet-50": 20.5, "vgg-16": 11, "resnext-110": 374, "inception-bn": 116, "seq2seq": 169,
         "ctc": 51, "dssm": 405, "wlm": 80}  # fmt: skip
TOGETHER = {"resnet-50": 40.9, "vgg-16": 17.5, "resnext-110": 381, "inception-bn": 150,
            "seq2seq": 231, "ctc": 68, "dssm": 389, "wlm": 161}  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> LabProfiles:
    return built("profiles/lab.yaml")


@pytest.fixture(scope="module")
def topology() -> Topology:
    return built("topology/lab_fat_tree.yaml")


def test_each_model_has_a_row_with_parameter_servers_and_one_with_all_reduce(catalogue):
    assert len(catalogue.names) == 16
    assert catalogue.names[:4] == (
        "resnet-50 ps/32", "resnet-50 ring/32", "vgg-16 ps/32", "vgg-16 ring/32",
    )  # fmt: skip
    assert {name.partition(" ")[0] for name in catalogue.names} == set(APART)
    assert catalogue.compute_s[::2, 0].tolist() == [
        0.449, 0.535, 0.226, 0.815, 0.075, 0.585, 0.567, 0.154,
    ]  # fmt: skip
    np.testing.assert_array_equal(catalogue.compute_s[::2], catalogue.compute_s[1::2])
    np.testing.assert_array_equal(catalogue.sync_bytes[::2], catalogue.sync_bytes[1::2])
    assert catalogue.gang_ok.all()


def test_volumes_are_the_models_sizes_if_so_wanted():
    given = OmegaConf.load(CONF / "profiles/lab.yaml")
    given.volumes = "sizes"
    sizes = instantiate(given, _convert_="all").sync_bytes[::2] / 1e6
    assert sizes == pytest.approx([102.2, 553.4, 6.92, 42.1, 36.5, 24.0, 6.0, 19.2])


def test_patterns_go_by_row(catalogue, topology):
    links = built("network/lab.yaml").links(catalogue, topology)
    kinds = {name.split(" ")[1].split("/")[0]: set() for name in catalogue.names}
    for name, row in zip(catalogue.names, links.profile, strict=True):
        kinds[name.split(" ")[1].split("/")[0]].add(int(row["pattern"]))
    assert kinds == {"ps": {PARAMETER_SERVER}, "ring": {RING}}


def speeds(catalogue: LabProfiles, topology: Topology, gpus: list[int]) -> dict[str, float]:
    """Samples/s of two workers' each, by profile."""
    links = built("network/lab.yaml").links(catalogue, topology)
    alone = LoneJob(links, topology, 2)
    found = {}
    for row, name in enumerate(catalogue.names):
        step_s = catalogue.compute_s[row, 0] + sum(alone.seconds(row, np.array(gpus)))
        found[name] = float(name.partition("/")[2]) / step_s
    return found


@pytest.mark.parametrize(
    ("gpus", "table", "servers", "ring"),
    [
        ([0, 2], APART, [-7, -8, -3, -3, -7, -4, -1, -8], [0, 0, 0, 0, 0, 0, 0, 0]),
        ([0, 1], TOGETHER, [-12, 23, 23, -8, 41, -1, 11, 11], [17, 81, 35, -2, 104, 11, 13, 90]),
    ],
)
def test_two_workers_are_as_far_off_the_table_as_the_docs_say(
    catalogue, topology, gpus, table, servers, ring
):
    found = speeds(catalogue, topology, gpus)
    off = {
        kind: [round(100 * (found[name] / table[name.partition(" ")[0]] - 1))
               for name in found if f" {kind}" in name]
        for kind in ("ps", "ring")
    }  # fmt: skip
    assert off == {"ps": servers, "ring": ring}


@pytest.mark.parametrize("path", ["interference/lab.yaml", "belief/lab.yaml",
                                  "belief/lab_linear.yaml"])  # fmt: skip
def test_a_pair_has_the_slow_downs_of_its_stand_ins(path: str, catalogue):
    model = built(path)
    own = model["model"] if isinstance(model, dict) else model
    table = own.pair_table(catalogue)
    shipped = own._model.pair_table(ShippedProfiles())
    names, known = list(catalogue.names), list(ShippedProfiles().names)
    p100 = ShippedProfiles().gpu_types.index("p100")
    victim, other = names.index("seq2seq ring/64"), names.index("wlm ps/160")
    assert table.slowdown.shape == (1, 16, 16)
    assert table.source == shipped.source
    there = shipped.slowdown[p100, known.index("Transformer/64"), known.index("LM/80")]
    assert table.slowdown[0, victim, other] == there


def test_a_model_without_a_stand_in_is_named():
    lab = LabProfiles(models={"new": LabModel(**MODEL)}, **GIVEN)
    for names, words in (
        ({"a": "b"}, "model 'new' has no stand-in; add it to names"),
        ({"new": "b"}, "profile 'b' is not among those of the stand-ins"),
    ):
        stand_ins = StandIns(model=ShippedInterference(), profiles=ShippedProfiles(), names=names)
        with pytest.raises(PhysicsError, match=words):
            stand_ins.pair_table(lab)


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"volumes": "guessed"}, "volumes is 'guessed'; use sizes or speeds"),
     ({"nic_gbps": 0.0}, r"nic_gbps is 0\.0; it must be above 0"),
     ({"models": {}}, "name at least one")],
)  # fmt: skip
def test_impossible_settings_are_refused(change, rule):
    with pytest.raises(PhysicsError, match=rule):
        LabProfiles(**(GIVEN | {"models": {"m": LabModel(**MODEL)}} | change))
    with pytest.raises(PhysicsError, match=r"profiles\.batch is 0; it must be above 0"):
        LabModel(**(MODEL | {"batch": 0}))
