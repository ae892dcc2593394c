"""The environments of Python, and jobs with parents, ends and GPU types of their own."""

import copy
import pickle
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuyard
from gpuyard.api.running import Run
from gpuyard.evaluation.experiment import _warn
from gpuyard.launch.errors import ConfigError
from sim.errors import GpuYardError, InvalidDecision, TraceError
from sim.traces.trace import Trace
from tests.forking import run_program

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


@pytest.mark.parametrize(("given", "told"), [
    ({"options": {"cutfrac": 0.1}}, "cut_frac"), ({"options": {"cut_frac": "a"}}, "above"),
    ({"options": {"cut_frac": 0}}, "above 0"), ({"options": {"window": -1}}, "whole number"),
    ({"options": {"window": 0.5}}, "whole"), ({"options": {"window": True}}, "window is True"),
    ({"seed": -1}, "seed is -1; it must be a whole"), ({"seed": "a"}, "seed is 'a'; it must be"),
])  # fmt: skip
def test_what_an_episode_is_asked_for_is_checked(given, told: str):
    with pytest.raises(GpuYardError, match=told):
        env_of().reset(**given)


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
    done = run_program(["-c", code, str(tmp_path / "env")])
    assert done.returncode == 0, done.stderr
    told, played = done.stdout.splitlines()
    assert told == "step() before reset(), after the episode's end, or after pickling"
    assert played == str(paid)


OFF = ["interference=none", "network=none"]


def jobs_of(**columns: list[object]) -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    told = {
        "job_id": [f"j{k}" for k in range(rows)], "submit_s": [10.0 * k for k in range(rows)],
        "num_gpus": [64] * rows, "duration_s": [100.0] * rows,
    }  # fmt: skip
    return pd.DataFrame(told | columns)


def test_waiting_for_a_parent_is_no_waiting_for_gpus():
    """64 GPUs: j1 waits for j0's end at 100, then for j2, which came first, till 200."""
    jobs = jobs_of(parents=["", "j0", ""], num_gpus=[8, 64, 64], duration_s=[100.0, 100.0, 150.0])
    run = played(jobs)
    rows = run.jobs.set_index("job_id")
    assert rows["jct_s"].tolist() == [100.0, 190.0, 330.0]
    assert rows["queue_delay_s"].tolist() == [0.0, 0.0, 180.0]
    assert run.metrics["slowdown_mean"] == pytest.approx((1.0 + 1.0 + 330 / 150) / 3)


def played(jobs: pd.DataFrame, scheduler: object = "fifo", *words: str) -> Run:
    return gpuyard.simulate(jobs, "small_leaf_spine", scheduler, overrides=[*OFF, *words])


def test_who_is_not_played_is_told():
    jobs = jobs_of(parents=["", "j0", ""], outcome=["failed", "completed", "completed"])
    assert "jobs_withdrawn" in str(played(jobs))
    assert "jobs_withdrawn" not in str(played(jobs.drop(columns="outcome")))


def test_dependencies_on_jobs_left_out_are_counted(caplog: pytest.LogCaptureFixture):
    jobs = jobs_of(parents=["", "j0", "j0;j1"], num_gpus=[999, 1, 1])
    run = played(jobs, "fifo", "workload.drop_too_large=true")
    assert "2 dependencies are on jobs left out, for which nobody waits" in caplog.text
    assert run.jobs["jct_s"].tolist() == [100.0, 190.0]


def test_a_choice_that_a_scheduler_does_not_read_is_told(caplog: pytest.LogCaptureFixture):
    played(jobs_of(num_gpus=[1]), "themis sharing=always")
    assert "sharing=always is not read: the scheduler, Themis, has a rule" in caplog.text
    caplog.clear()
    played(jobs_of(num_gpus=[1]), "themis sharing=off")
    assert "is not read" not in caplog.text


def test_training_plays_the_jobs_of_the_results():
    """On P100s, where V100 is the reference."""
    words = ["topology.gpu_types=[v100,p100]", "workload.num_jobs=40", "workload.thin=1", *OFF]
    jobs = jobs_of(num_gpus=[1] * 120, gpu_types=["p100"] * 120)
    work_s = []
    for reference in ("asked", "null"):
        env = gpuyard.make_env(
            jobs, "small_leaf_spine", agents=1, overrides=[*words, f"reference_gpu={reference}"]
        )
        env.reset(seed=0)
        work_s.append(env.turns.simulator.state.job["work_s"])
    assert (work_s[1] == 100.0).all() and (work_s[0] != 100.0).all()


def test_episodes_are_the_disjoint_windows_of_a_file_that_there_are():
    words = ["workload.num_jobs=40", "workload.thin=2", "workload.windows_from=disjoint", *OFF]
    env = gpuyard.make_env(
        jobs_of(num_gpus=[1] * 160), "small_leaf_spine", agents=1, part="all", overrides=words
    )
    played = set()
    for seed in range(30):
        env.reset(seed=seed)
        played.add(tuple(sorted(env.turns.simulator.jobs.job_id)))
    assert len(played) == 4
    assert len(set().union(*played)) == 160
    env.reset(options={"window": 3})
    with pytest.raises(TraceError, match="window 4 of part 'all' is not there"):
        env.reset(options={"window": 4})


@pytest.mark.parametrize(("reference", "slow"), [("asked", 0), ("null", 1), ("p100", 0)])
def test_durations_may_be_of_the_type_that_a_job_asks_for(
    caplog: pytest.LogCaptureFixture, reference: str, slow: bool
):
    jobs = jobs_of(num_gpus=[1, 1, 1], gpu_types=["v100", "p100", "p100"])
    _warn.cache_clear()  # it is told once a process
    run = played(jobs, "fifo", "topology.gpu_types=[v100,p100]", f"reference_gpu={reference}")
    first_s, *others_s = run.jobs["run_s"].tolist()
    assert first_s < 100.0 if reference == "p100" else first_s == pytest.approx(100.0)
    if slow:
        assert min(others_s) > 105.0  # shipped profiles: a P100 is the slower one
    else:
        assert others_s == pytest.approx([100.0, 100.0])
    if reference == "asked":  # all alone on what they asked for
        assert run.jobs["duration_s"].tolist() == [100.0, 100.0, 100.0]
        for name in ("slowdown_mean", "run_stretch_mean", "goodput_frac", "finish_time_rho_max"):
            assert run.metrics[name] == pytest.approx(1.0)
        assert run.metrics["overhead_gpu_s"] == pytest.approx(0.0)
    told = "jobs ask for another GPU type than v100"
    assert (told in caplog.text) == (reference == "null")


def assumed(jobs: pd.DataFrame, windows: int | None, *words: str, **more: str) -> str:
    """What windows of some of these jobs take for granted, in one text."""
    found = gpuyard.evaluate(
        jobs, "small_leaf_spine", ["fifo"], windows=windows, overrides=[*OFF, *words], **more
    )
    return str(found.assumed)


def test_windows_that_overlap_are_told():
    jobs, told = jobs_of(num_gpus=[1] * 400), "3 windows of 300 in a row of 400 jobs overlap"
    # two windows of 40 meet once in five times
    for windows, size, words in (
        (3, 300, told), (1, 40, ""), (4, 100, "may overlap"), (2, 40, ""),
    ):  # fmt: skip
        sized = (f"workload.num_jobs={size}", "workload.thin=1")
        found = assumed(jobs, windows, *sized, part="all")
        assert words in found and ("overlap" in found) is bool(words)


@pytest.mark.parametrize(
    ("part", "told"), [("train", "learned"), ("validation", "chosen"), ("test", None)]
)
def test_a_part_that_is_no_test_of_every_policy_is_told(part: str, told: str | None):
    words = ("workload.num_jobs=10", "workload.thin=1")
    found = assumed(jobs_of(num_gpus=[1] * 100), 1, *words, part=part)
    policies = f"windows of part '{part}', on which policies are {told}"
    assert policies in found if told else "windows of part" not in found


def test_windows_that_are_one_are_told():
    words = ["workload.num_jobs=null", "workload.thin=null"]
    jobs = jobs_of(num_gpus=[8] * 4)
    found = gpuyard.evaluate(jobs, "small_leaf_spine", ["sjf"], windows=2, overrides=[*OFF, *words])
    told = "every window holds the same 2 jobs"
    assert f"{told}: only what is drawn for them differs" in found.assumed
    assert told in repr(found) and told in found._repr_html_()
    assert found.table[["jct_mean_s_low", "jct_mean_s_high"]].isna().all(axis=None)
    assert "every window" not in assumed(jobs, None, *words)


def test_what_a_restart_costs_is_told_of_who_preempts():
    jobs, told = jobs_of(num_gpus=[1] * 4), "restarts cost 60 s"
    assert told in played(jobs, "las").assumed
    assert told not in played(jobs, "sjf").assumed
    found = gpuyard.evaluate(
        jobs, "small_leaf_spine", ["sjf", "las"], windows=None, agents=2, overrides=OFF
    )
    assert told in found.assumed
    assert "restarts" not in str(played(jobs, "las", "restart_s=0").assumed)


@pytest.mark.parametrize(
    ("word", "told"),
    [("agents.count=3", r"agents\.count=3.*use the argument agents")]
    + [(word, r"not read here; use the program `gpuyard train`") for word in
       ("algo=ppo", "algo.gamma=0.5", "resume=auto", "hydra.run.dir=here", "+ray.x=1")],
)  # fmt: skip
def test_words_that_an_environment_does_not_read_are_refused(word: str, told: str):
    with pytest.raises(ConfigError, match=told):
        gpuyard.make_env("venus_like", "small_leaf_spine", overrides=[word])


def test_any_callable_may_be_an_order():
    order = partial(lambda times, jobs: times * jobs.submit_s, -1.0)
    run = played(jobs_of(num_gpus=[64, 64, 64]), order)
    assert run.jobs["start_s"].tolist() == [0.0, 200.0, 100.0]
    assert "partial" in run.labels.scheduler


def test_a_warning_names_a_frame_as_an_error_does(caplog: pytest.LogCaptureFixture):
    played(jobs_of(prioritiy=[1]))
    assert "trace: column 'prioritiy' is not read" in caplog.messages[0]


def test_a_function_reads_the_truth_as_the_prediction_of_an_oracle():
    def longest(jobs):
        return -jobs.predicted_remaining_s

    run = played(jobs_of(duration_s=[100, 100, 200]), longest, "estimator=oracle")
    assert run.jobs["start_s"].tolist() == [0, 300, 100]
    assert run.labels.information == "oracle"


@dataclass
class Own:
    """An estimator of somebody's own."""

    gives: str
    information: str = "predicted"

    def estimate(self, trace: Trace, rng: np.random.Generator) -> object:
        del rng
        return {
            "list": trace.duration_s.tolist(), "short": np.ones(1), "negative": -trace.duration_s,
            "texts": trace.job_id, "half": np.where(trace.submit_s > 0, np.nan, 1.0),
        }[self.gives]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gives: short"], r"gives the shape \(1,\); it must be one number a job"),
        (["gives: negative"], "gives -100; it must be"),
        (["gives: texts"], "gives values of type object"),
        (["gives: half"], "2 of 3 jobs have no duration prediction"),
        (["gives: list", "information: learned"], "its information must be one of none, limit"),
    ],
)
def test_what_an_own_estimator_gives_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
):
    (tmp_path / "mine" / "estimator").mkdir(parents=True)
    lines = ["_target_: tests.api.test_environments.Own", *words]
    (tmp_path / "mine" / "estimator" / "own.yaml").write_text("\n".join(lines) + "\n")
    (tmp_path / "gpuyard.yaml").write_text("search_path: [mine]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GpuYardError, match=told):
        played(jobs_of(num_gpus=[1, 1, 1]), "sjf", "estimator=own")
