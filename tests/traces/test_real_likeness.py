"""Generators against the traces they are fitted to, where the data is there."""

import os
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from sim.physics.shipped_files import ShippedProfiles
from sim.traces.estimators import NoEstimator
from sim.traces.generator import generate
from sim.traces.likeness import (
    ALIKE,
    COUNTS,
    DURATION,
    FEATURE_GAP,
    GANG,
    HOURLY,
    SAME_SECOND,
    JobSample,
    likeness,
)
from sim.traces.setting import Setting

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("GPUYARD_DATA", ROOT.parent / "shared" / "data")) / "traces"
SETTING = Setting(
    gpus=1 << 60, partitions=1, skew=0.0, catalogue=ShippedProfiles(), estimator=NoEstimator()
)
# generator -> workload, file, window start (s); docs/results/generator.md has the distances.
PAIRS = {
    "philly_full_like": ("philly", "philly_jobs.csv.gz", (4062780, 6741180)),
    "venus_full_like": ("helios_venus", "helios_venus_jobs.csv.gz", (1195101, None)),
    "pai_like": ("alibaba_pai_tasks", "alibaba_pai_tasks.csv.gz", (172800, None)),
    "openb_like": ("alibaba_openb", "alibaba_openb_pods.csv.gz", (9830000, None)),
    "lingjun_like": ("alibaba_lingjun_jobs", "alibaba_lingjun_jobs.csv.gz", (None, None)),
}
# How many floors a mean of three draws may lie off, and what is small whatever the floor.
MOST_FLOORS, SMALL = 1.7, 0.02


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_generator_is_about_as_near_as_the_halves_of_its_trace(name: str) -> None:
    preset, file, (start_s, end_s) = PAIRS[name]
    path = DATA / file
    if not path.is_file():
        pytest.skip(f"GPUYARD_DATA has no traces/{file}")
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        spec = compose(overrides=[f"+workload={name}"]).workload.spec
        changes = [f"workload.path={path}", "workload.rules.unknown_gpu_types=any"]
        changes += [f"workload.window.start_s={start_s}"] if start_s else []
        changes += [f"workload.window.end_s={end_s}"] if end_s else []
        trace = compose(overrides=[f"+workload={preset}", *changes]).workload
    jobs = instantiate(trace, _convert_="all").window(
        part="train", index=0, setting=SETTING, seed=0
    )
    real = JobSample.of(jobs, name)
    made = instantiate(spec, _convert_="all")
    draws = [
        JobSample.of(generate(made, len(real), np.random.default_rng(seed), name), name)
        for seed in range(3)
    ]
    found = {each.feature: each for each in likeness(real, draws)}
    far = {
        feature: (found[feature].distance, found[feature].floor)
        for feature in (FEATURE_GAP, HOURLY, GANG, DURATION, SAME_SECOND, ALIKE, COUNTS)
        if found[feature].distance > max(MOST_FLOORS * found[feature].floor, SMALL)
    }
    assert far == {}
