"""From the configuration of `learn.py` to a trainer, and from a trainer to files."""

import errno
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.experiment.experiment import Experiment, experiment_of
from gpuyard.folders import CONF
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import AGENTS, SEED, Rules, check_plain
from gpuyard.launch.start import Launch
from gpuyard.learning.checkpoint import Saved, load
from gpuyard.learning.form import (
    Form,
    Part,
    first_vector,
    form_of,
    groups_of,
    linear_of,
    sigmas,
    zero_weights,
)
from gpuyard.learning.network_form import NetworkForm
from gpuyard.learning.player import Player, ScorePlayer
from gpuyard.learning.report import ratios_of, rounded, write_curve, write_metrics, write_weights
from gpuyard.learning.strategies import begin
from gpuyard.learning.trainer import Course, Rivals, Trainer
from gpuyard.learning.window_play import Alone, Crew, Ground, field_of, standards_of
from gpuyard.tuning.cells import check_cells, in_cell, scheduler_of
from marl.codec.layout import CodecRules
from marl.rllib.ray_spec import ClusterRay, LocalRay
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.jobs import JobTable
from sim.scoring.linear_score import LinearScore
from sim.scoring.weights import ScoreWeights, read_weights, score_weights_of
from sim.simulator import Simulator

SCORE, NETWORK = "score", "network"  # what is learned
ES, BRANCHES = "es", "branches"  # values of algo.estimator
OF_NETWORK = ("learns", "graph", "rules", "hide", "algo")  # keys a score does not have
POLICY = "policy"  # the folder
NETWORK_RULES: Rules = {
    "graph.gpu_dim": (True, 1),
    "graph.hidden_dim": (True, 1),
    "graph.head_dim": (True, 1),
    **AGENTS,
}


def check_learns(config: Mapping[str, Any]) -> None:
    """Refuse what would fail late.

    Raises:
        ConfigError: naming key, value and rule.
    """
    if config["learns"] not in (SCORE, NETWORK):
        raise ConfigError(f"learns is {config['learns']!r}; it must be {SCORE} or {NETWORK}")
    if config["algo"].get("estimator") not in (ES, BRANCHES):
        raise ConfigError(f"algo is none of {ES} and {BRANCHES}; train.py learns by others")
    if config["learns"] == SCORE:
        if config["algo"]["estimator"] == BRANCHES:
            raise ConfigError(f"algo is {BRANCHES}, which teaches a network; add learns={NETWORK}")
        if config["hide"]:
            raise ConfigError(
                f"hide is {config['hide']!r}, but a score sees all; add learns=network"
            )
        return
    check_plain(config, NETWORK_RULES)
    if not config["scheduler"].get("use_durations", True):
        raise ConfigError(
            f"scheduler.use_durations is false, but agents read predictions; use learns={SCORE}"
        )


def first_of(
    config: Mapping[str, Any], prior: ScoreWeights
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    """Form, first vector and sigmas of the configured network.

    Raises:
        ConfigError: a value of `rules` or `hide` is none of its choices.
    """
    from gpuyard.learning.network import NetworkSizes, first_network  # torch

    sizes, hide = NetworkSizes(**config["graph"]), config["hide"]
    if not (isinstance(hide, list) and all(isinstance(name, str) for name in hide)):
        raise ConfigError(f"hide is {hide!r}; it must be a list of columns, like [prolongs]")
    try:
        rules = CodecRules(**config["rules"])
        return first_network(sizes, rules, prior, config["seed"], hide)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_policy(folder: Path, form: NetworkForm, vector: FloatArray) -> Path:
    """Write what a vector stands for as a policy; its folder.

    Raises:
        OSError: it cannot be written, on a full disk for example.
    """
    from gpuyard.learning.network import policy_of  # torch
    from marl.policy.build import PolicySpec
    from marl.training.policy_file import save_policy

    path = folder / POLICY
    try:
        save_policy(path, policy_of(form, vector), PolicySpec(**form.spec), form.rules)
    except RuntimeError as error:  # torch's, of a full disk
        raise OSError(errno.EIO, f"cannot be written ({error})", str(path)) from error
    return path


WEIGHTS = CONF / "linear_weights"
ZERO, ZERO_SUSPENDING = "zero", "zero_suspending"
EVERY_CORE = -1
# What says how to learn, not what is played.
OF_LEARNING = (
    "name", "begin", "reference", "standards", "standard_windows", "units", "pairs", "minutes",
    "updates", "validate_every", "checkpoint_every", "validation_windows", "held_out", "jobs",
    "ray", "resume", *OF_NETWORK,
)  # fmt: skip
RULES: Rules = SEED | {
    "units.start": (True, 0),
    "units.forward": (True, 0),
    "units.suspend": (True, 0),
    "pairs": (True, 2),
    "standard_windows": (True, 1),
    "validate_every": (True, 1),
    "checkpoint_every": (True, 1),
    "validation_windows": (True, 1),
    "held_out.first": (True, 0),
    "held_out.windows": (True, 2),
}


@dataclass(frozen=True)
class ConfiguredField:
    """What windows are played on: settings in turn, if there is a mix of them."""

    scheduler: LinearScore
    experiments: tuple[Experiment, ...]

    def window(self, part: str, index: int) -> JobTable:
        """One window of a part of the workload."""
        turn, at = divmod(index, len(self.experiments))
        return self.experiments[at].window(part, turn)

    def simulator(self, index: int, jobs: JobTable) -> Simulator:
        """The jobs of window `index` on its cluster."""
        return self.experiments[index % len(self.experiments)].game.simulator(jobs)


def open_field(setting: str) -> ConfiguredField:
    """The field of a resolved configuration, given as JSON."""
    config = json.loads(setting)
    mix = config.pop("mix")
    cells = [in_cell(config, cell) for cell in mix for _ in range(cell["windows"])] if mix else []
    return ConfiguredField(
        scheduler_of(config, None), tuple(experiment_of(each) for each in cells or [config])
    )


def trainer_of(launch: Launch) -> Trainer:
    """A trainer at its beginning, or at the checkpoint of `resume`.

    Raises:
        GpuYardError: a value is illegal, weights cannot be read, or the checkpoint does not fit.
    """
    config = launch.config
    _check(config)
    ground, rivals = _ground(config), _rivals(config)
    changing = {
        "minutes", "updates", "jobs", "ray", "resume", "name", "held_out", "checkpoint_every"
    }.union(OF_NETWORK if config["learns"] == SCORE else ())  # fmt: skip
    setting = json.dumps({key: value for key, value in config.items() if key not in changing})
    saved = (
        _beginning(config, ground, rivals.begin, setting)
        if config["resume"] is None
        else load(Path(str(config["resume"])), setting)
    )
    course = Course(
        pairs=config["pairs"],
        updates=config["updates"],
        minutes=config["minutes"],
        validate_every=config["validate_every"],
        checkpoint_every=config["checkpoint_every"],
        validation=tuple(range(config["validation_windows"])),
    )
    given: dict[str, Any] = {
        "ground": ground, "saved": saved, "course": course, "rivals": rivals,
        "crew": _crew(launch), "folder": launch.folder,
    }  # fmt: skip
    if config["algo"]["estimator"] == BRANCHES:
        from gpuyard.learning.branches import BranchTrainer, rounds_of  # torch

        return BranchTrainer(rounds_of(config), **given)
    return Trainer(**given)


def _crew(launch: Launch) -> Crew:
    """This process if it is to play alone, else workers on Ray.

    Raises:
        RayError: a key of `ray` is wrong, or no cluster answers at its address.
    """
    jobs, spec = launch.config["jobs"], launch.build("ray")
    if jobs == EVERY_CORE and isinstance(spec, LocalRay):
        from joblib import cpu_count  # what other programs call a core

        jobs = cpu_count()
    if jobs == 1:
        return Crew(Alone())
    if isinstance(spec, ClusterRay) and spec.code != "checkout":
        raise ConfigError(
            f"ray.code is {spec.code}; workers of learn.py need its folder scripts/, too, so give "
            "every node the checkout, at the same path, and ray.code=checkout"
        )
    os.environ.update(spec.environment())
    spec.check_answer()
    from marl.rllib.pool import Pool  # ray

    return Crew(Pool(spec, jobs))


def _check(config: Mapping[str, Any]) -> None:
    """Refuse numbers that would fail late.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_plain(config, RULES)
    check_cells(config["mix"])
    check_learns(config)
    if config["minutes"] is None and config["updates"] is None:
        raise ConfigError("minutes and updates are both null; give one, or both")
    for key, whole in (("minutes", False), ("updates", True)):
        if config[key] is not None:
            check_plain(config, {key: (whole, 0)})
    jobs = config["jobs"]
    if type(jobs) is not int or (jobs < 1 and jobs != EVERY_CORE):
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one worker a core")
    if config["held_out"]["first"] < config["validation_windows"]:
        raise ConfigError(
            f"held_out.first is {config['held_out']['first']}, one of the "
            f"{config['validation_windows']} validation windows; take a later one"
        )


def _ground(config: Mapping[str, Any]) -> Ground:
    played = {key: value for key, value in config.items() if key not in OF_LEARNING}
    return Ground(open_field, json.dumps(played))


def _rivals(config: Mapping[str, Any]) -> Rivals:
    return Rivals(begin=_weights(config["begin"]), reference=_weights(config["reference"]))


def _weights(name: object) -> ScoreWeights:
    """By name in conf/linear_weights, by path, or all zero."""
    if name in {ZERO, ZERO_SUSPENDING}:
        return zero_weights(suspends=name == ZERO_SUSPENDING)
    known = WEIGHTS / f"{name}.yaml"
    path = str(known if known.is_file() else name)
    return score_weights_of(read_weights(path), path)


def _beginning(
    config: Mapping[str, Any], ground: Ground, weights: ScoreWeights, setting: str
) -> Saved:
    """Nothing learned yet; layers that the weights bring along are kept."""
    if config["learns"] == NETWORK:
        network, vector, far = first_of(config, weights)
        return Saved(setting, begin(vector, far, config["seed"]), network, elapsed_s=0.0, curve=())
    linear, groups = linear_of(weights), groups_of(weights)
    if any(getattr(weights, f"{group}_layer").size for group in groups):
        form = form_of(weights)
        vector = form.vector(weights)
    else:
        windows = tuple(range(config["standard_windows"]))
        standards = standards_of(field_of(ground), _weights(config["standards"]), groups, windows)
        named = zip(groups, standards, strict=True)
        form = Form(tuple(Part(name, config["units"][name], found) for name, found in named))
        vector = first_vector(form, linear, config["seed"])
    climb = begin(vector, sigmas(form, linear), config["seed"])
    return Saved(setting, climb, form, elapsed_s=0.0, curve=())


def keep(launch: Launch, trainer: Trainer, verdict: str) -> str:
    """Write weights and curve; where the weights are, and how to play them."""
    config, saved = launch.config, trainer.saved
    if isinstance(saved.form, NetworkForm):
        path = write_policy(launch.folder, saved.form, saved.climb.average)
        where = f"policy in {path}; play it with scheduler=marl checkpoint={path}"
    else:
        path = _write_scores(launch, trainer, verdict)
        playing = f"scheduler=linear_score scheduler.weights_file={path}"
        where = f"weights in {path}; play them with {playing}"
    write_curve(launch.folder, saved.curve, str(config["begin"]), str(config["reference"]))
    return where


def _write_scores(launch: Launch, trainer: Trainer, verdict: str) -> Path:
    config, record, saved = launch.config, launch.record, trainer.saved
    commit = "no commit" if record.git_commit is None else f"commit {record.git_commit[:12]}"
    words = [
        shlex.join(["python", "scripts/learn.py", *record.overrides]),
        f"Made by {commit}{' and changes beside it' if record.git_dirty else ''}, "
        f"seed {config['seed']}: the average of {saved.climb.update} updates of "
        f"{config['pairs']} pairs, {saved.elapsed_s / 60:.1f} minutes.",
        verdict,
    ]
    path = launch.folder / f"{config['name']}.yaml"
    player = _learned(trainer)
    assert isinstance(player, ScorePlayer)
    write_weights(path, player.weights, words)
    return path


def _learned(trainer: Trainer) -> Player:
    """What was learned, as files hold it."""
    player = trainer.player
    return ScorePlayer(rounded(player.weights)) if isinstance(player, ScorePlayer) else player


def report(launch: Launch, trainer: Trainer) -> str:
    """Play the held-out windows, write everything; what the user is told."""
    config, saved = launch.config, trainer.saved
    first, count = config["held_out"]["first"], config["held_out"]["windows"]
    windows, crew, ground = range(first, first + count), trainer.crew, _ground(config)
    named = {str(config["begin"]): config["begin"], str(config["reference"]): config["reference"]}
    logs = {
        name: crew.windows(ground, ScorePlayer(_weights(given)), "validation", windows)
        for name, given in named.items()
    }
    learned = crew.windows(ground, _learned(trainer), "validation", windows)
    _refuse_failed(launch, trainer, {**logs, "what was learned": learned})
    ratios = ratios_of(learned, logs)
    told = ", ".join(
        f"{each['ratio']:.4f} [{each['low']:.4f}, {each['high']:.4f}] of {name}"
        for name, each in ratios.items()
    )
    verdict = f"Mean JCT on {count} held-out windows (from {first} on): {told}."
    where = keep(launch, trainer, verdict)
    values = {
        "updates": saved.climb.update, "minutes": saved.elapsed_s / 60,
        "runs": trainer.runs, "seed": config["seed"],
        "held_out": {"part": "validation", "first": first, "windows": count},
        "ratio_of_mean_jct": ratios,
    }  # fmt: skip
    gap = logs[str(config["reference"])] - logs[str(config["begin"])]
    if gap.mean() < 0:
        closed = (learned - logs[str(config["begin"])]).mean() / gap.mean()
        values["share_of_gap_closed"] = float(closed)
    write_metrics(launch.folder, values)
    return f"{verdict}\n{where}"


def _refuse_failed(launch: Launch, trainer: Trainer, logs: Mapping[str, FloatArray]) -> None:
    """Keep what was learned, then say who failed on a held-out window.

    Args:
        launch: the run.
        trainer: at its end.
        logs: of each (W,) ln mean JCT, or FAILED.

    Raises:
        GpuYardError: somebody did, so there are no figures.
    """
    for name, each in logs.items():
        if not np.all(np.isfinite(each)):
            window = launch.config["held_out"]["first"] + int(np.argmin(np.isfinite(each)))
            verdict = f"No figures: {name} fails on held-out window {window} of part=validation."
            where = keep(launch, trainer, verdict)
            raise GpuYardError(f"{verdict} See why with simulate.py; {where}")
