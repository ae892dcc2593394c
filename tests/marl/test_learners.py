"""What learners get: the array runner's turns are those of RLlib's, and several stay one policy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator

from marl.policy.pair_score import MASKED
from marl.rllib.algorithm import LazyCategorical
from marl.rllib.array_runner import Fragment, _drawn
from marl.rllib.cluster import SHARED
from marl.training.spec import RayError
from tests.marl.test_rllib import ONE, PPO, arguments, sampled
from tests.marl.trainings import algorithm_of, local_ray

pytestmark = pytest.mark.ray


def turns_of(fragments: list[Fragment]) -> list[tuple[Any, ...]]:
    """Every turn: whose, what was seen before and after it, what was done, what it earned."""
    found = []
    for fragment in fragments:
        for agent, turns in fragment.agent_episodes.items():
            assert (turns.agent_id, turns.module_id) == (agent, SHARED)
            assert turns.multi_agent_episode_id == fragment.id_
            seen = np.asarray(turns.get_observations(slice(0, len(turns) + 1))["jobs"])
            rows = zip(seen, seen[1:], turns.get_actions(), turns.get_rewards(), strict=False)
            found += [
                (fragment.id_, agent, a.tobytes(), b.tobytes(), int(action), float(reward))
                for a, b, action, reward in rows
            ]
    return found


@pytest.mark.parametrize("learners", [2, 3, 7])
def test_learners_get_every_turn_once(fragments: list[Fragment], learners: int):
    shares = list(ShardEpisodesIterator(fragments, num_shards=learners))
    assert sorted(turns_of([f for share in shares for f in share])) == sorted(turns_of(fragments))
    sizes = [len(turns_of(share)) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_a_cut_ends_only_where_its_episode_did(fragments: list[Fragment]):
    for whole in fragments:
        halves = whole[: len(whole) // 2], whole[len(whole) // 2 :]
        for agent, turns in whole.agent_episodes.items():
            parts = [h.agent_episodes[agent] for h in halves if agent in h.agent_episodes]
            assert sum(map(len, parts)) == len(turns)
            assert [part.is_done for part in parts[:-1]] == [False] * (len(parts) - 1)
            assert parts[-1].is_terminated == turns.is_terminated


@pytest.mark.slow
def test_two_learners_stay_one_policy(trainer_of: Callable[..., Any]):
    """Each learns from half of the batch; averaged gradients keep their weights the same."""
    given = local_ray(num_learners=2, num_cpus_per_learner=0.5)
    trainer = trainer_of(**arguments(ray=given))
    before = {k: v.clone() for k, v in trainer.policy().state_dict().items()}
    for number in (1, 2):
        done = trainer.iterate()
        assert done.number == number
        assert done.agent_steps >= number * PPO.batch_agent_steps
    replies = trainer._algorithm.learner_group.foreach_learner(
        lambda learner: learner.module[SHARED].unwrapped().policy.state_dict()
    )
    one, two = (reply.get() for reply in replies)
    now = trainer.policy().state_dict()
    assert all(torch.equal(one[key], two[key]) for key in now)
    assert all(torch.allclose(one[key], now[key]) for key in now)
    assert sum(not torch.equal(now[key], before[key]) for key in now) > 10


def test_batches_of_rllibs_runner_are_not_divided():
    slow = replace(PPO, array_runner=False)
    with pytest.raises(RayError, match=r"ray\.num_learners is 2 with algo\.array_runner=false"):
        algorithm_of(**arguments(ppo=slow, ray=local_ray(num_learners=2)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
def test_a_learner_on_a_gpu_learns_what_one_on_a_cpu_does(trainer_of: Callable[..., Any]):
    policies = []
    for gpus in (0, 1):
        torch.manual_seed(0)
        trainer = trainer_of(**arguments(ray=local_ray(num_gpus_per_learner=gpus)))
        trainer.iterate()
        policies.append(trainer.policy().state_dict())
    for key, weights in policies[0].items():
        assert torch.allclose(weights, policies[1][key].cpu(), atol=1e-3), key


def test_the_lazy_distribution_is_rllibs():
    rng = torch.Generator().manual_seed(0)
    logits = 5.0 * torch.randn(64, 9, generator=rng)
    logits[torch.rand(64, 9, generator=rng) < 0.3] = MASKED
    logits[:, 0] = 0.0
    actions = torch.randint(9, (64,), generator=rng)
    plain = logits.clone().requires_grad_()
    lazy = logits.clone().requires_grad_()
    theirs, ours = TorchCategorical.from_logits(plain), LazyCategorical.from_logits(lazy)
    legal = logits.gather(1, actions[:, None])[:, 0] > MASKED
    assert torch.allclose(theirs.logp(actions)[legal], ours.logp(actions)[legal], atol=1e-5)
    assert torch.allclose(theirs.entropy(), ours.entropy(), atol=1e-5)
    assert torch.allclose(ours.kl(theirs), torch.zeros(64), atol=1e-5)
    assert torch.equal(theirs.to_deterministic().sample(), ours.to_deterministic().sample())
    for each in (theirs, ours):
        (each.entropy().sum() + each.logp(actions)[legal].sum()).backward()
    assert torch.allclose(plain.grad, lazy.grad, atol=1e-5)
    torch.manual_seed(1)
    drawn = ours.sample(sample_shape=(200,))
    assert (logits.expand(200, -1, -1).gather(2, drawn[..., None]) > MASKED).all()


def decided(chunks: list[Any]) -> dict[str, list[tuple[bytes, int, float]]]:
    """Agent -> (window seen, action, reward)."""
    found: dict[str, list[tuple[bytes, int, float]]] = {}
    for chunk in chunks:
        for name, agent in chunk.agent_episodes.items():
            seen = np.asarray(agent.get_observations(slice(0, len(agent)))["jobs"])
            rows = zip(seen, agent.get_actions(), agent.get_rewards(), strict=True)
            turns = [(o.tobytes(), int(a), float(r)) for o, a, r in rows]
            found.setdefault(f"{chunk.id_}/{name}", []).extend(turns)
    return found


@pytest.mark.parametrize("arrays", [True, False])
def test_logits_and_probabilities_belong_to_the_actions(fragments, ppo_of, arrays):
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
