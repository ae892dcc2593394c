"""What a training keeps and judges over interruptions and other settings, in one process."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from rich.console import Console
from rich.progress import Progress

from gpuyard.launch.build import resolve, yaml_text
from gpuyard.launch.errors import CONF, ConfigError
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.training import session
from marl.rllib import trainer
from marl.rllib.checkpoint import FOLDER, JUDGED, SETTING, checkpoints
from marl.training.spec import CheckpointError, TrainingError
from sim.errors import GpuYardError, TraceError
from sim.report.run_folder import collect_record
from tests.marl.test_train_script import WORDS
from tests.marl.trainings import curve

pytestmark = pytest.mark.ray

OTHER = "validation_windows=2"  # a setting of its own
Train = Callable[..., Any]


def launched(folder: Path, *words: str) -> Launch:
    folder.mkdir(exist_ok=True)
    given = [*WORDS, "warm_start=none", "validate_every=1", "resume=auto", *words]
    with initialize_config_dir(str(CONF), job_name="train", version_base=None):
        cfg = composed_of("train", given)
        record = collect_record(
            labels=None, program="train", command=["train.py"], overrides=given, seed=0,
            config_yaml=yaml_text(cfg),
        )  # fmt: skip
        return Launch(folder, resolve(cfg), record)


@pytest.fixture(scope="module")
def train(request: pytest.FixtureRequest) -> Train:
    """Trains in a folder; validations find what is given, None is a Ctrl-C in one."""
    request.getfixturevalue("one_ray")

    def run(folder: Path, finds: list[float | None], *words: str) -> Any:
        def judge(*_: object) -> float:
            found = finds.pop(0)
            if found is None:
                raise KeyboardInterrupt
            if isinstance(found, GpuYardError):
                raise found
            return found

        training, stops = session.Training(launched(folder, *words)), None in finds
        quiet = Progress(console=Console(quiet=True), disable=True)
        with pytest.MonkeyPatch.context() as patch, quiet as progress:
            patch.setattr(session, "validation_jct_s", judge)
            try:
                session.learn(training, progress, None)
                assert not stops
            except KeyboardInterrupt:
                assert stops, "nothing stops it"
        assert finds == []
        return training

    return run


@pytest.fixture(scope="module")
def one_training(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(folder, [900, 800], "algo.iterations=1")
    return folder


@pytest.fixture
def trained(one_training: Path, tmp_path: Path) -> Path:
    """A copy of a training of one iteration, judged 900 and 800."""
    return Path(shutil.copytree(one_training, tmp_path / "run"))


def kill(folder: Path, kept: int) -> None:
    """As if it had not come to later checkpoints."""
    for number, path in checkpoints(folder).items():
        if number > kept:
            shutil.rmtree(path)


def judged(folder: Path) -> list[str]:
    return [row["eval_jct_mean_s"] for row in curve(folder)]


def test_what_is_best_is_known_though_its_row_was_cut(train: Train, tmp_path: Path):
    train(tmp_path, [900, 800, 750, 700, None], "algo.checkpoint_every=2", "algo.iterations=9")
    best = (tmp_path / "policy" / "policy.pt").read_bytes()
    kill(tmp_path, 2)
    train(tmp_path, [None], "algo.iterations=9", "algo.checkpoint_every=9")
    kill(tmp_path, 2)
    assert judged(tmp_path) == ["900", "800", "750", ""]
    assert train(tmp_path, [720], "algo.iterations=3").best_s == 700
    assert (tmp_path / "policy" / "policy.pt").read_bytes() == best


def test_a_warm_start_discounts_as_ppo_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plays, played = session.play, []

    def play(*given: Any, **named: Any) -> Any:
        played.append(plays(*given, **named))
        return played[-1]

    monkeypatch.setattr(session, "play", play)
    words = ("warm_start=values", "warm_start.episodes=1", "warm_start.epochs=1", "algo.gamma=1.0")
    for discount_s in ("null", "1e-6"):
        training = session.Training(launched(tmp_path, *words, f"algo.discount_s={discount_s}"))
        training.warm_start(Progress(disable=True))
    far, near = (lessons.returns.abs().mean() for lessons in played)
    assert near < 0.5 * far


def test_of_a_file_the_windows_are_judged_that_there_are(tmp_path: Path, caplog):
    rows = "".join(f"j{k},{97 * k},{(1, 2, 8)[k % 3]},{60 + k}\n" for k in range(800))
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\n" + rows)
    words = (
        "workload=csv", f"workload.path={tmp_path / 'jobs.csv'}", "validation_windows=9",
        "workload.windows_from=disjoint", "workload.num_jobs=20", "workload.thin=3",
    )  # fmt: skip
    training = session.Training(launched(tmp_path / "run", *words))
    there = training.experiment.stretches("validation").windows
    assert f"validation_windows is 9, but part 'validation' has {there}" in caplog.text
    assert training.validate(training.fresh_policy()) > 0
    for seed in range(3):
        training.episodes.env().reset(seed=seed)


def test_what_was_judged_in_another_setting_never_counts(train, trained, tmp_path, caplog):
    second, words = tmp_path / "second", (OTHER, "validate_every=2")
    with caplog.at_level(logging.INFO):
        train(second, [1900], *words, f"resume={trained}", "algo.iterations=2")
        train(second, [None], *words, "algo.iterations=3")
    assert "inf" not in caplog.text
    assert "dropped" not in caplog.text
    assert train(second, [1800], *words, "algo.iterations=3").best_s == 1800
    assert json.loads((second / "policy" / JUDGED).read_text())["validation_jct_s"] == 1800


def test_an_iteration_whose_judgement_was_interrupted_is_judged_on_a_resume(train, tmp_path):
    train(tmp_path, [900, None], "algo.iterations=1")
    assert judged(tmp_path) == ["900", ""]
    assert train(tmp_path, [700], "algo.iterations=1").best_s == 700
    assert judged(tmp_path) == ["900", "700"]
    assert train(tmp_path, [], "algo.iterations=1").best_s == 700


def test_a_time_budget_that_is_spent_is_not_given_again(train, trained, caplog):
    before = curve(trained)
    with caplog.at_level(logging.INFO):
        train(trained, [], "algo.iterations=9", f"algo.time_budget_s={before[0]['wall_s']}")
    assert curve(trained) == before
    assert "nothing is left to train: iteration 1 of 9 is made" in caplog.text
    train(trained, [900, 800], "algo.iterations=1", "resume=null")
    assert f"{trained} holds a training, which is dropped" in caplog.text


def test_an_error_keeps_the_iterations_before_it_and_a_wrong_setting_all(train, tmp_path):
    finds, words = [900, 800, GpuYardError("a NaN")], ("algo.iterations=9",)
    with pytest.raises(GpuYardError, match="a NaN"):
        train(tmp_path, finds, "algo.checkpoint_every=9", *words)
    assert list(checkpoints(tmp_path)) == [2]
    with pytest.raises(ConfigError, match="has no weights of suspensions"):
        train(tmp_path, [], "resume=null", "policy.prior_scale=4", "rules.suspends=true")
    assert list(checkpoints(tmp_path)) == [2]


def test_a_file_too_short_to_validate_on_is_told_before_the_teacher_plays(tmp_path: Path):
    path = tmp_path / "jobs.csv"
    rows = [f"{job},{60 * job},1,600" for job in range(100)]  # 50 train, 15 validate
    path.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *rows]))
    with pytest.raises(TraceError, match="a window needs 40 jobs, this part has 15"):
        session.Training(launched(tmp_path / "run", "workload=csv", f"workload.path={path}"))


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("warm_start.learning_rate=nan", r"warm_start\.learning_rate is nan; it must be above 0"),
        ("warm_start.least_speed=-1", r"warm_start\.least_speed is -1; it must be 0 or more"),
        ("warm_start.by_rule=abc", r"warm_start\.by_rule is 'abc'; it must be true or false"),
        ("algo.entropy=-1", r"algo\.entropy is -1; it must be 0 or more"),
        (
            "ray.num_cpus_per_env_runner=inf",
            r"runner is inf; it must be a finite number, at least 0",
        ),
        ("ray.num_gpus_per_learner=1e30", r"learner is 1e\+30; it must be .* at most 10000"),
        ("rivals=0", "rivals is 0; it must be a list"),
    ],
)
def test_what_no_training_can_have_is_told_before_ray_starts(tmp_path: Path, word: str, told: str):
    with pytest.raises(GpuYardError, match=told):
        session.Training(launched(tmp_path, word))


def test_a_restore_that_is_interrupted_costs_no_checkpoint(train, trained, monkeypatch):
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer.Trainer, "restore", press)
    with pytest.raises(AssertionError, match="stops"):
        train(trained, [], "algo.iterations=2")
    assert list(checkpoints(trained)) == [1]


def test_a_refused_resume_leaves_the_results_and_takes_nothing_over(trained: Path, tmp_path: Path):
    (trained / "metrics.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"agents\.count was 2, is 4"):
        session.train(launched(trained, "agents.count=4"))
    assert (trained / "metrics.json").is_file()
    assert not (trained / "config.yaml").exists()
    second = tmp_path / "second"
    with pytest.raises(CheckpointError, match="made by another training: its policy is"):
        session.train(launched(second, f"resume={trained}", "encoder.hidden_dim=4"))
    assert not list(second.iterdir())


def test_a_full_disk_is_told_with_what_stays_and_how_to_go_on(trained, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "Error writing bytes to file")  # as pyarrow's: without the file

    monkeypatch.setattr("sys.argv", ["gpuyard train"])
    monkeypatch.setattr(trainer, "seal", fail)
    monkeypatch.setattr(session, "validation_jct_s", lambda *_: 700)
    told = r"checkpoint: cannot be written \(No space left.*\); iteration_000001 stays; make room"
    with pytest.raises(
        TrainingError, match=rf"{told}\nto go on: gpuyard train .*{trained} resume=auto"
    ):
        session.train(launched(trained, "algo.iterations=2", "rivals=[]"))
    assert sorted(path.name for path in (trained / FOLDER).iterdir()) == [
        "iteration_000001", SETTING
    ]  # fmt: skip


def test_torn_files_beside_a_checkpoint_are_named(train: Train, trained: Path):
    rows = trained / "learning_curve.csv"
    whole = rows.read_text()
    rows.write_text(whole + "7\n")
    with pytest.raises(CheckpointError, match=r"learning_curve\.csv, line 4: .*mend or remove"):
        train(trained, [], "algo.iterations=2")
    rows.write_text(whole.replace("800", "8oo"))
    with pytest.raises(CheckpointError, match=r"learning_curve\.csv, line 3: .*mend or remove"):
        train(trained, [], "algo.iterations=2")
    rows.write_text(whole)
    for path in (trained / "policy" / JUDGED, trained / FOLDER / SETTING):
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CheckpointError, match=rf"{path.name}: was cut off .*remove it to go"):
            train(trained, [], "algo.iterations=2")
