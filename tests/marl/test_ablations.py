"""What the arms of the ablations and `rules.alone` are told, and nothing else."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from gnn.base import Update
from gnn.encoder import HierarchicalEncoder
from gpuyard.launch.errors import ConfigError
from gpuyard.training.session import policy_spec
from marl.env.layout import Observation
from marl.env.world import without_interference
from marl.policy.build import (
    ENCODERS,
    PolicySpec,
    build_policy,
    encoder_name,
    load_policy,
    save_policy,
)
from marl.policy.pair_score import stack
from sim.jobs import JobTable
from tests.marl.trainings import CONF
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    any_legal,
    env_of,
    mixed_world,
    total_rewards,
)
from tests.sim.worlds import Job, job_table

OWN = [Job(0, 2, 500, 500, 0, 0), Job(0, 4, 300, 300, 1, 0), Job(0, 1, 900, 900, 2, 0)]
OTHERS = [Job(0, gang, 700, 700, gang, 1) for gang in (1, 2, 3)]


def first_seen(jobs: JobTable, **rules: bool) -> Observation:
    """By the agent of partition 0, at time 0."""
    given = replace(RULES, only_placeable=False, **rules)
    env = env_of(mixed_world(), lambda _: jobs, everyone=True, rules=given)
    return env.reset(seed=0)[0][env.possible_agents[0]]


def test_a_blind_agent_sees_nothing_of_others_but_that_jobs_may_go_there():
    quiet, busy = (first_seen(job_table(jobs), blind_peers=True) for jobs in (OWN, [*OWN, *OTHERS]))
    assert all(np.array_equal(quiet[key], busy[key]) for key in quiet)
    seeing = first_seen(job_table([*OWN, *OTHERS]))
    assert np.array_equal(busy["action_mask"], seeing["action_mask"])
    assert busy["forwards"][:3, 1, 0].all()  # legal
    assert seeing["forwards"][..., [8, 9]].any()  # what they would do there
    for column in (4, 5):  # shorter work ahead at home, hops left
        assert np.array_equal(busy["forwards"][..., column], seeing["forwards"][..., column])
    assert not busy["forwards"][..., [1, 2, 3, 6, 7, 8, 9, 10]].any()
    assert np.flatnonzero(busy["peers"].any(axis=1)).tolist() == [0]


@pytest.mark.parametrize("alone", [True, False])
def test_what_waits_elsewhere_is_seen_by_those_who_are_not_alone(alone: bool):
    quiet, busy = (first_seen(job_table(jobs), alone=alone) for jobs in (OWN, [*OWN, *OTHERS]))
    differing = {key for key in quiet if not np.array_equal(quiet[key], busy[key])}
    assert differing == (set() if alone else {"peers", "context", "forwards"})
    assert quiet["jobs"].any()
    assert quiet["pairs"].any()
    if alone:  # of all rows about others none is filled
        assert not busy["forwards"].any()
        assert np.flatnonzero(busy["peers"].any(axis=1)).tolist() == [0]
        assert busy["context"][5] == 1 / 8  # of one partition
        assert busy["context"][6] == 0


@pytest.mark.parametrize(
    ("rules", "max_forwards", "forwards"),
    [({}, 3, True), ({"blind_peers": True}, 3, True), ({"alone": True}, 3, False), ({}, 0, False)],
)
def test_the_blind_still_forward_but_not_those_who_are_alone_or_have_no_hop(
    rules: dict[str, bool], max_forwards: int, forwards: bool
):
    env = env_of(mixed_world(max_forwards=max_forwards), MIXED_JOBS, rules=replace(RULES, **rules))
    rng, offered, sent = np.random.default_rng(0), [], []

    def act(_: str, seen: Observation) -> int:
        offered.append(seen["action_mask"][env.layout.starts : -1].any())
        action = any_legal(rng, seen)
        sent.append(env.layout.starts <= action < env.layout.wait)
        return action

    total_rewards(env, act, 3)
    assert (any(offered), any(sent)) == (forwards, forwards)


@pytest.mark.parametrize("critic", ["own", "shared"])
def test_only_a_shared_critic_hears_of_others(critic: str):
    torch.manual_seed(0)
    policy = build_policy(replace(SMALL, critic=critic), 2)
    seen = [first_seen(job_table(jobs)) for jobs in (OWN, [*OWN, *OTHERS])]
    with torch.no_grad():
        scores = policy(stack(seen))
        quiet, busy = policy.values(scores.state).tolist()
    assert (quiet == busy) == (critic == "own")
    assert not torch.equal(scores.logits[0], scores.logits[1])  # what acts sees the same as ever


def test_without_interference_neighbours_cost_nothing_and_memory_stays():
    world = mixed_world()
    free = without_interference(world)
    assert (free.physics.pairs.slowdown == 1.0).all()
    assert np.array_equal(free.physics.pairs.feasible, world.physics.pairs.feasible)
    assert free.belief is world.belief


def test_every_encoder_of_the_configuration_is_known_by_the_name_of_its_file():
    for path in (CONF / "encoder").glob("*.yaml"):
        told = yaml.safe_load(path.read_text())
        name = encoder_name(told["_target_"])
        sizes = {key: value for key, value in told.items() if not key.startswith("_")}
        spec = PolicySpec(**sizes, encoder=name, head_dim=4, prior_scale=0.0)
        assert name == path.stem
        assert build_policy(spec, 2).encoder.hidden_dim == told["hidden_dim"]


class Scaled(HierarchicalEncoder):
    """One of somebody's own, with a parameter more; of other numbers, some of our layers' names."""

    def __init__(self, *, gain: float, **sizes: int) -> None:
        super().__init__(**sizes)
        self.gain = gain
        self.gpu = torch.nn.Linear(2 * sizes["gpu_features"], sizes["gpu_dim"])
        self.first = Update(own_dim=2, neighbour_dim=3, out_dim=4)


def test_an_own_encoder_gets_the_keys_of_its_file_and_no_others(tmp_path: Path, monkeypatch):
    target = f"{Scaled.__module__}.Scaled"
    monkeypatch.setitem(sys.modules, Scaled.__module__, sys.modules[__name__])
    monkeypatch.setitem(ENCODERS, "scaled", target)
    sizes = {"gpu_dim": 4, "hidden_dim": 8, "rounds": 1}
    config = {
        "encoder": {"_target_": target, **sizes, "gain": 2.5},
        "policy": {"head_dim": 8, "prior_scale": 0.0, "critic": "shared", "prior": {}},
        "rules": {"suspends": False, "datacenter": False},
    }
    spec = policy_spec(config)
    policy = build_policy(spec, 2)
    save_policy(tmp_path, policy, spec, RULES)
    loaded, again, _ = load_policy(tmp_path, 2)
    assert again == spec and not spec.reads_links
    assert (loaded.encoder.gain, loaded.encoder.hidden_dim) == (2.5, 8)
    found = loaded.state_dict()
    assert all(torch.equal(found[key], each) for key, each in policy.state_dict().items())
    for key in ("heads", "head_dim", "inner_rounds"):
        wrong = {**config, "encoder": {**config["encoder"], key: 4}}
        told = rf"encoder\.{key} is no parameter of .*; it takes gain, gpu_dim, h"
        with pytest.raises(ConfigError, match=told):
            policy_spec(wrong)
    linked = {"_target_": "gnn.linked.LinkedEncoder", **sizes}
    whole = {**config, "encoder": linked, "rules": {"suspends": False, "datacenter": True}}
    with pytest.raises(ConfigError, match=r"use rules.datacenter=false or encoder=hierarchical"):
        policy_spec(whole)
