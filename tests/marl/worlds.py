"""Small worlds with everything in them: racks, GPU types, sharing, communication, forwards."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from marl.env.layout import CodecRules, Observation, layout_for
from marl.env.scheduling_env import SchedulingEnv
from marl.env.world import DelayReward, Reward, World
from marl.policy.build import PolicySpec, build_policy
from marl.policy.pair_score import PairScorePolicy
from marl.training.spec import PpoSpec
from sim.arrays import FloatArray
from sim.jobs import JobTable
from sim.physics.catalogue import Catalogue
from sim.physics.laws import NetworkTables
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.run import Run
from sim.topology.outages import NO_OUTAGES
from sim.topology.topology import Topology, contiguous_partitions
from tests.marl.trainings import shipped
from tests.sim.worlds import Job, cluster, job_table, physics_of, rules_of

PROFILES = 4
RULES = CodecRules(window=4, only_placeable=True, sharing=True, patience_s=1e9)
SMALL = PolicySpec(gpu_dim=4, hidden_dim=8, rounds=1, head_dim=8, prior_scale=0.0)


def rich_physics(topology: Topology, seed: int = 0) -> Physics:
    """Random tables: types differ in speed, pairs in slow-down, some pairs do not fit."""
    rng = np.random.default_rng(seed)
    kinds, servers, racks = len(topology.gpu_types), topology.num_servers, topology.num_racks
    fits = rng.random((kinds, PROFILES, PROFILES)) < 0.8
    local, apart, far = rng.uniform(0.0, 0.2, (3, PROFILES, 1))
    return Physics(
        catalogue=Catalogue(
            names=tuple(f"p{p}" for p in range(PROFILES)), gpu_types=topology.gpu_types,
            compute_s=rng.uniform(0.5, 2.0, (PROFILES, kinds)), sync_bytes=np.ones(PROFILES),
            gang_ok=np.ones(PROFILES, dtype=np.bool_), source="hand",
        ),
        pairs=PairTable(
            slowdown=rng.uniform(1.0, 2.0, (kinds, PROFILES, PROFILES)),
            feasible=fits & fits.transpose(0, 2, 1), source="hand",
        ),
        network=NetworkTables(
            local_s=local * np.maximum(np.arange(int(topology.gpus_per_server.max()) + 1) - 1, 0),
            server_s=apart * np.maximum(np.arange(servers + 1) - 1, 0),
            rack_s=far * np.maximum(np.arange(racks + 1) - 1, 0),
            nic_factor=np.array([1.0, 1.0, 2.0, 3.0]),
            uplink_factor=np.array([1.0, 1.0, 1.5, 2.5]),
        ),
        reference_gpu=topology.gpu_types[0],
    )  # fmt: skip


def world_of(topology: Topology, partitions: int, **given: Any) -> World:
    """A world on `topology`, believed as it is unless a belief is given."""
    physics = given.pop("physics", None) or rich_physics(topology)
    rules = {"max_tenants": 2}
    rules |= {key: given.pop(key) for key in ("max_tenants", "max_forwards") if key in given}
    fields = {"belief": physics, "rules": rules_of(**rules), "outages": NO_OUTAGES} | given
    owners = contiguous_partitions(topology, partitions)
    return World(topology=topology, physics=physics, partition_of_server=owners, **fields)


def plain_world(
    servers: int, sizes: int, partitions: int = 1, servers_per_rack: int = 8, **given: Any
) -> World:
    """A cluster of one type without physics and, unless it is given, without sharing."""
    topology = cluster(servers, sizes, servers_per_rack=servers_per_rack)
    more = {"physics": physics_of(topology), "max_tenants": 1} | given
    return world_of(topology, partitions, **more)


def mixed_world(partitions: int = 2, sizes: int | list[int] = 2, **given: Any) -> World:
    """8 servers of `sizes` GPUs, dealt by turns, in 4 racks, two GPU types in turn."""
    topology = cluster(8, sizes, servers_per_rack=2, types=("x", "y"))
    return world_of(topology, partitions, **given)


@dataclass(frozen=True)
class RandomJobs:
    """Jobs of an episode from its seed; more arrive at partition 0 than at the others."""

    count: int
    partitions: int
    most_gpus: int
    span_s: float

    def __call__(self, seed: int) -> JobTable:
        rng = np.random.default_rng(seed)
        home = np.minimum(rng.geometric(0.6, self.count) - 1, self.partitions - 1)
        duration_s = np.round(np.exp(rng.normal(6.0, 1.2, self.count)))
        estimate_s = duration_s * np.exp(rng.normal(0.0, 0.5, self.count))
        gangs = rng.choice([g for g in (1, 1, 2, 3, 4, 6) if g <= self.most_gpus], self.count)
        rows = zip(
            np.sort(rng.uniform(0.0, self.span_s, self.count)), gangs, duration_s, estimate_s,
            rng.integers(PROFILES, size=self.count), home, strict=True,
        )  # fmt: skip
        return job_table([Job(*row) for row in rows])


MIXED_JOBS = RandomJobs(count=30, partitions=2, most_gpus=6, span_s=4000.0)


def env_of(
    world: World, make_jobs: Callable[[int], JobTable], *, everyone: bool = False,
    own_weight: float = 0.5, scale_s: float = 1000.0, rules: CodecRules = RULES,
    max_rounds: int = 100_000, reward: Reward | None = None,
) -> SchedulingEnv:  # fmt: skip
    return SchedulingEnv(
        world=world, layout=layout_for(world.topology, world.partition_of_server, rules),
        rules=rules, reward=reward or DelayReward(own_weight=own_weight, scale_s=scale_s),
        make_jobs=make_jobs, max_rounds=max_rounds, everyone=everyone,
    )  # fmt: skip


def any_legal(rng: np.random.Generator, observation: Observation) -> int:
    return int(rng.choice(np.flatnonzero(observation["action_mask"])))


def first_legal(_: object, observation: Observation) -> int:
    return int(np.argmax(observation["action_mask"]))


def rollout(
    env: SchedulingEnv, act: Callable[[str, Observation], int], seed: int
) -> Iterator[tuple[dict[str, float], dict[str, Any]]]:
    """Play an episode; rewards and infos of each step."""
    observations, _ = env.reset(seed=seed)
    while env.agents:
        actions = {a: act(a, o) for a, o in observations.items()}
        observations, rewards, _, _, infos = env.step(actions)
        yield rewards, infos


def total_rewards(
    env: SchedulingEnv, act: Callable[[str, Observation], int], seed: int
) -> tuple[FloatArray, float]:
    """(M,) an episode's return of each agent, and its mean JCT."""
    returns, jct_s = np.zeros(len(env.possible_agents)), np.nan
    for rewards, infos in rollout(env, act, seed):
        returns += [rewards[a] for a in env.possible_agents]
        jct_s = infos[env.possible_agents[0]].get("jct_mean_s", np.nan)
    return returns, jct_s


def ppo_spec(**given: Any) -> PpoSpec:
    """The shipped knobs of PPO, except those given."""
    return PpoSpec(**shipped("algo/ppo.yaml") | given)


def loud_policy(spec: PolicySpec, seed: int) -> PairScorePolicy:
    """Untrained, with weights of one scale, so that every feature counts and choices differ."""
    torch.manual_seed(seed)
    policy = build_policy(spec)
    with torch.no_grad():
        for weights in policy.parameters():
            weights.normal_(0.0, 0.5)
    return policy.eval()


def events(run: Run) -> bytes:
    """All that happened in a run, bit by bit."""
    log = run.log
    return b"".join(c.tobytes() for c in (log.time_s, log.kind, log.job, log.partition, *log.gpus))
