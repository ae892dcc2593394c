"""Names do not matter: equal servers, the order of peers, and what nobody can know."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from marl.env.actions import MODES
from marl.env.layout import Observation
from marl.policy.pair_score import PairScorePolicy, stack
from tests.marl.playing import play
from tests.marl.worlds import MIXED_JOBS, RULES, SMALL, RandomJobs, loud_policy, mixed_world


def observations(partitions: int, least: int) -> list[Observation]:
    """Moments at which an agent has many choices."""
    jobs = RandomJobs(count=30, partitions=partitions, most_gpus=3, span_s=1200.0)(1)
    found = [
        o
        for now in play(mixed_world(partitions), jobs, RULES, 1)
        for o in now.seen.values()
        if o["action_mask"].sum() >= least
    ]
    assert len(found) >= 5
    return found


def scores(policy: PairScorePolicy, observation: Observation) -> tuple[np.ndarray, ...]:
    """Logits of starts (W, S, MODES), of forwards (W, M), of *wait*; and the value."""
    w, s = observation["pairs"].shape[:2]
    with torch.no_grad():
        said = policy(stack([observation]))
        value = policy.values(said.state)
    logits = said.logits[0].numpy()
    starts, sends = np.split(logits[:-1], [w * s * MODES])
    return starts.reshape(w, s, MODES), sends.reshape(w, -1), logits[-1], value.numpy()


def shuffled_servers(observation: Observation, order: np.ndarray) -> Observation:
    w, s = observation["pairs"].shape[:2]
    starts = observation["action_mask"][: w * s * MODES].reshape(w, s, MODES)[:, order]
    return observation | {
        "gpus": observation["gpus"][order],
        "servers": observation["servers"][order],
        "server_rack": observation["server_rack"][order],
        "pairs": observation["pairs"][:, order],
        "action_mask": np.append(starts, observation["action_mask"][w * s * MODES :]),
    }


def shuffled_peers(observation: Observation, order: np.ndarray) -> Observation:
    w, s = observation["pairs"].shape[:2]
    mask = observation["action_mask"].copy()
    mask[w * s * MODES : -1] = mask[w * s * MODES : -1].reshape(w, -1)[:, order].reshape(-1)
    return observation | {
        "peers": observation["peers"][order],
        "forwards": observation["forwards"][:, order],
        "action_mask": mask,
    }


@pytest.mark.parametrize("servers", [True, False])
def test_renaming_servers_or_peers_renames_their_scores_and_nothing_else(servers: bool):
    policy = loud_policy(SMALL, 0, 2 if servers else 1)
    for observation in observations(*((2, 6) if servers else (4, 4))):
        order = np.random.default_rng(0).permutation(4)
        starts, sends, wait, value = scores(policy, observation)
        renamed = (shuffled_servers if servers else shuffled_peers)(observation, order)
        wanted = (starts[:, order], sends) if servers else (starts, sends[:, order])
        for new, old in zip(scores(policy, renamed), (*wanted, wait, value), strict=True):
            assert new == pytest.approx(old, rel=1e-4, abs=1e-4)
        legal = starts[starts > -1e8]
        assert not servers or len(np.unique(legal.round(4))) > 1  # or any order would do


def test_padding_changes_no_score():
    """One set of weights: room for more servers and partitions adds only masked actions."""
    policy = loud_policy(SMALL, 0, 2)
    for observation in observations(2, 6):
        w, s = observation["pairs"].shape[:2]
        starts, sends, wait, _ = scores(policy, observation)
        mask = observation["action_mask"]
        room = {
            key: np.pad(value, [(0, 3)] + [(0, 0)] * (value.ndim - 1))
            for key, value in observation.items()
            if key in ("gpus", "servers", "server_rack", "peers")
        }
        room["pairs"] = np.pad(observation["pairs"], ((0, 0), (0, 3), (0, 0), (0, 0)))
        room["forwards"] = np.pad(observation["forwards"], ((0, 0), (0, 3), (0, 0)))
        first, second = np.split(mask[:-1], [w * s * MODES])
        wide = np.pad(first.reshape(w, s, MODES), ((0, 0), (0, 3), (0, 0))).reshape(-1)
        sent = np.pad(second.reshape(w, -1), ((0, 0), (0, 3))).reshape(-1)
        room["action_mask"] = np.concatenate([wide, sent, mask[-1:]])
        new = scores(policy, observation | room)
        assert new[0][:, :s] == pytest.approx(starts, rel=1e-4, abs=1e-4)
        assert new[1][:, : sends.shape[1]] == pytest.approx(sends, rel=1e-4, abs=1e-4)
        assert new[2] == pytest.approx(wait, rel=1e-4)
        assert (new[0][:, s:] < -1e8).all()


def test_nobody_sees_true_durations():
    """Until a job ends, twice the true durations under equal estimates look the same."""
    jobs = replace(MIXED_JOBS, count=40, span_s=800.0)(3)
    jobs = replace(jobs, duration_s=jobs.duration_s + 600.0)
    slower = replace(jobs, duration_s=2.0 * jobs.duration_s + 1.0)
    first_end_s = min(
        float(now.view.now_s)
        for now in play(mixed_world(), jobs, RULES, 3)
        if now.simulator.finished() > 0
    )
    compared = 0
    worlds = (play(mixed_world(), table, RULES, 3) for table in (jobs, slower))
    for now, other in zip(*worlds, strict=False):
        if now.view.now_s >= first_end_s:
            break
        assert now.view.now_s == other.view.now_s
        assert now.seen.keys() == other.seen.keys()
        for agent, observation in now.seen.items():
            compared += 1
            for key, values in observation.items():
                assert values.tobytes() == other.seen[agent][key].tobytes(), key
    assert compared > 10


def test_estimates_are_seen():
    jobs = MIXED_JOBS(3)
    other = replace(jobs, estimate_s=3.0 * jobs.estimate_s)
    one, two = (next(n for n in play(mixed_world(), t, RULES, 3) if n.seen) for t in (jobs, other))
    assert not np.array_equal(one.seen[0]["jobs"], two.seen[0]["jobs"])
