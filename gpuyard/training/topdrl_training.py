"""The training run that `train_topdrl.py` starts: imitation, learning, validation, checkpoints."""

import logging
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress, TaskID
from torch import Tensor

from gpuyard.evaluation.experiment import Experiment, experiment_of
from gpuyard.launch.build import build, build_as, check_choice
from gpuyard.launch.errors import heed_ctrl_c
from gpuyard.training.board import POLICY, adopted, spent_s, training_bars, write_rows
from marl.rllib.checkpoint import (
    NO_CHECKPOINT,
    checked,
    note_setting,
    only_checkpoint,
    replace_checkpoint,
    replace_folder,
    setting_difference,
)
from marl.rllib.cluster import start_ray
from marl.rllib.dqn import build_dqn, build_gpu_ppo
from marl.rllib.trainer import NetworkIteration, PickerTrainer, PickerTrainingError
from marl.schedulers.topdrl import Proximity, TopDrl
from marl.topdrl.codec import NetworkSpec, ObservationSpec, on_cluster
from marl.topdrl.env import ImitationSpec, PickJobEnv, RewardSpec, gathered, imitate, play_lessons
from marl.topdrl.network import build_network, save_picker
from marl.topdrl.proximity import PickGpuEnv, ProximitySpec, save_proximity
from marl.training.episodes import Windows
from marl.training.spec import DqnSpec, GpuPpoSpec
from sim.protocols import Scheduler
from sim.report.figures import COLOURS, GREY, heading, line_look, new_figure, save_png, tidy
from sim.report.job_times import Interval, full_speed, throughput
from sim.simulator import simulate

Weights = dict[str, Tensor]
Tell = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


class JobPicker:
    """A Q-network that picks jobs."""

    def __init__(self, config: Mapping[str, Any], experiment: Experiment) -> None:
        """Read `picker`."""
        self.learner: DqnSpec = build(config, "picker.learner")
        self._experiment = experiment
        self._observation = build_as(ObservationSpec, config, "picker.observation")
        network = build_as(NetworkSpec, config, "picker.network")
        self._network = on_cluster(network, experiment.world.topology)
        self._reward = build_as(RewardSpec, config, "picker.reward")
        self._imitation = build_as(ImitationSpec, config, "picker.imitation")

    def _env(self) -> PickJobEnv:
        return PickJobEnv(
            world=self._experiment.world,
            observation=self._observation,
            network=self._network,
            reward=self._reward,
            make_jobs=Windows(self._experiment, "train"),
        )

    def first_weights(self, tell: Tell) -> Weights | None:
        """Of a network that imitates the rule; None without lessons."""
        spec, seed = self._imitation, self._experiment.seed
        network = build_network(self._network, self._observation)
        if spec.episodes == 0:
            return None
        episodes = []
        for episode in play_lessons(self._env(), spec, self.learner.gamma, seed):
            episodes.append(episode)
            tell("teacher plays", len(episodes), spec.episodes, "")
        for epoch, (loss, agreed) in enumerate(imitate(network, gathered(episodes), spec, seed)):
            tell("imitation", epoch + 1, spec.epochs, f"agrees {agreed:.1%}, loss {loss:.3f}")
        return dict(network.state_dict())

    def trainer(self, weights: Weights | None) -> PickerTrainer:
        """Double DQN."""
        return PickerTrainer(
            build_dqn(
                make_env=self._env,
                dqn=self.learner,
                network=self._network,
                observation=self._observation,
                imitation=self._imitation,
                weights=weights,
                seed=self._experiment.seed,
            )
        )

    def save(self, folder: Path, weights: Weights) -> None:
        """Weights, network and observation."""
        save_picker(folder, weights, self._network, self._observation)

    def scheduler(self, folder: Path) -> Scheduler:
        """On the closest GPUs."""
        return TopDrl(policy=str(folder), name="topdrl")


class GpuPicker:
    """A policy that picks GPUs."""

    def __init__(self, config: Mapping[str, Any], experiment: Experiment) -> None:
        """Read `picker`."""
        self.learner: GpuPpoSpec = build(config, "picker.learner")
        self._experiment = experiment
        spec = build_as(ProximitySpec, config, "picker.proximity")
        self._spec = replace(spec, gpus=experiment.world.topology.num_gpus)

    def _env(self) -> PickGpuEnv:
        windows = Windows(self._experiment, "train")
        return PickGpuEnv(world=self._experiment.world, spec=self._spec, make_jobs=windows)

    def first_weights(self, tell: Tell) -> Weights | None:
        """None: chance."""
        del tell
        return None

    def trainer(self, weights: Weights | None) -> PickerTrainer:
        """PPO."""
        del weights
        seed = self._experiment.seed
        return PickerTrainer(
            build_gpu_ppo(make_env=self._env, ppo=self.learner, spec=self._spec, seed=seed)
        )

    def save(self, folder: Path, weights: Weights) -> None:
        """Weights and sizes."""
        save_proximity(folder, weights, self._spec)

    def scheduler(self, folder: Path) -> Scheduler:
        """First come, first served."""
        return Proximity(policy=str(folder))


Picker = JobPicker | GpuPicker
KINDS: dict[str, type[Picker]] = {"jobs": JobPicker, "gpus": GpuPicker}


def training_figure(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Validation throughput and loss over decisions."""
    figure = new_figure(8.0, 5.0)
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, key, label in (
        (above, "validation", "throughput on validation windows"),
        (below, "loss", "loss"),
    ):
        kept = [row for row in rows if row.get(key) is not None and math.isfinite(row[key])]
        axes.plot([r["steps"] for r in kept], [r[key] for r in kept], **line_look(0), marker=".")
        heading(axes, label)
        tidy(axes, grid="y")
    below.set_xlabel("decisions")
    save_png(figure, path)


def bars(cells: Mapping[str, Mapping[str, Interval]], *, ours: str, what: str, path: Path) -> None:
    """A panel a cell, a bar a scheduler, with intervals."""
    names = list(next(iter(cells.values())))
    figure = new_figure(7.0, len(cells) * (0.9 + 0.3 * len(names)))
    panels = figure.subplots(len(cells), 1, squeeze=False).ravel()
    for axes, (cell, found) in zip(panels, cells.items(), strict=True):
        centres = [found[name].centre for name in names]
        low = [found[name].centre - found[name].low for name in names]
        high = [found[name].high - found[name].centre for name in names]
        colours = [COLOURS[1] if name == ours else GREY for name in names]
        axes.barh(names, centres, color=colours, xerr=[low, high], error_kw={"linewidth": 1.2})
        axes.invert_yaxis()
        heading(axes, f"{what}: {cell}")
        tidy(axes, grid="x")
    save_png(figure, path)


log = logging.getLogger(__name__)

COLUMNS = ("iteration", "steps", "loss", "value_mean", "return_mean", "validation", "wall_s")
DONE = "trained"
OBJECT_STORE_BYTES = 200_000_000
LINE_EVERY_S = 30.0
NO_SETTING = ("picker", "resume")  # what validation does not rest on


class Training:
    """The files and counters of one run."""

    def __init__(self, config: Mapping[str, Any], folder: Path) -> None:
        """Build everything but RLlib's algorithm.

        Raises:
            GpuYardError: a value of the configuration is wrong, or `resume` holds no run.
        """
        torch.set_num_threads(1)
        torch.manual_seed(config["seed"])
        self.experiment, key = experiment_of(config), "validation_windows"
        played = self.experiment.played("validation", config[key], key)
        self.folder, self._config = folder, {**config, key: played}
        self._setting = {key: each for key, each in config.items() if key not in NO_SETTING}
        check_choice(config, "picker.kind", tuple(KINDS))
        self.picker = KINDS[config["picker"]["kind"]](config, self.experiment)
        self.rows: list[dict[str, Any]] = []
        self.best = -math.inf
        self.began = time.monotonic()
        self.resumed = Path(config["resume"]) if config["resume"] else None
        if self.resumed is not None:
            kept = only_checkpoint(self.resumed)
            if not kept.is_dir():
                raise PickerTrainingError(f"{self.resumed}: {NO_CHECKPOINT}")
            checked(kept, None)

    def validate(self, weights: dict[str, torch.Tensor]) -> float:
        """Mean throughput on validation windows; the best weights so far are kept."""
        latest, world = self.folder / "latest", self.experiment.world
        self.picker.save(latest, weights)
        found = []
        for index in range(self._config["validation_windows"]):
            jobs = self.experiment.window("validation", index)
            scheduler = self.picker.scheduler(latest)
            run = simulate(world.simulator(jobs), scheduler, self.experiment.seed, None)
            worth = full_speed(jobs, world.topology, world.physics)
            found.append(throughput(run, worth, 0.0, max(float(jobs.submit_s[-1]), 1.0)))
        mean = float(np.mean(found))
        if mean > self.best:
            self.best = mean
            replace_folder(self.folder / POLICY, partial(shutil.copytree, latest))
        return mean

    def record(self, done: NetworkIteration | None, judged: float | None) -> None:
        """Add a row to learning_curve.csv and rewrite the file."""
        row: dict[str, Any] = {"steps": 0} if done is None else {**vars(done)}
        row["iteration"] = row.pop("number", 0)
        row |= {"validation": judged, "wall_s": round(time.monotonic() - self.began, 1)}
        self.rows.append(row)
        write_rows(self.folder, COLUMNS, self.rows)

    def save(self, trainer: PickerTrainer) -> None:
        """Write the checkpoint, and beside it what is trained on."""
        replace_checkpoint(self.folder, trainer.save)
        note_setting(self.folder, self._setting)

    def adopt(self, earlier: Path, iteration: int) -> None:
        """Go on with the learning curve and the best policy of the earlier run.

        What that run did after the checkpoint is left out of the curve: it is done again. What was
        best in another setting says nothing here: the first policy judged is kept then.
        """
        rows = adopted(earlier, self.folder)
        if rows is not None:
            other = setting_difference(earlier, self._setting)
            if other is not None:
                log.warning("%s holds a training of another setting: %s", earlier, other)
            self.rows = [row for row in rows if (row["iteration"] or 0) <= iteration]
            self.began -= spent_s(self.rows)
            judged = [row["validation"] for row in rows if row["validation"] is not None]
            self.best = max(judged if other is None else (), default=-math.inf)

    def _spent(self, steps: int) -> bool:
        """After so many decisions, or by now."""
        spec = self.picker.learner
        budget_s = math.inf if spec.time_budget_s is None else spec.time_budget_s
        return steps >= spec.steps or time.monotonic() - self.began > budget_s

    def _ended_before(self) -> bool:
        """Whether the resumed run used up its steps or its time; its last policy is judged then."""
        last = self.rows[-1] if self.resumed is not None and self.rows else None
        if last is None or last["validation"] is None or self.best == -math.inf:
            return False
        return self._spent(last["steps"])

    def iterate(self, trainer: PickerTrainer, meter: "Meter") -> None:
        """Learn until the steps or the time are used up; validates and saves on the way.

        A run that ended before it was resumed learns no more.
        """
        spec = self.picker.learner
        last = self._ended_before()
        if last:
            write_rows(self.folder, COLUMNS, self.rows)
            self.save(trainer)
        while not last:
            heed_ctrl_c()
            done = trainer.iterate()
            last = self._spent(done.steps)
            due = last or done.number % spec.validate_every == 0
            judged = None
            try:
                judged = self.validate(trainer.weights()) if due else None
            finally:  # of one that is interrupted the row stays
                self.record(done, judged)
            if last or done.number % spec.checkpoint_every == 0:
                self.save(trainer)
            loss = "-" if math.isnan(done.loss) else f"{done.loss:.3g}"
            note = f"loss {loss}, best validation throughput {self.best:.4g}"
            meter.tell("learning", min(done.steps, spec.steps), spec.steps, note)


class Meter:
    """Bars on standard error, one a phase; a line of the log now and then where it is a file."""

    def __init__(self, progress: Progress) -> None:
        """Nothing is under way."""
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._last_line_s = time.monotonic()

    def tell(self, what: str, done: int, total: int, note: str) -> None:
        """`done` of `total`."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total, note="")
        self._progress.update(self._tasks[what], completed=done, note=note)
        now = time.monotonic()
        if self._progress.disable and (done >= total or now - self._last_line_s >= LINE_EVERY_S):
            self._last_line_s = now
            log.info("%s: %d/%d%s", what, done, total, note and f", {note}")


def train(config: Mapping[str, Any], folder: Path) -> tuple[Path, float]:
    """Imitate, learn, draw; the folder of the best policy, and its validation throughput.

    Raises:
        GpuYardError: a value is wrong, or training diverged.
    """
    run = Training(config, folder)
    with training_bars() as progress:
        meter = Meter(progress)
        weights = None
        if run.resumed is None:
            weights = run.picker.first_weights(meter.tell)
            if weights is not None:
                run.record(None, run.validate(weights))
        start_ray(num_cpus=1, object_store_bytes=OBJECT_STORE_BYTES)
        trainer = run.picker.trainer(weights)
        if run.resumed is not None:  # whole, before an interrupt may save it
            trainer.restore(only_checkpoint(run.resumed))
            run.adopt(run.resumed, trainer.iterations_done)
        try:
            run.iterate(trainer, meter)
        except KeyboardInterrupt:
            run.save(trainer)
            raise
        finally:
            trainer.close()
    training_figure(run.rows, folder / "learning_curve.png")
    (folder / DONE).write_text(f"{run.best!r}\n", encoding="utf-8")
    return folder / POLICY, run.best
