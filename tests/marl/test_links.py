"""`rules.links`: what agents are told of links, and a policy that reads it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marl.env.layout import NEEDS, Observation, inside_graph
from marl.env.world import World
from marl.policy.build import load_policy, save_policy
from marl.schedulers.marl import MarlScheduler
from sim.decision import Decision, Start
from sim.simulator import simulate
from sim.topology.generators import leaf_spine
from sim.topology.outages import Change
from sim.topology.topology import Topology
from tests.marl.playing import rounds_of
from tests.marl.worlds import MIXED_JOBS, RULES, SMALL, loud_policy, mixed_world, world_of
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
    save_policy(tmp_path, loud_policy(SPEC, 0), SPEC, LINKED)
    return tmp_path


@pytest.mark.parametrize("world", [world_of(described(), 2), mixed_world()], ids=["told", "untold"])
def test_a_policy_that_reads_links_plays_from_its_file(folder: Path, world: World):
    _, spec, rules = load_policy(folder, 2)
    assert (spec, rules) == (SPEC, LINKED)
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=False)
    jobs = MIXED_JOBS(1)
    (together,) = scheduler.play_together([world.simulator(jobs)], 0)
    alone = simulate(world.simulator(jobs), scheduler, 0, None)
    assert np.isfinite(alone.finish_s).all()
    assert np.array_equal(together.finish_s, alone.finish_s)
