"""From a configuration to what agents train in; of `learn.py` to a trainer, and to files."""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.evaluation.experiment import Experiment
from gpuyard.launch.build import (
    AGENTS,
    SEED,
    Rules,
    build,
    check_choice,
    check_count,
    check_kinds,
    check_plain,
    check_texts,
    check_training,
    resolve,
    section,
)
from gpuyard.launch.errors import ConfigError, instead
from gpuyard.launch.own import composed_of
from gpuyard.launch.start import Launch
from gpuyard.launch.targets import new_name
from gpuyard.training.board import check_logger
from gpuyard.training.form import (
    REACHES,
    WEIGHTS,
    Form,
    NetworkForm,
    Part,
    Player,
    ScorePlayer,
    first_vector,
    form_of,
    groups_of,
    linear_of,
    seen,
    sigmas,
    weights_path,
    zero_weights,
)
from gpuyard.training.strategies import CHECKPOINT, Saved, begin, load
from gpuyard.training.trainer import Budget, Trainer
from gpuyard.training.windows import (
    GROUPS,
    TRAIN,
    Evaluator,
    InProcess,
    SourceSpec,
    check_cells,
    open_source,
    source_of,
    standards_of,
)
from marl.env import SPEC
from marl.env.layout import CodecRules
from marl.env.world import TRAIN_PHYSICS
from marl.policy import policy_folder
from marl.training.spec import ClusterRay, LocalRay, RaySpec
from sim.arrays import FloatArray
from sim.errors import amount, override
from sim.scoring.weights import ScoreWeights, read_weights, score_weights_of

if TYPE_CHECKING:
    from marl.training.episodes import Episodes

log = logging.getLogger(__name__)

SCORE, NETWORK = "score", "network"  # what is learned
ES, BRANCHES, PPO, DISTIL = "es", "branches", "paired_ppo", "distil"
ESTIMATORS = (ES, BRANCHES, PPO, DISTIL)  # values of algo.estimator
OF_NETWORK = ("learns", "graph", "rules", "hide")  # keys a score does not have
NETWORK_RULES: Rules = {
    "graph.gpu_dim": (True, 1),
    "graph.hidden_dim": (True, 1),
    "graph.head_dim": (True, 1),
    **AGENTS,
}


def check_learns(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for what would fail late."""
    check_choice(config, "learns", (SCORE, NETWORK))
    check_texts("hide", config["hide"], "of columns, like [prolongs]")
    if "estimator" not in config["algo"]:
        raise ConfigError(
            f"algo: `learn` takes {', '.join(ESTIMATORS)}; `gpuyard train` ppo and appo"
        )
    check_choice(config, "algo.estimator", ESTIMATORS)
    if (estimator := config["algo"]["estimator"]) == ES:
        check_plain(config, {"algo.first_step": (False, 0)})
    if config["learns"] == SCORE:
        if estimator != ES:
            raise ConfigError(f"algo is {estimator}, which teaches a network; add learns={NETWORK}")
        return
    check_plain(config, NETWORK_RULES)
    check_choice(config, "graph.reach", REACHES)
    if not config["scheduler"].get("use_durations", True):
        raise ConfigError(
            f"scheduler.use_durations is false, but agents read predictions; use learns={SCORE}"
        )


def first_of(
    config: Mapping[str, Any], prior: ScoreWeights
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    """Form, first vector and sigmas of the configured network; ConfigError: `rules` or `hide`."""
    from gpuyard.training.network import Ablation, first_network  # torch

    graph, rules = config["graph"], _rules_of(config)
    sizes = {key: graph[key] for key in ("gpu_dim", "hidden_dim", "head_dim")}
    try:
        return first_network(
            sizes, rules, prior, config["seed"], Ablation(config["hide"], graph["reach"])
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _rules_of(config: Mapping[str, Any], *, links: bool = False) -> CodecRules:
    try:
        return CodecRules(**config["rules"], links=links)
    except ValueError as error:
        raise ConfigError(str(error)) from error


ZERO, ZERO_SUSPENDING = "zero", "zero_suspending"
EVERY_CORE = -1
AUTO = "auto"  # resume=auto: the same command goes on in the same folder
# What says how to learn, not what is played.
OF_LEARNING = (
    "name", "begin", "reference", "standards", "standard_windows", "units", "pairs", "minutes",
    "updates", "validate_every", "checkpoint_every", "validation_windows", "held_out", "jobs",
    "ray", "resume", "page", "algo", *OF_NETWORK,
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


def check_all(launch: Launch) -> None:
    """Check what needs neither torch nor Ray; set what Ray reads. GpuYardError: it is wrong."""
    check_training(launch.config)
    check_kinds(launch.config, bool, "page")
    check_kinds(launch.config, Path | None, "resume")
    check_logger(launch.config["logger"])
    ray: RaySpec = launch.build("ray")
    os.environ.update(ray.environment())
    ray.check_answer()
    launch.build("algo")  # checks its knobs


def episodes_of(config: Mapping[str, Any], experiment: Experiment, part: str) -> "Episodes":
    """The world on windows of a part, as `train.py` configures it.

    Windows of other parts than train are played in the physics.

    Raises:
        TraceError: a gang of its first window fits no partition.
        ConfigError: a value of `rules` is none of its choices, or the reward cannot be called.
    """
    from marl.policy.build import encoder_name, reads_links  # torch
    from marl.training.episodes import Episodes, Windows

    experiment.window(part, 0)
    links = reads_links(encoder_name(new_name(config["encoder"]["_target_"])))
    world, reward = experiment.world, build(config, "reward")
    if part == "train":
        world = TRAIN_PHYSICS[config["train_physics"]](world)
    if not callable(reward):
        raise ConfigError(f"reward is a {type(reward).__name__}, which has no __call__(gathered)")
    return Episodes(
        world=world,
        rules=_rules_of(config, links=links),
        reward=reward,
        windows=Windows(experiment, part),
        max_rounds=config["max_rounds"],
    )


def trainer_of(launch: Launch, source_spec: SourceSpec | None = None) -> Trainer:
    """A trainer at its beginning, or at the checkpoint of `resume`.

    `source_spec`: what windows are played on; None: what the configuration says. GpuYardError: a
    value is illegal, weights cannot be read, or the checkpoint does not fit.
    """
    config = launch.config
    _check(config)
    source_spec = source_spec or source_spec_of(config, launch.record.overrides)
    budget = Budget.of(config, source_of(source_spec))
    rivals = [rival_of(config, key) for key in ("begin", "reference")]
    if config["hide"] and (config["learns"] == SCORE or policy_in(config, config["begin"])):
        log.info("hide is for what learns: begin=%s reads all columns", config["begin"])
    setting = _kept_setting(config)
    resume = config["resume"]
    if resume == AUTO:
        resume = launch.folder if (launch.folder / CHECKPOINT).is_file() else None
    saved = (
        _beginning(config, source_spec, setting)
        if resume is None
        else load(Path(str(resume)), setting)
    )
    given: dict[str, Any] = {
        "source_spec": source_spec, "saved": saved, "budget": budget, "rivals": rivals,
        "evaluator": _evaluator(launch), "folder": launch.folder,
    }  # fmt: skip
    estimator = config["algo"]["estimator"]
    if estimator == ES:
        return Trainer(**given)
    from gpuyard.training import teaching  # torch

    if estimator == BRANCHES:
        return teaching.BranchTrainer(teaching.branch_rounds(config), **given)
    if estimator == PPO:
        return teaching.PpoTrainer(teaching.ppo_rounds(config), **given)
    form, vector, _ = first_of({**config, "hide": []}, _weights(config, "algo.teacher"))
    teacher = teaching.Teacher(form, vector)
    return teaching.DistilTrainer(teaching.distil_rounds(config), teacher, **given)


def _kept_setting(config: Mapping[str, Any]) -> str:
    """What a search that goes on must have in common with the one that was stopped."""
    free = {"minutes", "updates", "jobs", "ray", "resume", "name", "held_out", "checkpoint_every",
            "page"}  # fmt: skip
    if config["learns"] == SCORE:
        free |= {key for key in OF_NETWORK if key != "hide" or not config["hide"]}
    return json.dumps({key: value for key, value in config.items() if key not in free})


def _evaluator(launch: Launch) -> Evaluator:
    """This process if it is to play alone, else workers on Ray."""
    jobs, spec = launch.config["jobs"], launch.build("ray")
    if jobs == EVERY_CORE and isinstance(spec, LocalRay):
        from joblib import cpu_count  # what other programs call a core

        jobs = cpu_count()
    if jobs == 1:
        return Evaluator(InProcess())
    if isinstance(spec, ClusterRay) and spec.code != "checkout":
        raise ConfigError(
            f"ray.code is {spec.code}; workers of learn.py need its folder scripts/, too, so give "
            "every node the checkout, at the same path, and ray.code=checkout"
        )
    os.environ.update(spec.environment())
    spec.check_answer()
    from marl.rllib.cluster import Pool  # ray

    return Evaluator(Pool(spec, jobs))


def _check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for numbers that would fail late."""
    check_plain(config, RULES)
    check_choice(config, "train_physics", tuple(TRAIN_PHYSICS))
    check_cells(config["mix"])
    check_count("train_windows", config["train_windows"], null=True)
    check_learns(config)
    name = config["name"]
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise ConfigError(f"name is {name!r}; it must be a text without /, the name of a file")
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


def source_spec_of(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> SourceSpec:
    """What is played, without how it is learned; call it where Hydra is composing.

    `overrides` made `config`; they hold for what settings of a mix name, too.
    """
    played = {key: value for key, value in config.items() if key not in OF_LEARNING}
    cells = [_with_sections(cell, overrides) for cell in config["mix"] or ()]
    return SourceSpec(open_source, json.dumps({**played, "mix": cells or None}))


def _with_sections(cell: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A setting of a mix with the sections of the choices that it names."""
    named = {group: cell[group] for group in GROUPS if group in cell}
    if not named:
        return dict(cell)
    others = [word for word in overrides if word.partition("=")[0] not in named]
    words = [override(group, name) for group, name in named.items()]
    made = resolve(composed_of("learn", [*others, *words]))
    return {**cell, **{group: made[group] for group in named}}


def rival_of(config: Mapping[str, Any], key: str) -> Player:
    """Who plays as `begin` or `reference` says: weights by name, or a policy where one is named.

    A network begins as itself: where its prior leaves actions equal it takes others than the score.

    Raises:
        GpuYardError: neither can be read.
    """
    folder = policy_in(config, config[key])
    if folder is not None:
        from gpuyard.training.network import network_in  # torch

        form, vector, _ = network_in(folder)
        return form.player(vector)
    weights = _weights(config, key)
    if key == "begin" and config["learns"] == NETWORK:
        form, vector, _ = first_of(config, weights)
        return form.player(vector)
    return ScorePlayer(weights)


def policy_in(config: Mapping[str, Any], name: object) -> Path | None:
    """The folder of the policy of this name or path, where networks are learned."""
    if config["learns"] != NETWORK:
        return None
    folder = policy_folder(str(name))
    return folder if (folder / SPEC).is_file() else None


def _weights(config: Mapping[str, Any], key: str) -> ScoreWeights:
    """By name in conf/linear_weights, by path, or all zero, as `key` says."""
    name = section(config, key)
    if name in {ZERO, ZERO_SUSPENDING}:
        return zero_weights(suspends=name == ZERO_SUSPENDING)
    path = weights_path(name)
    if path is None:
        names = [ZERO, ZERO_SUSPENDING, *sorted(each.stem for each in WEIGHTS.glob("*.yaml"))]
        policy = ", the name or folder of a policy" if config["learns"] == NETWORK else ""
        raise ConfigError(
            f"{key} is {name!r}; it must be zero, zero_suspending, a name in conf/linear_weights"
            f"{policy} or a file of weights that is there; {instead(name, names)}"
        )
    return score_weights_of(read_weights(str(path), key), str(path))


def _beginning(config: Mapping[str, Any], source_spec: SourceSpec, setting: str) -> Saved:
    """Nothing learned yet; layers that the weights bring along are kept.

    A policy goes on as it is: sizes, rules and prior are its own.
    """
    folder = policy_in(config, config["begin"])
    if folder is not None:
        from gpuyard.training.network import Ablation, network_in  # torch

        try:
            without = Ablation(config["hide"], config["graph"]["reach"])
            network, vector, far = network_in(folder, without)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return Saved(setting, begin(vector, far, config["seed"]), network, elapsed_s=0.0, curve=())
    weights = _weights(config, "begin")
    if config["learns"] == NETWORK:
        network, vector, far = first_of(config, weights)
        return Saved(setting, begin(vector, far, config["seed"]), network, elapsed_s=0.0, curve=())
    linear, groups = linear_of(weights), groups_of(weights)
    if any(getattr(weights, f"{group}_layer").size for group in groups):
        form = form_of(weights)
        vector = form.vector(weights)
    else:
        source = source_of(source_spec)
        there, count = source.windows(TRAIN), config["standard_windows"]
        windows = range(count if there is None else min(count, there))
        log.info(
            "%s plays %s, for what the layer reads",
            config["standards"], amount(len(windows), "window"),
        )  # fmt: skip
        standards = standards_of(source, _weights(config, "standards"), groups, windows)
        named = zip(groups, standards, strict=True)
        form = Form(tuple(Part(name, config["units"][name], found) for name, found in named))
        vector = first_vector(form, linear, config["seed"])
    try:
        kept = seen(form, config["hide"])
    except ValueError as error:
        raise ConfigError(str(error)) from error
    climb = begin(vector * kept, sigmas(form, linear) * kept, config["seed"])
    return Saved(setting, climb, form, elapsed_s=0.0, curve=())
