"""Fit the generator: `python scripts/fit_generator.py workload.path=FILE name=mine_like`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from gpuyard.launch.build import SEED, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from gpuyard.studies.compare_traces import is_generated, jobs_of
from sim.jobs import JobTable
from sim.report.files import write_atomically
from sim.traces.fit_parts import OutcomeShares, Owners, fit_owners, shares_in
from sim.traces.fit_spec import fit_spec
from sim.traces.likeness import JobSample
from sim.traces.spec import WorkloadSpec, workload_yaml

RULES = {**SEED, "duration_parts": (True, 1), "default_jobs": (True, 1)}
HOUR_S = 3600.0


@program("fit_generator")
def main(cfg: DictConfig) -> None:
    """Read, fit, write."""
    launch = start(cfg)
    config = launch.config
    check_plain(config, RULES)
    if is_generated(config, "workload"):
        raise ConfigError("workload has a spec: it is generated; fit one that is read from a file")
    jobs = jobs_of(config, "workload", part=config["part"], seed=config["seed"])
    spec = spec_of(config, jobs)
    out = Path(config["out"] or launch.folder / f"{config['name']}.yaml")
    if out.suffix != ".yaml":
        raise ConfigError(f"out is {out}; its name must end in .yaml")
    text = workload_yaml(
        spec, name=config["name"], heading=_heading(config, jobs), num_jobs=config["default_jobs"]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    print(f"{len(jobs):,} jobs fitted; parameters written to {out}")
    print(f"use: put it into conf/workload/ and run with workload={out.stem}")


def spec_of(config: Mapping[str, Any], jobs: JobTable) -> WorkloadSpec:
    """Parameters fitted to the jobs, with the owners and outcomes that the user gives.

    Raises:
        ConfigError: a key is illegal.
        TraceError: there are too few jobs, or no odds give the outcomes.
    """
    return fit_spec(
        JobSample.of(jobs, config["workload"]["name"]),
        first_hour=_first_hour(config["first_submit"]),
        duration_parts=config["duration_parts"],
        owners=_owners(config["owners"], jobs),
        outcomes=_outcomes(config["outcomes"], jobs),
        rng=np.random.default_rng(config["seed"]),
    )


def _first_hour(text: str | None) -> float:
    """Hours from Monday 0:00 to a wall clock."""
    if text is None:
        return 0.0
    try:
        clock = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise ConfigError(
            f"first_submit is {text!r}; it must be like '2020-03-18 04:01:39'"
        ) from error
    return clock.weekday() * 24.0 + clock.hour + (clock.minute * 60 + clock.second) / HOUR_S


def _owners(given: Mapping[str, Any], jobs: JobTable) -> Owners:
    return replace(
        fit_owners(jobs.identity),
        **{key: value for key, value in given.items() if value is not None},
    )


def _outcomes(given: Mapping[str, Any], jobs: JobTable) -> OutcomeShares | None:
    """The user's shares, else the trace's."""
    if (given["of_jobs"] is None) != (given["of_work"] is None):
        raise ConfigError("outcomes needs both of_jobs and of_work, or neither")
    if given["of_jobs"] is not None:
        return OutcomeShares(of_jobs=given["of_jobs"], of_work=given["of_work"])
    if jobs.fates is None:
        return None
    work_gpu_s = jobs.num_gpus * np.maximum(jobs.duration_s, 1.0)
    return shares_in(jobs.fates.outcome, work_gpu_s.astype(np.float64))


def _heading(config: Mapping[str, Any], jobs: JobTable) -> tuple[str, ...]:
    part = f", part {config['part']}" if config["part"] else ""
    return (
        f"Generated jobs with the figures of {len(jobs):,} jobs of {config['workload']['name']}"
        f"{part}, fitted by scripts/fit_generator.py.",
    )
