"""Profiles stated in the configuration, and the network that gives them shapes."""

import pytest
from hydra.utils import instantiate

from sim.errors import PhysicsError
from sim.physics.catalogue import StatedModel, StatedProfiles
from sim.physics.traffic import MIX, RING
from sim.topology.generators import leaf_spine
from tests.contract.compositions import CONF


def shipped(path: str):
    from omegaconf import OmegaConf

    return instantiate(OmegaConf.load(CONF / path), _convert_="all")


def test_the_numbers_are_those_stated():
    models = {"a/1": StatedModel(step_s=0.5, gradient_bytes=10.0),
              "b/2": StatedModel(step_s=0.25, gradient_bytes=0.0)}  # fmt: skip
    catalogue = StatedProfiles(gpu_types=["x", "y"], models=models)
    assert catalogue.names == ("a/1", "b/2")
    assert catalogue.compute_s.tolist() == [[0.5, 0.5], [0.25, 0.25]]
    assert catalogue.sync_bytes.tolist() == [10.0, 0.0]
    assert catalogue.gang_ok.all()


def test_the_shipped_five_have_the_shapes_of_their_network():
    catalogue = shipped("profiles/parallel.yaml")
    topology = leaf_spine(
        name="c", servers=4, gpus_per_server=8, servers_per_rack=2, gpu_types=["p100"],
        intra_gbps=80.0, nic_gbps=10.0, oversubscription=2.0,
    )  # fmt: skip
    links = shipped("network/parallel.yaml").links(catalogue, topology)
    row = dict(zip(catalogue.names, links.profile, strict=True))
    assert {int(row[n]["pattern"]) for n in ("VGG-19/32", "ResNet-152/32")} == {RING}
    bert, gpt = row["BERT-large/8"], row["GPT-2-XL/4"]
    assert (int(bert["pattern"]), int(bert["tensor_width"]), int(bert["stages"])) == (MIX, 2, 1)
    assert (int(gpt["pattern"]), int(gpt["tensor_width"]), int(gpt["stages"])) == (MIX, 2, 4)
    assert float(bert["tensor_bytes"]) == pytest.approx(1.6e9, rel=0.05)
    assert float(gpt["activation_bytes"]) == pytest.approx(26e6, rel=0.05)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"step_s": 0.0, "gradient_bytes": 1.0}, r"step_s is 0\.0; it must be above 0"),
        ({"step_s": 1.0, "gradient_bytes": -1.0}, r"gradient_bytes is -1\.0; it must be 0 or more"),
    ],
)
def test_impossible_numbers_are_refused(given, rule):
    with pytest.raises(PhysicsError, match=rule):
        StatedModel(**given)


def test_no_models_are_no_profiles():
    with pytest.raises(PhysicsError, match="name at least one each"):
        StatedProfiles(gpu_types=["x"], models={})
