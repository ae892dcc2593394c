"""What RLlib samples is what the environment did, and PPO goes on where it was saved."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import ppo
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from marl.env.scheduling_env import SchedulingEnv
from marl.policy.pair_score import stack
from marl.rllib.algorithm import ALL, RllibSchedulingEnv, _creator
from marl.rllib.cluster import SHARED
from marl.training.spec import TrainingError
from tests.marl import worlds
from tests.marl.trainings import local_ray, optimizer_of

pytestmark = pytest.mark.ray

PPO = worlds.ppo_spec(
    batch_agent_steps=64, minibatch_agent_steps=32, epochs=1, learning_rate=1e-3, gamma=0.99,
    entropy=0.0, value_clip=1e6, average_decay=0.5, env_runners=0, envs_per_runner=2,
)  # fmt: skip
ONE = replace(PPO, envs_per_runner=1)
LEDGER: list[dict[str, float]] = []  # of each finished episode


class Bookkeeping(SchedulingEnv):
    """Writes down every agent's rewards from its first turn on.

    What comes before its first turn, no action of its own has caused; RLlib leaves it out.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None):
        self.book: dict[str, float] = {}
        return super().reset(seed, options)

    def step(self, actions: dict[str, int]):
        for agent in actions:
            self.book.setdefault(agent, 0.0)
        result = super().step(actions)
        for agent in self.book:
            self.book[agent] += result[1][agent]
        if not self.agents:
            LEDGER.append(self.book)
        return result


def make_env() -> SchedulingEnv:
    return worlds.env_of(worlds.mixed_world(), worlds.MIXED_JOBS)


def make_bookkeeping() -> SchedulingEnv:
    env = worlds.env_of(worlds.mixed_world(), worlds.MIXED_JOBS)
    env.__class__ = Bookkeeping
    return env


def arguments(**given: Any) -> dict[str, Any]:
    return {"make_env": make_env, "ppo": PPO, "policy": worlds.SMALL, "weights": None,
            "seed": 0} | given  # fmt: skip


def sampled(algorithm: Any, fragments: int, steps: int) -> list[MultiAgentEpisode]:
    """Chunks of episodes, cut every `steps` agent steps."""
    runner = algorithm.env_runner
    return [chunk for _ in range(fragments) for chunk in runner.sample(num_timesteps=steps)]


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_no_reward_is_lost_or_doubled_between_fragments(ppo_of: Callable[..., Any], steps: int):
    LEDGER.clear()
    algorithm = ppo_of(**arguments(make_env=make_bookkeeping, ppo=ONE))
    chunks = sampled(algorithm, 400 // steps, steps)
    totals: dict[str, dict[str, float]] = {}
    for chunk in chunks:
        total = totals.setdefault(chunk.id_, {})
        for name, agent in chunk.agent_episodes.items():
            total[name] = total.get(name, 0.0) + agent.get_return()
    done = [totals[chunk.id_] for chunk in chunks if chunk.is_done]
    assert len(done) == len(LEDGER) >= 4
    for total, booked in zip(done, LEDGER, strict=True):
        # Sums of float32 of either sign.
        assert total == pytest.approx(booked, rel=1e-6, abs=1e-6)


def test_only_agents_with_a_choice_act_and_never_against_their_mask(fragments):
    acted = 0
    for chunk in fragments:
        for agent in chunk.agent_episodes.values():
            masks = np.asarray(agent.get_observations(slice(0, len(agent)))["action_mask"])
            actions = np.asarray(agent.get_actions())
            assert masks[:, :-1].any(axis=1).all()
            assert (masks[np.arange(len(actions)), actions] == 1).all()
            acted += len(actions)
    assert acted >= 300


def test_an_end_terminates_and_a_cut_truncates(fragments: list[MultiAgentEpisode]):
    ends = [c for c in fragments if c.is_done]
    # The first episode of a copy is cut on purpose (if it is not over before); all others end.
    assert [c.is_truncated for c in ends].count(True) in (1, 2)
    assert [c.is_terminated for c in ends].count(True) >= 5
    for chunk in ends:
        assert chunk.is_terminated != chunk.is_truncated
        for agent in chunk.agent_episodes.values():
            assert agent.is_terminated == chunk.is_terminated
            # A cut agent keeps a last observation to judge the rest by.
            assert len(agent.get_observations()["context"]) == len(agent) + 1


def test_the_adapter_flags_cuts_for_all_agents_together():
    env = RllibSchedulingEnv(make_env(), seed=0, first_cut_frac=0.1)
    rng = np.random.default_rng(0)
    for episode in range(2):
        observations, _ = env.reset()
        flags: tuple[dict[str, bool], dict[str, bool]] = ({ALL: False}, {ALL: False})
        while not (flags[0][ALL] or flags[1][ALL]):
            assert all(o["action_mask"][:-1].any() for o in observations.values())
            observations, _, *flags, _ = env.step(
                {a: worlds.any_legal(rng, o) for a, o in observations.items()}
            )
        assert (flags[0], flags[1]) == ({ALL: episode == 1}, {ALL: episode == 0})
        if flags[1][ALL]:
            assert set(observations) == set(env.possible_agents)


def test_copies_play_different_windows(ppo_of: Callable[..., Any]):
    algorithm = ppo_of(**arguments(ppo=replace(PPO, envs_per_runner=3)))
    chunks = [chunk for chunk in sampled(algorithm, 1, 30) if chunk.agent_episodes]
    agents = [next(iter(chunk.agent_episodes.values())) for chunk in chunks[:3]]
    assert len({agent.get_observations(0)["jobs"].tobytes() for agent in agents}) == 3


def batch_of(algorithm: Any) -> list[bytes]:
    found = []
    for chunk in sampled(algorithm, 2, 60):
        for name, agent in sorted(chunk.agent_episodes.items()):
            seen = agent.get_observations()["pairs"]
            each = (agent.get_actions(), seen, agent.get_rewards())
            found += [name.encode(), *(np.asarray(values).tobytes() for values in each)]
    return found


def test_equal_seeds_sample_equal_batches(ppo_of: Callable[..., Any]):
    one, again, other = (batch_of(ppo_of(**arguments(seed=seed))) for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_given_weights_are_the_policys(trainer_of: Callable[..., Any]):
    weights = worlds.loud_policy(worlds.SMALL, 1).state_dict()
    policy = trainer_of(**arguments(seed=2, weights=weights)).policy()
    assert all(torch.equal(weights[key], value) for key, value in policy.state_dict().items())


def test_values_are_the_same_in_chunks(ppo_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    module = ppo_of(**arguments()).get_module(SHARED)
    observations, _ = worlds.env_of(worlds.mixed_world(), worlds.MIXED_JOBS, everyone=True).reset(
        seed=0
    )
    batch = {Columns.OBS: stack(list(observations.values()) * 5)}
    state = module._forward_train(batch)[Columns.EMBEDDINGS]
    whole = module.compute_values(batch, embeddings=state)
    for rows in (1, 3, 1000):
        monkeypatch.setattr("marl.rllib.algorithm.CHUNK_ROWS", rows)
        values = module.compute_values(batch)
        assert values.tolist() == pytest.approx(whole.tolist(), rel=1e-5, abs=1e-6)
        assert not values.requires_grad
    assert whole.requires_grad


def test_training_goes_on_from_a_checkpoint(trainer_of: Callable[..., Any], tmp_path: Path):
    first = trainer_of(**arguments())
    done = [first.iterate() for _ in range(2)]
    assert [i.number for i in done] == [1, 2]
    assert done[0].agent_steps >= PPO.batch_agent_steps
    assert done[1].agent_steps >= 2 * PPO.batch_agent_steps
    first.save(tmp_path / "checkpoint")
    kept = {k: v.clone() for k, v in first.policy().state_dict().items()}

    second = trainer_of(**arguments(seed=9, ppo=replace(PPO, learning_rate=5e-4)))
    second.restore(tmp_path / "checkpoint")
    optimizer = optimizer_of(second)
    assert optimizer.param_groups[0]["lr"] == 5e-4  # as told, from the first update on
    assert len(optimizer.state) > 0  # while its moments are the checkpoint's
    assert all(torch.equal(kept[k], v) for k, v in second.policy().state_dict().items())
    third = second.iterate()
    assert third.number == 3
    assert third.agent_steps >= done[1].agent_steps + PPO.batch_agent_steps
    moved = second.policy().state_dict()
    assert any(not torch.equal(kept[k], moved[k]) for k in kept)
    assert optimizer.param_groups[0]["lr"] == 5e-4


@pytest.mark.parametrize("first", [0, -1])  # all of them, only the last
def test_weights_that_are_no_numbers_stop_the_training(trainer_of: Callable[..., Any], first: int):
    trainer = trainer_of(**arguments())
    with torch.no_grad():
        for weights in list(trainer.policy().parameters())[first:]:
            weights.fill_(float("nan"))
    told = (
        r"before iteration 1: the largest weight is nan; begin anew, .* lower algo\.learning_rate"
    )
    with pytest.raises(TrainingError, match=told):
        for _ in range(3):
            trainer.iterate()


def test_the_reported_return_is_that_of_whole_episodes(trainer_of: Callable[..., Any]):
    """An episode spans several batches here; its return must not be that of its last piece."""
    LEDGER.clear()
    small = replace(ONE, batch_agent_steps=16, minibatch_agent_steps=16)
    trainer = trainer_of(**arguments(make_env=make_bookkeeping, ppo=small))
    reported = []
    while len(LEDGER) < 4:
        reported.append(trainer.iterate().return_mean)
    # The first episode is cut on purpose, if it is not over before: cut, it does not count. An
    # iteration in which none ended reports NaN.
    whole = [sum(book.values()) for book in LEDGER]
    told = [value for value in reported if np.isfinite(value)]
    assert len(told) in {len(whole) - 1, len(whole)}
    assert told == pytest.approx(whole[-len(told) :])


def test_a_training_that_goes_on_plays_other_windows():
    def first_jobs(behind: int, worker: int = 0) -> bytes:
        create = _creator(make_env, ONE, 0, behind)
        seen, _ = create(SimpleNamespace(worker_index=worker)).reset()
        return b"".join(np.asarray(each["jobs"]).tobytes() for each in seen.values())

    assert first_jobs(0) == first_jobs(0)
    assert len({first_jobs(0), first_jobs(0, worker=1), first_jobs(5), first_jobs(6)}) == 4


def adam_steps(trainer: Any) -> set[int]:
    return {int(state["step"]) for state in optimizer_of(trainer).state.values()}


def test_an_interrupted_update_is_no_part_of_what_is_saved(trainer_of, tmp_path, monkeypatch):
    trainer = trainer_of(**arguments(ppo=replace(PPO, epochs=3)))
    done = trainer.iterate()
    whole = {key: value.clone() for key, value in trainer.policy().state_dict().items()}
    taken = adam_steps(trainer)
    learner = trainer._algorithm.learner_group._learner
    steps, apply = [], learner.apply_gradients

    def interrupted(gradients: Any) -> None:
        apply(gradients)
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(learner, "apply_gradients", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.iterate()
    assert trainer.iterations_done == 1
    trainer.save(tmp_path / "checkpoint")
    resumed = trainer_of(**arguments(ppo=replace(PPO, epochs=3)))
    resumed.restore(tmp_path / "checkpoint")
    assert resumed.iterations_done == 1
    kept = resumed.policy().state_dict()
    assert all(torch.equal(value, kept[key]) for key, value in whole.items())
    assert adam_steps(resumed) == taken
    assert resumed.iterate().agent_steps < done.agent_steps + 2 * PPO.batch_agent_steps


def test_a_resumed_training_draws_other_numbers_than_those_behind_it(ppo_of):
    def draws(behind: int) -> tuple[float, ...]:
        ppo_of(**arguments(behind=behind))
        return float(torch.rand(1)), float(np.random.rand())  # noqa: NPY002  (RLlib's)

    assert draws(3) == draws(3)
    assert set(draws(0)).isdisjoint(draws(3))


def test_the_times_of_a_row_are_its_own(trainer_of, monkeypatch):
    trainer = trainer_of(**arguments())
    trainer.iterate()
    learner = trainer._algorithm.learner_group._learner
    apply = learner.apply_gradients

    def slowly(gradients: Any) -> None:
        time.sleep(0.5)
        apply(gradients)

    with monkeypatch.context() as slow:
        slow.setattr(learner, "apply_gradients", slowly)
        assert trainer.iterate().learn_s > 0.5
    last = trainer.iterate()
    assert 0 < last.learn_s < 0.5
    assert last.sample_s > 0


def test_lost_env_runners_are_waited_for_and_then_told(trainer_of, monkeypatch):
    trainer = trainer_of(**arguments(ray=local_ray(restore_timeout_s=0)))
    sample = ppo.synchronous_parallel_sample
    lost = iter([True, True, False])

    def some_lost(**given: Any) -> Any:
        return ([], []) if next(lost, True) else sample(**given)

    monkeypatch.setattr(ppo, "synchronous_parallel_sample", some_lost)
    assert trainer.iterate().number == 1
    with pytest.raises(TrainingError, match=r"2: all env runners were lost.* 3 times.*resume from"):
        trainer.iterate()
    assert trainer.iterations_done == 1


def test_rewards_count_less_by_the_seconds_until_them(ppo_of: Callable[..., Any]):
    discount_s = 1800.0
    by_time = replace(PPO, gamma=1.0, gae_lambda=1.0, discount_s=discount_s)
    algorithm = ppo_of(**arguments(ppo=by_time, policy=replace(worlds.SMALL, critic="none")))
    learner = algorithm.learner_group._learner
    (chunk, *_) = sampled(algorithm, 1, 60)
    turns = list(chunk.agent_episodes.values())
    expected, long = [], 0
    for agent in turns:
        elapsed_s = np.asarray(agent.get_extra_model_outputs("elapsed_s"), dtype=np.float64)
        rewards = np.asarray(agent.get_rewards(), dtype=np.float64)
        at_s = np.concatenate([[0.0], np.cumsum(elapsed_s)])
        assert (elapsed_s >= 0.0).all()
        long += int((elapsed_s > 0.0).sum())
        for i in range(len(rewards)):
            later = np.exp(-(at_s[i:-1] - at_s[i]) / discount_s)
            expected.append(float((rewards[i:] * later).sum()))
        expected.append(None)  # the turn that RLlib adds to judge what follows
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=[chunk], shared_data={}, metrics=None
    )
    found = batch[SHARED]["value_targets"].tolist()
    assert long > 10
    pairs = [pair for pair in zip(found, expected, strict=True) if pair[1] is not None]
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=1e-4, atol=1e-6)
    with pytest.raises(TrainingError, match=r"algo\.discount_s is 5\.0 with algo\.array_runner=f"):
        replace(PPO, discount_s=5.0, array_runner=False)
    with pytest.raises(TrainingError, match=r"algo\.discount_s is 0; it must be above 0"):
        replace(PPO, discount_s=0)
