"""Jobs of one side of a comparison: of a trace file, or of the generator."""

from collections.abc import Mapping
from typing import Any

from launch_build import build, section
from launch_errors import ConfigError

from sim.estimators.none import NoEstimator
from sim.jobs import JobTable
from sim.physics.shipped_files import ShippedProfiles
from sim.traces.setting import Setting

NO_LIMIT = 1 << 60  # GPUs: no gang is too large to be compared
PARTS = ("train", "validation", "test")


def jobs_of(config: Mapping[str, Any], key: str, *, part: str | None, seed: int) -> JobTable:
    """Every job of the workload in section `key`, or of a part of its time span.

    Raises:
        ConfigError: the part is unknown.
        TraceError: the file cannot be read.
    """
    if part is not None and part not in PARTS:
        raise ConfigError(f"part is {part!r}; it must be null or one of {', '.join(PARTS)}")
    setting = Setting(
        gpus=NO_LIMIT,
        partitions=1,
        skew=0.0,
        catalogue=ShippedProfiles(),
        estimator=NoEstimator(),
    )
    workload = build(config, key)
    jobs: JobTable
    if part is None:
        jobs = workload.whole(setting=setting, seed=seed)
    else:
        jobs = workload.window(part=part, index=0, setting=setting, seed=seed)
    return jobs


def is_generated(config: Mapping[str, Any], key: str) -> bool:
    """Whether section `key` describes generated jobs, another draw for each seed."""
    return "spec" in section(config, key)
