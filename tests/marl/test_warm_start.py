"""The teacher plays by the rules, and the network learns to play like it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from marl.env.layout import Layout, Observation
from marl.policy.build import PolicySpec, build_policy
from marl.training.episodes import RuleTeacher, imitate, play
from marl.training.spec import WarmStartSpec
from tests.marl.worlds import (
    MIXED_JOBS,
    SMALL,
    RandomJobs,
    any_legal,
    env_of,
    mixed_world,
    total_rewards,
)

SPEC = WarmStartSpec(
    episodes=20, by_rule=True, least_speed=1.2, epochs=40, minibatch=64, learning_rate=5e-3,
    value_weight=0.1,
)  # fmt: skip


def teacher_of(layout: Layout) -> RuleTeacher:
    return RuleTeacher(layout=layout, least_speed=SPEC.least_speed)


def test_the_teacher_only_does_what_is_legal():
    for partitions in (1, 2, 4):
        jobs = RandomJobs(count=40, partitions=partitions, most_gpus=4, span_s=1500.0)
        env = env_of(mixed_world(partitions), jobs, everyone=True)
        teacher, kinds = teacher_of(env.layout), set()

        def act(_: str, observation: Observation, teacher=teacher, kinds=kinds, env=env) -> int:
            action = teacher.act(observation)
            assert observation["action_mask"][action] == 1
            kinds.add((action >= env.layout.starts) + (action == env.layout.wait))
            return action

        for seed in range(3):
            total_rewards(env, act, seed)
        assert kinds == ({0, 1, 2} if partitions > 1 else {0, 2})  # starts, forwards, waits


def test_the_teacher_beats_chance():
    env = env_of(mixed_world(), MIXED_JOBS)
    teacher, rng = teacher_of(env.layout), np.random.default_rng(0)
    by_rule, by_chance = (
        np.mean([total_rewards(env, act, seed)[1] for seed in range(5)])
        for act in (lambda _, o: teacher.act(o), lambda _, o: any_legal(rng, o))
    )
    assert by_rule < 0.9 * by_chance


def test_returns_are_discounted_by_an_agents_own_steps():
    env = env_of(mixed_world(), MIXED_JOBS)
    ticks: list[None] = []
    near, far = (
        play(env, teacher_of(env.layout).act, 2, gamma, 0, lambda: ticks.append(None))
        for gamma in (0.0, 1.0)
    )
    assert len(ticks) == 4
    assert torch.equal(near.actions, far.actions)
    # Undiscounted, a return is all that follows: the next one plus the step's own reward, except
    # where another agent's or another episode's steps begin (2 agents in 2 episodes).
    differs = ~torch.isclose(far.returns[:-1], near.returns[:-1] + far.returns[1:], atol=1e-4)
    assert int(differs.sum()) <= 3
    assert (near.observations["action_mask"][:, :-1].sum(1) > 0).all()  # decisions with a choice


@pytest.mark.parametrize(("gamma", "discount_s"), [(0.95, 800.0), (0.9, None), (1.0, None)])
def test_returns_are_discounted_as_ppo_discounts_them_and_go_on_after_a_cut(gamma, discount_s):
    jobs = RandomJobs(count=30, partitions=1, most_gpus=4, span_s=4000.0)
    for max_rounds in (20, 10_000):
        env = env_of(mixed_world(1), jobs, max_rounds=max_rounds)
        at_s: list[float] = []

        def act(observation: Observation, env=env, at_s=at_s) -> int:
            at_s.append(env.turns.now_s)
            return teacher_of(env.layout).act(observation)

        rewards = play(env, act, 1, 0.0, 0, lambda: None).returns.tolist()
        at_s.append(env.turns.now_s)
        turns, over = len(rewards), env.turns.over
        assert over == (max_rounds > 20)
        factors = [gamma * np.exp((a - b) / (discount_s or np.inf)) for a, b in pairwise(at_s)]
        ends = over or gamma == 1.0
        beyond = 0.0 if ends else np.mean(rewards) / (1.0 - np.mean(factors))
        expected = [
            sum(rewards[k] * np.prod(factors[i:k]) for k in range(i, turns))
            + beyond * np.prod(factors[i:])
            for i in range(turns)
        ]
        found = play(
            env, teacher_of(env.layout).act, 1, gamma, 0, lambda: None, discount_s=discount_s
        )
        np.testing.assert_allclose(found.returns.tolist(), expected, rtol=1e-4, atol=1e-4)


def test_imitation_agrees_with_the_teacher():
    env = env_of(mixed_world(), MIXED_JOBS)
    lessons = play(env, teacher_of(env.layout).act, SPEC.episodes, 0.8, 0, lambda: None)
    torch.manual_seed(0)
    policy = build_policy(
        PolicySpec(gpu_dim=8, hidden_dim=32, rounds=1, head_dim=32, prior_scale=0.0)
    )
    told = list(imitate(policy, lessons, SPEC, 0))
    assert len(told) == SPEC.epochs
    assert told[-1][0] < told[0][0]
    assert told[-1][1] > 0.9
    unseen = play(env, teacher_of(env.layout).act, 8, 0.8, 777, lambda: None)
    with torch.no_grad():
        scores = policy(unseen.observations)
        values = policy.values(scores.state)
    agreed = (scores.logits.argmax(-1) == unseen.actions).float().mean()
    assert float(agreed) > 0.8
    missed = (values - unseen.returns).abs().mean()
    by_mean = (unseen.returns - lessons.returns.mean()).abs().mean()
    assert float(missed) < float(by_mean)  # values say more than the mean return does


@pytest.mark.parametrize("prior_scale", [0.0, 4.0])
def test_where_only_values_are_fitted_choices_stay(prior_scale: float):
    env = env_of(mixed_world(), MIXED_JOBS)
    lessons = play(env, teacher_of(env.layout).act, 4, 0.8, 0, lambda: None)
    torch.manual_seed(0)
    policy = build_policy(replace(SMALL, prior_scale=prior_scale))
    with torch.no_grad():
        before = policy(lessons.observations)
    told = list(imitate(policy, lessons, replace(SPEC, by_rule=False), 0))
    with torch.no_grad():
        after = policy(lessons.observations)
    assert torch.equal(before.logits, after.logits)
    assert torch.equal(before.state, after.state) == (prior_scale == 0.0)  # else the critic's too
    assert told[-1][0] < 0.9 * told[0][0]
