"""Learn the weights of the linear score by playing: `python scripts/learn.py begin=zero`."""

import csv
import json
import logging
import math
import shlex
import sys
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import yaml
from omegaconf import DictConfig

from gpuyard.evaluation.again import Again, drawn, seen_again, simulated, write_views
from gpuyard.evaluation.assumed import assumptions
from gpuyard.evaluation.experiment import experiment_of
from gpuyard.evaluation.lineup import START
from gpuyard.evaluation.task import run_of
from gpuyard.launch.build import check_kinds
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import Launch, going_on, program, start
from gpuyard.launch.terminal import error_console
from gpuyard.pages.comparison_page import write_folder_page
from gpuyard.training.form import NetworkForm, NetworkPlayer, Player, ScorePlayer, weights_path
from gpuyard.training.setting import AUTO, DISTIL, NETWORK, SCORE, policy_in, rival_of, trainer_of
from gpuyard.training.strategies import CHECKPOINT, Point
from gpuyard.training.trainer import LearningStopped, Trainer
from gpuyard.training.windows import VALIDATION, source_of
from sim.arrays import FloatArray
from sim.errors import GpuYardError, amount, override
from sim.files import csv_text, write_atomically
from sim.report.figures import GREY, heading, line_look, new_figure, save_png, tidy
from sim.report.league import ratio_over
from sim.report.run_folder import Record
from sim.scoring.weights import Layer, ScoreWeights

log = logging.getLogger(__name__)

CURVE_CSV, CURVE_PNG, METRICS, HELD_OUT = "curve.csv", "curve.png", "metrics.json", "held_out.csv"
CONFIDENCE = 0.95
POLICY = "policy"  # the folder of a network
MARL = "marl.schedulers.marl.MarlScheduler"  # which plays it
DIGITS = 6  # of a weight in a file
WIDE = 3.0  # a beginning so far above the reference is drawn on a logarithmic axis


def rounded(weights: ScoreWeights) -> ScoreWeights:
    """The weights as a file holds them."""
    return ScoreWeights(
        **{each.name: _rounded(getattr(weights, each.name)) for each in fields(ScoreWeights)}
    )


def _rounded(part: FloatArray | Layer | None) -> Any:
    if isinstance(part, Layer):
        return Layer(**{name: array.round(DIGITS) for name, array in vars(part).items()})
    return None if part is None else part.round(DIGITS)


def write_weights(path: Path, weights: ScoreWeights, words: Sequence[str]) -> None:
    """A file for conf/linear_weights/ or `scheduler.weights_file`; `words` become comments."""
    body = yaml.safe_dump(weights.as_mapping(), sort_keys=False, default_flow_style=None, width=100)
    write_atomically(path, "".join(f"# {line}\n" for line in words).encode() + body.encode())


def made_by(record: Record) -> list[str]:
    """Lines that say which command found weights, and what code."""
    commit = "no commit" if record.git_commit is None else f"commit {record.git_commit[:12]}"
    return [
        shlex.join(["python", "scripts/learn.py", *record.overrides]),
        f"Made by {commit}{' and changes beside it' if record.git_dirty else ''},",
    ]


def write_curve(folder: Path, curve: Sequence[Point], begin: str, reference: str) -> None:
    """The curve as CSV, one row a validation, and as a figure."""
    text = csv_text([each.name for each in fields(Point)], map(astuple, curve))
    write_atomically(folder / CURVE_CSV, text.encode())
    if curve:
        draw_curves(folder / CURVE_PNG, {"learned": curve}, begin, reference)


def read_curve(folder: Path) -> list[Point]:
    """The curve that `write_curve` wrote."""
    with (folder / CURVE_CSV).open(newline="", encoding="utf-8") as file:
        return [Point.of(row.values()) for row in csv.DictReader(file)]


def draw_curves(
    path: Path, curves: Mapping[str, Sequence[Point]], begin: str, reference: str
) -> None:
    """Curves by name, none of them empty, with the reference and the beginning as lines."""
    figure = new_figure(6.5, 4.0)
    axes = figure.subplots()
    for place, (name, curve) in enumerate(curves.items()):
        look = line_look(place) | {"marker": "o", "markersize": 4}
        axes.plot([p.minutes for p in curve], [p.to_reference for p in curve], **look, label=name)
    axes.axhline(1.0, color="black", linestyle="--", label=reference)
    firsts = [curve[0].to_reference / curve[0].to_begin for curve in curves.values()]
    first = geometric_mean(firsts)  # curves may have windows of their own
    axes.axhline(first, color=GREY, linestyle=":", label=f"{begin}: {first:.3f}")
    if first > WIDE:
        axes.set_yscale("log")
        for tell in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            tell("{x:g}")
    axes.set_xlabel("minutes of learning")
    axes.set_ylabel(f"mean JCT / that of {reference}")
    axes.legend(fontsize=9, frameon=False)
    heading(axes, "Validation windows: lower is better")
    tidy(axes, grid="y")
    save_png(figure, path)


def ratios_of(
    learned: FloatArray, rivals: Mapping[str, FloatArray], times: Sequence[Hashable]
) -> dict[str, Any]:
    """Geometric means of paired ratios of mean JCT, learned / rival, with intervals of the logs.

    Of each, `learned` included, (W,) ln mean JCT on held-out windows; `times` (W,) are equal for
    windows of one time: where some are, intervals are by time, else t.
    """
    found, time_of = {}, dict(enumerate(times))
    for name, logs in rivals.items():
        ratio = ratio_over(dict(enumerate((learned - logs).tolist())), time_of, CONFIDENCE)
        found[name] = {
            "ratio": ratio.centre, "low": ratio.low, "high": ratio.high, "windows": ratio.count,
        }  # fmt: skip
    return found


def write_policy(path: Path, form: NetworkForm, vector: FloatArray) -> None:
    """Write what a vector stands for as a policy.

    Raises:
        OSError: it cannot be written, on a full disk for example.
    """
    from marl.policy.build import PolicySpec, save_policy  # torch

    save_policy(path, form.policy(vector), PolicySpec(**form.spec), form.rules)


def keep(launch: Launch, trainer: Trainer, verdict: str) -> str:
    """Write weights and curve; where the weights are, and how to play them."""
    config, saved = launch.config, trainer.saved
    if isinstance(saved.form, NetworkForm):
        path, first = launch.folder / POLICY, rival_of(config, "begin")
        assert isinstance(first, NetworkPlayer)
        write_policy(path, saved.form, saved.climb.average)
        write_policy(path / START, first.form, first.vector)
        words = ["scheduler=marl", override("checkpoint", path)]
        where = f"policy in {path}; play it with {shlex.join(words)}"
    else:
        path = _write_scores(launch, trainer, verdict)
        words = ["scheduler=linear_score", override("scheduler.weights_file", path)]
        where = f"weights in {path}; play them with {shlex.join(words)}"
    write_curve(launch.folder, saved.curve, str(config["begin"]), str(config["reference"]))
    return where


def _write_scores(launch: Launch, trainer: Trainer, verdict: str) -> Path:
    config, record, saved = launch.config, launch.record, trainer.saved
    words = [
        *made_by(record),
        f"seed {config['seed']}: the average of {amount(saved.climb.update, 'update')} of "
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
    windows, evaluator = trainer.budget.held_out, trainer.evaluator
    source_spec, first, count = trainer.source_spec, windows[0], len(windows)
    named = {str(config[key]): key for key in ("begin", "reference")}
    logs = {
        name: evaluator.windows(source_spec, rival_of(config, key), "validation", windows)
        for name, key in named.items()
    }
    learned = evaluator.windows(source_spec, _learned(trainer), "validation", windows)
    _refuse_failed(launch, trainer, {**logs, "what was learned": learned})
    times = [source_of(source_spec).time_of(VALIDATION, each) for each in windows]
    ratios = ratios_of(learned, logs, times)
    words = ", ".join(
        f"{each['ratio']:.4f} [{each['low']:.4f}, {each['high']:.4f}] of {name}"
        for name, each in ratios.items()
    )
    of_times = f", of {len(set(times))} stretches of time" if len(set(times)) < count else ""
    verdict = f"Mean JCT on {count} held-out windows (from {first} on{of_times}): {words}."
    where = keep(launch, trainer, verdict)
    against = [(name, *each.values()) for name, each in ratios.items()]
    text = csv_text(("against", "ratio_of_mean_jct", "low", "high", "windows"), against)
    write_atomically(launch.folder / HELD_OUT, text.encode())
    values = {
        "updates": saved.climb.update, "minutes": saved.elapsed_s / 60,
        "runs": trainer.runs, "seed": config["seed"],
        "held_out": {"part": "validation", "first": first, "windows": count,
                     "ln_mean_jct_s": learned.tolist(),
                     "time_of": [times.index(each) for each in times]},
        "ratio_of_mean_jct": ratios,
    }  # fmt: skip
    gap = logs[str(config["reference"])] - logs[str(config["begin"])]
    if gap.mean() < 0:
        closed = (learned - logs[str(config["begin"])]).mean() / gap.mean()
        values["share_of_gap_closed"] = float(closed) + 0.0  # never -0.0
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    write_atomically(launch.folder / METRICS, text.encode())
    return f"{verdict}\n{where}"


def _refuse_failed(launch: Launch, trainer: Trainer, logs: Mapping[str, FloatArray]) -> None:
    """Keep what was learned, then raise GpuYardError if somebody failed on a held-out window.

    `logs`: of each (W,) ln mean JCT, or FAILED.
    """
    for name, each in logs.items():
        if not np.all(np.isfinite(each)):
            window = trainer.budget.held_out[int(np.argmin(np.isfinite(each)))]
            verdict = f"No figures: {name} fails on held-out window {window} of part=validation."
            where = keep(launch, trainer, verdict)
            raise GpuYardError(f"{verdict} See why with simulate.py; {where}")


def show(folder: Path, learned_in: Path, config: Mapping[str, Any]) -> None:
    """Write what a page in `folder` draws: the first held-out window, as learned and as before.

    Of several settings (`mix`) nothing is drawn.
    """
    if config["mix"]:
        return
    with (learned_in / METRICS).open(encoding="utf-8") as file:
        held_out = json.load(file)["held_out"]
    window, logs = held_out["first"], held_out.get("ln_mean_jct_s")  # older files have no logs
    network = config["learns"] == NETWORK
    mine = learned_in / (POLICY if network else f"{config['name']}.yaml")
    policy = policy_in(config, config["reference"])
    other = policy or weights_path(config["reference"])
    known = {"jct_mean_s": math.exp(logs[0])} if logs else {}
    players = {"what was learned": (mine, network, known)}
    if other is not None:
        players[str(config["reference"])] = (other, policy is not None, {})
    again = []
    for name, (path, is_policy, known) in players.items():
        scheduler = (
            {"_target_": MARL, "checkpoint": str(path)} if is_policy
            else {**config["scheduler"], "weights_file": str(path)}
        )  # fmt: skip
        task = simulated({**config, "scheduler": scheduler}, "validation", window, "ours")
        play = partial(run_of, task)
        again.append(Again(f"{name}, held-out window {window}", name, play, known))
    write_views(folder, drawn(seen_again(again, processes=1)))


# Keys that one kind of learning reads alone.
OF_A_NETWORK, OF_A_SCORE = ("rules.", "graph."), ("units.", "standards=")
REACH = "graph.reach="  # may be changed of a policy that is learned on


def _check_words(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Raise ConfigError for overrides of what is not read, naming who reads it."""
    networks = [word for word in overrides if word.startswith(OF_A_NETWORK)]
    scores = [word for word in overrides if word.startswith(OF_A_SCORE)]
    if config["learns"] == SCORE:
        if networks:
            raise ConfigError(f"{networks[0]} is of a network; add learns=network, or leave it out")
        return
    if scores:
        raise ConfigError(f"{scores[0]} is of a score; add learns=score, or leave it out")
    teaches = config["algo"].get("estimator") == DISTIL  # whose teacher is made by these keys
    fixed = [word for word in networks if not word.startswith(REACH)]
    if fixed and not teaches and policy_in(config, config["begin"]) is not None:
        raise ConfigError(f"{fixed[0]}: begin={config['begin']} is a policy, which has its own")


@program("learn")
def main(cfg: DictConfig) -> None:
    """Learn, write, meet the held-out windows."""
    launch = start(cfg)
    check_kinds(launch.config, bool, "page")
    _check_words(launch.config, launch.record.overrides)
    trainer = trainer_of(launch)
    resume = str(launch.config["resume"])
    goes_on = resume == AUTO or Path(resume).resolve() == launch.folder.resolve()
    if not goes_on and (launch.folder / CHECKPOINT).is_file():
        log.warning(
            "%s holds what was learned before, which is overwritten; %s would go on with it",
            launch.folder, override("resume", launch.folder),
        )  # fmt: skip
    played = {**launch.config, "part": "train"}
    assumed = assumptions(played, experiment_of(played), "predicted")
    record = launch.begin((HELD_OUT,), assumed=assumed)
    try:
        trainer.run(error_console())
    except (KeyboardInterrupt, LearningStopped) as error:
        if isinstance(error, LearningStopped):  # after Ctrl-C every program is told
            print(going_on(launch.record, launch.folder, sys.argv))
        with suppress(OSError):  # a full disk is told already
            keep(launch, trainer, "Stopped on the way: no held-out window was played.")
        raise
    print(report(launch, trainer))
    if launch.config["page"]:
        show(launch.folder, launch.folder, launch.config)
        write_folder_page(launch.folder, record, launch.config, title="learning")
