"""Agents that see the whole datacenter as one graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from marl.env.actions import MODES
from marl.env.layout import Observation
from marl.policy.pair_score import stack
from sim.scoring.table import OfGpu, OfServer
from tests.marl.playing import play
from tests.marl.worlds import RULES, SMALL, RandomJobs, loud_policy, mixed_world

SPEC = replace(SMALL, datacenter=True)
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
    policy, changed = loud_policy(SPEC, 0, 2), 0
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
    policy = loud_policy(SPEC, 0, 2)
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
