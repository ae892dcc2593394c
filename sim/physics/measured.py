"""Profiles and co-location measured by Gavel (Narayanan et al., OSDI 2020), from its files."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.arrays import BoolArray, FloatArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, host_needs
from sim.physics.laws import ring_share, transfer_s
from sim.physics.mix_table import PairTable, fit_additive, probably_infeasible

PAIRS_FILE = Path("colocation", "gavel_pairs.csv")
ISOLATED_FILE = Path("throughput", "gavel_isolated.csv")


@dataclass(frozen=True)
class IsolatedSpeed:
    """Measured speed of one profile alone."""

    gpu_type: str
    profile: str  # "model/batch"
    num_gpus: int
    consolidated: bool  # all GPUs on one server; else spread
    steps_per_s: float  # 0 = did not run


@dataclass(frozen=True)
class ColocatedPair:
    """Two single-GPU jobs on one GPU, in no particular order; speeds are fractions of solo."""

    gpu_type: str
    profile_a: str
    profile_b: str
    solo_a_s: float  # seconds a step alone
    solo_b_s: float
    norm_a: float  # co-located / isolated speed; NaN where infeasible
    norm_b: float
    feasible: bool


def profile_key(name: str) -> tuple[str, int]:
    """Sort key of a profile name: model, then batch as a number."""
    model, _, batch = name.rpartition("/")
    return model, int(batch)


MOST_SPEED_UP = 2.0  # above it a speed is percent, or steps a second


@dataclass(frozen=True)
class _Row:
    """A line of a table as text; PhysicsError names file, line, column and value."""

    place: str
    text: Mapping[str, str | None]

    def word(self, column: str) -> str:
        word = self.text.get(column)
        if not word:
            raise PhysicsError(f"{self.place}: {column} is {word!r}; the file needs it")
        return word

    def number(self, column: str, *, least: float = 0.0, most: float = np.inf) -> float:
        """At least `least`, or above 0 if that is larger."""
        word = self.word(column)
        try:
            value = float(word)
        except ValueError:
            value = np.nan
        if not least <= value <= most or np.isinf(value):
            limit = "" if np.isinf(most) else f" and {most:g} at most"
            bound = f"{least:g} or more" if least == 0.0 else "above 0"
            raise PhysicsError(
                f"{self.place}: {column} is {word!r}; it must be a number, {bound}{limit}"
            )
        return value

    def whole(self, column: str) -> int:
        value = self.number(column)
        if value != int(value):
            raise PhysicsError(f"{self.place}: {column} is {value:g}; it must be a whole number")
        return int(value)

    def flag(self, column: str) -> bool:
        word = self.word(column)
        if word not in {"0", "1"}:
            raise PhysicsError(f"{self.place}: {column} is {word!r}; it must be 0 or 1")
        return word == "1"

    def profile(self, model: str, batch: str) -> str:
        return f"{self.word(model)}/{self.whole(batch)}"


ABOVE_0 = float(np.finfo(np.float64).tiny)


def read_isolated(data_dir: Path | str) -> list[IsolatedSpeed]:
    """All isolated speeds below `data_dir`; PhysicsError names file, line and value."""
    return [
        IsolatedSpeed(
            gpu_type=row.word("gpu_type"),
            profile=row.profile("model", "batch_size"),
            num_gpus=row.whole("num_gpus"),
            consolidated=row.flag("consolidated"),
            steps_per_s=row.number("steps_per_s"),
        )
        for row in _rows(Path(data_dir) / ISOLATED_FILE)
    ]


def read_pairs(data_dir: Path | str) -> list[ColocatedPair]:
    """All co-located pairs below `data_dir`; PhysicsError names file, line and value."""
    pairs, places = [], dict[tuple[str, ...], str]()
    for row in _rows(Path(data_dir) / PAIRS_FILE):
        feasible = row.flag("feasible")
        norm_a, norm_b = (
            row.number(name, least=ABOVE_0, most=MOST_SPEED_UP) if feasible else np.nan
            for name in ("norm_a", "norm_b")
        )
        pair = ColocatedPair(
            gpu_type=row.word("gpu_type"),
            profile_a=row.profile("model_a", "batch_a"),
            profile_b=row.profile("model_b", "batch_b"),
            solo_a_s=1.0 / row.number("iso_a", least=ABOVE_0),
            solo_b_s=1.0 / row.number("iso_b", least=ABOVE_0),
            norm_a=norm_a,
            norm_b=norm_b,
            feasible=feasible,
        )
        key = (pair.gpu_type, *sorted((pair.profile_a, pair.profile_b)))
        if places.setdefault(key, row.place) != row.place:
            raise PhysicsError(f"{row.place}: {places[key]} has this pair, too; keep one")
        pairs.append(pair)
    return pairs


def _rows(path: Path) -> Iterator[_Row]:
    if not path.is_file():
        raise PhysicsError(
            f"{path}: no such file; set data_dir (or GPUYARD_DATA) to the folder of the measured "
            "data, or use the shipped profiles and interference"
        )
    with path.open(newline="", encoding="utf-8") as stream:
        for line, row in enumerate(csv.DictReader(stream), start=2):
            yield _Row(f"{path}:{line}", row)


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
        share = ring_share(np.asarray(float(gang)))
        local_s = share * transfer_s(sync_bytes, FIT_INTRA_GBPS)
        spread_s = share * transfer_s(sync_bytes, FIT_NIC_GBPS)
        log_ratio += np.log((compute_s + local_s) / (compute_s + spread_s))
    return np.asarray(np.exp(log_ratio / len(GANGS)))


def fit_sync_bytes(*, compute_s: FloatArray, ratio: FloatArray, weight: FloatArray) -> FloatArray:
    """(P,) bytes that reproduce the measured ratios best.

    Args:
        compute_s: (P, T) seconds a step on one GPU.
        ratio: (P, T) measured ratio; NaN where there is none.
        weight: (T,) weight of each GPU type; 0 leaves it out.

    Profiles without any ratio get the median of the others.
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


def measured_speedup(speeds: list[IsolatedSpeed], names: tuple[str, ...]) -> FloatArray:
    """(P, 9) throughput of n GPUs over that of one; NaN where nothing larger was measured."""
    found = {
        (s.profile, s.gpu_type, s.num_gpus): s.steps_per_s
        for s in speeds
        if s.consolidated and s.steps_per_s > 0
    }
    speedup = np.full((len(names), MOST_GPUS + 1), np.nan)
    for row, name in enumerate(names):
        points = _points(found, name)
        numbers = np.arange(1, max(points) + 1)
        known = sorted(points)
        curve = np.interp(np.log(numbers), np.log(known), [points[n] for n in known])
        speedup[row, 1 : len(numbers) + 1] = np.minimum(np.exp(curve), numbers)
    return speedup


def _points(found: dict[tuple[str, str, int], float], name: str) -> dict[int, float]:
    """Logarithm of the measured speed-up by number of GPUs; 0 for one."""
    points = {1: 0.0}
    for number in range(2, MOST_GPUS + 1):
        logs = [
            np.log(found[name, kind, number] / found[name, kind, 1])
            for kind in SCALING_TYPES
            if (name, kind, number) in found and (name, kind, 1) in found
        ]
        if logs:
            points[number] = float(np.mean(logs))
    return points


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
        slowdown, feasible, guessed = zip(*tables, strict=True)
        return PairTable(np.stack(slowdown), np.stack(feasible), "measured", guessed=sum(guessed))

    def _one_type(self, gpu_type: str, catalogue: Catalogue) -> tuple[FloatArray, BoolArray, int]:
        """(P, P) slow-down and feasibility on one GPU type, and how many nobody measured."""
        pairs = [p for p in self._pairs if p.gpu_type == gpu_type]
        if not pairs:
            raise PhysicsError(f"GPU type {gpu_type!r} has no measured pair; use {GPU_TYPES}")
        return filled(*measured_norm(pairs, catalogue.names))


def filled(norm: FloatArray, tried: BoolArray) -> tuple[FloatArray, BoolArray, int]:
    """(P, P) slow-down and feasibility; pairs without a speed get the additive fit of the others.

    Last: of the slow-downs of pairs that fit, those that came so.

    Args:
        norm: (P, P) normalised speed [victim, aggressor], one at least; NaN where none is known.
        tried: (P, P) symmetric; a pair that was tried and has no speed did not fit.
    """
    known = np.isfinite(norm)
    victim, aggressor = np.nonzero(known)
    fit = fit_additive(
        victim=victim, aggressor=aggressor, norm=norm[victim, aggressor], profiles=len(norm)
    )
    speed = np.where(known, norm, np.exp(fit.log_norm()))
    failed = tried & ~known & ~known.T
    infeasible = np.where(tried, failed, probably_infeasible(tried, failed))
    return np.maximum(1.0, 1.0 / speed), ~infeasible, int((~infeasible & ~known).sum())


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
