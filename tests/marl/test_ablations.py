"""What the arms of the ablations and `rules.alone` are told, and nothing else."""

import json
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
from marl.env.layout import Observation
from marl.env.world import without_interference
from marl.policy.build import (
    ENCODERS,
    PolicyFileError,
    PolicySpec,
    build_policy,
    encoder_class,
    encoder_name,
    load_policy,
    read_spec,
    save_policy,
)
from marl.policy.pair_score import stack
from sim.jobs import JobTable
from sim.scoring.table import OfServer
from tests.marl.trainings import CONF
from tests.marl.worlds import MIXED_JOBS, RULES, SMALL, any_legal, env_of, mixed_world
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
    rng, offered, sent = np.random.default_rng(0), 0, 0
    observations, _ = env.reset(seed=3)
    while env.agents:
        offered += sum(
            o["action_mask"][env.layout.starts : -1].sum() for o in observations.values()
        )
        actions = {a: any_legal(rng, o) for a, o in observations.items()}
        sent += sum(env.layout.starts <= a < env.layout.wait for a in actions.values())
        observations = env.step(actions)[0]
    assert (offered > 0, sent > 0) == (forwards, forwards)


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


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_is_found_by_its_class_and_kept_by_a_file(name: str, tmp_path: Path):
    found = encoder_class(name)
    assert encoder_name(f"{found.__module__}.{found.__qualname__}") == name
    spec = replace(SMALL, encoder=name, critic="own")
    policy = build_policy(spec, 2)
    save_policy(tmp_path, policy, spec, replace(RULES, links=spec.reads_links))
    loaded, again, _ = load_policy(tmp_path, 2)
    assert again == spec
    assert type(loaded.encoder) is found
    for key, weights in policy.state_dict().items():
        assert torch.equal(weights, loaded.state_dict()[key])


def test_every_encoder_of_the_configuration_is_known_by_the_name_of_its_file():
    for path in (CONF / "encoder").glob("*.yaml"):
        told = yaml.safe_load(path.read_text())
        name = encoder_name(told["_target_"])
        sizes = {key: value for key, value in told.items() if not key.startswith("_")}
        spec = PolicySpec(**sizes, encoder=name, head_dim=4, prior_scale=0.0)
        assert name == path.stem
        assert build_policy(spec, 2).encoder.hidden_dim == told["hidden_dim"]


class Scaled(HierarchicalEncoder):
    """One of somebody's own, with a parameter more."""

    def __init__(self, *, gain: float, **sizes: int) -> None:
        super().__init__(**sizes)
        self.gain = gain


def test_an_own_encoder_gets_the_keys_of_its_file_and_no_others(tmp_path: Path, monkeypatch):
    from gpuyard.training.session import policy_spec

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
    save_policy(tmp_path, build_policy(spec, 2), spec, RULES)
    loaded, again, _ = load_policy(tmp_path, 2)
    assert again == spec and not spec.reads_links
    assert (loaded.encoder.gain, loaded.encoder.hidden_dim) == (2.5, 8)
    for key in ("heads", "head_dim", "inner_rounds"):
        wrong = {**config, "encoder": {**config["encoder"], key: 4}}
        told = rf"encoder\.{key} is no parameter of .*; it takes gain, gpu_dim, h"
        with pytest.raises(ConfigError, match=told):
            policy_spec(wrong)
    linked = {"_target_": "gnn.linked.LinkedEncoder", **sizes}
    whole = {**config, "encoder": linked, "rules": {"suspends": False, "datacenter": True}}
    with pytest.raises(ConfigError, match=r"use rules.datacenter=false or encoder=hierarchical"):
        policy_spec(whole)


def test_a_policy_of_columns_that_are_gone_says_so(tmp_path: Path):
    save_policy(tmp_path, build_policy(SMALL, 2), SMALL, RULES)
    weights = torch.load(tmp_path / "policy.pt", weights_only=True)
    weights["encoder.gpu.weight"] = torch.nn.functional.pad(weights["encoder.gpu.weight"], (0, 1))
    torch.save(weights, tmp_path / "policy.pt")
    with pytest.raises(PolicyFileError, match="cannot be read as this policy's weights"):
        load_policy(tmp_path, 2)
    path = tmp_path / "policy.json"
    content = json.loads(path.read_text())
    content["columns"]["OfGpu"].append("heat")
    path.write_text(json.dumps(content))
    with pytest.raises(PolicyFileError, match="reads 'heat' of OfGpu, which is not here; see sim/"):
        load_policy(tmp_path, 2)
    path.write_text(json.dumps({**content, "actions": ["start", "migrate"]}))
    with pytest.raises(PolicyFileError, match=r"an action 'migrate'; here are start, forward, s"):
        read_spec(tmp_path)
    del content["columns"]  # a file of before
    path.write_text(json.dumps(content))
    with pytest.raises(PolicyFileError, match="trained on columns that are not here"):
        load_policy(tmp_path, 2)


def test_columns_are_found_by_their_names(tmp_path: Path):
    policy = build_policy(SMALL, 2)
    save_policy(tmp_path, policy, SMALL, RULES)
    weights = torch.load(tmp_path / "policy.pt", weights_only=True)
    weights["encoder.gpu.weight"] = weights["encoder.gpu.weight"].flip(-1)[:, :-1]
    torch.save(weights, tmp_path / "policy.pt")
    path = tmp_path / "policy.json"
    content = json.loads(path.read_text())
    names = content["columns"]["OfGpu"]
    content["columns"]["OfGpu"] = names[:0:-1]  # backwards, and the first one was not there yet
    path.write_text(json.dumps(content))
    found = load_policy(tmp_path, 2)[0].state_dict()
    expected = policy.state_dict()
    expected["encoder.gpu.weight"] = expected["encoder.gpu.weight"].clone()
    expected["encoder.gpu.weight"][:, 0] = 0.0
    assert all(torch.equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_finds_the_columns_of_servers_by_their_names(name: str, tmp_path: Path):
    spec = replace(SMALL, encoder=name)
    written = build_policy(spec, 2).state_dict()
    save_policy(tmp_path, build_policy(spec, 2), spec, replace(RULES, links=spec.reads_links))
    torch.save(written, tmp_path / "policy.pt")
    path = tmp_path / "policy.json"
    content = json.loads(path.read_text())
    content["columns"]["OfServer"].reverse()
    path.write_text(json.dumps(content))
    found, count = load_policy(tmp_path, 2)[0].state_dict(), len(OfServer)
    (key,) = (key for key in written if not torch.equal(found[key], written[key]))
    assert key.endswith(".own.weight")
    assert torch.equal(found[key][:, :count], written[key][:, :count].flip(-1))
    assert torch.equal(found[key][:, count:], written[key][:, count:])


class Renamed(HierarchicalEncoder):
    """Its layers have the names of some of ours, and are of other numbers."""

    def __init__(self, **sizes: int) -> None:
        super().__init__(**sizes)
        self.gpu = torch.nn.Linear(2 * sizes["gpu_features"], sizes["gpu_dim"])
        self.first = Update(own_dim=2, neighbour_dim=3, out_dim=4)


def test_layers_of_an_own_encoder_may_be_called_as_those_of_ours(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, Renamed.__module__, sys.modules[__name__])
    monkeypatch.setitem(ENCODERS, "renamed", f"{Renamed.__module__}.Renamed")
    spec = replace(SMALL, encoder="renamed")
    policy = build_policy(spec, 2)
    save_policy(tmp_path, policy, spec, RULES)
    found = load_policy(tmp_path, 2)[0].state_dict()
    assert all(torch.equal(found[key], each) for key, each in policy.state_dict().items())


def test_a_class_that_files_do_not_know_is_refused():
    with pytest.raises(PolicyFileError, match=r"os\.system.*use encoder=hierarchical"):
        encoder_name("os.system")


def test_a_file_of_before_has_the_encoder_and_critic_of_before(tmp_path: Path):
    save_policy(tmp_path, build_policy(SMALL, 2), SMALL, RULES)
    path = tmp_path / "policy.json"
    content = json.loads(path.read_text())
    for key in ("encoder", "inner_rounds", "critic"):
        del content["policy"][key]
    path.write_text(json.dumps(content))
    assert read_spec(tmp_path) == (SMALL, RULES)


@pytest.mark.parametrize("key", ["encoder", "critic"])
def test_a_file_with_an_unknown_name_is_refused(key: str, tmp_path: Path):
    save_policy(tmp_path, build_policy(SMALL, 2), SMALL, RULES)
    path = tmp_path / "policy.json"
    content = json.loads(path.read_text())
    content["policy"][key] = "os.system"
    path.write_text(json.dumps(content))
    with pytest.raises(PolicyFileError, match=rf"{key} is 'os.system'; it must be one of"):
        read_spec(tmp_path)
