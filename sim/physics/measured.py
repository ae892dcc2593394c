"""Profiles and co-location measured by Gavel (Narayanan et al., OSDI 2020), read from a folder."""

from pathlib import Path

import numpy as np

from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError
from sim.physics.additive_fit import fit_additive
from sim.physics.catalogue import Catalogue
from sim.physics.gavel_files import (
    ColocatedPair,
    IsolatedSpeed,
    profile_key,
    read_isolated,
    read_pairs,
)
from sim.physics.host_needs import host_needs
from sim.physics.memory_rule import probably_infeasible
from sim.physics.pair_table import PairTable
from sim.physics.scaling_fit import measured_speedup
from sim.physics.sync_fit import GANGS, LEAST_RATIO, TYPE_WEIGHT, fit_sync_bytes

GPU_TYPES = ("k80", "p100", "v100")
SINGLE_GPU_MODELS = ("Recommendation",)  # never run on several GPUs in the source


class MeasuredProfiles(Catalogue):
    """The profiles that have measured pairs, on the three GPU types of the source."""

    def __init__(self, *, data_dir: Path | str) -> None:
        """Read below `data_dir`; PhysicsError where a file is missing or a speed is."""
        pairs = read_pairs(data_dir)
        names = tuple(
            sorted({p.profile_a for p in pairs} | {p.profile_b for p in pairs}, key=profile_key)
        )
        speeds = read_isolated(data_dir)
        compute_s = solo_step_s(speeds, names)
        super().__init__(
            names=names,
            gpu_types=GPU_TYPES,
            compute_s=compute_s,
            sync_bytes=fit_sync_bytes(
                compute_s=compute_s,
                ratio=measured_spread_ratio(speeds, names),
                weight=np.array([TYPE_WEIGHT.get(gpu_type, 0.0) for gpu_type in GPU_TYPES]),
            ),
            gang_ok=np.array([profile_key(name)[0] not in SINGLE_GPU_MODELS for name in names]),
            source="measured",
            speedup=measured_speedup(speeds, names),
            host=host_needs(names),
        )


class MeasuredInterference:
    """Measured pairs; pairs nobody measured get the additive fit of their GPU type."""

    def __init__(self, *, data_dir: Path | str) -> None:
        """Read below `data_dir`; PhysicsError where the file is missing."""
        self._pairs = read_pairs(data_dir)

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Slow-downs over the catalogue; PhysicsError for a profile or type without pairs."""
        known = {p.profile_a for p in self._pairs} | {p.profile_b for p in self._pairs}
        for name in catalogue.names:
            if name not in known:
                raise PhysicsError(
                    f"profile {name!r} has no measured pair; use profiles=measured with "
                    "interference=measured"
                )
        tables = [self._one_type(gpu_type, catalogue) for gpu_type in catalogue.gpu_types]
        return PairTable(
            slowdown=np.stack([slowdown for slowdown, _ in tables]),
            feasible=np.stack([feasible for _, feasible in tables]),
            source="measured",
        )

    def _one_type(self, gpu_type: str, catalogue: Catalogue) -> tuple[FloatArray, BoolArray]:
        """(P, P) slow-down and feasibility on one GPU type."""
        pairs = [p for p in self._pairs if p.gpu_type == gpu_type]
        if not pairs:
            raise PhysicsError(f"GPU type {gpu_type!r} has no measured pair; use {GPU_TYPES}")
        norm, tried = measured_norm(pairs, catalogue.names)
        victim, aggressor = np.nonzero(np.isfinite(norm))
        fit = fit_additive(
            victim=victim,
            aggressor=aggressor,
            norm=norm[victim, aggressor],
            profiles=len(catalogue.names),
        )
        filled = np.where(np.isfinite(norm), norm, np.exp(fit.log_norm()))
        failed = tried & np.isnan(norm)
        infeasible = np.where(tried, failed, probably_infeasible(tried, failed))
        return np.maximum(1.0, 1.0 / filled), ~infeasible


def measured_norm(
    pairs: list[ColocatedPair], names: tuple[str, ...]
) -> tuple[FloatArray, BoolArray]:
    """(P, P) normalised speed [victim, aggressor], NaN where infeasible or unknown; (P, P) tried.

    Each pair fills both of its directions.
    """
    index = {name: row for row, name in enumerate(names)}
    norm = np.full((len(names), len(names)), np.nan)
    tried = np.zeros(norm.shape, dtype=np.bool_)
    for pair in pairs:
        if pair.profile_a in index and pair.profile_b in index:
            a, b = index[pair.profile_a], index[pair.profile_b]
            norm[a, b], norm[b, a] = pair.norm_a, pair.norm_b
            tried[a, b] = tried[b, a] = True
    return norm, tried


def solo_step_s(speeds: list[IsolatedSpeed], names: tuple[str, ...]) -> FloatArray:
    """(P, T) seconds a step on one GPU; PhysicsError where one is missing or 0."""
    alone = {(s.profile, s.gpu_type): s.steps_per_s for s in speeds if s.num_gpus == 1}
    step_s = np.empty((len(names), len(GPU_TYPES)))
    for row, name in enumerate(names):
        for column, gpu_type in enumerate(GPU_TYPES):
            speed = alone.get((name, gpu_type), 0.0)
            if speed <= 0.0:
                raise PhysicsError(
                    f"profile {name!r} has no isolated speed on {gpu_type} (1 GPU) in the "
                    "isolated-speed file; every profile with pairs needs one"
                )
            step_s[row, column] = 1.0 / speed
    return step_s


def measured_spread_ratio(speeds: list[IsolatedSpeed], names: tuple[str, ...]) -> FloatArray:
    """(P, T) spread / one-server speed, geometric mean over gangs, in [0.3, 1]; NaN: none."""
    ran = [s for s in speeds if s.steps_per_s > 0]
    by_run = {(s.profile, s.gpu_type, s.num_gpus, s.consolidated): s.steps_per_s for s in ran}
    ratio = np.full((len(names), len(GPU_TYPES)), np.nan)
    for row, name in enumerate(names):
        for column, gpu_type in enumerate(GPU_TYPES):
            runs = [(name, gpu_type, gang) for gang in GANGS]
            logs = [
                np.log(by_run[*run, False] / by_run[*run, True])
                for run in runs
                if (*run, False) in by_run and (*run, True) in by_run
            ]
            if logs:
                ratio[row, column] = np.clip(np.exp(np.mean(logs)), LEAST_RATIO, 1.0)
    return ratio
