"""Rewards add up to what is reported; PettingZoo's own tests on the environment."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.test import parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import state_test
from pettingzoo.utils.conversions import parallel_to_aec

from marl.env.layout import WORKER, CodecRules
from marl.env.memory import Gathered
from marl.env.scheduling_env import SchedulingEnv
from marl.env.world import DelayReward, ProgressReward
from marl.topdrl.env import RewardSpec
from sim.errors import GpuYardError, InvalidDecision
from sim.jobs import NEVER_S
from tests.marl import topdrl_worlds as york
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    RandomJobs,
    any_legal,
    env_of,
    first_legal,
    mixed_world,
    plain_world,
    rollout,
    total_rewards,
    world_of,
)
from tests.sim.worlds import Job, cluster, fates, job_table, physics_of


def wander(env: SchedulingEnv, seed: int) -> tuple[np.ndarray, float]:
    rng = np.random.default_rng(seed)
    return total_rewards(env, lambda _, o: any_legal(rng, o), seed)


@pytest.mark.parametrize("own_weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_returns_of_all_agents_are_minus_the_total_delay(own_weight, everyone, partitions):
    make = RandomJobs(count=40, partitions=partitions, most_gpus=3, span_s=3000.0)
    env = env_of(mixed_world(partitions), make, everyone=everyone, own_weight=own_weight)
    for seed in range(3):
        returns, jct_s = wander(env, seed)
        delay_s = jct_s * 40 - env.turns.simulator.jobs.duration_s.sum()
        assert returns.sum() == pytest.approx(-delay_s / 1000.0, rel=1e-12, abs=1e-9)
        if own_weight == 0.0:
            assert np.ptp(returns) < 1e-9


def test_a_faster_gpu_pays_back_what_waiting_cost():
    # Work is counted on type x; the only GPU is a y, twice as fast. Shortest first:
    # A (400 s of work) 0-200, C (200 s, from 100 on) 200-300, B (1000 s) 300-800. JCTs 200, 200
    # and 800 against 1600 s of work: delays -200, 0 and -200, although B waits and C waits.
    topology = cluster(1, 1, types=("y",))
    physics, alone = physics_of(topology), np.ones((2, 1, 1))
    both = {"gpu_types": ("y", "x"), "compute_s": np.array([[1.0, 2.0]])}
    fast = replace(
        physics, catalogue=replace(physics.catalogue, **both), reference_gpu="x",
        pairs=replace(physics.pairs, slowdown=alone, feasible=alone > 0),
    )  # fmt: skip
    world = world_of(topology, 1, physics=fast, max_tenants=1)
    trace = job_table([Job(0, 1, 400), Job(0, 1, 1000), Job(100, 1, 200)])
    env = env_of(world, lambda _: trace, scale_s=1.0)
    returns, jct_s = total_rewards(env, first_legal, 0)
    assert jct_s == pytest.approx(400.0)
    assert returns.sum() == pytest.approx(400.0)


def test_delay_counts_where_the_job_is():
    # One server a partition. A fills partition 0 for 10 s; B arrives there at 2 and is forwarded
    # to partition 1 at once, where it runs 2-7 without delay. C (at 3) waits at partition 0 until
    # it can be forwarded at 7, and runs 7-8: its 4 s of delay belong to partition 0.
    world = plain_world(2, 1, 2, servers_per_rack=1)
    trace = job_table([Job(0, 1, 10), Job(2, 1, 5), Job(3, 1, 1)])
    env = env_of(world, lambda _: trace, own_weight=1.0, scale_s=1.0)

    def act(agent: str, observation: dict) -> int:
        mask, layout = observation["action_mask"], env.layout
        to_one = layout.starts + 1  # the first job of the window to partition 1
        return to_one if agent == "agent_0" and mask[to_one] else int(np.argmax(mask))

    returns, jct_s = total_rewards(env, act, 0)
    assert returns.tolist() == [-4.0, 0.0]
    assert jct_s == pytest.approx((10 + 5 + 5) / 3)


def test_own_weight_moves_shares_not_the_sum():
    delay = Gathered(delay_s=np.array([30.0, 0.0, 6.0]), progress=np.zeros(3))
    assert DelayReward(own_weight=1.0, scale_s=2.0)(delay).tolist() == [-15.0, 0.0, -3.0]
    assert DelayReward(own_weight=0.0, scale_s=2.0)(delay).tolist() == [-6.0, -6.0, -6.0]
    assert DelayReward(own_weight=0.5, scale_s=2.0)(delay).tolist() == [-10.5, -3.0, -4.5]


def test_a_cut_episode_is_truncated_and_keeps_its_rewards_so_far():
    env = env_of(mixed_world(), MIXED_JOBS, max_rounds=9)
    rng = np.random.default_rng(0)
    observations, _ = env.reset(seed=0)
    steps = 0
    while env.agents:
        observations, _, ended, cut, _ = env.step(
            {a: any_legal(rng, o) for a, o in observations.items()}
        )
        steps += 1
    assert steps == 9
    assert set(cut.values()) == {True}
    assert set(ended.values()) == {False}
    assert set(observations) == set(env.possible_agents)


@pytest.mark.parametrize("own_weight", [0.0, 0.5, 1.0])
def test_progress_adds_up_to_the_finished_jobs(own_weight: float):
    reward = ProgressReward(own_weight=own_weight, scale_jobs=4.0)
    jobs = RandomJobs(count=40, partitions=2, most_gpus=3, span_s=3000.0)
    env = env_of(mixed_world(2), jobs, reward=reward)
    for seed in range(3):
        returns, _ = wander(env, seed)
        assert returns.sum() == pytest.approx(40 / 4.0, rel=1e-12)
        if own_weight == 0.0:
            assert np.ptp(returns) < 1e-9


def test_progress_is_the_share_of_the_work_done_since_the_last_turn():
    # One GPU. A (10 s of work) runs 0-10. B (4 s) comes at 5, when A has done half, and runs 10-14;
    # C (1 s) comes at 12, when B has done half.
    world = plain_world(1, 1)
    trace = job_table([Job(0, 1, 10), Job(5, 1, 4), Job(12, 1, 1)])
    env = env_of(world, lambda _: trace, reward=ProgressReward(own_weight=1.0, scale_jobs=1.0))
    steps = rollout(env, first_legal, 0)
    # Who acts at 0 starts A; nobody can at 5 nor at 12; at 10 B, at 14 C is started.
    assert [rewards["agent_0"] for rewards, _ in steps] == pytest.approx([1.0, 1.0, 1.0])


def test_a_withdrawn_job_is_worth_what_it_had_done():
    # One GPU. A (10 s of work) runs from 0 until its user gives up at 4; B (5 s) runs 4-9.
    world = plain_world(1, 1)
    trace = job_table([Job(0, 1, 10, 1), Job(0, 1, 5)], **fates(4.0, NEVER_S))
    env = env_of(world, lambda _: trace, reward=ProgressReward(own_weight=1.0, scale_jobs=1.0))
    returns, _ = total_rewards(env, first_legal, 0)
    assert returns.sum() == pytest.approx(0.4 + 1.0)


@pytest.mark.parametrize(
    ("given", "told"),
    [(np.zeros(5), "gives array"), (np.array([0.0, np.nan]), "nan"), (1.5, "gives 1.5")],
)
def test_a_reward_gives_one_finite_number_an_agent(given: object, told: str):
    env = env_of(mixed_world(2), RandomJobs(count=8, partitions=2, most_gpus=2, span_s=100.0))
    env.reward = lambda _: given
    seen, _ = env.reset(seed=0)
    rng = np.random.default_rng(0)
    with pytest.raises(GpuYardError, match=rf"{told}.*one finite number for each of the 2"):
        env.step({agent: any_legal(rng, each) for agent, each in seen.items()})
    with pytest.raises(InvalidDecision, match=r"'nobody' is no agent; there are agent_0, agent_1"):
        env.step({"nobody": 0})
    with pytest.raises(InvalidDecision, match=r"actions are \[0, 0\]; step takes a dict"):
        env.step([0, 0])
    with pytest.raises(GpuYardError, match=r"options is \[1\]; it must be a dict or None"):
        env.reset(options=[1])


@pytest.mark.parametrize("made", [DelayReward, ProgressReward])
@pytest.mark.parametrize(("own", "scale"), [(2.0, 1.0), (0.5, 0.0), (0.5, -1.0), (-0.1, 1.0)])
def test_rewards_that_turn_round_or_divide_by_nothing_are_refused(made, own: float, scale: float):
    with pytest.raises(GpuYardError, match=r"reward\.(own_weight|scale)"):
        made(own, scale)


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


def test_gpus_that_idle_once_the_last_who_waits_gave_up_cost_a_picker_nothing():
    """A pair holds 2 of 4 GPUs until 60; a gang of 4 waits from 10 until 30; one more comes at 100.

    Two GPUs idle for those 20 s, at 0.25 a GPU-second; the pair takes 120 GPU-seconds.
    """
    world = york.york_world(racks=1)
    jobs = job_table(
        [york.job(world, at, gang, s) for at, gang, s in ((0, 2, 60), (10, 4, 9), (100, 1, 9))],
        **fates(NEVER_S, 20.0, NEVER_S),
    )
    env = york.env_of(world, reward=RewardSpec(kind="credit", price=0.25))
    seen, _ = env.reset(options={"jobs": jobs})
    worth = float(seen["slots"][0, 4])
    reward = env.step(0)[1]
    assert reward == pytest.approx((120 * (worth - 0.25) - 0.25 * 2 * 20) / (400 / 3), rel=1e-6)
