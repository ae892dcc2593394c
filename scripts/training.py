"""The training run that `train.py` starts: teacher, PPO, validation, checkpoints."""

import csv
import logging
import math
import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from experiment import Experiment, experiment_of, labels_of
from launch import Launch
from launch_build import build
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from marl.codec.rounds import CodecRules
from marl.policy.build import PolicySpec, build_policy
from marl.policy.pair_score import PairScorePolicy
from marl.rllib.algorithm import build_ppo, start_ray
from marl.rllib.trainer import Iteration, Trainer, TrainingError
from marl.schedulers.marl import MarlScheduler
from marl.training.plan import Plan, on_learned_physics
from marl.training.policy_file import save_policy
from marl.training.spec import PpoSpec, WarmStartSpec
from marl.training.teacher import RuleTeacher
from marl.training.validate import validation_jct_s
from marl.training.warm_start import imitate, play
from marl.training.windows import Windows
from sim.metrics.summary import summarise
from sim.report.figure_learning_curve import learning_curve
from sim.report.learning_curve_csv import read_learning_curve
from sim.report.record import Record
from sim.report.run_folder import write_run
from sim.simulator import simulate

log = logging.getLogger(__name__)

COLUMNS = ("iteration", "return_mean", "eval_jct_mean_s", "agent_steps", "entropy", "policy_loss",
           "value_loss", "value_explained", "sample_s", "learn_s", "wall_s")  # fmt: skip


class Training:
    """The files and counters of one run."""

    def __init__(self, launch: Launch) -> None:
        """Build everything but RLlib's algorithm."""
        config = launch.config
        torch.set_num_threads(1)
        torch.manual_seed(config["seed"])
        self.folder = launch.folder
        self.config = config
        self.experiment: Experiment = experiment_of(config)
        self.rules = CodecRules(**config["rules"])
        self.ppo: PpoSpec = build(config, "algo")
        self.spec = PolicySpec(
            **{key: config["encoder"][key] for key in ("gpu_dim", "hidden_dim", "rounds")},
            head_dim=config["policy"]["head_dim"],
        )
        game = self.experiment.game
        learned = config["train_physics"] == "belief"
        self.plan = Plan(
            game=on_learned_physics(game) if learned else game,
            rules=self.rules,
            reward=build(config, "reward"),
            windows=self._windows("train"),
            max_rounds=config["max_rounds"],
        )
        self.resumed = Path(config["resume"]) if config["resume"] else None
        if self.resumed is not None and not (self.resumed / "checkpoint").is_dir():
            raise TrainingError(
                f"{self.resumed}: there is no training checkpoint; give the folder of a training "
                "run (the one that holds `checkpoint`) as resume=FOLDER"
            )
        self.best_s = math.inf
        self.rows: list[dict[str, Any]] = []
        self.began = time.monotonic()

    def _windows(self, part: str) -> Windows:
        e = self.experiment
        return Windows(workload=e.workload, setting=e.setting, part=part, seed=e.seed)

    def warm_start(self, progress: Progress) -> PairScorePolicy:
        """A network that imitates the teacher, or a fresh one."""
        spec: WarmStartSpec = build(self.config, "warm_start")
        policy = build_policy(self.spec, self.plan.layout.racks)
        if spec.episodes == 0:
            return policy
        task = progress.add_task("teacher plays", total=spec.episodes, note="")
        lessons = play(
            self.plan.env(), RuleTeacher(layout=self.plan.layout, least_speed=spec.least_speed),
            spec.episodes, self.ppo.gamma, self.experiment.seed, lambda: progress.advance(task),
        )  # fmt: skip
        task = progress.add_task("imitation", total=spec.epochs, note="")
        for loss, agreed in imitate(policy, lessons, spec, self.experiment.seed):
            progress.update(task, advance=1, note=f"agrees {agreed:.1%}, loss {loss:.3f}")
        return policy

    def validate(self, policy: PairScorePolicy) -> float:
        """Judge `policy` on validation windows; keep it if it is the best so far."""
        latest = self.folder / "latest"
        save_policy(latest, policy, self.spec, self.rules)
        e, count = self.experiment, self.config["validation_windows"]
        jct_s = validation_jct_s(e.game, latest, self._windows("validation"), count, e.seed)
        if jct_s < self.best_s:
            self.best_s = jct_s
            shutil.rmtree(self.folder / "policy", ignore_errors=True)
            shutil.copytree(latest, self.folder / "policy")
        return jct_s

    def record(self, iteration: Iteration | None, eval_jct_s: float | None) -> None:
        """Add a row to learning_curve.csv and rewrite the file."""
        row = {} if iteration is None else asdict(iteration)
        row["iteration"] = row.pop("number", 0)
        row |= {"eval_jct_mean_s": eval_jct_s, "wall_s": round(time.monotonic() - self.began, 1)}
        self.rows.append(row)
        part = self.folder / "learning_curve.csv.part"
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({k: _cell(v) for k, v in r.items()} for r in self.rows)
        part.replace(self.folder / "learning_curve.csv")

    def save(self, trainer: Trainer) -> None:
        """Replace the resumable checkpoint; the old one stays until the new is whole."""
        fresh, kept = self.folder / "checkpoint.new", self.folder / "checkpoint"
        shutil.rmtree(fresh, ignore_errors=True)
        trainer.save(fresh)
        shutil.rmtree(kept, ignore_errors=True)
        fresh.rename(kept)

    def first_policy(self, progress: Progress) -> PairScorePolicy:
        """What PPO starts from: the warm start, or on a resume whatever the checkpoint will say."""
        if self.resumed is not None:
            self._adopt(self.resumed)
            return build_policy(self.spec, self.plan.layout.racks)
        policy = self.warm_start(progress)
        self.record(None, self.validate(policy))
        return policy

    def _adopt(self, earlier: Path) -> None:
        """Go on with the learning curve and the best policy of the earlier run, if it has them."""
        curve, best = earlier / "learning_curve.csv", earlier / "policy"
        if not (curve.is_file() and best.is_dir()):
            log.warning("%s has no learning curve and policy: only its checkpoint goes on", earlier)
            return
        with curve.open(newline="", encoding="utf-8") as file:
            self.rows = [
                {key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(file)
            ]
        judged = [row["eval_jct_mean_s"] for row in self.rows if row["eval_jct_mean_s"]]
        self.best_s = min(judged, default=math.inf)
        if best.resolve() != (self.folder / "policy").resolve():
            shutil.copytree(best, self.folder / "policy", dirs_exist_ok=True)

    def summarise(self, record: Record) -> None:
        """Write the metrics and the per-job table of the kept policy on validation window 0."""
        e = self.experiment
        scheduler = MarlScheduler(checkpoint=str(self.folder / "policy"), untrained=False)
        labels = labels_of(e, scheduler, window=0, role=None)
        played = simulate(e.game.simulator(e.window("validation", 0)), scheduler, e.seed, None)
        write_run(self.folder, played, summarise(played), replace(record, labels=labels))

    def iterate(self, trainer: Trainer, progress: Progress) -> None:
        """PPO until the iterations or the time are used up; validates and saves on the way."""
        task = progress.add_task("PPO", total=self.ppo.iterations, note="")
        every = self.config["validate_every"]
        for _ in range(self.ppo.iterations):
            done = trainer.iterate()
            last = done.number >= self.ppo.iterations or self.spent()
            due = last or done.number % every == 0
            judged = self.validate(trainer.averaged_policy()) if due else None
            self.record(done, judged)
            if last or done.number % self.ppo.checkpoint_every == 0:
                self.save(trainer)
            note = f"return {done.return_mean:,.1f}, best validation JCT {self.best_s:,.0f} s"
            progress.update(task, completed=done.number, note=note)
            if last:
                return

    def spent(self) -> bool:
        """Whether the time budget is used up."""
        budget_s = self.ppo.time_budget_s
        return budget_s is not None and time.monotonic() - self.began > budget_s


def _number(cell: str) -> float | None:
    """What `_cell` wrote."""
    if not cell:
        return None
    return int(cell) if cell.isdigit() else float(cell)


def _cell(value: float | None) -> float | str:
    """A cell of the CSV: empty where there is no number."""
    return "" if value is None or math.isnan(value) else value


def train(launch: Launch) -> Path:
    """Warm start, PPO, figures; the folder of the best policy on validation windows."""
    run = Training(launch)
    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        policy = run.first_policy(progress)
        start_ray(num_cpus=max(1, run.ppo.env_runners + 1), object_store_bytes=400_000_000)
        trainer = Trainer(
            build_ppo(
                make_env=run.plan.env,
                ppo=run.ppo,
                policy=run.spec,
                num_racks=run.plan.layout.racks,
                weights=policy.state_dict(),
                seed=run.experiment.seed,
            ),
            average_decay=run.ppo.average_decay,
        )
        try:
            if run.resumed is not None:
                trainer.restore(run.resumed / "checkpoint")
            run.iterate(trainer, progress)
        except KeyboardInterrupt:
            run.save(trainer)
            raise
        finally:
            trainer.close()
    curve = read_learning_curve(run.folder / "learning_curve.csv")
    learning_curve(curve, references_s={}, path=run.folder / "learning_curve.png")
    run.summarise(launch.record)
    print(f"best validation JCT {run.best_s:,.0f} s; policy in {run.folder / 'policy'}")
    return run.folder / "policy"
