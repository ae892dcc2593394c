"""A policy of the cluster's own: weights learned on the first part of the trace."""

import json
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.advice.playing import LEARNED
from gpuyard.advice.stretches import FIRST, JUDGED, VALIDATION, WHOLE, open_stretches, scouted
from gpuyard.evaluation.lineup import Contender, lineup_of, without_limits
from gpuyard.launch.build import check_plain, resolve
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.terminal import error_console
from gpuyard.training.form import ScorePlayer
from gpuyard.training.learn import rounded, write_curve, write_weights
from gpuyard.training.setting import OF_LEARNING, trainer_of
from gpuyard.training.windows import Evaluator, InProcess, SourceSpec, scheduler_of
from sim.arrays import FloatArray
from sim.errors import GpuYardError, amount, override
from sim.report.run_folder import collect_record
from sim.scoring.weights import ScoreWeights, score_weights_of

log = logging.getLogger(__name__)

SCORE = "sim.scoring.linear_score.LinearScore"
SCOUT = "sjf"
PAIRS = 6  # of members an update; windows with a queue take a second each
VALIDATE_EVERY = 4  # updates
LEAST_SHARE = 0.1  # percent that are told as a number
HELD_OUT = 6  # validation windows at most
OWN = ("scheduler", "rules", "ray", *OF_LEARNING)  # keys of `learn.yaml` that say how to learn
OF_JOBS = ("workload", "estimator", "hydra")  # keys that say nothing of the cluster
OF_PLAYING = (  # of a score, beside weights
    "use_durations", "rest_share", "rest_most_s", "window", "patience_s",
)  # fmt: skip


@dataclass(frozen=True)
class Beginning:
    """A linear score of the line-up from which learning may begin."""

    contender: Contender
    weights: ScoreWeights

    @property
    def name(self) -> str:
        """As in the table."""
        return self.contender.name or self.contender.place

    @property
    def section(self) -> dict[str, Any]:
        """The `scheduler` of its composition."""
        found: dict[str, Any] = json.loads(self.contender.composition)["scheduler"]
        return found


@dataclass(frozen=True)
class Learned:
    """What was learned, and from what."""

    path: Path  # of the weights
    beginning: Beginning
    tried: int  # beginnings in all
    updates: int
    minutes: float
    to_begin: float  # mean JCT on the validation windows over that of the beginning
    waited_frac: float  # of their time in the system the jobs of the first part waited

    @property
    def kept(self) -> bool:
        """Whether the weights are learned ones; else they are those of the beginning."""
        return self.to_begin < 1.0

    @property
    def contender(self) -> Contender:
        """The entry of the weights."""
        composition = json.loads(self.beginning.contender.composition)
        composition["scheduler"] |= {"weights_file": str(self.path)}
        return replace(
            self.beginning.contender, place=LEARNED, composition=json.dumps(composition),
            role="ours", agents=None, name=LEARNED, words=shlex.join(self.score),
        )  # fmt: skip

    @property
    def score(self) -> list[str]:
        """The words of the score with these weights, without what it is told."""
        section = self.beginning.section
        return [
            "scheduler=linear_score", override("scheduler.weights_file", self.path),
            *(
                f"scheduler.{key}={json.dumps(section[key])}"
                for key in OF_PLAYING
                if key in section  # files of before leave some to the class
            ),
        ]  # fmt: skip

    def history(self) -> str:
        """Where it comes from, in words."""
        share = 100.0 * (1.0 - self.to_begin)
        size = f"{share:.1f}%" if share >= LEAST_SHARE else f"less than {LEAST_SHARE}%"
        what = (
            f"took {size} off its mean JCT on windows held out from the first part"
            if self.kept
            else "did not lower its mean JCT on windows held out from the first part, so that its "
            "weights are kept as they were"
        )
        return (
            f"begun as {self.beginning.name}, of {self.tried} beginnings the best there; "
            f"{amount(self.updates, 'update')} in {self.minutes:.1f} minutes {what}"
        )


def check_learning(config: Mapping[str, Any], folder: Path | None) -> None:
    """Raise ConfigError for what would fail late, or pass unread where nothing is learned."""
    check_plain(config, {"learn_jobs": (True, 1)})
    if config["learn_minutes"] is not None:
        check_plain(config, {"learn_minutes": (False, 0)})
        if folder is None:
            fix = "but no folder for what is learned; pass folder"
            raise ConfigError(f"learn_minutes is given, {fix}")
    first = config["learn_frac"]
    if not (isinstance(first, float) and 0.0 < first < 1.0):
        raise ConfigError(f"learn_frac is {first!r}; it must lie between 0 and 1, like 0.5")


def judging(config: Mapping[str, Any], submit_s: FloatArray) -> dict[str, Any]:
    """The configuration under which the rest of the jobs are one window, measured as a whole.

    Jobs, submitted at `submit_s` (J,), are divided by number: the first days of a trace may hold
    hardly any.
    """
    workload = {**config["workload"], "window_measured_frac": [0.0, 1.0]}
    if "split" in workload:  # read from a file
        since_s = submit_s - submit_s[0]
        border_s = since_s[int(len(since_s) * config["learn_frac"])]
        first = min(max(float(border_s / max(since_s[-1], 1.0)), 1e-9), 1.0 - 1e-9)
        workload |= {"num_jobs": None, "thin": None, "split": {FIRST: first, JUDGED: 1.0 - first}}
    return {**config, "workload": workload}


def learned(config: Mapping[str, Any], estimator: Mapping[str, Any], folder: Path) -> Learned:
    """Learn for `learn_minutes` on the first part of the jobs, of a `config` of `judging`.

    Must be called where line-ups are composed. `folder` gets `learned.yaml`, curve and checkpoint.

    Raises:
        GpuYardError: the first part has too few jobs, or nothing can be learned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scout = resolve(composed_of("composition", [f"scheduler={SCOUT}"]))
    world = {**config, "estimator": dict(estimator), "scout": scout}
    past = scouted(json.dumps({**world, "scheduler": None}))
    beginnings = _beginnings(config)
    best = _best(world, beginnings)
    at = folder / "beginning.yaml"
    write_weights(at, best.weights, [f"Weights of {best.name}, with which learning begins."])
    settings = _learning(config, at, len(past.waits_s[VALIDATION]))
    record = collect_record(
        labels=None, program="learn", command=sys.argv, overrides=(), seed=config["seed"],
        config_yaml="",
    )  # fmt: skip
    launch = Launch(folder=folder, config=settings, record=record)
    trainer = trainer_of(launch, source_spec=_source_spec(world, best))
    trainer.run(error_console())
    saved, player = trainer.saved, trainer.player
    assert isinstance(player, ScorePlayer)
    found = Learned(
        path=folder / f"{LEARNED}.yaml", beginning=best, tried=len(beginnings),
        updates=saved.climb.update, minutes=saved.elapsed_s / 60.0,
        to_begin=saved.curve[-1].to_begin, waited_frac=past.waited_frac(),
    )  # fmt: skip
    words = [
        "Weights of scheduler=linear_score, from gpuyard advise "
        f"for {config['topology'].get('name')} and {config['workload']['name']}, "
        f"seed {config['seed']}:",
        f"{found.history()}.",
    ]
    write_weights(found.path, rounded(player.weights) if found.kept else best.weights, words)
    write_curve(folder, saved.curve, best.name, best.name)
    log.info("learned: %s", found.history())
    return found


def _beginnings(config: Mapping[str, Any]) -> list[Beginning]:
    """The linear scores of the line-up; the shipped one where it has none."""
    found = []
    for each in lineup_of(without_limits({**config, "checkpoint": None})[1]):
        if json.loads(each.composition)["scheduler"].get("_target_") == SCORE:
            found.append(_beginning(each))
    if found:
        return found
    plain = resolve(composed_of("composition", ["scheduler=linear_score"]))
    shipped = Contender(LEARNED, json.dumps(plain), role="ours", agents=None, name="linear_score")
    return [_beginning(shipped)]


def _beginning(contender: Contender) -> Beginning:
    scheduler = scheduler_of(json.loads(contender.composition))
    return Beginning(contender, score_weights_of(scheduler.weights, contender.place))


def _best(world: Mapping[str, Any], beginnings: Sequence[Beginning]) -> Beginning:
    """The one with the least mean JCT on the first part as a whole; GpuYardError: none plays it.

    Stretches would not tell: whom a score lets wait for days comes to its turn when one is over.
    """
    evaluator, logs = Evaluator(InProcess()), []
    for each in beginnings:
        source_spec = _source_spec(world, each)
        logs.append(float(evaluator.windows(source_spec, ScorePlayer(each.weights), WHOLE, [0])[0]))
        log.info("beginning %s: mean JCT %.0f s on the first part", each.name, np.exp(logs[-1]))
    if not np.isfinite(logs).any():
        raise GpuYardError("learn_minutes: no linear score of the line-up plays these jobs")
    return beginnings[int(np.argmin(logs))]


def _source_spec(world: Mapping[str, Any], beginning: Beginning) -> SourceSpec:
    return SourceSpec(open_stretches, json.dumps({**world, "scheduler": beginning.section}))


def _learning(config: Mapping[str, Any], begin: Path, held_out: int) -> dict[str, Any]:
    """The configuration of `learn.py`: linear weights alone, for there is time for few updates."""
    words = [
        override("begin", begin), override("reference", begin),
        f"minutes={config['learn_minutes']}", f"jobs={config['learn_jobs']}",
        f"validation_windows={min(HELD_OUT, held_out)}",
        f"validate_every={VALIDATE_EVERY}", f"pairs={PAIRS}", "standard_windows=1",
        "units={start: 0, forward: 0, suspend: 0}",
    ]  # fmt: skip
    base = resolve(composed_of("learn", words))
    world = {key: config[key] for key in base if key in config and key not in OWN}
    return {**base, **world}


def playing(
    found: Learned, overrides: Sequence[str], advise_only: Sequence[str], estimator: str
) -> tuple[str, str]:
    """The commands that play the weights: `gpuyard simulate` on the same jobs, `gpuyard serve`.

    `advise_only` are keys that only advise has, `estimator` is a name in `conf/estimator`.
    """
    kept = [word for word in overrides if _key(word) not in advise_only]
    cluster = [word for word in kept if _key(word) not in OF_JOBS]
    simulate = ["gpuyard", "simulate", *kept, f"estimator={estimator}", *found.score]
    return shlex.join(simulate), shlex.join(["gpuyard", "serve", *cluster, *found.score])


def _key(override: str) -> str:
    """The first name of the key that an override sets: `knows` of `estimator@knows.limit=x`."""
    key = override.lstrip("+~").partition("=")[0]
    return key.rpartition("@")[2].partition(".")[0]
