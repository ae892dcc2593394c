"""What a run takes for granted, in one line: durations, models, cuts, partitions, physics, load."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gpuyard.experiment.experiment import Experiment, physics_name

ESTIMATES = {  # class of `conf/estimator` -> what schedulers are told of durations
    "NoisyEstimator": "noisy predictions, sigma {sigma:g}",
    "OracleEstimator": "the true ones",
    "LimitEstimator": "users' time limits",
    "NoEstimator": "none predicted",
    "GroupMedian": "predicted as the median of the group's finished runs",
    "LastOfGroup": "predicted as the group's last finished run",
    "RandomForestEstimator": "predicted by a random forest on finished jobs",
}
MODEL_COLUMNS = ("model", "application")  # of `workload.columns`
OFF = "none"
HOUR_S = 3600.0


def assumptions(
    config: Mapping[str, Any], experiment: Experiment, information: str | None = None
) -> tuple[str, ...]:
    """What no label of a result tells, for `record.json` and below tables; GPU types come last.

    Args:
        config: the resolved configuration.
        experiment: built from it.
        information: that the one scheduler has of durations; None: several may read predictions.
    """
    parts = [_durations(config, information), _models(config, experiment), *_cuts(config)]
    return (*filter(None, [*parts, _partitions(experiment)]), *experiment.gpu_notes)


def assumed_line(experiment: Experiment, assumed: tuple[str, ...]) -> str:
    """One line: what was assumed, then physics and load, which tables have in their titles."""
    physics, load = physics_name(experiment.game.physics), experiment.load
    words = [
        *(part for part in assumed if part not in experiment.gpu_notes),
        "physics off" if physics == OFF else f"physics on ({physics})",
        "load as it comes" if load is None else f"times stretched to load {load:g}",
    ]
    return "assumes " + "; ".join(words)


def _durations(config: Mapping[str, Any], information: str | None) -> str:
    if information == OFF:
        return "durations unknown to the scheduler"
    if information == "oracle":
        return "durations: the true ones"
    given = config["estimator"]
    name = given["_target_"].rpartition(".")[2]
    return "durations: " + ESTIMATES.get(name, f"predicted by {name}").format(**given)


def _models(config: Mapping[str, Any], experiment: Experiment) -> str | None:
    """Who says what a job trains; without physics it is all the same."""
    workload = config["workload"]
    if physics_name(experiment.game.physics) == OFF:
        return None
    if any((workload.get("columns") or {}).get(name) for name in MODEL_COLUMNS):
        return "models as the file names them, others drawn"
    return "models of the published mix" if "mix" in workload else "models drawn"


def _cuts(config: Mapping[str, Any]) -> Iterator[str]:
    """How the jobs were changed."""
    workload = config["workload"]
    gang = workload.get("max_gang")
    low_s, high_s = (workload.get(f"{end}_duration_s") for end in ("min", "max"))
    if gang is not None:
        yield f"gangs cut to {gang} GPUs"
    if low_s is not None and high_s is not None:
        yield f"durations kept within {_time(low_s)} and {_time(high_s)}"
    elif low_s is not None:
        yield f"durations raised to {_time(low_s)}"
    elif high_s is not None:
        yield f"durations cut to {_time(high_s)}"
    if (workload.get("thin") or 1) > 1 and config.get("part", "train") is not None:
        yield f"1 job in {workload['thin']} kept"


def _time(seconds: float) -> str:
    return f"{seconds / HOUR_S:g} h" if seconds >= HOUR_S else f"{seconds:g} s"


def _partitions(experiment: Experiment) -> str | None:
    """That partitions are not of one size, where they are not."""
    game = experiment.game
    servers = np.bincount(game.topology.gpu_server)
    sizes = np.bincount(game.partition_of_server, weights=servers).astype(int)
    if sizes.min() == sizes.max():
        return None
    return f"{len(sizes)} partitions of unequal size: {', '.join(map(str, sizes))} GPUs"
