"""What runs take for granted that no label of a result tells, and settings that change nothing."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from gpuyard.evaluation.experiment import Experiment
from gpuyard.evaluation.physics import ASKED, physics_name
from gpuyard.launch.targets import new_name
from sim.errors import TraceError, amount
from sim.files import physics_words
from sim.times import time_text
from sim.traces.workload import Lost, TraceWorkload

log = logging.getLogger(__name__)

MODEL_COLUMNS = ("model", "application")  # of `workload.columns`
OFF = "none"
MOST_LOAD = 3.0  # above it somebody may have meant percent
UNTESTED = {  # parts that are no test of every policy, as results tell them
    "train": "windows of part 'train', on which policies are learned",
    "validation": "windows of part 'validation', on which policies are chosen",
    "all": "windows of the whole file, a test of what was not learned on it",
}
MANY_WINDOWS = 4  # times the jobs of all random windows: in a shorter part some may well meet

OFF_WORDS = ("sharing=off", "interference=none", "checkpoint_s=0")
FABRIC = ("topology.oversubscription", "topology.spines", "topology.fabric_gbps")


def warn_of_idle_words(config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Say so of words of the command line that change nothing beside the others."""
    idle: list[tuple[tuple[str, ...], str]] = []  # what words begin with, why they do nothing
    if config["network"]["_target_"].endswith(".AlphaBetaRing"):
        idle.append((FABRIC, "changes no time: network=alpha_beta has the smallest NIC and asks "
                     "whether a gang spans racks; network=max_min has all links"))  # fmt: skip
    if config["max_tenants"] == 1:
        idle.append((("sharing=", "sharing.", "interference=", "interference.", "mixes="),
                     "changes nothing: max_tenants=1 lets nobody share a GPU"))  # fmt: skip
    if config["checkpoint_work_s"] is None:
        idle.append((("checkpoint_s=",), "changes nothing: it is what a periodic checkpoint takes, "
                     "and checkpoint_work_s=null takes none"))  # fmt: skip
    for word in overrides:
        for starts, why in idle:
            if word.lstrip("+").startswith(starts) and word not in OFF_WORDS:
                log.warning("%s %s", word, why)


def warn_of_unread(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Say which choices of the words the scheduler leaves to its own rule."""
    rule = str(OmegaConf.to_container(cfg["scheduler"], resolve=False))
    for group in ("placer", "sharing"):
        starts = (f"{group}=", f"{group}.")
        words = [word for word in overrides if word.startswith(starts) and word not in OFF_WORDS]
        if words and f"${{{group}" not in rule:
            name = cfg["scheduler"]["_target_"].rpartition(".")[2]
            log.warning("%s is not read: the scheduler, %s, has a rule of its own", words[0], name)


DURATIONS_UNKNOWN = "durations unknown to the scheduler"


def assumptions(
    config: Mapping[str, Any], experiment: Experiment, information: str | None = None,
    *, preempts: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """What no label of a result tells, for `record.json` and below tables; GPU types come last.

    Args:
        config: the resolved configuration.
        experiment: built from it.
        information: that the one scheduler has of durations; None: several may read predictions.
        preempts: whether a scheduler does.
    """
    parts = [_durations(config, information), _measured_on(config, experiment)]
    parts += [_models(config, experiment), *_unlike_shipped(config, experiment)]
    if experiment.world.physics.pairs.guessed and experiment.world.rules.max_tenants > 1:
        parts.append("pairs that nobody measured by an additive fit")
    parts += [*_trained_by(config, experiment), *_cuts(config["workload"])]
    parts += [*_left_out(config["workload"], experiment.workload), *_windows(config, experiment)]
    parts += [_restarts(experiment)] if preempts else []
    return (*filter(None, [*parts, _partitions(experiment)]), *experiment.gpu_notes)


def assumed_line(experiment: Experiment, assumed: tuple[str, ...]) -> str:
    """One line: what was assumed, then physics and load, which tables have in their titles."""
    words = physics_words(physics_name(experiment.world.physics), experiment.load)
    return "assumes " + "; ".join(
        [*(part for part in assumed if part not in experiment.gpu_notes), *words]
    )


def _durations(config: Mapping[str, Any], information: str | None) -> str:
    if information == OFF:
        return DURATIONS_UNKNOWN
    if information == "oracle":
        return "durations: the true ones"
    given = config["estimator"]
    name = given["_target_"].rpartition(".")[2]
    return f"durations: {_words_of(given) or f'predicted by {name}'}"


def _words_of(section: Mapping[str, Any]) -> str:
    """What the class of a section, not one that it extends, says that it takes for granted."""
    own = vars(get_object(new_name(section["_target_"])))
    words: str = own.get("assumed", "")
    values = {**own, **section}  # files of before leave to the class what is new
    plain = {True: "on", False: "off"}
    return words.format(
        **{key: plain[value] if isinstance(value, bool) else value for key, value in values.items()}
    )


def _measured_on(config: Mapping[str, Any], experiment: Experiment) -> str | None:
    """The GPU type that the trace's durations are of, where it could be another."""
    if len(set(experiment.world.topology.gpu_types)) == 1:
        return None
    reference, given = experiment.world.physics.reference_gpu, config["reference_gpu"]
    if given is None:
        reference += ", the topology's first: see reference_gpu"
    elif given == ASKED:
        reference = f"the GPU type that a job asks for, else on {reference}"
    load = "; load counts all GPUs alike" if experiment.load is not None else ""
    return f"durations as on {reference}{load}"


def _models(config: Mapping[str, Any], experiment: Experiment) -> str | None:
    """Who says what a job trains; without physics it is all the same."""
    workload = config["workload"]
    if physics_name(experiment.world.physics) == OFF:
        return None
    if any((workload.get("columns") or {}).get(name) for name in MODEL_COLUMNS):
        return "models as the file names them, others and batch sizes drawn"
    return "models of the published mix" if "mix" in workload else "models drawn"


WORLD = ("interference", "network", "host", "outages")
OFF_WITH_PHYSICS = ("interference", "network")


def _unlike_shipped(config: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """What of the world was switched; of physics nothing where all of it is off."""
    off = physics_name(experiment.world.physics) == OFF
    for group in WORLD:
        words = _words_of(config[group])
        if words and not (off and group in OFF_WITH_PHYSICS):
            yield words


def _trained_by(config: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """Whose slow-downs a training plays by, where they are others than those of the results."""
    world = experiment.world
    believed = world.belief.pairs.source
    if config.get("train_physics") == "belief" and believed != world.physics.pairs.source:
        yield f"episodes play by slow-downs as believed ({believed}): see train_physics"


def _cuts(workload: Mapping[str, Any]) -> Iterator[str]:
    """How the jobs were changed."""
    gang = workload.get("max_gang")
    low_s, high_s = (workload.get(f"{end}_duration_s") for end in ("min", "max"))
    if gang is not None:
        yield f"gangs cut to {amount(gang, 'GPU')}"
    if low_s is not None and high_s is not None:
        yield f"durations kept within {time_text(low_s)} and {time_text(high_s)}"
    elif low_s is not None:
        yield f"durations raised to {time_text(low_s)}"
    elif high_s is not None:
        yield f"durations cut to {time_text(high_s)}"
    load = workload.get("load")
    if load is not None and load > MOST_LOAD:
        yield f"jobs ask for {load:g} times the GPUs there are (0.9: for 90 % of them)"


def _lost(source: object) -> Lost | None:
    """Of the trace of a file; None: there is none, or it cannot be read, which others tell."""
    try:
        return source.lost() if isinstance(source, TraceWorkload) else None
    except TraceError:
        return None


def _left_out(workload: Mapping[str, Any], source: object) -> Iterator[str]:
    """Jobs of the trace that are not played, and wishes that are not kept, if there are any."""
    window = workload.get("window") or {}
    start_s, end_s = (window.get(f"{end}_s") for end in ("start", "end"))
    strict, cuts = workload.get("strict"), bool(start_s) or end_s is not None
    shares = _words_of(workload["reader"]) if "reader" in workload else ""
    lost = _lost(source) if cuts or strict is False or shares else None
    if cuts:
        since, until = (
            at if isinstance(at, str) else "its end" if at is None else f"{at:g} s"
            for at in (start_s or 0, end_s)
        )  # fmt: skip
        counted = "" if lost is None else f" ({lost.inside:,} of {amount(lost.jobs, 'job')})"
        yield f"the trace from {since} to {until}{counted}"
    if strict is False:
        counted = "" if lost is None else f"{lost.faulty:,} of {lost.rows:,} "
        yield f"{counted}rows with faults left out"
    if shares and lost is not None and lost.parts:
        yield f"{amount(lost.parts, 'job')} with {shares}"
    if workload.get("drop_too_large"):
        yield "jobs larger than the cluster left out"
    if "path" in workload and workload["rules"]["unknown_gpu_types"] == "any":
        yield "jobs that want a GPU type that is not there run on any"


def _windows(config: Mapping[str, Any], experiment: Experiment) -> Iterator[str]:
    """How windows were taken from a file, or generated, and that they are one where they are."""
    thin = config["workload"].get("thin") or 1
    if "spec" in config["workload"] and thin > 1:
        yield f"1 generated job in {thin} kept"
    part = config.get("part")
    if part in UNTESTED and "train_physics" not in config:  # which trainings have
        yield UNTESTED[part]
    kept = None if part is None else experiment.kept(part)
    if kept is None:
        return
    jobs, among, all_of = kept
    if among > jobs:
        yield f"1 job in {among / jobs:.3g} kept"
    windows = config.get("windows", 1)
    some = windows > 1 and jobs < all_of < MANY_WINDOWS * windows * among
    if some and experiment.stretches(str(part)) is None:
        sure = "overlap" if all_of < windows * among else "may overlap"
        yield (f"{windows} windows of {among} in a row of {all_of} jobs {sure}, which intervals "
               "do not know: see workload.windows_from")  # fmt: skip
    if jobs == all_of >= (config["workload"].get("num_jobs") or 0) and windows > 1:
        yield f"every window holds the same {jobs} jobs: only what is drawn for them differs"


def _restarts(experiment: Experiment) -> str | None:
    """What it costs to be preempted, beside the wait."""
    rules = experiment.world.rules
    costs = [f"{rules.restart_s:g} s"] if rules.restart_s else []
    costs += [f"{rules.restart_s_per_gpu:g} s a GPU"] if rules.restart_s_per_gpu else []
    return f"restarts cost {' and '.join(costs)}" if costs else None


def _partitions(experiment: Experiment) -> str | None:
    """That partitions are not of one size, where they are not."""
    sizes = experiment.world.partition_gpus
    if sizes.min() == sizes.max():
        return None
    return f"{len(sizes)} partitions of unequal size: {', '.join(map(str, sizes))} GPUs"
