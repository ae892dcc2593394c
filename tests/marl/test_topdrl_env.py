"""The job picker: its environment, and policies as schedulers that see what training saw."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from marl.schedulers.topdrl import Proximity, TopDrl, TopDrlRule, best_action
from marl.topdrl.codec import TopDrlError, window
from marl.topdrl.env import PickJobEnv, RewardSpec
from marl.topdrl.network import build_network, load_picker, save_picker
from marl.topdrl.proximity import GpuScores, PickGpuEnv, best_gpu, save_proximity
from sim.jobs import JobTable
from sim.run import Kind
from sim.simulator import simulate
from sim.topology.outages import Change
from tests.marl.topdrl_worlds import (
    FLOW,
    PROXIMITY,
    env_of,
    job,
    many_jobs,
    mistaken,
    network_of,
    observation_of,
    two_pairs,
    york_world,
)
from tests.sim.worlds import changes, fates, gantt, job_table, play

HOLD = 4


@pytest.mark.parametrize("picks", ["jobs", "GPUs"])
def test_episodes_are_of_the_windows_that_there_are(picks: str):
    world, drawn = york_world(), []

    class FewWindows:
        windows = 3

        def __call__(self, window: int) -> JobTable:
            drawn.append(window)
            return many_jobs(world)(window)

    given = {"world": world, "make_jobs": FewWindows()}
    env = (
        PickGpuEnv(spec=PROXIMITY, **given) if picks == "GPUs"
        else PickJobEnv(
            observation=observation_of(), network=network_of(world), reward=FLOW, **given
        )
    )  # fmt: skip
    for seed in range(20):
        env.reset(seed=seed)
    assert set(drawn) == {0, 1, 2}


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


def test_gpus_are_held_for_a_restart_and_the_work_after_it():
    world = york_world()
    world = replace(
        world, outages=changes((40.0, 0, Change.FAIL)), rules=replace(world.rules, restart_s=40.0)
    )
    jobs = [job(world, 0, 2, 60), job(world, 40, 1, 10, "heavy"), job(world, 900, 1, 10)]
    env = env_of(world)
    env.reset(options={"jobs": job_table(jobs)})
    env.step(0)  # and on to the failure of its server, at which the heavy one comes
    seen, *_ = env.step(0)  # the pair again
    held = seen["gpus"][..., 0]
    # Rows end at 95 and 162.5 s: 40 s of restart and 60 s of work reach into the fourth of six.
    assert held[held > 0] == pytest.approx([4 / 6] * 2)


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


@pytest.mark.parametrize(
    ("withdrawn_s", "failing_s", "worth_s"),
    [(np.inf, np.inf, 60.0), (40.0, np.inf, 40.0), (np.inf, 40.0, 0.0)],
)
def test_credit_of_a_job_that_stops_early_is_what_it_did(withdrawn_s, failing_s, worth_s):
    world = york_world()
    if failing_s < np.inf:  # of the server on which it runs; without a checkpoint all is lost
        world = replace(world, outages=changes((failing_s, 0, Change.FAIL)))
    env = env_of(world, reward=RewardSpec(kind="credit", price=0.25))
    two = [job(world, 0, 2, 60), job(world, 100, 1, 10)]
    jobs = job_table(two, **fates(withdrawn_s, np.inf))
    worth, held_s = first_worth(env, jobs), min(60.0, withdrawn_s, failing_s)
    _, reward, *_ = env.step(0)  # and on to the next job, or to the failure
    assert reward == pytest.approx(2 * (worth_s * worth - 0.25 * held_s) / 400, rel=1e-6)


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


@pytest.fixture
def policy(tmp_path):
    world = york_world()
    torch.manual_seed(4)
    network = build_network(network_of(world), observation_of())
    save_picker(tmp_path, network.state_dict(), network_of(world), observation_of())
    return tmp_path


def starts_of(run):
    return [
        (float(run.log.time_s[at]), int(run.log.job[at]), run.log.gpus[at].tolist())
        for at in np.flatnonzero(run.log.kind == Kind.START)
    ]


class Recording(TopDrl):
    """Keeps what it saw and did."""

    def __init__(self, folder):
        super().__init__(policy=str(folder), name="topdrl")
        self.seen = []

    def decide(self, view):
        decision = super().decide(view)
        if len(view.queued) and self._codec is not None:
            turn = self._codec.turn(view)
            if turn.has_choice:
                self.seen.append(turn.observation)
        return decision


def test_training_and_use_see_and_do_the_same(policy):
    world = york_world()
    jobs = many_jobs(world)(7)
    network, *_ = load_picker(policy)
    env = env_of(world)
    seen, _ = env.reset(options={"jobs": jobs})
    trained, over = [], False
    while not over:
        trained.append(seen)
        seen, _, ended, cut, _ = env.step(best_action(network, seen))
        over = ended or cut
    used = Recording(policy)
    simulate(world.simulator(jobs), used, 0, None)
    assert len(trained) > 10
    assert len(used.seen) >= len(trained)
    for mine, theirs in zip(trained, used.seen, strict=False):
        assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


class RecordingRule(TopDrlRule):
    """Keeps what it saw."""

    def _act(self, observation):
        self.seen = [*getattr(self, "seen", []), observation]
        return super()._act(observation)


def test_a_spread_pair_holds_its_gpus_for_as_long_as_it_is_thought_to_take_there():
    world = york_world(racks=1, servers=3)
    # Singles leave a GPU of each of two servers at 40, a third one at 50. The pair costs
    # 2 * 0.025 + 2 * 0.25 + 0.5 = 1.05 there, on one server 0.8: 80 s of work take 105 s.
    singles = [job(world, 0, 1, length_s) for length_s in (900, 50, 900, 40, 900)]
    jobs = job_table([*singles, mistaken(world, 1), job(world, 60.5, 1, 9), job(world, 400, 1, 9)])
    given = {"rows": 200, "row_s": 1.0, "row_growth": 1.0}
    env = env_of(world, **given)
    seen, _ = env.reset(options={"jobs": jobs})
    for _ in range(6):
        seen, *_ = env.step(0)
    rule = RecordingRule(least_speed=0.1, observation=vars(observation_of(**given)))
    told = gantt(play(world.simulator(jobs), rule))["F"]
    assert told[:2] == pytest.approx((40.0, 40.0 + 160 * 1.05 / 0.8))
    assert len({gpu // 2 for gpu in told[2]}) == 2
    left = seen["gpus"].reshape(-1, 3)[list(told[2]), 0]
    assert (left * 200).tolist() == pytest.approx([85, 85])  # 145 - 60.5 = 84.5 reach into it
    assert all(np.array_equal(seen[key], rule.seen[6][key]) for key in seen)


def run_on(world, scheduler, seed=0):
    return simulate(world.simulator(many_jobs(world)(1)), scheduler, seed, None)


def test_equal_runs_are_equal_and_everybody_is_served_on_any_cluster_of_such_servers(policy):
    scheduler = TopDrl(policy=str(policy), name="topdrl")
    first, second = (run_on(york_world(), scheduler, seed) for seed in (0, 1))
    assert starts_of(first) == starts_of(second)
    for run in (first, run_on(york_world(racks=3, servers=3), scheduler)):
        assert np.isfinite(run.finish_s).all()
    with pytest.raises(TopDrlError, match="this policy sees 2 of up to 2 of up to 2"):
        run_on(york_world(gpus=3), scheduler)


def test_the_rule_waits_for_compact_gpus_and_takes_the_most_valuable_job_first():
    world = york_world(racks=1)
    # Two servers of two GPUs. A holds half of one until 50, B the other until 30. D and E come
    # before C's turn on two GPUs apart: C waits for a whole server, which is free at 30.
    jobs = job_table([job(world, 0, 1, 50), job(world, 0, 2, 30), job(world, 1, 2, 10),
                      job(world, 2, 1, 10, "heavy"), job(world, 2, 1, 10)])  # fmt: skip
    observation = vars(observation_of())
    run = play(world.simulator(jobs), TopDrlRule(least_speed=0.99, observation=observation))
    told = gantt(run)
    assert told["B"][2] == (0, 1) or told["B"][2] == (2, 3)
    assert told["C"][0] == pytest.approx(30.0)
    assert len({gpu // 2 for gpu in told["C"][2]}) == 1
    assert told["E"][0] < told["D"][0]


def save_gpu_order(folder, liked):
    """A policy that takes the GPU with the highest of these numbers, and never idles."""
    network = GpuScores(PROXIMITY)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.scores.bias[:] = torch.tensor([*liked, -1.0])
    save_proximity(folder, network.state_dict(), PROXIMITY)


SYNC_S = 0.13977 * 2**0.5  # of a heavy pair, 20 % more across racks; 0.00448 s of arithmetic
ACROSS = (0.00448 + 1.2 * SYNC_S) / (0.00448 + SYNC_S) * 1.55 / 0.8  # 2.3: racks cost 0.5 each


@pytest.mark.parametrize(("second", "slower"), [(1, 1.0), (2, 1.05 / 0.8), (4, ACROSS)])
def test_proximity_sees_until_when_a_spread_pair_is_thought_to_run(
    second: int, slower: float, tmp_path, monkeypatch
):
    world, used = york_world(), []
    jobs = job_table([mistaken(world, 0), job(world, 8, 1, 9), job(world, 999, 1, 9)])
    env = PickGpuEnv(world=world, spec=PROXIMITY, make_jobs=many_jobs(world))
    env.reset(options={"jobs": jobs})
    env.step(0)
    seen, *_ = env.step(second)
    held = [0, second]
    assert seen["seen"][8:16][held].tolist() == pytest.approx([(80 * slower - 8) / 1000] * 2)
    assert np.count_nonzero(seen["seen"][8:16]) == 2
    save_gpu_order(tmp_path, [9.0 if gpu in held else 0.0 for gpu in range(8)])

    def recording(network, observation):
        used.append(observation)
        return best_gpu(network, observation)

    monkeypatch.setattr("marl.schedulers.topdrl.best_gpu", recording)
    told = gantt(play(world.simulator(jobs), Proximity(policy=str(tmp_path))))
    assert told["A"] == (0.0, pytest.approx(160 * slower), tuple(held))
    assert all(np.array_equal(seen[key], used[2][key]) for key in seen)


def test_proximity_serves_first_come_first_served(tmp_path):
    world = york_world()
    save_gpu_order(tmp_path, range(8))
    jobs = job_table([job(world, 0, 2, 10), job(world, 0, 4, 10), job(world, 1, 4, 5),
                      job(world, 1, 1, 5)])  # fmt: skip
    told = gantt(play(world.simulator(jobs), Proximity(policy=str(tmp_path))))
    assert set(told["A"][2]) == {6, 7}
    assert set(told["B"][2]) == {2, 3, 4, 5}
    assert told["C"][0] == pytest.approx(10.0)  # blocked, and D behind it
    assert told["D"][0] >= 10.0
    with pytest.raises(TopDrlError, match="has 4 GPUs, this policy is for 8"):
        run_on(york_world(racks=1), Proximity(policy=str(tmp_path)))


def test_a_policy_of_before_says_sight_and_broken_ones_are_refused(policy, tmp_path):
    folder = shutil.copytree(policy, tmp_path / "old")
    told = json.loads((folder / "policy.json").read_text())
    told["sight"] = told.pop("observation")
    (folder / "policy.json").write_text(json.dumps(told))
    assert load_picker(folder)[1:] == load_picker(policy)[1:]
    with pytest.raises(TopDrlError, match=r"add scheduler\.policy=FOLDER"):
        TopDrl(policy=None, name="topdrl")
    with pytest.raises(TopDrlError, match="is not there"):
        TopDrl(policy=str(tmp_path / "nowhere"), name="topdrl")
    told = json.loads((policy / "policy.json").read_text())
    (policy / "policy.pt").write_bytes(b"PK")
    with pytest.raises(TopDrlError, match="cannot be read as this policy's weights"):
        load_picker(policy)
    (policy / "policy.json").write_text(json.dumps({**told, "kind": "proximity"}))
    with pytest.raises(TopDrlError, match="needed: 1, topdrl"):
        TopDrl(policy=str(policy), name="topdrl")
