"""The environments of Python: episodes, windows, options, rewards, copies."""

import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpuyard
from gpuyard.launch.errors import ConfigError
from sim.errors import GpuYardError, InvalidDecision, TraceError

ENV = {"agents": 2, "overrides": ["workload.num_jobs=40", "workload.thin=1"]}


def test_a_gymnasium_agent_ends_an_episode_and_illegal_actions_are_refused():
    env = single("workload.num_jobs=10")
    seen, _ = env.reset(seed=3)
    assert env.observation_space.contains(seen)
    illegal = int(np.flatnonzero(seen["action_mask"] == 0)[0])
    with pytest.raises(GpuYardError, match="legal"):
        env.step(illegal)
    for wrong in (1.7, np.array([1]), "a"):
        with pytest.raises(InvalidDecision, match="an action is a whole number"):
            env.step(wrong)
    for _ in range(3):
        assert env.action_masks().tolist() == (seen["action_mask"] == 1).tolist()
        seen, *_ = env.step(int(np.flatnonzero(env.action_masks())[0]))


def single(*words: str):
    return gpuyard.make_single_agent_env(cluster="small_leaf_spine", overrides=list(words))


def test_one_agent_is_one():
    with pytest.raises(ConfigError, match=r"agents.count=2.*use make_env: this form has one agent"):
        single("workload.num_jobs=10", "agents.count=2")


def env_of(*words: str, **more):
    told = ENV | more | {"overrides": [*ENV["overrides"], *words]}
    return gpuyard.make_env("venus_like", "small_leaf_spine", **told)


def first_legal(env, seen) -> dict[str, int]:
    return {name: int(np.argmax(seen[name]["action_mask"])) for name in env.agents}


def delays(env) -> list[float]:
    """What is paid for an episode in which everybody does the first thing that is legal."""
    seen, _ = env.reset(seed=1)
    paid = []
    while env.agents:
        seen, rewards, *_ = env.step(first_legal(env, seen))
        paid.append(sum(rewards.values()))
    return paid


def test_an_environment_pays_by_the_physics_that_is_trained_in():
    paid = {name: sum(delays(env_of(f"train_physics={name}"))) for name in ("truth", "belief")}
    assert paid["belief"] == sum(delays(env_of())) != paid["truth"]
    with pytest.raises(ConfigError, match="train_physics is 'foo'"):
        env_of("train_physics=foo")
    for word in ("rules.window=0", "rules.sharing=off", "rules.suspends=no"):
        with pytest.raises(ConfigError, match=re.escape(word.partition("=")[0])):
            env_of(word)
    with pytest.raises(TraceError, match=r"a gang of 16 GPUs fits none .* workload.max_gang=8"):
        env_of(agents=8)


def test_windows_that_judge_are_played_in_the_physics_by_their_numbers():
    env = env_of(part="test")
    assert env.world.physics is not env.world.belief
    submitted = []
    for window in (0, 1, 0):
        env.reset(seed=window, options={"window": window})
        submitted.append(env.turns.simulator.jobs.submit_s)
    assert np.array_equal(submitted[0], submitted[2])
    assert not np.array_equal(submitted[0], submitted[1])


@pytest.mark.parametrize(("options", "told"), [
    ({"cutfrac": 0.1}, "cut_frac"), ({"cut_frac": "a"}, "above"), ({"cut_frac": 0}, "above 0"),
    ({"window": -1}, "whole number"), ({"window": 0.5}, "whole number"),
])  # fmt: skip
def test_options_of_an_episode_are_checked(options, told: str):
    with pytest.raises(GpuYardError, match=told):
        env_of().reset(options=options)


def test_a_reward_gives_numbers():
    env = env_of()
    env.reset(seed=1)
    env.reward = lambda _: ["much"] * len(env.agents)
    with pytest.raises(GpuYardError, match="one finite number for each of the 2 agents"):
        delays(env)


def test_an_environment_shows_links_to_an_encoder_that_reads_them():
    assert "link_ends" in env_of("encoder=linked").reset(seed=1)[0]["agent_0"]
    assert "link_ends" not in env_of().reset(seed=1)[0]["agent_0"]


def test_a_copy_of_an_environment_plays_on_as_the_environment_does():
    env = env_of()
    seen, _ = env.reset(seed=1)
    for _ in range(5):
        seen, *_ = env.step(first_legal(env, seen))
    twin, acts = copy.deepcopy(env), first_legal(env, seen)
    (mine, paid, *_), (theirs, other, *_) = env.step(acts), twin.step(acts)
    assert paid == other
    np.testing.assert_equal(theirs["agent_0"], mine["agent_0"])


def test_a_copied_single_agent_samples_what_is_legal_in_its_own_episode():
    env = single("workload.num_jobs=40")
    env.reset(seed=3)
    twin, ended = copy.deepcopy(env), False
    while not ended:
        _, _, ended, *_ = twin.step(twin.action_space.sample())
    env.step(env.action_space.sample())  # nor did the twin's play change what is legal here


def test_an_environment_goes_to_another_process_without_its_episode(tmp_path: Path):
    env = env_of()
    paid = delays(env)
    env.reset(seed=1)
    (tmp_path / "env").write_bytes(pickle.dumps(env))
    code = (
        "import pickle, sys\n"
        "from tests.api.test_environments import delays\n"
        "env = pickle.load(open(sys.argv[1], 'rb'))\n"
        "try:\n    env.step({})\nexcept RuntimeError as error:\n    print(error)\n"
        "print(delays(env))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "env")], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, played = done.stdout.splitlines()
    assert told == "step() before reset(), after the episode's end, or after pickling"
    assert played == str(paid)
