"""Measurements of one's own as the physics: the files that `gpuyard measure_colocation` writes."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from interference.data_sets import rows_of_csv
from interference.rows import CoRows, SoloProfiles
from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError, check_numbers, nearest
from sim.physics.catalogue import Catalogue
from sim.physics.mix_table import PairTable, fit_additive, probably_infeasible

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
        for kind, name in ((kind, name) for kind in gpu_types for name in names):
            if (kind, name) not in steps_s:
                raise PhysicsError(
                    f"{path}: profile {name!r} has no step_s on {kind!r}; measure it there, or "
                    "take its rows out of both files"
                )
        super().__init__(
            names=names,
            gpu_types=gpu_types,
            compute_s=np.array([[steps_s[kind, name] for kind in gpu_types] for name in names]),
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
        """Slow-downs over the catalogue.

        Raises:
            PhysicsError: no pair was measured on a GPU type.
        """
        return pair_table_of(self._rows, catalogue, source="own", place=str(self._path))


def pair_table_of(rows: CoRows, catalogue: Catalogue, *, source: str, place: str) -> PairTable:
    """Slow-downs over the catalogue by rows of pairs on whole GPUs; `place` is for messages.

    Raises:
        PhysicsError: no pair was measured on a GPU type.
    """
    tables = []
    for kind in catalogue.gpu_types:
        norm, tried = pair_speeds(
            rows.take(rows.gpu_type == kind), catalogue.names, f"{place}, {kind}"
        )
        if not np.isfinite(norm).any():
            raise PhysicsError(
                f"{place}: no row that can be physics (two jobs on a whole GPU, relative "
                f"to solo) has a speed of {', '.join(catalogue.names[:3])}, ... on {kind!r}; "
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
