"""Small worlds with York's physics for the pickers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from marl.env.world import World
from marl.topdrl.codec import NetworkSpec, ObservationSpec, on_cluster
from marl.topdrl.env import PickJobEnv, RewardSpec
from marl.topdrl.proximity import ProximitySpec
from sim.jobs import JobTable
from sim.physics.networks import YorkNetwork
from sim.physics.physics import Physics
from sim.physics.published_profiles import YorkProfiles
from sim.physics.shipped_files import NoInterference
from sim.topology.generators import leaf_spine
from sim.topology.outages import NO_OUTAGES
from tests.sim.worlds import Job, job_table, rules_of

MODELS = {"light": {"param_mb": 5.0, "gflops": 8.0}, "heavy": {"param_mb": 500.0, "gflops": 0.7}}
PROXIMITY = ProximitySpec(
    row_s=20.0, most_rows=50, most_gang=4, server_weight=0.25, rack_weight=0.5, hidden=8, gpus=8
)
FLOW = RewardSpec(kind="flow", price=0.0)


def york_world(racks: int = 2, servers: int = 2, gpus: int = 2) -> World:
    topology = leaf_spine(
        name="toy", servers=racks * servers, gpus_per_server=gpus, servers_per_rack=servers,
        gpu_types=["x"], intra_gbps=400.0, nic_gbps=40.0, oversubscription=2.0,
    )  # fmt: skip
    catalogue = YorkProfiles(gpu_types=["x"], tflops=10.0, most_gpus=4, batches=[64], models=MODELS)
    network = YorkNetwork(gpu_weight=0.025, server_weight=0.25, rack_weight=0.5, rack_slow_frac=0.2)
    physics = Physics(
        catalogue=catalogue, pairs=NoInterference().pair_table(catalogue),
        network=network.tables(catalogue, topology), reference_gpu="x",
    )  # fmt: skip
    return World(
        topology=topology, physics=physics, belief=physics,
        partition_of_server=np.zeros(topology.num_servers, dtype=np.int64), rules=rules_of(),
        outages=NO_OUTAGES,
    )  # fmt: skip


def row_of(world: World, model: str, gang: int) -> int:
    return world.physics.catalogue.names.index(f"{model} x{gang}/64")


def job(world: World, at_s: float, gang: int, duration_s: float, model: str = "light") -> Job:
    return Job(at_s, gang, duration_s, profile=row_of(world, model, gang))


def mistaken(world: World, at_s: float) -> Job:
    """A heavy pair of 160 s that is thought to be one of 80 s."""
    return job(world, at_s, 2, 160, "heavy")._replace(estimate_s=80.0)


def two_pairs(world: World) -> JobTable:
    """Both come at once; a third job follows when they are done."""
    return job_table([job(world, 0, 2, 60), job(world, 0, 2, 60), job(world, 100, 1, 10)])


def many_jobs(world: World, count: int = 30) -> Callable[[int], JobTable]:
    def make(seed: int) -> JobTable:
        rng = np.random.default_rng(seed)
        at_s = np.cumsum(rng.exponential(20.0, count)) - 1.0
        rows = ((max(at, 0.0), int(rng.integers(1, 5)), rng.uniform(20, 200),
                 str(rng.choice(["light", "heavy"]))) for at in at_s)  # fmt: skip
        return job_table([job(world, *row) for row in rows])

    return make


def observation_of(**given: Any) -> ObservationSpec:
    told = {"slots": 4, "oldest_slots": 1, "order": "worth", "rows": 6, "row_s": 20.0,
            "row_growth": 1.5, "block_gpus": 4}  # fmt: skip
    return ObservationSpec(**{**told, **given})


def network_of(world: World, branches: str = "multi") -> NetworkSpec:
    spec = NetworkSpec(branches=branches, channels=2, hidden=4, server_gpus=2)
    return on_cluster(spec, world.topology)


def env_of(world: World, reward: RewardSpec = FLOW, **given: Any) -> PickJobEnv:
    return PickJobEnv(
        world=world, observation=observation_of(**given), network=network_of(world), reward=reward,
        make_jobs=many_jobs(world),
    )  # fmt: skip
