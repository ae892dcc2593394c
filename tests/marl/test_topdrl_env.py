"""The environment of the job picker: Gymnasium's checks, masks, rewards, a case by hand."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from marl.topdrl.codec import TopDrlError, window
from marl.topdrl.env import RewardSpec
from marl.topdrl.proximity import PickGpuEnv
from tests.marl.topdrl_worlds import PROXIMITY, env_of, job, many_jobs, observation_of, york_world
from tests.sim.worlds import job_table

HOLD = 4


def gpu_env():
    world = york_world()
    return PickGpuEnv(world=world, spec=PROXIMITY, make_jobs=many_jobs(world))


def test_gymnasium_finds_no_fault():
    for env in (env_of(york_world()), gpu_env()):
        check_env(env, skip_render_check=True)


def played(env, jobs=None, seed=3):
    """Actions, rewards and flags of an episode of first legal actions."""
    seen, _ = env.reset(seed=seed, options=None if jobs is None else {"jobs": jobs})
    steps, over = [], False
    while not over:
        action = int(np.flatnonzero(seen["action_mask"])[0])
        seen, reward, ended, cut, _ = env.step(action)
        steps.append((action, reward, ended, cut))
        over = ended or cut
    return steps


def two_pairs(world):
    """Both come at once; a third job follows when they are done."""
    return job_table([job(world, 0, 2, 60), job(world, 0, 2, 60), job(world, 100, 1, 10)])


def first_worth(env, jobs):
    seen, _ = env.reset(options={"jobs": jobs})
    return float(seen["slots"][0, 4])


def test_slots_show_the_most_valuable_jobs_first_and_what_they_would_get():
    world = york_world()
    # Three come at once: a heavy single, a light pair, a light gang of 4 that needs two servers.
    jobs = job_table(
        [job(world, 0, 1, 50, "heavy"), job(world, 0, 2, 100), job(world, 0, 4, 30),
         job(world, 900, 1, 10)]
    )  # fmt: skip
    seen, _ = env_of(world).reset(options={"jobs": jobs})
    assert seen["action_mask"].tolist() == [1, 1, 1, 0, 0]  # nothing runs: no holding
    slots = seen["slots"]
    assert slots[:, 0].tolist() == [1, 1, 1, 0]
    assert slots[:3, 2].tolist() == [0.5, 1.0, 0.25]  # pair, gang of 4, heavy single
    assert slots[0, 4] > slots[1, 4] > slots[2, 4] > 0
    assert slots[:3, 5].tolist() == [1.0, 1.0, 1.0]
    # Rows end at 20, 50, 95, 162.5 s and so on: 100 s reach into the fourth of six, 30 s into two.
    assert slots[:3, 1] == pytest.approx([4 / 6, 2 / 6, 2 / 6])


def test_a_start_takes_no_time_and_a_hold_waits_for_the_next_event():
    world = york_world()
    jobs = job_table([job(world, 0, 2, 100), job(world, 0, 2, 50), job(world, 500, 1, 10)])
    env = env_of(world)
    env.reset(options={"jobs": jobs})
    seen, reward, over, cut, _ = env.step(0)
    assert (reward, over, cut) == (0.0, False, False)
    assert seen["action_mask"].tolist() == [1, 0, 0, 0, 1]
    assert np.count_nonzero(seen["gpus"][..., 0]) == 2
    seen, reward, *_ = env.step(HOLD)  # until the first job ends, at 100: then it must start
    assert reward > 0
    assert seen["action_mask"].tolist() == [1, 0, 0, 0, 0]
    assert seen["gpus"][..., 0].max() == 0


def test_flow_rewards_add_up_to_the_work_done():
    world = york_world()
    env, jobs = env_of(world), two_pairs(world)
    steps, worth = played(env, jobs), first_worth(env, jobs)
    # 2 x 2 GPUs x 60 s of worth w, in units of 8 GPUs x 100 / 3 s.
    assert steps[-1][3]  # cut, for the last job has come
    assert sum(step[1] for step in steps) == pytest.approx(240 * worth / (800 / 3), rel=1e-6)


def test_credit_says_at_once_what_a_start_earns():
    world = york_world()
    env = env_of(world, reward=RewardSpec(kind="credit", price=0.25))
    worth = first_worth(env, two_pairs(world))
    _, reward, *_ = env.step(0)
    assert reward == pytest.approx(120 * (worth - 0.25) / (800 / 3), rel=1e-6)
    _, reward, *_ = env.step(HOLD)  # 6 GPUs idle for 60 s while somebody waits
    assert reward == pytest.approx(-0.25 * 6 * 60 / (800 / 3), rel=1e-6)


def test_equal_seeds_give_equal_episodes_and_what_the_mask_forbids_is_refused():
    env = env_of(york_world())
    first, second, other = (played(env, seed=seed) for seed in (5, 5, 6))
    assert first == second
    assert first != other
    env.reset(seed=0)
    with pytest.raises(TopDrlError, match="action 4 is masked"):
        env.step(HOLD)


def test_the_picker_of_gpus_is_paid_for_compact_gangs():
    env = gpu_env()
    env.reset(options={"jobs": two_pairs(york_world())})
    assert env.step(0)[1] == 0.0
    assert env.step(1)[1] == 1.0  # both on server 0
    env.step(2)
    _, reward, *_ = env.step(7)  # servers 1 and 3, in two racks
    assert reward == 0.0


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"order": "size"}, r"observation\.order is 'size'"),
        ({"oldest_slots": 9}, r"from 0 to observation\.slots"),
        ({"row_growth": 0.5}, r"observation\.row_growth is 0\.5"),
    ],
)
def test_impossible_observations_are_refused(given, rule):
    with pytest.raises(TopDrlError, match=rule):
        env_of(york_world(), **given)


@pytest.mark.parametrize(
    ("given", "count", "shown"),
    [
        ({"oldest_slots": 1}, 6, [4, 8, 9, 3]),  # the best, then the oldest that are left
        ({"oldest_slots": 0}, 6, [4, 8, 9, 11]),
        ({}, 3, [4, 7, 3]),  # a short queue is shown whole
        ({"order": "submission"}, 6, [3, 4, 7, 8]),
    ],
)
def test_the_window_of_six_jobs(given, count, shown):
    queued, worth = np.array([3, 4, 7, 8, 9, 11]), np.array([0.1, 0.9, 0.2, 0.9, 0.5, 0.3])
    spec = observation_of(slots=4, **given)
    assert window(queued[:count], worth[:count], spec).tolist() == shown
