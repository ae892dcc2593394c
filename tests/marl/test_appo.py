"""Asynchronous PPO: it learns, stays one policy, goes on where it was, outlives its env runners."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from marl.rllib.cluster import SHARED
from marl.training.spec import AppoSpec, RayError, TrainingError
from tests.marl import test_learning as toy
from tests.marl.trainings import algorithm_of, local_ray

pytestmark = pytest.mark.ray

APPO = AppoSpec(
    iterations=8, time_budget_s=None, batch_agent_steps=512, minibatch_agent_steps=256, epochs=6,
    learning_rate=5e-3, gamma=0.98, clip=0.2, entropy=0.003, value_weight=0.5, grad_clip=0.5,
    average_decay=0.0, env_runners=0, envs_per_runner=2, checkpoint_every=10, target_updates=3.0,
)  # fmt: skip


def given(**other: Any) -> dict[str, Any]:
    weights = toy.fresh(3).state_dict()
    return {"make_env": toy.make_env, "ppo": APPO, "policy": toy.POLICY, "weights": weights,
            "seed": 0} | other  # fmt: skip


def learnt(trainer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights of the learner's network, and of the target that follows it."""
    module = trainer._algorithm.learner_group._learner.module[SHARED].unwrapped()
    return module.policy.state_dict(), module.target.state_dict()


def alike(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(torch.equal(one[key], two[key]) for key in one)


def test_it_finds_the_optimum_from_random_weights(trainer_of: Callable[..., Any], tmp_path: Path):
    trainer = trainer_of(**given())
    assert toy.over_best(trainer.policy(), tmp_path / "before") > 2.0
    lags = []
    for number in range(1, APPO.iterations + 1):
        done = trainer.iterate()
        assert done.number == number
        assert done.agent_steps >= number * APPO.batch_agent_steps
        weights, target = learnt(trainer)
        assert alike(weights, trainer.policy().state_dict())
        lags.append(not alike(weights, target))
    assert 0 < sum(lags) < len(lags)  # two minibatches an iteration, and a copy after three
    assert toy.over_best(trainer.policy(), tmp_path / "after") < 1.05


def test_a_checkpoint_has_network_target_and_optimiser(trainer_of, tmp_path: Path):
    first = trainer_of(**given())
    first.iterate()
    first.save(tmp_path / "kept")
    other = trainer_of(**given(weights=toy.fresh(2).state_dict(), seed=1))
    other.restore(tmp_path / "kept")
    for mine, theirs in zip(learnt(first), learnt(other), strict=True):
        assert alike(mine, theirs)
    assert other.iterate().number == 2
    with pytest.raises(TrainingError, match="its algorithm is AsynchronousPPO"):
        trainer_of(**given(ppo=toy.PPO)).restore(tmp_path / "kept")


def test_equal_seeds_learn_alike_and_seconds_discount(trainer_of: Callable[..., Any]):
    found = []
    for discount_s in (None, None, 10.0):
        trainer = trainer_of(**given(ppo=replace(APPO, discount_s=discount_s)))
        trainer.iterate()
        found.append(trainer.policy().state_dict())
    plain, again, discounted = found
    assert alike(plain, again)
    assert not alike(plain, discounted)


def test_a_lost_env_runner_is_waited_for(trainer_of: Callable[..., Any], caplog):
    ray = local_ray(num_env_runners=1, restart_delay_s=0.1)
    trainer = trainer_of(**given(ppo=replace(APPO, env_runners=1), ray=ray))
    trainer.iterate()
    runners = trainer._algorithm.env_runner_group
    (pid,) = runners.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)
    os.kill(pid, signal.SIGKILL)
    while (done := trainer.iterate()).restarts == 0:
        assert done.number < 50
    assert done.env_runners == 1
    assert "all env runners are lost; waiting for new ones" in caplog.text
    assert trainer.iterate().number == done.number + 1


def test_what_it_cannot_have_is_refused():
    with pytest.raises(RayError, match=r"ray\.num_learners is 1: algo=appo learns in the training"):
        algorithm_of(**given(ray=local_ray(num_learners=1)))
    with pytest.raises(TrainingError, match=r"algo\.array_runner is false, which is for algo=ppo"):
        replace(APPO, array_runner=False)
    with pytest.raises(TrainingError, match=r"algo\.target_updates is 0"):
        replace(APPO, target_updates=0.0)
