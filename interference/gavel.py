"""Gavel's measurements (Narayanan et al., OSDI 2020) as the physics: profiles and co-location."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from interference.own import pair_table_of
from interference.readers.pairs import GAVEL, GAVEL_ISOLATED, GAVEL_PAIRS
from interference.readers.pairs import GAVEL_ISOLATED_COLUMNS as COLUMNS
from interference.readers.table import read_table
from interference.rows import CoRows
from sim.arrays import FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, host_needs
from sim.physics.laws import ring_share, transfer_s
from sim.physics.mix_table import PairTable
from sim.physics.shipped_files import profile_key

RUN = ("profile", "gpu_type", "num_gpus", "consolidated")  # the last: on one server, else spread


def read_isolated(data_dir: Path | str) -> pd.Series[float]:
    """Steps a second alone of each `RUN` below `data_dir`, 0 of what did not run.

    Raises:
        PhysicsError: naming file, line and value.
    """
    table = read_table(_file(data_dir, GAVEL_ISOLATED), COLUMNS)
    speed = table.numbers("steps_per_s")
    table.refuse("steps_per_s", ~(np.isfinite(speed) & (speed >= 0.0)), "expected 0 or more")
    profiles = zip(table.texts("model"), table.wholes("batch_size"), strict=True)
    levels = (
        [f"{model}/{batch}" for model, batch in profiles], table.texts("gpu_type"),
        table.wholes("num_gpus"), table.flags("consolidated", absent=True),
    )  # fmt: skip
    every = pd.Series(speed, pd.MultiIndex.from_arrays(levels, names=RUN))
    return every[~every.index.duplicated(keep="last")]


def read_pairs(data_dir: Path | str) -> CoRows:
    """Both sides of all pairs below `data_dir`; PhysicsError names file, line and value."""
    for name in (GAVEL_PAIRS, GAVEL_ISOLATED):
        _file(data_dir, name)
    rows = GAVEL.read(data_dir)[0]
    sides = Counter(zip(rows.gpu_type, rows.victim, rows.aggressors, strict=True))
    for (kind, victim, (beside,)), lines in sides.items():
        if lines > 1:
            raise PhysicsError(
                f"{Path(data_dir, GAVEL_PAIRS)}: {victim} beside {beside} on {kind} stands in "
                f"{lines} lines; keep one"
            )
    return rows


def _file(data_dir: Path | str, name: str) -> Path:
    path = Path(data_dir, name)
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no such file; set data_dir (or GPUYARD_DATA) to the folder of the measured "
            "data, or use the shipped profiles and interference"
        )
    return path


FIT_NIC_GBPS = 10.0
FIT_INTRA_GBPS = 100.0
GANGS = (2, 4, 8)
LEAST_RATIO = 0.3
TYPE_WEIGHT = {"p100": 3.0, "v100": 1.0}  # V100 figures mix machines; the K80 shows no cost
_GRID_BYTES = np.concatenate([[0.0], np.geomspace(1e3, 1e10, 7001)])  # steps of 0.23 %


def spread_ratio(compute_s: FloatArray, sync_bytes: FloatArray) -> FloatArray:
    """Modelled spread / consolidated speed, geometric mean over `GANGS`; shapes broadcast."""
    log_ratio = np.zeros(np.broadcast(compute_s, sync_bytes).shape)
    for gang in GANGS:
        share = ring_share(gang)
        local_s = share * transfer_s(sync_bytes, FIT_INTRA_GBPS)
        spread_s = share * transfer_s(sync_bytes, FIT_NIC_GBPS)
        log_ratio += np.log((compute_s + local_s) / (compute_s + spread_s))
    return np.asarray(np.exp(log_ratio / len(GANGS)))


def fit_sync_bytes(*, compute_s: FloatArray, ratio: FloatArray, weight: FloatArray) -> FloatArray:
    """(P,) bytes that reproduce the measured ratios best; the median where a profile has none.

    `compute_s` (P, T) is a step on one GPU, `ratio` (P, T) NaN where there is none, `weight` (T,)
    that of each GPU type; 0 leaves it out.
    """
    target = np.log(np.clip(ratio, LEAST_RATIO, 1.0))  # (P, T)
    used = np.isfinite(target) & (weight > 0)[None, :]
    fitted = np.full(len(compute_s), np.nan)
    for row in np.flatnonzero(used.any(axis=1)):
        types = used[row]
        model = np.log(spread_ratio(compute_s[row, types][None, :], _GRID_BYTES[:, None]))
        error = ((model - target[row, types]) ** 2 * weight[types]).sum(axis=1)
        fitted[row] = _GRID_BYTES[int(error.argmin())]
    return np.where(np.isnan(fitted), np.nanmedian(fitted), fitted)


SCALING_TYPES = ("k80", "p100")
MOST_GPUS = 8


def measured_speedup(speeds: pd.Series[float], names: tuple[str, ...]) -> FloatArray:
    """(P, 9) throughput of n GPUs over that of one; NaN where nothing larger was measured."""
    one_server = speeds[(speeds > 0) & speeds.index.isin([True], level="consolidated")]
    ran = one_server.droplevel("consolidated").unstack("num_gpus")
    ran = ran.reindex(columns=range(1, MOST_GPUS + 1))
    gains = ran.div(ran[1], axis=0).transform(np.log)
    known = gains[gains.index.isin(SCALING_TYPES, level="gpu_type")]
    points = known.groupby("profile").mean().reindex(names)
    points[1] = 0.0
    speedup = np.full((len(names), MOST_GPUS + 1), np.nan)
    for row, name in enumerate(names):
        measured = points.loc[name].dropna()
        numbers = np.arange(1, measured.index.max() + 1)
        curve = np.interp(np.log(numbers), np.log(measured.index.to_numpy()), measured.to_numpy())
        speedup[row, 1 : len(numbers) + 1] = np.minimum(np.exp(curve), numbers)
    return speedup


GPU_TYPES = ("k80", "p100", "v100")
SINGLE_GPU_MODELS = ("Recommendation",)  # never run on several GPUs in the source


class MeasuredProfiles(Catalogue):
    """The profiles that have measured pairs, on the three GPU types of the source."""

    def __init__(self, *, data_dir: Path | str) -> None:
        """Read below `data_dir`; PhysicsError where a file is missing or a speed is."""
        names = tuple(sorted(set(read_pairs(data_dir).victim), key=profile_key))
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
        self._rows = read_pairs(data_dir)

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Slow-downs over the catalogue; PhysicsError for a profile or type without pairs."""
        known = set(self._rows.victim)
        for name in catalogue.names:
            if name not in known:
                raise PhysicsError(
                    f"profile {name!r} has no measured pair; use profiles=measured with "
                    "interference=measured"
                )
        return pair_table_of(self._rows, catalogue, source="measured", place=GAVEL_PAIRS)


def solo_step_s(speeds: pd.Series[float], names: tuple[str, ...]) -> FloatArray:
    """(P, T) seconds a step on one GPU; PhysicsError where one is missing or 0."""
    alone = speeds[speeds.index.isin([1], level="num_gpus")]
    by_type = alone.groupby(["profile", "gpu_type"]).last().unstack("gpu_type")
    found = by_type.reindex(index=names, columns=GPU_TYPES).to_numpy(np.float64)
    for row, column in np.argwhere(~(found > 0.0)):
        raise PhysicsError(
            f"profile {names[row]!r} has no isolated speed on {GPU_TYPES[column]} (1 GPU) in the "
            "isolated-speed file; every profile with pairs needs one"
        )
    return np.asarray(1.0 / found)


def measured_spread_ratio(speeds: pd.Series[float], names: tuple[str, ...]) -> FloatArray:
    """(P, T) spread / one-server speed, geometric mean over gangs, in [0.3, 1]; NaN: none."""
    ran = speeds[(speeds > 0) & speeds.index.isin(GANGS, level="num_gpus")]
    gangs = ran.unstack("consolidated").reindex(columns=[False, True])
    logs = (gangs[False] / gangs[True]).transform(np.log).groupby(["profile", "gpu_type"]).mean()
    table = logs.unstack("gpu_type").reindex(index=names, columns=GPU_TYPES)
    return np.clip(np.exp(table.to_numpy(np.float64)), LEAST_RATIO, 1.0)
