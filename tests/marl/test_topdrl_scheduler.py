"""Policies as schedulers: they see and do what training saw and did."""

import json
import shutil

import numpy as np
import pytest
import torch

from marl.schedulers.topdrl import Proximity, TopDrl, TopDrlRule, best_action
from marl.topdrl.codec import TopDrlError
from marl.topdrl.network import build_network, load_picker, save_picker
from marl.topdrl.proximity import GpuScores, save_proximity
from sim.run import Kind
from sim.simulator import simulate
from tests.marl.topdrl_worlds import (
    PROXIMITY,
    env_of,
    job,
    many_jobs,
    network_of,
    observation_of,
    york_world,
)
from tests.sim.worlds import gantt, job_table, play


@pytest.fixture
def policy(tmp_path):
    world = york_world()
    torch.manual_seed(4)
    network = build_network(network_of(world), observation_of())
    save_picker(tmp_path, network.state_dict(), network_of(world), observation_of())
    return tmp_path


def starts_of(run):
    return [
        (float(run.log.time_s[at]), int(run.log.job[at]), run.log.gpus[at].tolist())
        for at in np.flatnonzero(run.log.kind == Kind.START)
    ]


class Recording(TopDrl):
    """Keeps what it saw and did."""

    def __init__(self, folder):
        super().__init__(policy=str(folder), name="topdrl")
        self.seen = []

    def decide(self, view):
        decision = super().decide(view)
        if len(view.queued) and self._codec is not None:
            turn = self._codec.turn(view)
            if turn.has_choice:
                self.seen.append(turn.observation)
        return decision


def test_training_and_use_see_and_do_the_same(policy):
    world = york_world()
    jobs = many_jobs(world)(7)
    network, *_ = load_picker(policy)
    env = env_of(world)
    seen, _ = env.reset(options={"jobs": jobs})
    trained, over = [], False
    while not over:
        trained.append(seen)
        seen, _, ended, cut, _ = env.step(best_action(network, seen))
        over = ended or cut
    used = Recording(policy)
    simulate(world.simulator(jobs), used, 0, None)
    assert len(trained) > 10
    assert len(used.seen) >= len(trained)
    for mine, theirs in zip(trained, used.seen, strict=False):
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


def run_on(world, scheduler, seed=0):
    return simulate(world.simulator(many_jobs(world)(1)), scheduler, seed, None)


def test_equal_runs_are_equal_and_everybody_is_served_on_any_cluster_of_such_servers(policy):
    scheduler = TopDrl(policy=str(policy), name="topdrl")
    first, second = (run_on(york_world(), scheduler, seed) for seed in (0, 1))
    assert starts_of(first) == starts_of(second)
    for run in (first, run_on(york_world(racks=3, servers=3), scheduler)):
        assert np.isfinite(run.finish_s).all()
    with pytest.raises(TopDrlError, match="this policy sees 2 of up to 2 of up to 2"):
        run_on(york_world(gpus=3), scheduler)


def test_the_rule_waits_for_compact_gpus_and_takes_the_most_valuable_job_first():
    world = york_world(racks=1)
    # Two servers of two GPUs. A holds half of one until 50, B the other until 30. D and E come
    # before C's turn on two GPUs apart: C waits for a whole server, which is free at 30.
    jobs = job_table([job(world, 0, 1, 50), job(world, 0, 2, 30), job(world, 1, 2, 10),
                      job(world, 2, 1, 10, "heavy"), job(world, 2, 1, 10)])  # fmt: skip
    observation = vars(observation_of())
    run = play(world.simulator(jobs), TopDrlRule(least_speed=0.99, observation=observation))
    told = gantt(run)
    assert told["B"][2] == (0, 1) or told["B"][2] == (2, 3)
    assert told["C"][0] == pytest.approx(30.0)
    assert len({gpu // 2 for gpu in told["C"][2]}) == 1
    assert told["E"][0] < told["D"][0]


def test_proximity_serves_first_come_first_served(tmp_path):
    world = york_world()
    network = GpuScores(PROXIMITY)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.scores.bias[:8] = torch.arange(8.0)  # the last GPU first
        network.scores.bias[8] = -1.0  # never idle
    save_proximity(tmp_path, network.state_dict(), PROXIMITY)
    jobs = job_table([job(world, 0, 2, 10), job(world, 0, 4, 10), job(world, 1, 4, 5),
                      job(world, 1, 1, 5)])  # fmt: skip
    told = gantt(play(world.simulator(jobs), Proximity(policy=str(tmp_path))))
    assert set(told["A"][2]) == {6, 7}
    assert set(told["B"][2]) == {2, 3, 4, 5}
    assert told["C"][0] == pytest.approx(10.0)  # blocked, and D behind it
    assert told["D"][0] >= 10.0
    with pytest.raises(TopDrlError, match="has 4 GPUs, this policy is for 8"):
        run_on(york_world(racks=1), Proximity(policy=str(tmp_path)))


def test_a_policy_of_before_says_sight_and_broken_ones_are_refused(policy, tmp_path):
    folder = shutil.copytree(policy, tmp_path / "old")
    told = json.loads((folder / "policy.json").read_text())
    told["sight"] = told.pop("observation")
    (folder / "policy.json").write_text(json.dumps(told))
    assert load_picker(folder)[1:] == load_picker(policy)[1:]
    with pytest.raises(TopDrlError, match=r"add scheduler\.policy=FOLDER"):
        TopDrl(policy=None, name="topdrl")
    with pytest.raises(TopDrlError, match="is not there"):
        TopDrl(policy=str(tmp_path / "nowhere"), name="topdrl")
    told = json.loads((policy / "policy.json").read_text())
    (policy / "policy.pt").write_bytes(b"PK")
    with pytest.raises(TopDrlError, match="cannot be read as this policy's weights"):
        load_picker(policy)
    (policy / "policy.json").write_text(json.dumps({**told, "kind": "proximity"}))
    with pytest.raises(TopDrlError, match="needed: 1, topdrl"):
        TopDrl(policy=str(policy), name="topdrl")
