"""Names of classes in configurations of before: modules that were merged or moved, and where to.

A `_target_` of an old file of yours, or of the record of an old run, builds the same object.
"""

from collections.abc import Mapping
from typing import Any

from gpuyard.launch.errors import ConfigError

# fmt: off
MERGED: dict[str, tuple[str, ...]] = {  # module -> names of modules that it took in
    "gnn.encoder": ("gnn.flat", "gnn.mlp"),
    "gpuyard.serving.serve": ("gpuyard.serving.client",),
    "interference.gavel": ("sim.physics.measured",),
    "marl.env.plan_env": ("marl.dag.plan_env", "marl.dag.training_problems"),
    "marl.env.world": ("marl.env.game", "marl.env.reward"),
    "marl.rllib.search": ("marl.rllib.search_spec",),
    "marl.schedulers.topdrl": ("marl.schedulers.proximity", "marl.schedulers.topdrl_rule"),
    "marl.topdrl.proximity": ("marl.topdrl.proximity.env", "marl.topdrl.proximity.ppo_spec"),
    "marl.training.spec": ("marl.rllib.ray_spec", "marl.topdrl.dqn_spec", "marl.topdrl.spec"),
    "sim.dag.families": ("sim.dag.sources.families",),
    "sim.dag.rivals": (
        "sim.dag.local_search", "sim.dag.policy_gradient", "sim.dag.search.genetic",
        "sim.dag.search.local_search", "sim.dag.search.policy_gradient",
    ),
    "sim.dag.search": (
        "sim.dag.list_schedule", "sim.dag.search.list_schedule", "sim.dag.search.random_ranks",
    ),
    "sim.dag.whales": (
        "sim.dag.rtgs", "sim.dag.search.rtgs", "sim.dag.search.whales", "sim.dag.search.woa",
        "sim.dag.search.worl_rtgs", "sim.dag.worl_rtgs",
    ),
    "sim.forwarding": (
        "sim.forwarding.least_loaded", "sim.forwarding.own", "sim.forwarding.own_then_least_loaded",
        "sim.forwarding.random", "sim.forwarding.steal",
    ),
    "sim.physics.catalogue": ("sim.physics.host", "sim.physics.stated_profiles"),
    "sim.physics.mix_table": ("sim.physics.mix_laws",),
    "sim.physics.networks": (
        "sim.physics.alpha_beta", "sim.physics.no_network", "sim.physics.tiered_rings",
        "sim.physics.york_network",
    ),
    "sim.physics.published_profiles": (
        "sim.physics.dally_profiles", "sim.physics.lab_profiles", "sim.physics.york_profiles",
    ),
    "sim.physics.shared_links": ("sim.physics.traffic_rules",),
    "sim.physics.shipped_files": ("sim.physics.no_interference", "sim.physics.stand_ins"),
    "sim.placers.by_job": ("sim.placers.compact_wait", "sim.placers.heavy_edge", "sim.placers.lwf"),
    "sim.placers.by_room": (
        "sim.placers.best_fit", "sim.placers.by_rack", "sim.placers.closest",
        "sim.placers.consolidated", "sim.placers.delay", "sim.placers.first_fit",
        "sim.placers.least_interference", "sim.placers.least_loaded", "sim.placers.packed",
        "sim.placers.random", "sim.placers.skew", "sim.placers.worst_fit",
    ),
    "sim.schedulers.orders": (
        "sim.schedulers.fifo", "sim.schedulers.las", "sim.schedulers.lif",
        "sim.schedulers.load_balance", "sim.schedulers.sjf", "sim.schedulers.smallest_gang",
        "sim.schedulers.spjf", "sim.schedulers.spwf", "sim.schedulers.srsf", "sim.schedulers.srtf",
        "sim.schedulers.tetris", "sim.schedulers.wcs_duration", "sim.schedulers.wcs_subtime",
        "sim.schedulers.wcs_workload",
    ),
    "sim.schedulers.tiresias": ("sim.schedulers.tiresias_gittins",),
    "sim.scoring.linear_score": ("sim.schedulers.linear_score",),
    "sim.sharing": (
        "sim.sharing.always", "sim.sharing.fallback", "sim.sharing.off", "sim.sharing.selective",
    ),
    "sim.topology.generators": (
        "sim.topology.bcube", "sim.topology.fat_tree", "sim.topology.leaf_spine",
        "sim.topology.vl2",
    ),
    "sim.topology.node_list": ("sim.topology.vc_gpus",),
    "sim.topology.outages": (
        "sim.outages.both", "sim.outages.failures", "sim.outages.file", "sim.outages.maintenance",
        "sim.outages.none", "sim.outages.sources", "sim.topology.outage_file",
        "sim.topology.outage_sources",
    ),
    "sim.traces.alibaba": (
        "sim.traces.alibaba_dag", "sim.traces.alibaba_openb", "sim.traces.alibaba_pai",
    ),
    "sim.traces.estimators": (
        "sim.estimators.group_median", "sim.estimators.last_of_group", "sim.estimators.limit",
        "sim.estimators.noisy", "sim.estimators.none", "sim.estimators.oracle",
        "sim.estimators.recurrence", "sim.estimators.rules", "sim.traces.group_estimators",
    ),
    "sim.traces.job_logs": (
        "sim.traces.alibaba_lingjun", "sim.traces.helios_log", "sim.traces.sia", "sim.traces.swf",
    ),
    "sim.traces.job_traits": ("sim.traces.job_rules",),
    "sim.traces.processes": (
        "sim.traces.clumps", "sim.traces.day_noise", "sim.traces.duration_mixture",
        "sim.traces.outcome_mix", "sim.traces.recurrence",
    ),
    "sim.traces.published_workload": (
        "sim.traces.ideal_workload", "sim.traces.published_mix", "sim.traces.york_mix",
        "sim.traces.york_workload",
    ),
    "sim.traces.spec": ("sim.traces.demand_mix", "sim.traces.workflow_shape"),
    "sim.traces.workload": (
        "sim.traces.generated_workload", "sim.traces.mixed_workload", "sim.traces.trace_workload",
    ),
}
SPLIT = {  # names that went elsewhere than their module
    f"sim.traces.generated_workload.{name}": f"sim.traces.published_workload.{name}"
    for name in ("YorkMix", "YorkWorkload")
} | {"sim.traces.alibaba.AlibabaLingjun": "sim.traces.job_logs.AlibabaLingjun"}
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
MOVED = {old: new for new, merged in MERGED.items() for old in merged}


def new_name(target: str) -> str:
    """The dotted name of today; one that did not move stays as it is.

    Raises:
        ConfigError: what it names was cut; with what to use.
    """
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
