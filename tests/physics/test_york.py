"""York's speed model: golden numbers by hand, and how near the tables come to the law."""

import math

import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from sim.errors import PhysicsError, TraceError
from sim.physics.networks import YorkNetwork
from sim.physics.physics import Physics
from sim.physics.published_profiles import YorkProfiles
from sim.physics.shipped_files import NoInterference, ShippedProfiles
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.generators import leaf_spine
from sim.traces.job_traits import ProfileRule
from tests.contract.compositions import CONF
from tests.sim.worlds import Job, play, world

WEIGHTS = {"gpu_weight": 0.025, "server_weight": 0.25, "rack_weight": 0.5, "rack_slow_frac": 0.2}
MODELS = {"a": {"param_mb": 100.0, "gflops": 10.6}, "b": {"param_mb": 528.0, "gflops": 16.0}}


def network() -> YorkNetwork:
    return YorkNetwork(**WEIGHTS)


def profiles(**given) -> YorkProfiles:
    told = {"gpu_types": ["x"], "tflops": 10.6, "most_gpus": 8, "batches": [100], "models": MODELS}
    return YorkProfiles(**{**told, **given})


def cluster_2x4x4():
    return instantiate(OmegaConf.load(CONF / "topology" / "topdrl_2x4x4.yaml"), _convert_="all")


def test_costs_are_the_published_ones():
    gang = np.arange(1, 9)
    best = network().least_cost(gang, cluster_2x4x4())
    assert best == pytest.approx([0.775, 0.8, 0.825, 0.85, 1.125, 1.15, 1.175, 1.2])
    worst = network().cost(gang, gang, np.minimum(gang, 2))
    assert worst == pytest.approx([0.775, 1.55, 1.825, 2.1, 2.375, 2.65, 2.925, 3.2])


def test_an_iteration_by_hand():
    # Model a: 100 samples of 10.6 GFLOP are 1.06 TFLOP, 0.1 s; 100 MB cost 28.29 ms, times sqrt(4).
    catalogue = profiles()
    row = catalogue.names.index("a x4/100")
    assert catalogue.compute_s[row, 0] == pytest.approx(0.1)
    assert catalogue.sync_s[row] == pytest.approx(0.02829 * 2)
    assert catalogue.tflop[row] == pytest.approx(4 * 1.06)
    two, one = np.array([2]), np.array([1])
    compact = network().step_s(catalogue, np.array([row]), one, one)
    assert compact == pytest.approx([(0.1 + 0.05658) * 0.85 / 0.775])
    apart = network().step_s(catalogue, np.array([row]), two, two)
    assert apart == pytest.approx([(0.1 + 0.05658 * 1.2) * (0.1 + 0.5 + 1.0) / 0.775])


def test_gradients_beyond_500_mb_are_extrapolated():
    catalogue = profiles()
    row = catalogue.names.index("b x1/100")
    assert catalogue.sync_s[row] == pytest.approx(0.13977 + 28 * (0.13977 - 0.02829) / 400)


def spreads(gang: int):
    """Every (servers, racks) that a gang can span on 2 racks of 4 servers of 4."""
    for servers in range(-(-gang // 4), min(gang, 8) + 1):
        if servers <= 4:
            yield servers, 1
        if servers >= 2:
            yield servers, 2


def test_tables_are_exact_in_one_rack_and_near_elsewhere():
    shipped = instantiate(OmegaConf.load(CONF / "profiles" / "york.yaml"), _convert_="all")
    tables = network().tables(shipped, cluster_2x4x4())
    for row, gang in enumerate(shipped.gang.tolist()):
        for servers, racks in spreads(gang):
            law = network().step_s(shipped, np.array([row]), np.array([servers]), np.array([racks]))
            summed = (
                shipped.compute_s[row, 0] + tables.local_s[row, 1]
                + tables.server_s[row, servers] + tables.rack_s[row, racks]
            )  # fmt: skip
            assert summed == pytest.approx(law[0], rel=1e-9 if racks == 1 else 0.06)


def test_a_job_on_two_racks_takes_as_much_longer_as_the_law_says():
    topology = leaf_spine(
        name="two", servers=4, gpus_per_server=1, servers_per_rack=2, gpu_types=["x"],
        intra_gbps=400.0, nic_gbps=40.0, oversubscription=2.0,
    )  # fmt: skip
    catalogue = profiles()
    physics = Physics(
        catalogue=catalogue, pairs=NoInterference().pair_table(catalogue),
        network=network().tables(catalogue, topology), reference_gpu="x",
    )  # fmt: skip
    row, alone = catalogue.names.index("a x2/100"), catalogue.names.index("a x1/100")
    # The first job holds a GPU of the first rack, so that first fit puts the other over both.
    jobs = [Job(0, 1, 99.0, profile=alone), Job(1, 2, 10.0, profile=row)]
    fifo = Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=False)
    two, one, rows = np.array([2]), np.array([1]), np.array([row])
    over_two, in_one = (network().step_s(catalogue, rows, two, racks) for racks in (two, one))
    longer = over_two / in_one
    run = play(world(jobs, topology, physics=physics), fifo)
    assert run.finish_s[1] == pytest.approx(1.0 + 10.0 * longer[0], rel=0.051) and longer > 1.5


def test_a_job_draws_among_the_rows_of_its_gang():
    catalogue = profiles()
    rng = np.random.default_rng(0)
    trace = instantiate(
        {"_target_": "sim.traces.trace.Trace", "name": "t"},
        job_id=np.array(["p", "q", "r"], dtype=object), submit_s=np.arange(3.0),
        num_gpus=np.array([1, 4, 8]), duration_s=np.ones(3),
        user=np.array([""] * 3, dtype=object), vc=np.array([""] * 3, dtype=object),
    )  # fmt: skip
    drawn = ProfileRule("uniform", None, {}).draw(trace, catalogue, rng)
    assert catalogue.gang[drawn].tolist() == [1, 4, 8]
    small = profiles(most_gpus=4)
    with pytest.raises(TraceError, match="job r: no profile is for 8 GPUs; raise"):
        ProfileRule("uniform", None, {}).draw(trace, small, rng)


def test_the_network_needs_rows_for_gangs():
    with pytest.raises(PhysicsError, match="use profiles=york"):
        network().tables(ShippedProfiles(), cluster_2x4x4())


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"batches": []}, "name at least one"),
        ({"tflops": 0.0}, r"profiles\.tflops is 0\.0"),
        ({"models": {"a": {"gflops": 1.0}}}, "needs param_mb and gflops"),
        ({"models": {"a": {"gflops": 0.0, "param_mb": 1.0}}}, "gflops above 0"),
    ],
)
def test_impossible_profiles_are_refused(given, rule):
    with pytest.raises(PhysicsError, match=rule):
        profiles(**given)


def test_impossible_weights_are_refused():
    with pytest.raises(PhysicsError, match=r"network\.rack_weight is -1"):
        YorkNetwork(**{**WEIGHTS, "rack_weight": -1.0})
    assert math.isclose(network().unit_speed, 1 / 0.775)
