"""Measurements of one's own as the physics: the files that `gpuyard measure_colocation` writes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from interference.data_sets import rows_of_csv
from interference.rows import CoRows, SoloProfiles
from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError, check_numbers, nearest
from sim.physics.catalogue import Catalogue
from sim.physics.measured import filled
from sim.physics.mix_table import PairTable


class OwnProfiles(Catalogue):
    """The profiles that were measured alone on one GPU, on the GPU types of the files."""

    def __init__(self, *, path: Path | str | None, gradient_bytes: Mapping[str, float]) -> None:
        """Read them.

        Args:
            path: folder of `colocation.csv` and `solo_profiles.csv`, or the former.
            gradient_bytes: model -> bytes that the workers of a gang exchange an iteration and that
                compute does not hide; nothing where a model is not named.

        Raises:
            PhysicsError: naming file, line, column and value; a profile without a time on a type;
                or a model that was not measured.
        """
        _, solos = _read(path)
        steps_s = _steps_s(solos)
        one = solos.gpus == 1
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


def _read(path: Path | str | None) -> tuple[CoRows, SoloProfiles]:
    if path is None:
        raise PhysicsError(
            "profiles.path is null; profiles.path=DIR names the folder in which gpuyard "
            "measure_colocation wrote colocation.csv and solo_profiles.csv"
        )
    return rows_of_csv(path)


def _steps_s(solos: SoloProfiles) -> dict[tuple[str, str], float]:
    """(GPU type, profile) -> seconds a step on one GPU, where that is known."""
    known = (solos.gpus == 1) & np.isfinite(solos.step_s)
    keys = zip(solos.gpu_type[known], solos.profile[known], strict=True)
    return dict(zip(keys, solos.step_s[known].tolist(), strict=True))


class OwnInterference:
    """Pairs on whole GPUs; those that nobody measured get the additive fit of their GPU type."""

    def __init__(self, *, path: Path | str | None) -> None:
        """Read the files, as for `OwnProfiles`."""
        rows, _ = _read(path)
        pairs = np.array([len(each) == 1 for each in rows.aggressors], dtype=np.bool_)
        whole = (rows.sharing == "gpu") & (rows.share == 1.0) & (rows.relative_to == "solo")
        self._path, self._rows = path, rows.take(pairs & whole)

    def pair_table(self, catalogue: Catalogue) -> PairTable:
        """Slow-downs over the catalogue.

        Raises:
            PhysicsError: no pair was measured on a GPU type.
        """
        tables = []
        for kind in catalogue.gpu_types:
            norm, tried = _norm(self._rows.take(self._rows.gpu_type == kind), catalogue.names)
            if not np.isfinite(norm).any():
                raise PhysicsError(
                    f"{self._path}: no pair of {', '.join(catalogue.names[:3])}, ... was measured "
                    f"on {kind!r}; use profiles=own with the same path, or interference=none"
                )
            tables.append(filled(norm, tried))
        slowdown, feasible = zip(*tables, strict=True)
        return PairTable(slowdown=np.stack(slowdown), feasible=np.stack(feasible), source="own")


def _norm(rows: CoRows, names: tuple[str, ...]) -> tuple[FloatArray, BoolArray]:
    """(P, P) median speed over that alone [victim, aggressor], NaN where unknown; (P, P) tried."""
    at = {name: place for place, name in enumerate(names)}
    speeds: dict[tuple[int, int], list[float]] = {}
    tried = np.zeros((len(names), len(names)), dtype=np.bool_)
    for victim, others, speed in zip(rows.victim, rows.aggressors, rows.norm_speed, strict=True):
        if victim in at and others[0] in at:
            place = at[victim], at[others[0]]
            speeds.setdefault(place, []).append(speed)
            tried[place] = tried[place[::-1]] = True
    norm = np.full(tried.shape, np.nan)
    for place, found in speeds.items():
        norm[place] = float(np.median(found))  # NaN where one did not fit
    return norm, tried
