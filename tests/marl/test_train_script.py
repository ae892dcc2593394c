"""`scripts/train.py` as a user runs it: files, Ctrl-C, resuming, diverging."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch

from marl.policy.build import load_policy
from marl.rllib.checkpoint import checked, last_whole
from tests.marl.loopback import command_of, of_session
from tests.marl.trainings import TINY, Training, curve, iterations, wait_for

pytestmark = pytest.mark.ray
WORDS = (*TINY, "algo.envs_per_runner=2", "algo.checkpoint_every=1", "warm_start.episodes=1",
         "warm_start.epochs=1", "validate_every=2")  # fmt: skip
TRAINING = Training("train.py", WORDS)
slow = partial(pytest.param, marks=pytest.mark.slow)


@dataclass(frozen=True)
class Interrupted:
    folder: Path
    status: int
    printed: str
    survivors: list[str]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interrupted]:
    """A long training, stopped by Ctrl-C (which reaches the whole process group) on its way."""
    folder = tmp_path_factory.mktemp("train") / "first"
    with TRAINING.begun(folder, "algo.iterations=100000", "rivals=[]") as running:
        wait_for(lambda: len(curve(folder)) >= 5, running, 120)
        os.killpg(running.pid, signal.SIGINT)
        status = running.wait(timeout=60)
        printed = (folder.parent / "printed").read_text()
        yield Interrupted(folder, status, printed, survivors(running.pid))


def survivors(session: int) -> list[str]:
    """Commands of whoever is there for long after the program that began the session."""
    deadline = time.monotonic() + 15
    while of_session(session) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [command_of(pid) for pid in of_session(session)]


def test_an_interrupt_leaves_with_130_and_nobody_behind(interrupted: Interrupted):
    assert interrupted.status == 130, interrupted.printed
    assert "interrupted" in interrupted.printed
    assert f"hydra.run.dir={interrupted.folder} resume=auto" in interrupted.printed
    assert "Traceback" not in interrupted.printed
    assert interrupted.survivors == []


def test_what_was_learnt_so_far_stays(interrupted: Interrupted):
    folder = interrupted.folder
    assert iterations(folder) == list(range(len(curve(folder))))
    steps = [int(row["agent_steps"]) for row in curve(folder)[1:]]
    assert all(later - earlier >= 64 for earlier, later in zip([0, *steps], steps, strict=False))
    judged = [row["iteration"] for row in curve(folder) if row["eval_jct_mean_s"]]
    assert judged[:3] == ["0", "2", "4"]
    policy, spec, rules = load_policy(folder / "policy")
    assert (spec.hidden_dim, spec.head_dim, rules.window) == (8, 8, 16)
    assert all(torch.isfinite(weights).all() for weights in policy.parameters())
    assert json.loads((folder / "record.json").read_text())["program"] == "train"
    assert (last_whole(folder) / "rllib_checkpoint.json").is_file()
    assert (folder / "config.yaml").is_file()


def test_a_log_has_a_line_an_iteration_and_no_warning_of_rllib(interrupted: Interrupted):
    printed = interrupted.printed
    assert "assumes durations: noisy predictions, sigma 1; models drawn" in printed
    line = re.compile(r"iteration 2/100000: .*validation JCT .* h .*, best .* left")
    assert line.search(printed), printed
    assert "API stack" not in printed
    assert "nan" not in printed


def test_resuming_goes_on_and_finishes(interrupted: Interrupted, tmp_path: Path):
    before = curve(interrupted.folder)
    last = int(before[-1]["iteration"])
    done = TRAINING.run(
        tmp_path / "second", f"resume={interrupted.folder}", f"algo.iterations={last + 3}"
    )
    assert done.returncode == 0, done.stderr
    whole = curve(tmp_path / "second")
    assert whole[: len(before)] == before  # the curve goes on
    walls_s = [float(row["wall_s"]) for row in whole]
    assert walls_s == sorted(walls_s)
    after = whole[len(before) :]
    # The interrupt may have hit between an iteration's end and its row in the curve.
    assert int(after[0]["iteration"]) in (last + 1, last + 2)
    assert int(after[-1]["iteration"]) == last + 3
    assert int(after[0]["agent_steps"]) >= int(before[-1]["agent_steps"]) + 64
    assert (tmp_path / "second" / "learning_curve.png").read_bytes()[1:4] == b"PNG"
    page = (tmp_path / "second" / "report.html").read_text(encoding="utf-8")
    assert "Learning curve" in page and "Of marl, validation window 0. Keys are" in page
    record = json.loads((tmp_path / "second" / "record.json").read_text())
    assert (record["part"], record["window"], record["stretch"]) == ("validation", 0, None)
    assert "best rival on the validation windows: sjf+" in done.stderr
    assert len(list((tmp_path / "second" / "tensorboard").iterdir())) == 1
    assert (tmp_path / "second" / "policy" / "policy.pt").is_file()
    assert str(tmp_path / "second" / "policy") in done.stdout


@pytest.mark.slow
def test_what_was_best_in_another_setting_is_not_kept_in_this_one(interrupted, tmp_path):
    last, folder = int(curve(interrupted.folder)[-1]["iteration"]), tmp_path / "second"
    words = (f"resume={interrupted.folder}", "agents.count=4", f"algo.iterations={last + 4}")
    done = TRAINING.run(folder, *words)
    assert done.returncode == 0, done.stderr
    assert "holds a training of another setting: agents.count was 2, is 4" in done.stderr
    best, before = (each / "policy" / "policy.pt" for each in (folder, interrupted.folder))
    assert best.read_bytes() != before.read_bytes()


@pytest.mark.slow
def test_sigterm_saves_though_ray_takes_it(tmp_path: Path):
    folder = tmp_path / "run"
    with TRAINING.begun(folder, "algo.iterations=100000", "algo.checkpoint_every=99999") as running:
        wait_for(lambda: len(curve(folder)) >= 3, running, 120)
        os.killpg(running.pid, signal.SIGTERM)  # as `timeout` does
        assert running.wait(timeout=40) == 130, (tmp_path / "printed").read_text()
        assert "resume=auto" in (tmp_path / "printed").read_text()
        assert survivors(running.pid) == []
    assert checked(last_whole(folder), None).iteration == iterations(folder)[-1]


@pytest.mark.slow
def test_where_the_time_is_up_before_ppo_one_iteration_is_made(tmp_path: Path):
    folder = tmp_path / "run"
    done = TRAINING.run(folder, "algo.time_budget_s=0.001")
    assert done.returncode == 0, done.stderr
    assert iterations(folder) == [0, 1]
    assert curve(folder)[1]["eval_jct_mean_s"]
    assert last_whole(folder).is_dir()


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.slow
def test_a_training_that_diverges_says_what_to_do(tmp_path: Path):
    message = said(TRAINING.run(tmp_path / "run", "algo.learning_rate=1e20", "algo.iterations=5"))
    assert "iteration 1" in message
    assert "with a lower algo.learning_rate" in message
    assert not (tmp_path / "run" / "checkpoint").exists()  # nothing bad was kept


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("algo.epoch=1", "did you mean algo.epochs"),
        ("seed=x", "seed is 'x'"),
        ("train_physics=bleief", "it must be belief or truth"),
        ("resume=1", "resume is 1; it must be a path"),
        ("rules.window=0", "rules.window is 0"),
        ("rules.rest_most_s=0", "rules.rest_most_s is 0; it must be null, or above 0"),
        ("algo.minibatch_agent_steps=1000000", "above algo.batch_agent_steps"),
        slow("+policy.prior.layers={start: {}}", "policy.prior.layers.start has []"),
        slow("linear_weights@policy.prior=suspending_by_hand", "add rules.suspends=true"),
        slow("rules.suspends=true", "has no weights of suspensions"),
    ],
)
def test_a_wrong_word_fails_before_any_work(tmp_path: Path, word: str, told: str):
    assert told in said(TRAINING.run(tmp_path / "run", word))
    assert not (tmp_path / "run" / "learning_curve.csv").exists()
