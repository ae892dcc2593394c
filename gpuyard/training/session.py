"""The training run that `train.py` starts: teacher, RLlib, validation, checkpoints."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

from gpuyard.evaluation.assumed import assumed_line, assumptions
from gpuyard.evaluation.experiment import Experiment, experiment_of, labels_of
from gpuyard.evaluation.lineup import START
from gpuyard.launch.build import OF_TRAINING, build
from gpuyard.launch.errors import ConfigError, heed_ctrl_c
from gpuyard.launch.start import Launch
from gpuyard.launch.targets import new_name
from gpuyard.training.board import (
    FULL,
    POLICY,
    Iterations,
    Logger,
    adopted,
    best_rival,
    full_disk,
    jct_text,
    logger_of,
    rivals_of,
    spent_s,
    training_bars,
    write_rows,
)
from gpuyard.training.network import groups_of
from gpuyard.training.setting import AUTO, episodes_of
from marl.policy.build import (
    PolicySpec,
    build_policy,
    encoder_name,
    parameters_of,
    reads_links,
    save_policy,
)
from marl.policy.pair_score import NO_CRITIC, Policy, networks_of
from marl.rllib.algorithm import Setup, learners_of
from marl.rllib.checkpoint import (
    add_checkpoint,
    check_setting,
    checked,
    checkpoints,
    drop_checkpoints,
    judgement_s,
    last_whole,
    note_judgement,
    note_setting,
    read_manifest,
    setting_difference,
)
from marl.rllib.cluster import connect
from marl.rllib.trainer import Iteration, Trainer, build_algorithm, maker_of
from marl.schedulers.marl import MarlScheduler
from marl.training.episodes import RuleTeacher, greedy, imitate, play, validation_jct_s
from marl.training.spec import AgentsSpec, RaySpec, WarmStartSpec
from sim.errors import GpuYardError, amount
from sim.report.figure_studies import learning_curve, read_learning_curve
from sim.report.run_folder import Record, write_run
from sim.report.summary import summarise
from sim.scoring.weights import ALL_GROUPS, ScoreWeights, score_weights_of
from sim.simulator import simulate

log = logging.getLogger(__name__)

COLUMNS = ("iteration", "return_mean", "eval_jct_mean_s", "agent_steps", "entropy", "policy_loss",
           "value_loss", "value_explained", "sample_s", "learn_s", "env_runners", "restarts",
           "wall_s")  # fmt: skip
Listener = Callable[[int, float | None], None]  # number and validation JCT of an iteration


class Training:
    """The files and counters of one run."""

    def __init__(self, launch: Launch) -> None:
        """Build everything but RLlib's algorithm."""
        config = launch.config
        torch.set_num_threads(1)
        torch.manual_seed(config["seed"])
        self.folder = launch.folder
        self.experiment: Experiment = experiment_of(config)
        key = "validation_windows"
        self.config = {**config, key: self.experiment.played("validation", config[key], key)}
        self.rivals = rivals_of(config)
        self.spec = policy_spec(config)
        self.algo: AgentsSpec = build(config, "algo")
        self.warm: WarmStartSpec = build(config, "warm_start")
        self.ray: RaySpec = build(config, "ray")
        self.episodes = episodes_of(config, self.experiment, "train")
        self.rules = self.episodes.rules
        self.experiment.window("validation", 0)  # a file too short is told before the teacher plays
        learners_of(self.algo, self.spec, self.ray)  # so are learners that cannot share
        self._setting = {key: value for key, value in config.items() if key not in OF_TRAINING}
        self.resumed = _resumed(config["resume"], self.folder, self._setting)
        if self.resumed is not None:
            checked(self.resumed, maker_of(self.spec.as_dict(), self.algo.algorithm))
        self.best_s = math.inf
        self.rows: list[dict[str, Any]] = []
        self.board: Logger | None = None
        self.began = time.monotonic()

    def warm_start(self, progress: Progress) -> Policy:
        """A network that imitates the teacher, or a fresh one."""
        spec, policy = self.warm, self.fresh_policy()
        nothing_to_fit = self.spec.critic == NO_CRITIC and not spec.by_rule
        if spec.episodes == 0 or nothing_to_fit:
            return policy
        task = progress.add_task("teacher plays", total=spec.episodes, note="")
        rule = RuleTeacher(layout=self.episodes.layout, least_speed=spec.least_speed)
        lessons = play(
            self.episodes.env(), rule.act if spec.by_rule else greedy(policy),
            spec.episodes, self.algo.gamma, self.experiment.seed, lambda: progress.advance(task),
            discount_s=self.algo.discount_s,
        )  # fmt: skip
        log.info("teacher played %d episodes; imitation begins", spec.episodes)
        task, note = progress.add_task("imitation", total=spec.epochs, note=""), ""
        for loss, agreed in imitate(policy, lessons, spec, self.experiment.seed):
            note = f"agrees {agreed:.1%}, loss {loss:.3f}"
            progress.update(task, advance=1, note=note)
        log.info("imitation ended: %s", note)
        return policy

    def fresh_policy(self) -> Policy:
        """A network with weights drawn, its prior's as configured."""
        policy = build_policy(self.spec)
        priors = [each.prior for each in networks_of(policy) if each.prior is not None]
        if priors:
            weights = score_weights_of(self.config["policy"]["prior"], "policy.prior")
            for prior in priors:
                prior.take(weights)
        return policy

    def validate(self, policy: Policy) -> float:
        """Judge `policy` on validation windows; keep it if it is the best so far."""
        save_policy(self.folder / "latest", policy, self.spec, self.rules)
        jct_s = validation_jct_s(
            policy,
            self.experiment.world,
            self.rules,
            replace(self.episodes.windows, part="validation"),
            self.config["validation_windows"],
        )
        if jct_s < self.best_s:
            self.best_s = jct_s
            save_policy(self.folder / POLICY, policy, self.spec, self.rules)
            # Last: too high a note does no harm.
            note_judgement(self.folder / POLICY, jct_s, self._setting)
        return jct_s

    def record(self, iteration: Iteration | None, eval_jct_s: float | None) -> None:
        """Add a row to learning_curve.csv and rewrite the file."""
        row = {} if iteration is None else asdict(iteration)
        row["iteration"] = row.pop("number", 0)
        row |= {"eval_jct_mean_s": eval_jct_s, "wall_s": round(time.monotonic() - self.began, 1)}
        self.rows.append(row)
        write_rows(self.folder, COLUMNS, self.rows)
        if self.board is None:
            name = self.config["logger"]
            self.board = logger_of(name, self.folder, row["iteration"], self.config)
        self.board.write(row)

    def save(self, trainer: Trainer) -> None:
        """Add a resumable checkpoint; the last few stay."""
        keep = self.config["keep_checkpoints"]
        note_setting(self.folder, self._setting)
        add_checkpoint(self.folder, trainer.iterations_done, trainer.save, keep=keep)

    def first_policy(self, progress: Progress) -> Policy:
        """What is begun with: the warm start, or on a resume whatever the checkpoint will say."""
        if self.resumed is not None:
            self._adopt(self.resumed.parent.parent, read_manifest(self.resumed).iteration)
            return build_policy(self.spec)
        if checkpoints(self.folder):
            log.warning(
                "%s holds a training, which is dropped and begun anew; resume=auto would go on",
                self.folder,
            )
        try:
            policy = self.warm_start(progress)
        except KeyboardInterrupt:  # as was told; what is wrong with the configuration drops none
            drop_checkpoints(self.folder)
            raise
        drop_checkpoints(self.folder)
        save_policy(self.folder / POLICY / START, policy, self.spec, self.rules)
        self.record(None, self.validate(policy))
        return policy

    def _adopt(self, earlier: Path, iteration: int) -> None:
        """Go on with the learning curve and the best policy of the earlier run, if it has them.

        What that run did after the checkpoint is left out of the curve: it is done again.
        """
        rows = adopted(earlier, self.folder)
        if rows is not None:
            other = setting_difference(earlier, self._setting)
            if other is not None:  # what was best there says nothing here
                log.warning("%s holds a training of another setting: %s", earlier, other)
            best_s = judgement_s(self.folder / POLICY, self._setting)
            if best_s is None and other is None:  # an older run has noted none
                judged = [row["eval_jct_mean_s"] for row in rows if row["eval_jct_mean_s"]]
                best_s = min(judged, default=None)
            self.best_s = math.inf if best_s is None else best_s
            self.rows = [row for row in rows if (row["iteration"] or 0) <= iteration]
            self.began -= spent_s(self.rows)
            write_rows(self.folder, COLUMNS, self.rows)

    def summarise(self, record: Record) -> None:
        """Draw the curve; the kept policy's metrics and jobs on validation window 0."""
        e = self.experiment
        scheduler = MarlScheduler(checkpoint=str(self.folder / "policy"))
        labels = labels_of(e, scheduler, window=0, role=None)
        labels = replace(labels, stretch=e.stretch("validation", 0), part="validation")
        played = simulate(e.world.simulator(e.window("validation", 0)), scheduler, e.seed, None)
        write_run(self.folder, played, summarise(played), replace(record, labels=labels))
        curve = read_learning_curve(self.folder / "learning_curve.csv")
        references_s = best_rival(self.config, self.rivals)
        learning_curve(curve, references_s=references_s, path=self.folder / "learning_curve.png")

    def iterate(self, trainer: Trainer, progress: Progress, listener: Listener | None) -> None:
        """Learn until the iterations or the time are used up; validate and save on the way.

        Where the time was up before, for the teacher or for compiling, one iteration is made; none
        on a resume.
        """
        budget_s, made = self.algo.time_budget_s, trainer.iterations_done
        until = None if budget_s is None else self.began + budget_s
        count = Iterations(progress, made=made, total=self.algo.iterations, until=until)
        every = self.config["validate_every"]
        last = made >= self.algo.iterations or (made > 0 and bool(self.rows) and self.spent())
        if made > 0 and (last or made % every == 0):
            self.judge_restored(trainer, listener)
        if last:
            log.info("nothing is left to train: iteration %d of %d is made; raise algo.iterations "
                     "or algo.time_budget_s to go on", made, self.algo.iterations)  # fmt: skip
        while not last:
            heed_ctrl_c()
            done = trainer.iterate()
            last = done.number >= self.algo.iterations or self.spent()
            due = last or done.number % every == 0
            judged = None
            try:
                judged = self.validate(trainer.averaged_policy()) if due else None
            finally:  # of one that is interrupted the row stays; a resume judges it
                self.record(done, judged)
            if last or done.number % self.algo.checkpoint_every == 0:
                self.save(trainer)
            count.tell(done, judged, self.best_s)
            if listener is not None:
                listener(done.number, judged)

    def judge_restored(self, trainer: Trainer, listener: Listener | None) -> None:
        """Judge a checkpoint's policy if an interruption, or another setting, left that out."""
        made = trainer.iterations_done
        row = next((row for row in self.rows if row["iteration"] == made), None)
        if row is None:
            row = {"iteration": made}
            self.rows.append(row)
        if row.get("eval_jct_mean_s") is None or math.isinf(self.best_s):
            row["eval_jct_mean_s"] = self.validate(trainer.averaged_policy())
            write_rows(self.folder, COLUMNS, self.rows)
        if listener is not None:
            listener(made, row["eval_jct_mean_s"])

    def spent(self) -> bool:
        """Whether the time budget is used up."""
        budget_s = self.algo.time_budget_s
        return budget_s is not None and time.monotonic() - self.began > budget_s


SIZES = ("gpu_dim", "hidden_dim", "rounds", "inner_rounds")  # of shipped encoders
MADE_UP = {"gpu_features", "server_features", "edge_features", "link_features"}  # by observations


def policy_spec(config: Mapping[str, Any]) -> PolicySpec:
    """Sizes of the network that `encoder` and `policy` describe."""
    encoder, policy = config["encoder"], config["policy"]
    networks = policy.get("networks")  # own files of before have none
    groups = None if networks is None else groups_of(networks, config["agents"]["count"])
    scale = float(policy["prior_scale"])
    name = encoder_name(new_name(encoder["_target_"]))
    given = {key: value for key, value in encoder.items() if not key.startswith("_")}
    takes = parameters_of(name) - MADE_UP
    if unknown := sorted(set(given) - takes):
        raise ConfigError(
            f"encoder.{unknown[0]} is no parameter of {encoder['_target_']}; it takes "
            f"{', '.join(sorted(takes))}"
        )
    sizes = {key: value for key, value in given.items() if key in SIZES}
    if config["rules"]["datacenter"] and reads_links(name):
        raise ConfigError(
            f"rules.datacenter is true, but {encoder['_target_']} reads the links of its own "
            "partition only; use rules.datacenter=false or encoder=hierarchical"
        )
    prior = score_weights_of(policy["prior"], "policy.prior") if scale > 0.0 else None
    if prior is not None:
        _check_suspending(prior, config["rules"]["suspends"])
    units = {
        f"{group}_units": 0 if prior is None else getattr(prior, f"{group}_layer").size
        for group in ALL_GROUPS
    }
    return PolicySpec(
        **sizes,
        encoder_options={key: value for key, value in given.items() if key not in SIZES},
        encoder=name,
        head_dim=policy["head_dim"],
        prior_scale=scale,
        **units,
        critic=policy["critic"],
        suspends=config["rules"]["suspends"],
        datacenter=config["rules"]["datacenter"],
        agents=0 if groups is None else config["agents"]["count"],
        groups=groups or [],
    )


def _check_suspending(prior: ScoreWeights, suspends: bool) -> None:
    if suspends and prior.suspend is None:
        raise ConfigError(
            "rules.suspends is true and policy.prior has no weights of suspensions; use "
            "linear_weights@policy.prior=suspending, or policy.prior_scale=0"
        )
    if prior.suspend is not None and not suspends:
        raise ConfigError("policy.prior has weights of suspensions; add rules.suspends=true")


def _resumed(wanted: str | None, own: Path, setting: Mapping[str, Any]) -> Path | None:
    """The checkpoint to go on with: of the folder `wanted`, of this run's own if `wanted` is auto.

    CheckpointError: there is none that is whole, or auto finds one of another setting.
    """
    if wanted is None or (wanted == AUTO and not checkpoints(own)):
        return None
    if wanted == AUTO:
        check_setting(own, setting)
    return last_whole(own if wanted == AUTO else Path(wanted))


def train(launch: Launch) -> Path:
    """Warm start, learning, figures; the folder of the best policy on validation windows."""
    run = Training(launch)  # first: what is wrong with the configuration is told at once
    connect(run.ray)
    launch.begin()
    assumed = assumptions({**run.config, "part": "train"}, run.experiment, "predicted")
    log.info("%s", assumed_line(run.experiment, assumed))
    try:
        with training_bars() as progress:
            learn(run, progress, None)
        run.summarise(replace(launch.record, assumed=assumed))
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full_disk(error, run.folder, launch.record) from error
    mean = f"geometric mean over {amount(run.config['validation_windows'], 'window')}"
    print(f"best validation JCT {jct_text(run.best_s)} ({mean}); policy in {run.folder / 'policy'}")
    return run.folder / "policy"


def learn(run: Training, progress: Progress, listener: Listener | None) -> None:
    """From the first policy to the last iteration; `listener`, if given, hears of each one."""
    policy = run.first_policy(progress)
    setup = Setup(
        make_env=run.episodes.env,
        policy=run.spec,
        weights=policy.state_dict(),
        seed=run.experiment.seed,
        ray=run.ray,
        behind=0 if run.resumed is None else read_manifest(run.resumed).iteration,
    )
    trainer = Trainer(build_algorithm(setup, run.algo), average_decay=run.algo.average_decay)
    try:
        if run.resumed is not None:
            trainer.restore(run.resumed)
        try:
            run.iterate(trainer, progress, listener)
        except KeyboardInterrupt:
            if trainer.iterations_done != trainer.kept:
                run.save(trainer)
            raise
        except GpuYardError:  # before the first iteration its cause may be what would be saved
            if trainer.iterations_done not in (0, trainer.kept):
                run.save(trainer)
            raise
    finally:
        trainer.close()
        if run.board is not None:
            run.board.close()
