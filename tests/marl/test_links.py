"""What agents are told: links, one graph, arms of the ablations, `rules.alone`."""

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
from marl.env.actions import MODES
from marl.env.layout import NEEDS, Observation, inside_graph
from marl.env.world import World, without_interference
from marl.policy import build
from marl.policy.pair_score import stack
from marl.schedulers.marl import MarlScheduler
from sim.decision import Decision, Start
from sim.jobs import JobTable
from sim.scoring.table import OfGpu, OfServer
from sim.simulator import simulate
from sim.topology.generators import leaf_spine
from sim.topology.outages import Change
from sim.topology.topology import Topology
from tests.marl.playing import play, rounds_of
from tests.marl.trainings import CONF
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    RandomJobs,
    any_legal,
    env_of,
    loud_policy,
    mixed_world,
    total_rewards,
    world_of,
)
from tests.sim.worlds import Job, changes, job_table, physics_of

LINKED = replace(RULES, links=True)
SPEC = replace(SMALL, encoder="linked", inner_rounds=2)
ADDED = {"link_ends", "link_edges", "server_links"}


def described() -> Topology:
    """4 servers of 4 GPUs in 2 racks: two sockets with a PCIe switch each, NVLink in pairs."""
    inside = {"sockets": 2, "pcie_switches": 2, "nvlink_islands": 2, "nvlink_gbps": 400.0,
              "pcie_gbps": 100.0, "socket_gbps": 50.0}  # fmt: skip
    return leaf_spine(
        name="hand", servers=4, gpus_per_server=4, servers_per_rack=2, gpu_types=["x"],
        intra_gbps=50.0, inside=inside, nic_gbps=20.0, oversubscription=2.0,
    )  # fmt: skip


def after(world: World, jobs: list[Job], *starts: tuple[int, list[int]]) -> list[Observation]:
    """What the agents see at time 0 once jobs have started on the given GPUs."""
    simulator = world.simulator(job_table(jobs))
    views, rounds = simulator.views(NEEDS), rounds_of(world, LINKED)
    simulator.advance()
    begun = tuple(Start(job, np.array(gpus)) for job, gpus in starts)
    simulator.apply(Decision(starts=begun, again=True))
    return list(rounds.observe(views.view(), everyone=True).values())


def test_the_graph_inside_a_server_by_hand():
    graph = inside_graph(described())
    want = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 7), (6, 7), (0, 1), (2, 3)]
    assert graph.ends[3].tolist() == [list(edge) for edge in want]
    kinds = graph.features[3, :, :3]  # NVLink, PCIe, through a socket
    assert kinds.argmax(1).tolist() == [1, 1, 1, 1, 2, 2, 2, 0, 0]
    assert (kinds.sum(1) == 1).all()
    gbps = 100.0 * np.exp(2.0 * graph.features[3, :, 3])
    np.testing.assert_allclose(gbps, [100] * 4 + [50] * 3 + [400] * 2)
    assert (inside_graph(mixed_world().topology).ends == -1).all()  # it says nothing


def test_a_link_is_loaded_by_the_share_of_time_for_which_its_jobs_communicate():
    """A step computes for 1 s; over 2 servers it communicates 0.25 s, over 3 servers 1 s."""
    topology = described()
    world = world_of(topology, 1, physics=physics_of(topology, server_s=(0, 0, 0.25, 1.0, 1.0)))
    jobs = [Job(0, 2, 100, 100, 0, 0), Job(0, 3, 100, 100, 0, 0), Job(0, 2, 100, 100, 0, 0)]
    (seen,) = after(world, jobs, (0, [0, 4]), (1, [1, 5, 8]), (2, [2, 3]))
    links = seen["server_links"]
    np.testing.assert_allclose(links[:, 2], [0.2 + 0.5, 0.2 + 0.5, 0.5, 0.0], rtol=1e-6)  # NICs
    np.testing.assert_allclose(links[:, 3], 0.5, rtol=1e-6)  # job 1 alone leaves its rack
    np.testing.assert_allclose(links[:, :2], np.log(2.0) / 4.0, rtol=1e-6)  # 20 Gbps both


def test_links_of_a_server_that_is_away_are_padding():
    world = world_of(described(), 2, outages=changes((0.0, 1, Change.FAIL)))
    here, _ = after(world, [Job(0, 1, 100, 100, 0, 0)])
    assert here["servers"][:, 0].tolist() == [1, 0]
    assert (here["link_ends"][1] == -1).all()
    assert not here["server_links"][1].any()
    assert here["link_edges"][0].any()


def test_what_others_see_stays_bit_by_bit():
    world = world_of(described(), 2)
    jobs, seen = job_table([Job(0, 2, 300, 300, 1, 0), Job(0, 6, 300, 300, 2, 1)]), []
    for links in (False, True):
        simulator = world.simulator(jobs)
        views, rounds = simulator.views(NEEDS), rounds_of(world, replace(RULES, links=links))
        simulator.advance()
        seen.append(rounds.observe(views.view(), everyone=True)[0])
    plain, linked = seen
    assert linked.keys() - plain.keys() == ADDED
    assert all(np.array_equal(plain[key], linked[key]) for key in plain)
    shapes = rounds.layout.shapes()
    assert {key: value.shape for key, value in linked.items()} == shapes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build.save_policy(tmp_path, loud_policy(SPEC, 0), SPEC, LINKED)
    return tmp_path


@pytest.mark.parametrize("world", [world_of(described(), 2), mixed_world()], ids=["told", "untold"])
def test_a_policy_that_reads_links_plays_from_its_file(folder: Path, world: World):
    _, spec, rules = build.load_policy(folder)
    assert (spec, rules) == (SPEC, LINKED)
    scheduler = MarlScheduler(checkpoint=str(folder))
    jobs = MIXED_JOBS(1)
    (together,) = scheduler.play_together([world.simulator(jobs)], 0)
    alone = simulate(world.simulator(jobs), scheduler, 0, None)
    assert np.isfinite(alone.finish_s).all()
    assert np.array_equal(together.finish_s, alone.finish_s)


WHOLE_SPEC = replace(SMALL, datacenter=True)
WHOLE = replace(RULES, datacenter=True, only_placeable=False)
JOBS = RandomJobs(count=30, partitions=3, most_gpus=3, span_s=1200.0)
ALL = ("all_gpus", "all_servers", "all_racks")
OWN = ("gpus", "servers", "server_rack")


def moments(**rules: bool) -> list[tuple[int, Observation]]:
    """Agents and what they see, where they have many choices."""
    found = [
        (agent, seen)
        for now in play(mixed_world(3), JOBS(1), replace(WHOLE, **rules), 1)
        for agent, seen in now.seen.items()
        if seen["action_mask"].sum() >= 5
    ]
    assert len(found) >= 5
    return found


def test_an_agent_sees_of_each_partition_what_its_agent_sees():
    compared = 0
    for now in play(mixed_world(3, [1, 3, 2]), JOBS(1), WHOLE, 1):
        everyone = now.rounds.observe(now.view, everyone=True)
        for seen in now.seen.values():
            for m, own in everyone.items():
                for whole, part in zip(ALL, OWN, strict=True):
                    assert np.array_equal(seen[whole][m], own[part])
                compared += bool(seen["all_gpus"][m, ..., OfGpu.LEFT].any())
    assert compared > 50


def test_the_blind_see_their_own_alone():
    for agent, seen in moments(blind_peers=True):
        others = np.arange(3) != agent
        assert seen["all_servers"][agent].any()
        assert not seen["all_servers"][others].any()
        assert not seen["all_gpus"][others].any()


def forwards(policy: torch.nn.Module, seen: Observation) -> np.ndarray:
    """(W, M) logits."""
    window, partitions = seen["forwards"].shape[:2]
    first = seen["pairs"].shape[1] * window * MODES
    with torch.no_grad():
        logits = policy(stack([seen])).logits[0].numpy()
    return logits[first : first + window * partitions].reshape(window, partitions)


def test_a_forward_depends_on_when_gpus_of_that_partition_fall_empty_and_on_no_other():
    policy, changed = loud_policy(WHOLE_SPEC, 0), 0
    for _, seen in moments()[:15]:
        for m in range(3):
            later = seen["all_gpus"].copy()
            later[m, ..., OfGpu.LEFT] += 0.5 * later[m, ..., OfGpu.THERE]
            before, after = forwards(policy, seen), forwards(policy, seen | {"all_gpus": later})
            legal = before > -1e8
            others = np.arange(3) != m
            assert np.array_equal(before[:, others], after[:, others])
            changed += bool((np.abs(before - after) > 1e-4)[legal].any())
    assert changed > 5


def test_servers_elsewhere_may_be_renamed_padded_or_gone():
    policy = loud_policy(WHOLE_SPEC, 0)
    for _, seen in moments()[:15]:
        order = np.random.default_rng(0).permutation(seen["all_servers"].shape[1])
        whole = {key: seen[key] for key in ALL}
        renamed = {key: each[:, order] for key, each in whole.items()}
        padded = {
            key: np.pad(each, [(0, 0), (0, 2)] + [(0, 0)] * (each.ndim - 2))
            for key, each in whole.items()
        }
        wanted = pytest.approx(forwards(policy, seen), rel=1e-4, abs=1e-4)
        assert forwards(policy, seen | renamed) == wanted
        assert forwards(policy, seen | padded) == wanted
        gone = seen["all_servers"].copy()
        gone[..., OfServer.THERE] = 0.0
        assert np.isfinite(forwards(policy, seen | {"all_servers": gone})).all()


OWN_JOBS = [Job(0, 2, 500, 500, 0, 0), Job(0, 4, 300, 300, 1, 0), Job(0, 1, 900, 900, 2, 0)]
OTHERS = [Job(0, gang, 700, 700, gang, 1) for gang in (1, 2, 3)]


def first_seen(jobs: JobTable, **rules: bool) -> Observation:
    """By the agent of partition 0, at time 0."""
    given = replace(RULES, only_placeable=False, **rules)
    env = env_of(mixed_world(), lambda _: jobs, everyone=True, rules=given)
    return env.reset(seed=0)[0][env.possible_agents[0]]


def test_a_blind_agent_sees_nothing_of_others_but_that_jobs_may_go_there():
    quiet, busy = (
        first_seen(job_table(jobs), blind_peers=True) for jobs in (OWN_JOBS, [*OWN_JOBS, *OTHERS])
    )
    assert all(np.array_equal(quiet[key], busy[key]) for key in quiet)
    seeing = first_seen(job_table([*OWN_JOBS, *OTHERS]))
    assert np.array_equal(busy["action_mask"], seeing["action_mask"])
    assert busy["forwards"][:3, 1, 0].all()  # legal
    assert seeing["forwards"][..., [8, 9]].any()  # what they would do there
    for column in (4, 5):  # shorter work ahead at home, hops left
        assert np.array_equal(busy["forwards"][..., column], seeing["forwards"][..., column])
    assert not busy["forwards"][..., [1, 2, 3, 6, 7, 8, 9, 10]].any()
    assert np.flatnonzero(busy["peers"].any(axis=1)).tolist() == [0]


@pytest.mark.parametrize("alone", [True, False])
def test_what_waits_elsewhere_is_seen_by_those_who_are_not_alone(alone: bool):
    quiet, busy = (
        first_seen(job_table(jobs), alone=alone) for jobs in (OWN_JOBS, [*OWN_JOBS, *OTHERS])
    )
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
    policy = build.build_policy(replace(SMALL, critic=critic))
    seen = [first_seen(job_table(jobs)) for jobs in (OWN_JOBS, [*OWN_JOBS, *OTHERS])]
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
        name = build.encoder_name(told["_target_"])
        sizes = {key: value for key, value in told.items() if not key.startswith("_")}
        spec = build.PolicySpec(**sizes, encoder=name, head_dim=4, prior_scale=0.0)
        assert name == path.stem
        assert build.build_policy(spec).encoder.hidden_dim == told["hidden_dim"]


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
    monkeypatch.setitem(build.ENCODERS, "scaled", target)
    sizes = {"gpu_dim": 4, "hidden_dim": 8, "rounds": 1}
    config = {
        "encoder": {"_target_": target, **sizes, "gain": 2.5},
        "policy": {"head_dim": 8, "prior_scale": 0.0, "critic": "shared", "prior": {}},
        "rules": {"suspends": False, "datacenter": False},
    }
    spec = policy_spec(config)
    policy = build.build_policy(spec)
    build.save_policy(tmp_path, policy, spec, RULES)
    loaded, again, _ = build.load_policy(tmp_path)
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
