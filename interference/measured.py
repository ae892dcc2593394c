"""Measurements as the physics: profiles and co-location, of one's own and Gavel's.

One's own are the files that `gpuyard measure_colocation` writes; Gavel's are of Narayanan et al.,
OSDI 2020.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from interference.data_sets import rows_of_csv
from interference.readers.pairs import GAVEL, GAVEL_ISOLATED, GAVEL_PAIRS
from interference.readers.pairs import GAVEL_ISOLATED_COLUMNS as COLUMNS
from interference.readers.table import read_table
from interference.rows import CoRows, SoloProfiles
from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError, check_numbers, nearest
from sim.physics.catalogue import Catalogue, host_needs
from sim.physics.laws import ring_share, transfer_s
from sim.physics.mix_table import PairTable, fit_additive, probably_infeasible
from sim.physics.shipped_files import profile_key

log = logging.getLogger(__name__)

CLEARLY_FASTER = 1.05  # above it a speed is no matter of noise


class OwnProfiles(Catalogue):
    """The profiles that were measured alone on one GPU, on the GPU types of the files."""

    def __init__(
        self, *, path: Path | str | None, gradient_bytes: Mapping[str, float],
        source: str | None = None,
    ) -> None:  # fmt: skip
        """Read them.

        Args:
            path: folder of `colocation.csv` and `solo_profiles.csv`, or the former.
            source: whose rows; None: the files' only one.
            gradient_bytes: model -> bytes that the workers of a gang exchange an iteration and that
                compute does not hide; nothing where a model is not named.

        Raises:
            PhysicsError: naming file, line, column and value; a profile without a time on a type;
                or a model that was not measured.
        """
        _, solos = _read(path, source)
        one = solos.gpus == 1
        alone = solos.take(one & np.isfinite(solos.step_s))
        keys = zip(alone.gpu_type, alone.profile, strict=True)
        steps_s = dict(zip(keys, alone.step_s.tolist(), strict=True))
        gpu_types = tuple(dict.fromkeys(solos.gpu_type[one].tolist()))
        names = tuple(dict.fromkeys(solos.profile[one].tolist()))
        model_of = dict(zip(solos.profile, solos.model, strict=True))
        for model, size in gradient_bytes.items():
            if model not in model_of.values():
                hint = nearest(model, set(model_of.values()))
                raise PhysicsError(f"profiles.gradient_bytes: no model {model!r} in {path}{hint}")
            check_numbers("profiles.gradient_bytes", "0 or more", PhysicsError, **{model: size})
        for gpu_type, name in ((gpu_type, name) for gpu_type in gpu_types for name in names):
            if (gpu_type, name) not in steps_s:
                raise PhysicsError(
                    f"{path}: profile {name!r} has no step_s on {gpu_type!r}; measure it there, or "
                    "take its rows out of both files"
                )
        super().__init__(
            names=names,
            gpu_types=gpu_types,
            compute_s=np.array([[steps_s[each, name] for each in gpu_types] for name in names]),
            sync_bytes=np.array([float(gradient_bytes.get(model_of[name], 0)) for name in names]),
            gang_ok=np.ones(len(names), dtype=np.bool_),
            source="own",
        )


def _read(path: Path | str | None, source: str | None) -> tuple[CoRows, SoloProfiles]:
    """The rows of one source: time slicing and MPS, say, are not pooled."""
    if path is None:
        raise PhysicsError(
            "profiles.path is null; profiles.path=DIR names the folder in which gpuyard "
            "measure_colocation wrote colocation.csv and solo_profiles.csv"
        )
    rows, solos = rows_of_csv(path)
    sources = sorted({*rows.source.tolist(), *solos.source.tolist()})
    if source is None and len(sources) == 1:
        return rows, solos
    if source not in sources:
        wrong = "none is named" if source is None else f"none is {source!r}"
        raise PhysicsError(
            f"{path}: holds rows of the sources {', '.join(sources)}, and {wrong}; "
            f"profiles.source={sources[0]} takes those of one"
        )
    return rows.take(rows.source == source), solos.take(solos.source == source)


class OwnInterference:
    """Pairs on whole GPUs; those that nobody measured get the additive fit of their GPU type."""

    def __init__(self, *, path: Path | str | None, source: str | None = None) -> None:
        """Read the files, as for `OwnProfiles`; what cannot be used is logged.

        Raises:
            PhysicsError: as there, or a pair fitted in one group and not in another.
        """
        rows, _ = _read(path, source)
        beside = np.array([len(each) for each in rows.aggressors])
        whole = (rows.sharing == "gpu") & (rows.share == 1.0) & (rows.relative_to == "solo")
        used = (beside == 1) & whole & rows.measured
        self._path, self._rows = path, rows.take(used)
        unused = {
            "of mixes of three and more": beside > 1,
            "of parts of GPUs, networks or relative to the best": (beside == 1) & ~whole,
            "not measured": (beside == 1) & whole & ~rows.measured,
        }
        reasons = [f"{each.sum()} {why}" for why, each in unused.items() if each.any()]
        if reasons:
            log.warning("%s: rows that are no physics: %s", path, ", ".join(reasons))
        fast = int((self._rows.norm_speed > CLEARLY_FASTER).sum())
        if fast:
            log.warning(
                "%s: %d speeds of pairs are above 1 and count as 1: norm_speed is speed together "
                "over speed alone, not a slow-down", path, fast,
            )  # fmt: skip

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Slow-downs over the catalogue; PhysicsError: no pair was measured on a GPU type."""
        return pair_table_of(self._rows, catalogue, source="own", place=str(self._path))


def pair_table_of(rows: CoRows, catalogue: Catalogue, *, source: str, place: str) -> PairTable:
    """Slow-downs over the catalogue by rows of pairs on whole GPUs; `place` is for messages.

    Raises:
        PhysicsError: no pair was measured on a GPU type.
    """
    tables = []
    for gpu_type in catalogue.gpu_types:
        norm, tried = pair_speeds(
            rows.take(rows.gpu_type == gpu_type), catalogue.names, f"{place}, {gpu_type}"
        )
        if not np.isfinite(norm).any():
            raise PhysicsError(
                f"{place}: no row that can be physics (two jobs on a whole GPU, relative "
                f"to solo) has a speed of {', '.join(catalogue.names[:3])}, ... on {gpu_type!r}; "
                f"use profiles={source} of the same files, or interference=none"
            )
        tables.append(filled(norm, tried))
    slowdown, feasible, guessed = zip(*tables, strict=True)
    return PairTable(np.stack(slowdown), np.stack(feasible), source, guessed=any(guessed))


def filled(norm: FloatArray, tried: BoolArray) -> tuple[FloatArray, BoolArray, bool]:
    """(P, P) slow-down and feasibility; pairs without a speed get the additive fit of the others.

    `norm` (P, P) [victim, aggressor] has one speed at least, NaN where none is known; a pair that
    was `tried` (P, P) and has no speed did not fit. Last: whether any slow-down of a pair that
    fits was fitted.
    """
    known = np.isfinite(norm)
    victim, aggressor = np.nonzero(known)
    fit = fit_additive(
        victim=victim, aggressor=aggressor, norm=norm[victim, aggressor], profiles=len(norm)
    )
    speed = np.where(known, norm, np.exp(fit.log_norm()))
    failed = tried & ~known & ~known.T
    infeasible = np.where(tried, failed, probably_infeasible(tried, failed))
    return np.maximum(1.0, 1.0 / speed), ~infeasible, bool((~infeasible & ~known).any())


def pair_speeds(rows: CoRows, names: tuple[str, ...], place: str) -> tuple[FloatArray, BoolArray]:
    """(P, P) median speed over that alone [victim, aggressor], NaN where unknown; (P, P) tried."""
    fits: dict[frozenset[str], bool] = {}
    for victim, others, fitted in zip(rows.victim, rows.aggressors, rows.feasible, strict=True):
        if fits.setdefault(frozenset((victim, *others)), bool(fitted)) != bool(fitted):
            raise PhysicsError(
                f"{place}: {victim} beside {others[0]} fits (feasible 1) in one row and does not "
                "in another; keep one of them"
            )
    at = {name: place for place, name in enumerate(names)}
    speeds: dict[tuple[int, int], list[float]] = {}
    tried = np.zeros((len(names), len(names)), dtype=np.bool_)
    for victim, others, speed in zip(rows.victim, rows.aggressors, rows.norm_speed, strict=True):
        if victim in at and others[0] in at:
            pair = at[victim], at[others[0]]
            speeds.setdefault(pair, []).append(speed)
            tried[pair] = tried[pair[::-1]] = True
    norm = np.full(tried.shape, np.nan)
    for pair, found in speeds.items():
        norm[pair] = float(np.median(found))  # NaN: the pair did not fit
    return norm, tried


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
    for (gpu_type, victim, (beside,)), lines in sides.items():
        if lines > 1:
            raise PhysicsError(
                f"{Path(data_dir, GAVEL_PAIRS)}: {victim} beside {beside} on {gpu_type} stands in "
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
TYPE_WEIGHT = {"k80": 0.0, "p100": 3.0}  # others 1; the K80 shows no cost, V100s mix machines
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


NOT_SCALING = ("v100",)
MOST_GPUS = 8


def measured_speedup(speeds: pd.Series[float], names: tuple[str, ...]) -> FloatArray:
    """(P, 9) throughput of n GPUs over that of one; NaN where nothing larger was measured."""
    one_server = speeds[(speeds > 0) & speeds.index.isin([True], level="consolidated")]
    ran = one_server.droplevel("consolidated").unstack("num_gpus")
    ran = ran.reindex(columns=range(1, MOST_GPUS + 1))
    gains = ran.div(ran[1], axis=0).transform(np.log)
    known = gains[~gains.index.isin(NOT_SCALING, level="gpu_type")]
    points = known.groupby("profile").mean().reindex(names)
    points[1] = 0.0
    speedup = np.full((len(names), MOST_GPUS + 1), np.nan)
    for row, name in enumerate(names):
        measured = points.loc[name].dropna()
        numbers = np.arange(1, measured.index.max() + 1)
        curve = np.interp(np.log(numbers), np.log(measured.index.to_numpy()), measured.to_numpy())
        speedup[row, 1 : len(numbers) + 1] = np.minimum(np.exp(curve), numbers)
    return speedup


SINGLE_GPU_MODELS = ("Recommendation",)  # never run on several GPUs in the source


class MeasuredProfiles(Catalogue):
    """The profiles that have measured pairs, on the GPU types of these: Gavel has three."""

    def __init__(self, *, data_dir: Path | str) -> None:
        """Read below `data_dir`; PhysicsError where a file is missing or a speed is."""
        pairs, speeds = read_pairs(data_dir), read_isolated(data_dir)
        names = tuple(sorted(set(pairs.victim), key=profile_key))
        types, place = tuple(sorted(set(pairs.gpu_type))), str(Path(data_dir, GAVEL_ISOLATED))
        compute_s = solo_step_s(speeds, names, types, place)
        ratio = measured_spread_ratio(speeds, names, types)
        weight = np.array([TYPE_WEIGHT.get(gpu_type, 1.0) for gpu_type in types])
        if not np.isfinite(ratio[:, weight > 0]).any():
            raise PhysicsError(
                f"{place}: no profile has speeds of 2, 4 or 8 GPUs both on one server "
                "(consolidated 1) and spread (0), which say how much it communicates; add some, or "
                "use profiles=shipped"
            )
        super().__init__(
            names=names,
            gpu_types=types,
            compute_s=compute_s,
            sync_bytes=fit_sync_bytes(compute_s=compute_s, ratio=ratio, weight=weight),
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


def solo_step_s(
    speeds: pd.Series[float], names: tuple[str, ...], types: tuple[str, ...], place: str
) -> FloatArray:
    """(P, T) seconds a step on one GPU; PhysicsError, naming `place`, where one is missing or 0."""
    alone = speeds[speeds.index.isin([1], level="num_gpus")]
    by_type = alone.groupby(["profile", "gpu_type"]).last().unstack("gpu_type")
    found = by_type.reindex(index=names, columns=types).to_numpy(np.float64)
    for row, column in np.argwhere(~(found > 0.0)):
        raise PhysicsError(
            f"{place}: profile {names[row]!r} has no speed above 0 on one {types[column]}; every "
            "profile with pairs needs one on every GPU type with pairs"
        )
    return np.asarray(1.0 / found)


def measured_spread_ratio(
    speeds: pd.Series[float], names: tuple[str, ...], types: tuple[str, ...]
) -> FloatArray:
    """(P, T) spread / one-server speed, geometric mean over gangs, in [0.3, 1]; NaN: none."""
    ran = speeds[(speeds > 0) & speeds.index.isin(GANGS, level="num_gpus")]
    gangs = ran.unstack("consolidated").reindex(columns=[False, True])
    logs = (gangs[False] / gangs[True]).transform(np.log).groupby(["profile", "gpu_type"]).mean()
    table = logs.unstack("gpu_type").reindex(index=names, columns=types)
    return np.clip(np.exp(table.to_numpy(np.float64)), LEAST_RATIO, 1.0)
