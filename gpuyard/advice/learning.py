"""A policy of the cluster's own: weights learned on the first part of the trace."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose

from gpuyard.advice.playing import LEARNED
from gpuyard.experiment.experiment import experiment_of
from gpuyard.experiment.lineup import Contender
from gpuyard.launch.build import resolve
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import check_plain
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import error_console
from gpuyard.learning.player import ScorePlayer
from gpuyard.learning.report import rounded, write_curve, write_weights
from gpuyard.learning.setting import OF_LEARNING, trainer_of
from sim.report.run_folder import collect_record

log = logging.getLogger(__name__)

BEGIN = "look_ahead"
JUDGED = "test"  # the part on which all are judged
FOR_VALIDATION = 0.2  # of the first part
WINDOW_JOBS = 1200  # of a training window, at most
FEWEST_JOBS = 20
OWN = ("scheduler", "rules", "ray", *OF_LEARNING)  # keys of `learn.yaml` that say how to learn


def judging(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration under which the rest of the trace is one window, measured as a whole.

    Raises:
        ConfigError: `learn_minutes` or `learn_frac` is out of range.
    """
    check_plain(config, {"learn_minutes": (False, 0), "learn_jobs": (True, 1)})
    first = config["learn_frac"]
    if not (isinstance(first, float) and 0.0 < first < 1.0):
        raise ConfigError(f"learn_frac is {first!r}; it must lie between 0 and 1, like 0.5")
    held = FOR_VALIDATION * first
    workload = {**config["workload"], "window_measured_frac": [0.0, 1.0]}
    if "split" in workload:  # read from a file
        shares = {"train": first - held, "validation": held, JUDGED: 1.0 - first}
        workload |= {"num_jobs": None, "thin": None, "split": shares}
    return {**config, "workload": workload}


def learned(config: Mapping[str, Any], estimator: Mapping[str, Any], folder: Path) -> Path:
    """Learn for `learn_minutes` on the first part of the jobs; the file of weights.

    Must be called where line-ups are composed.

    Args:
        config: as `judging` returns it.
        estimator: section by which durations are told.
        folder: gets `learned.yaml`, its curve and checkpoint.

    Raises:
        GpuYardError: the first part has too few jobs, or nothing can be learned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    launch = Launch(folder=folder, config=_learning(config, estimator), record=_record(config))
    trainer = trainer_of(launch)
    trainer.run(error_console())
    saved = trainer.saved
    player = trainer.player
    assert isinstance(player, ScorePlayer)
    path = folder / f"{LEARNED}.yaml"
    words = [
        "Weights of scheduler=linear_score, learned by gpuyard advise "
        f"for {config['topology'].get('name')} and {config['workload']['name']}.",
        f"From {BEGIN}: the average of {saved.climb.update} updates, "
        f"{saved.elapsed_s / 60.0:.1f} minutes, seed {config['seed']}.",
    ]
    write_weights(path, rounded(player.weights), words)
    write_curve(folder, saved.curve, BEGIN, BEGIN)
    last = saved.curve[-1]
    log.info("learned: %.3f of %s's mean JCT on validation windows", last.to_begin, BEGIN)
    return path


def _learning(config: Mapping[str, Any], estimator: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of `learn.py` for the cluster and the jobs of `config`."""
    words = [
        f"begin={BEGIN}", f"reference={BEGIN}", f"minutes={config['learn_minutes']}",
        f"jobs={config['learn_jobs']}", "validation_windows=6", "validate_every=20",
    ]  # fmt: skip
    base, _ = resolve(compose("learn", words))
    world = {key: config[key] for key in base if key in config and key not in OWN}
    told = {**base, **world, "estimator": dict(estimator)}
    workload = {**config["workload"], "window_measured_frac": [0.25, 0.85]}
    workload |= {"num_jobs": _window_jobs(told), "thin": 1}
    return {**told, "workload": workload}


def _window_jobs(config: Mapping[str, Any]) -> int:
    """Jobs of a training window: half of the part for training, and what validation has.

    Raises:
        ConfigError: these are too few.
    """
    experiment = experiment_of(config)
    train, held = (len(experiment.window(part, 0)) for part in ("train", "validation"))
    count = min(WINDOW_JOBS, train // 2, held)
    if count < FEWEST_JOBS:
        raise ConfigError(
            f"learn_minutes needs {FEWEST_JOBS} jobs in each window; the first part of the trace "
            f"has {train} for training and {held} for validation; set learn_minutes=null, a larger "
            f"learn_frac, or take a longer trace"
        )
    return count


def _record(config: Mapping[str, Any]) -> Any:
    return collect_record(
        labels=None, program="learn", command=sys.argv, overrides=(), seed=config["seed"],
        config_yaml="",
    )  # fmt: skip


def contender_of(path: Path) -> Contender:
    """The entry of the weights in a file; must be called where line-ups are composed."""
    words = ["scheduler=linear_score", f"scheduler.weights_file='{path}'"]
    plain, _ = resolve(compose("composition", words))
    return Contender(
        place=LEARNED, composition=json.dumps(plain), role="ours", agents=None, name=LEARNED
    )


def playing(path: Path, overrides: Sequence[str], advise_only: Sequence[str], told: str) -> str:
    """The command that plays the weights with `gpuyard simulate` on the same cluster and jobs.

    Args:
        path: of the weights.
        overrides: of the command line of advise.
        advise_only: keys that only advise has.
        told: name in `conf/estimator`.
    """
    kept = [word for word in overrides if _key(word) not in advise_only]
    words = [
        "gpuyard", "simulate", *kept, "scheduler=linear_score",
        f"scheduler.weights_file={path}", f"estimator={told}",
    ]  # fmt: skip
    return shlex.join(words)


def _key(override: str) -> str:
    """The first name of the key that an override sets: `knows` of `estimator@knows.limit=x`."""
    key = override.lstrip("+~").partition("=")[0]
    return key.rpartition("@")[2].partition(".")[0]
