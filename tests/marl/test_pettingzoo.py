"""PettingZoo's own tests, unmodified, on the scheduling environment."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import state_test
from pettingzoo.utils.conversions import parallel_to_aec

from marl.env.layout import WORKER, CodecRules
from marl.env.scheduling_env import SchedulingEnv
from sim.errors import InvalidDecision
from tests.marl.worlds import MIXED_JOBS, RULES, any_legal, env_of, mixed_world

RULES_OF = {
    "gangs": RULES,
    "workers": replace(RULES, granularity=WORKER),
    "suspending": replace(RULES, suspends=True),
    "linked, of all": replace(RULES, links=True, datacenter=True),
}
EACH = pytest.mark.parametrize("rules", RULES_OF.values(), ids=RULES_OF)


def make(rules: CodecRules = RULES, **given: int) -> SchedulingEnv:
    return env_of(mixed_world(), MIXED_JOBS, everyone=True, rules=rules, **given)


@pytest.fixture(autouse=True)
def warnings_are_failures():
    """The API test only warns where an agent misses an observation, a reward or a flag."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        yield


@EACH
def test_pettingzoo_finds_no_fault(rules: CodecRules):
    parallel_api_test(make(rules), num_cycles=1000)
    parallel_api_test(make(rules, max_rounds=7))  # episodes are cut
    parallel_seed_test(lambda: make(rules), num_cycles=300)
    if rules is RULES:
        seed_test(lambda: parallel_to_aec(make()), num_cycles=50)
    warnings.filterwarnings("ignore", "Environment's (min|max)imum state space value is -?infinity")
    state_test(parallel_to_aec(make(rules)), make(rules))


@EACH
@pytest.mark.parametrize("everyone", [True, False])
def test_the_state_is_what_all_agents_see_and_asking_changes_nothing(rules, everyone):
    env = env_of(mixed_world(), MIXED_JOBS, everyone=everyone, rules=rules)
    like, rng = make(rules), np.random.default_rng(0)
    env.reset(seed=3)
    observations, _ = like.reset(seed=3)
    while True:
        of = {agent: env.observation_space(agent) for agent in env.possible_agents}
        assert all(of[agent].contains(seen) for agent, seen in observations.items())
        seen = [spaces.flatten(space, observations[agent]) for agent, space in of.items()]
        state = env.state()
        np.testing.assert_array_equal(state.reshape(2, -1), seen)
        assert env.state_space.contains(state)
        assert env.state() is not state and np.array_equal(env.state(), state)
        if not like.agents:
            break
        actions = {a: any_legal(rng, o) for a, o in observations.items()}
        observations, rewards, *_ = like.step(actions)
        assert env.step(actions)[1] == rewards


def test_a_sample_without_a_mask_is_legal_and_a_given_mask_counts_alone():
    env = make()
    observations, _ = env.reset(seed=3)
    space, mask = env.action_space("agent_0"), observations["agent_0"]["action_mask"]
    drawn = {int(space.sample()) for _ in range(300)}
    assert drawn == set(np.flatnonzero(mask).tolist())
    only = np.zeros_like(mask)
    only[-1] = 1
    assert space.sample(only) == env.layout.wait


def test_an_action_that_is_none_or_not_given_is_refused_by_name():
    env = make()
    observations, _ = env.reset(seed=3)
    mask = observations["agent_0"]["action_mask"]
    for action in (int(np.flatnonzero(mask == 0)[0]), -1, len(mask)):
        with pytest.raises(InvalidDecision, match=rf"agent 0: action {action} .*mask is 1"):
            env.step({"agent_0": action})
    with pytest.raises(InvalidDecision, match=r"agent_0 gives 1\.9; an action is a whole number"):
        env.step({"agent_0": 1.9})
    with pytest.raises(InvalidDecision, match=r"no action of agent_[01], whose turn it is"):
        env.step({})


def test_seeds_make_the_stream_of_episodes():
    def first_jobs(env: SchedulingEnv, seed: int | None) -> bytes:
        observations, _ = env.reset(seed=seed)
        return observations["agent_0"]["jobs"].tobytes()

    one, two = make(), make()
    seeds = (5, None, None, None)
    streams = [[first_jobs(env, seed) for seed in seeds] for env in (one, two)]
    assert streams[0] == streams[1]
    assert len(set(streams[0])) == 4
    assert first_jobs(one, 6) != streams[0][0]


def test_an_episode_that_has_not_begun_or_has_ended_is_an_error():
    env = make(max_rounds=1)
    with pytest.raises(RuntimeError, match="before reset"):
        env.state()
    observations, _ = env.reset(seed=0)
    env.step({a: any_legal(np.random.default_rng(0), o) for a, o in observations.items()})
    with pytest.raises(RuntimeError, match="after the episode's end"):
        env.step({})
