"""The array runner hands the learner what RLlib's own runner does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from marl.rllib.array_runner import Fragment, _drawn
from tests.marl.test_rllib import ONE, PPO, arguments, sampled


def decided(chunks: list[Any]) -> dict[str, list[tuple[bytes, int, float, float]]]:
    """Agent -> (window seen, action, reward, value of the drawn action's logarithm)."""
    found: dict[str, list[tuple[bytes, int, float, float]]] = {}
    for chunk in chunks:
        for name, agent in chunk.agent_episodes.items():
            count = len(agent)
            seen = np.asarray(agent.get_observations(slice(0, count))["jobs"])
            log_p = agent.get_extra_model_outputs(Columns.ACTION_LOGP, slice(0, count))
            rows = zip(seen, agent.get_actions(), agent.get_rewards(), log_p, strict=True)
            found.setdefault(f"{chunk.id_}/{name}", []).extend(
                (o.tobytes(), int(a), float(r), float(p)) for o, a, r, p in rows
            )
    return found


@pytest.mark.parametrize("arrays", [True, False])
def test_logits_and_probabilities_belong_to_the_actions(
    fragments: list[Any], ppo_of: Callable[..., Any], arrays: bool
):
    theirs = replace(PPO, array_runner=False)
    turns = 0
    for chunk in fragments if arrays else sampled(ppo_of(**arguments(ppo=theirs)), 4, 60):
        for agent in chunk.agent_episodes.values():
            count = len(agent)
            logits, log_p = (
                torch.as_tensor(np.asarray(agent.get_extra_model_outputs(key, slice(0, count))))
                for key in (Columns.ACTION_DIST_INPUTS, Columns.ACTION_LOGP)
            )
            said = torch.log_softmax(logits, 1)[range(count), agent.get_actions()]
            assert said.numpy() == pytest.approx(log_p.numpy(), abs=1e-4)
            turns += count
    assert turns >= 200


def test_greedy_play_is_the_same_by_both_runners(ppo_of: Callable[..., Any]):
    """Without exploration nothing is drawn, so both see, do and earn the same, turn by turn."""
    plays = []
    for arrays in (True, False):
        algorithm = ppo_of(**arguments(ppo=replace(ONE, array_runner=arrays)))
        chunks = algorithm.env_runner.sample(num_timesteps=150, explore=False)
        plays.append(list(decided(chunks).values()))
    ours, theirs = plays
    compared = 0
    for mine, other in zip(ours, theirs, strict=False):  # the last fragment's length may differ
        shared = min(len(mine), len(other)) - 1  # the last reward may still be growing
        assert [row[:2] for row in mine[:shared]] == [row[:2] for row in other[:shared]]
        assert [row[2] for row in mine[:shared]] == pytest.approx(
            [row[2] for row in other[:shared]], rel=1e-4, abs=1e-5
        )
        compared += shared
    assert compared > 60


def test_weights_reach_the_runner(trainer_of: Callable[..., Any]):
    trainer = trainer_of(**arguments())
    trainer.iterate()
    learner = trainer.policy().state_dict()
    runner = trainer._algorithm.env_runner.module["shared"].policy.state_dict()
    assert all(np.allclose(learner[key], runner[key]) for key in learner)


def test_actions_are_drawn_by_their_probabilities():
    torch.manual_seed(0)
    p = torch.tensor([[0.0, 0.7, 0.2, 0.1], [1.0, 0.0, 0.0, 0.0]])
    drawn = torch.cat([_drawn(p) for _ in range(4000)], 1)
    shares = torch.stack([(drawn == action).double().mean(1) for action in range(4)], 1)
    assert shares[1].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert shares[0, 0] == 0.0
    assert shares[0].tolist() == pytest.approx(p[0].tolist(), abs=0.03)  # four standard errors


def test_agents_come_in_their_own_order_in_every_process():
    """Names in a set have another order with every hash seed, and minibatches with them."""
    names = [f"agent_{number}" for number in range(20)]
    fragment = Fragment()
    fragment.agent_episodes = {name: SingleAgentEpisode() for name in names}
    assert list(fragment.agent_ids) == names
