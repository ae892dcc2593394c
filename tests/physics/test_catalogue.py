"""Profiles stated in the configuration, and the network that gives them shapes."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from interference.gavel import RUN, MeasuredProfiles, measured_speedup
from sim.errors import PhysicsError
from sim.physics.catalogue import StatedModel, StatedProfiles, throughputs
from sim.physics.traffic import MIX, RING
from tests.contract.compositions import CONF
from tests.physics.network_worlds import racks


def shipped(path: str):
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
    links = shipped("network/parallel.yaml").links(catalogue, racks(gpus=8))
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


STEPS_S = np.array([[1.0, 1.0, 1.25, 1.5, 2.0]])  # with 0 to 4 GPUs


def test_unmeasured_profiles_do_n_steps_worth_in_the_modelled_step():
    assert throughputs(STEPS_S, None).tolist() == [[0.0, 1.0, 1.6, 2.0, 2.0]]
    assert throughputs(STEPS_S, np.full((1, 9), np.nan)).tolist() == [[0.0, 1.0, 1.6, 2.0, 2.0]]


def test_measured_numbers_count_and_the_model_goes_on_from_the_last_of_them():
    # Measured 1.2 at 2; the model makes 2.0 / 1.6 of it at 3 and at 4.
    found = throughputs(STEPS_S, np.array([[np.nan, 1.0, 1.2]]))
    assert found.tolist() == [[0.0, 1.0, 1.2, 1.2 * 1.25, 1.2 * 1.25]]
    # A gap (3) is filled from below; wider tables than needed are cut.
    found = throughputs(STEPS_S, np.array([[np.nan, 1.0, 1.2, np.nan, 3.0, 3.5]]))
    assert found.tolist() == [[0.0, 1.0, 1.2, 1.2 * 1.25, 3.0]]


def test_measured_curves_are_geometric_means_cut_at_linear_without_the_v100():
    measured = {
        ("m/1", "k80", 1, True): 2.0, ("m/1", "k80", 2, True): 3.2, ("m/1", "k80", 8, True): 20.0,
        ("m/1", "p100", 1, True): 1.0, ("m/1", "p100", 2, True): 0.9, ("m/1", "p100", 4, True): 0.0,
        ("m/1", "v100", 1, True): 1.0, ("m/1", "v100", 2, True): 9.0,
        ("m/1", "k80", 2, False): 99.0,
    }  # fmt: skip
    speeds = pd.Series(measured).rename_axis(RUN)
    curve = measured_speedup(speeds, ("m/1", "other/1"))
    assert curve.shape == (2, 9)
    assert curve[0, 1] == 1.0
    assert curve[0, 2] == pytest.approx(np.sqrt(1.6 * 0.9))
    assert curve[0, 8] == 8.0  # 10 times as fast on 8 is not believed
    # Half-way between 2 and 8 in the logarithm lies 4.
    assert curve[0, 4] == pytest.approx(np.sqrt(1.2 * 10.0))
    assert np.isnan(curve[1, 2:]).all() and curve[1, 1] == 1.0


def test_the_measured_profiles_bring_their_curves():
    data = Path(__file__).resolve().parents[2] / os.environ.get("GPUYARD_DATA", "../shared/data")
    if not (data / "throughput").is_dir():
        pytest.skip("the measured data is not there; set GPUYARD_DATA")
    profiles = MeasuredProfiles(data_dir=data)
    assert profiles.speedup.shape == (len(profiles.names), 9)
    several = profiles.speedup[profiles.gang_ok]
    assert np.isfinite(several[:, 1:]).mean() > 0.9
    shown = several[np.isfinite(several[:, 8])]
    assert np.all(shown[:, 1:] <= np.arange(1, 9) * (1 + 1e-12))
    assert np.all(shown[:, 8] > shown[:, 1])
