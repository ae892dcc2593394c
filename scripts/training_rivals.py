"""The best of some rivals on the windows that a training is judged on: a line of its curve."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from evaluate_task import Task, run_task, setting_text
from hydra.core.global_hydra import GlobalHydra
from lineup import lineup_of

from sim.errors import GpuYardError

log = logging.getLogger(__name__)


def best_rival(config: Mapping[str, Any]) -> dict[str, float]:
    """Name -> geometric mean over the validation windows of its mean JCT, of the best one.

    Empty without rivals, in a trial of a search (no Hydra there), and where one cannot run: the
    training is done by then, and the curve has a line less.
    """
    if not config["rivals"] or not GlobalHydra.instance().is_initialized():
        return {}
    try:
        found = _means_s(config)
    except GpuYardError as error:
        log.warning("no rival in the learning curve: %s", error)
        return {}
    name = min(found, key=found.__getitem__)
    log.info("best rival on the validation windows: %s, mean JCT %.0f s", name, found[name])
    return {name: found[name]}


def _means_s(config: Mapping[str, Any]) -> dict[str, float]:
    entries = [{"role": "composite", "overrides": words} for words in config["rivals"]]
    told = {"lineup": {"entries": entries}, "checkpoint": None, "untrained": False}
    found = {}
    for contender in lineup_of({**told, "agent_counts": None}):
        setting = setting_text(config, contender)
        rows = [
            run_task(Task(setting, contender, "validation", window)).row
            for window in range(config["validation_windows"])
        ]
        times_s = [row.metrics["jct_mean_s"] for row in rows]
        found[rows[0].labels.scheduler] = float(np.exp(np.mean(np.log(times_s))))
    return found
