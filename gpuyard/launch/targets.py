"""Where a `_target_` leads, and why one could not be found or made: the place in the user's module.

One that names a module of before, in an old file of yours or the record of an old run, builds the
same object.
"""

import os
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

from hydra.errors import InstantiationException

from gpuyard.launch.errors import ConfigError, instead

# fmt: off
MERGED = {  # module -> names of modules that it took in, a dot before those of its own package
    "gnn.encoder": ".flat .mlp",
    "interference.measured": ".gavel .own sim.physics.measured",
    "marl.env.plan_env": "marl.dag.plan_env marl.dag.training_problems",
    "marl.env.world": ".game .reward",
    "marl.rllib.search": ".search_spec",
    "marl.schedulers.topdrl": ".proximity .topdrl_rule",
    "marl.topdrl.proximity": "marl.topdrl.proximity.env marl.topdrl.proximity.ppo_spec",
    "marl.training.spec": "marl.rllib.ray_spec marl.topdrl.dqn_spec marl.topdrl.spec",
    "sim.dag.families": "sim.dag.sources.families",
    "sim.dag.rivals": (
        ".local_search .policy_gradient sim.dag.search.genetic sim.dag.search.local_search "
        "sim.dag.search.policy_gradient"
    ),
    "sim.dag.search": ".list_schedule sim.dag.search.list_schedule sim.dag.search.random_ranks",
    "sim.dag.whales": (
        ".rtgs sim.dag.search.rtgs sim.dag.search.whales sim.dag.search.woa "
        "sim.dag.search.worl_rtgs .worl_rtgs"
    ),
    "sim.forwarding": (
        "sim.forwarding.least_loaded sim.forwarding.own sim.forwarding.own_then_least_loaded "
        "sim.forwarding.random sim.forwarding.steal"
    ),
    "sim.physics.catalogue": ".host .stated_profiles",
    "sim.physics.mix_table": ".mix_laws",
    "sim.physics.networks": ".alpha_beta .no_network .tiered_rings .york_network",
    "sim.physics.published_profiles": ".dally_profiles .lab_profiles .york_profiles",
    "sim.physics.shared_links": ".traffic_rules",
    "sim.physics.shipped_files": ".no_interference .stand_ins",
    "sim.placers.by_job": ".compact_wait .heavy_edge .lwf",
    "sim.placers.by_room": (
        ".best_fit .by_rack .closest .consolidated .delay .first_fit .least_interference "
        ".least_loaded .packed .random .skew .worst_fit"
    ),
    "sim.schedulers.orders": (
        ".fifo .las .lif .load_balance .sjf .smallest_gang .spjf .spwf .srsf .srtf .tetris "
        ".wcs_duration .wcs_subtime .wcs_workload"
    ),
    "sim.schedulers.tiresias": ".tiresias_gittins",
    "sim.scoring.linear_score": "sim.schedulers.linear_score",
    "sim.sharing": "sim.sharing.always sim.sharing.fallback sim.sharing.off sim.sharing.selective",
    "sim.topology.generators": ".bcube .fat_tree .leaf_spine .vl2",
    "sim.topology.node_list": ".vc_gpus",
    "sim.topology.outages": (
        "sim.outages.both sim.outages.failures sim.outages.file sim.outages.maintenance "
        "sim.outages.none sim.outages.sources .outage_file .outage_sources"
    ),
    "sim.traces.alibaba": ".alibaba_dag .alibaba_openb .alibaba_pai",
    "sim.traces.estimators": (
        "sim.estimators.group_median sim.estimators.last_of_group sim.estimators.limit "
        "sim.estimators.noisy sim.estimators.none sim.estimators.oracle sim.estimators.recurrence "
        "sim.estimators.rules .group_estimators"
    ),
    "sim.traces.job_logs": ".alibaba_lingjun .helios_log .sia .swf",
    "sim.traces.job_traits": ".job_rules",
    "sim.traces.processes": ".clumps .day_noise .duration_mixture .outcome_mix .recurrence",
    "sim.traces.published_workload": ".ideal_workload .published_mix .york_mix .york_workload",
    "sim.traces.spec": ".demand_mix .workflow_shape",
    "sim.traces.workload": ".generated_workload .mixed_workload .trace_workload",
}
SPLIT = {  # names that went elsewhere than their module
    f"sim.traces.generated_workload.{name}": f"sim.traces.published_workload.{name}"
    for name in ("YorkMix", "YorkWorkload")
} | {
    "sim.traces.alibaba.AlibabaLingjun": "sim.traces.job_logs.AlibabaLingjun",
    "gpuyard.serving.serve.ServedScheduler": "gpuyard.serving.client.ServedScheduler",
    "marl.topdrl.proximity.GpuPpoSpec": "marl.training.spec.GpuPpoSpec",
}
# fmt: on
GONE = {  # what was cut, and what to use
    "interference.learned.AdditiveInterference": "belief=linear, the simple one that is left",
    **dict.fromkeys(
        ("interference.online.OnlineScheduler", "interference.online.scheduler.OnlineScheduler"),
        "belief=learned, which stays as it was fitted",
    ),
    **dict.fromkeys(
        (
            "interference.online.DriftedInterference",
            "interference.online.drifted.DriftedInterference",
        ),
        "interference=shipped or measured, which stay",
    ),
}
MOVED = {
    f"{new.rpartition('.')[0] if old.startswith('.') else ''}{old}": new
    for new, merged in MERGED.items()
    for old in merged.split()
}


def new_name(target: str) -> str:
    """The dotted name of today, if it moved; ConfigError: what it names was cut."""
    if target in GONE:
        raise ConfigError(f"{target} is gone; use {GONE[target]}")
    if target in SPLIT:
        return SPLIT[target]
    module, _, name = target.rpartition(".")
    return f"{MOVED[module]}.{name}" if module in MOVED else target


def with_new_names(values: Any) -> Any:
    """Plain containers with every `_target_` by its name of today."""
    if isinstance(values, Mapping):
        return {
            key: new_name(value)
            if key == "_target_" and isinstance(value, str)
            else with_new_names(value)
            for key, value in values.items()
        }
    return [with_new_names(value) for value in values] if isinstance(values, list) else values


LOCATING = re.compile(r"Error locating target '([^']*)'")
INSIDE = re.compile(r"^full_key: (.+)$", re.MULTILINE)
PROJECT = Path(__file__).resolve().parents[2]
VIEW = PROJECT / "sim" / "view.py"
ROOMS = [PROJECT / name for name in ("sim", "interference", "gnn", "marl", "gpuyard", "scripts")]
LIBRARIES = [Path(sys.prefix), Path(sys.base_prefix)]
IMPORTING = ("<frozen", "importlib", "hydra")  # of files that only pass an import on


def message_of(key: str, error: InstantiationException) -> str:
    """What a user is told of section `key`, from Hydra's error and its causes."""
    found, inside = LOCATING.search(str(error)), INSIDE.search(str(error))
    if found is None:
        return f"{key}: {_on_one_line(str(error))}"
    place = f"{key}.{inside[1]}" if inside else key
    return f"{place}._target_ is {found[1]!r}; {_unfound(found[1], _first_cause(error))}"


def origin(error: BaseException) -> str:
    """`FILE line N: ` where an error came up; empty where no file is known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}: "
    frames = extract_tb(error.__traceback__)
    own = [each for each in frames if not any(part in each.filename for part in IMPORTING)]
    return f"{own[-1].filename} line {own[-1].lineno}: " if own else ""


def fault_of_own(error: BaseException) -> str | None:
    """The line of a user's own order or placer that failed, a library it called included.

    None: the program did, be it of the user's own.
    """
    frames = extract_tb(error.__traceback__)
    while frames and Path(frames[-1].filename) == VIEW:  # it refuses what its reader asked for
        frames.pop()
    ours = [at for at, each in enumerate(frames) if _lies_in(each.filename, ROOMS)]
    last = max(ours, default=-1)
    made = [each for each in frames[last + 1 :] if Path(each.filename).is_absolute()]  # no Cython
    python = Path(os.__file__).parent  # what Python raises is the fault of who called it
    own = [each for each in made if not _lies_in(each.filename, (*LIBRARIES, python))]
    if last < 0 or not own or Path(frames[last].filename).parent == Path(__file__).parent:
        return None
    at = own[-1]
    return (
        f"{at.filename} line {at.lineno}, in {at.name}: "
        f"{type(error).__name__}: {_on_one_line(str(error))}; mend that line"
    )


def _lies_in(file: str, folders: Sequence[Path]) -> bool:
    return any(Path(file).is_relative_to(each) for each in folders)


def _first_cause(error: BaseException) -> BaseException:
    """What Hydra's own errors came of."""
    while error.__cause__ is not None and (
        isinstance(error, InstantiationException) or str(error).startswith("Error loading ")
    ):
        error = error.__cause__
    return error


def _unfound(target: str, cause: BaseException) -> str:
    """Why the module or what it is asked for is not there, and the fix."""
    if isinstance(cause, SyntaxError):
        return f"{origin(cause)}{cause.msg}; mend that line"
    if isinstance(cause, ModuleNotFoundError) and f"{target}.".startswith(f"{cause.name}."):
        return _missing_words(str(cause.name), target)
    if isinstance(cause, AttributeError) and not origin(cause):
        return f"{_on_one_line(str(cause))}; correct the name"
    fix = "mend that line"
    if isinstance(cause, ModuleNotFoundError):
        fix = f"install {cause.name}, or mend that line"
    return f"{origin(cause)}{type(cause).__name__}: {_on_one_line(str(cause))}; {fix}"


def _missing_words(missing: str, target: str) -> str:
    parent, _, name = missing.rpartition(".")
    module = sys.modules.get(parent)
    folders = list(getattr(module, "__path__", ())) if parent else [str(Path.cwd())]
    beside = [each.name for each in pkgutil.iter_modules(folders)]
    if module is None or (folders and missing != target):
        where = folders[0] if folders else parent
        fix = instead(name, beside, f"put {name}.py there, or correct the name")
        return f"there is no module {missing!r} (looked in {where} and what is installed); {fix}"
    names = [each for each in vars(module) if not each.startswith("_")]
    fix = instead(name, names + beside, "correct the name")
    return f"{getattr(module, '__file__', None) or parent} has no {name!r}; {fix}"


def _on_one_line(text: str) -> str:
    """Without Hydra's advice to set an environment variable."""
    kept = text.replace(", set env var HYDRA_FULL_ERROR=1 to see chained exception.", "")
    return " ".join(kept.split())
