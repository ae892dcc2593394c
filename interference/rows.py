"""Co-location measurements of any source as one schema: victims' rows and profiles run alone.

`docs/interference.md` tells every column with its unit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from interference import row_rules
from interference.row_rules import Fault, RowFault, raise_first
from sim.arrays import BoolArray, FloatArray, IntArray, TextArray, objects
from sim.errors import nearest

SHARINGS = ("gpu", "mig", "network")
BASES = ("solo", "best")
MOST_AGGRESSORS = 6
HIGHEST_SPEED = 2.0  # the largest published value is 1.5; more is another unit
CO_TYPES: dict[str, type] = {
    "source": np.object_,
    "gpu_type": np.object_,
    "sharing": np.object_,
    "group": np.int64,
    "split": np.object_,
    "victim": np.object_,
    "aggressors": np.object_,
    "share": np.float64,
    "norm_speed": np.float64,
    "relative_to": np.object_,
    "feasible": np.bool_,
    "measured": np.bool_,
}
SOLO_TYPES: dict[str, type] = {
    "source": np.object_,
    "gpu_type": np.object_,
    "profile": np.object_,
    "model": np.object_,
    "batch": np.int64,
    "amp": np.bool_,
    "step_s": np.float64,
    "samples_per_s": np.float64,
    "gpu_util": np.float64,
    "gmem_util": np.float64,
    "gmem_mib": np.float64,
    "bandwidth_gb_per_s": np.float64,
    "load_s": np.float64,
    "preprocess_s": np.float64,
    "compute_s": np.float64,
    "sync_s": np.float64,
    "gpus": np.int64,
    "nodes": np.int64,
}
STAGES = ("load_s", "preprocess_s", "compute_s", "sync_s")
Key = tuple[str, str, str]  # source, GPU type, profile


@dataclass(frozen=True, eq=False)
class CoRows:
    """N rows, one a victim of one measured group of jobs.

    Raises:
        RowFault: naming row, column, value and fix.
    """

    source: TextArray  # (N,) the set of measurements
    gpu_type: TextArray  # (N,)
    sharing: TextArray  # (N,) one of SHARINGS
    group: IntArray  # (N,) equal for all rows of one measurement
    split: TextArray  # (N,) the file's own division, "" where it has none
    victim: TextArray  # (N,) profile
    aggressors: TextArray  # (N,) tuples of profiles, sorted
    share: FloatArray  # (N,) the victim's part of the GPU, 1 where not partitioned
    norm_speed: FloatArray  # (N,) speed over that of `relative_to`; NaN where infeasible
    relative_to: TextArray  # (N,) one of BASES: alone on a whole GPU, or its best row of the group
    feasible: BoolArray  # (N,) False: the group did not fit
    measured: BoolArray  # (N,) False: the source set the value without a measurement

    def __post_init__(self) -> None:
        """Check types, values and groups."""
        _check_types("co-location", self, CO_TYPES)
        raise_first("co-location", _co_faults(self))
        raise_first("co-location", [_group_fault(self)])

    def __len__(self) -> int:
        """N."""
        return len(self.victim)

    def take(self, index: IntArray | BoolArray) -> "CoRows":
        """The rows of `index`."""
        return replace(self, **{name: getattr(self, name)[index] for name in CO_TYPES})


@dataclass(frozen=True, eq=False)
class SoloProfiles:
    """P profiles measured alone, one for each (source, gpu_type, profile).

    Raises:
        RowFault: naming row, column, value and fix.
    """

    source: TextArray  # (P,)
    gpu_type: TextArray  # (P,)
    profile: TextArray  # (P,)
    model: TextArray  # (P,)
    batch: IntArray  # (P,) 0 where not given
    amp: BoolArray  # (P,) mixed precision
    step_s: FloatArray  # (P,) seconds a step; this and all below NaN where unknown
    samples_per_s: FloatArray  # (P,) as published, in the model's own unit
    gpu_util: FloatArray  # (P,) 0..1
    gmem_util: FloatArray  # (P,) 0..1, share of time in which device memory was accessed
    gmem_mib: FloatArray  # (P,) device memory held
    bandwidth_gb_per_s: FloatArray  # (P,) traffic of device memory
    load_s: FloatArray  # (P,) stages of a step
    preprocess_s: FloatArray  # (P,)
    compute_s: FloatArray  # (P,)
    sync_s: FloatArray  # (P,)
    gpus: IntArray  # (P,)
    nodes: IntArray  # (P,) 0 where not known

    def __post_init__(self) -> None:
        """Check types, values and that no profile is there twice."""
        _check_types("solo profiles", self, SOLO_TYPES)
        raise_first("solo profiles", _solo_faults(self))
        raise_first("solo profiles", [_twice_fault(self)])

    def __len__(self) -> int:
        """P."""
        return len(self.profile)

    def keys(self) -> Iterator[Key]:
        """(source, gpu_type, profile) of each row, in order."""
        return zip(self.source, self.gpu_type, self.profile, strict=True)


def stacked_rows(tables: Sequence[CoRows]) -> CoRows:
    """The rows of several tables; no two tables share a group."""
    groups, first = [], 0
    for table in tables:
        names, dense = np.unique(table.group, return_inverse=True)
        groups.append(dense + first)
        first += len(names)
    columns = {name: np.concatenate([getattr(t, name) for t in tables]) for name in CO_TYPES}
    return CoRows(**(columns | {"group": np.concatenate(groups)}))


def stacked_profiles(tables: Sequence[SoloProfiles]) -> SoloProfiles:
    """The profiles of several tables."""
    return SoloProfiles(
        **{name: np.concatenate([getattr(t, name) for t in tables]) for name in SOLO_TYPES}
    )


def mix_numbers(rows: CoRows) -> IntArray:
    """(N,) equal where the same jobs ran together, on whatever GPU type and however often.

    Hold out whole numbers of these, not only groups, to judge mixes never seen on any type.
    """
    number: dict[tuple[str, ...], int] = {}
    return np.array([number.setdefault(jobs, len(number)) for jobs in _jobs(rows)], dtype=np.int64)


def check_profiled(rows: CoRows, solos: SoloProfiles) -> None:
    """Raise a RowFault unless every job has a solo profile.

    Aggressors of groups that did not fit are let off: one of them may not fit alone either.
    """
    known = set(solos.keys())
    facts = (rows.source, rows.gpu_type, rows.victim, rows.aggressors, rows.feasible)
    for row, (source, gpu_type, victim, aggressors, feasible) in enumerate(
        zip(*facts, strict=True)
    ):
        others = aggressors if feasible else ()
        for column, name in (("victim", victim), *(("aggressors", each) for each in others)):
            if (source, gpu_type, name) not in known:
                near = nearest(name, [key[2] for key in known if key[:2] == (source, gpu_type)])
                fix = f"it has no solo profile of {source} on {gpu_type}; add one{near}"
                raise RowFault("co-location", Fault(row, column, name, fix))


def _jobs(rows: CoRows) -> Iterator[tuple[str, ...]]:
    for victim, aggressors in zip(rows.victim, rows.aggressors, strict=True):
        yield tuple(sorted((victim, *aggressors)))


def _check_types(table: str, rows: CoRows | SoloProfiles, types: dict[str, type]) -> None:
    columns = {field.name: getattr(rows, field.name) for field in fields(rows)}
    row_rules.check_columns(table, {name: (columns[name], types[name]) for name in columns})


def _co_faults(rows: CoRows) -> list[Fault | None]:
    return [
        row_rules.names("source", rows.source),
        row_rules.names("gpu_type", rows.gpu_type),
        row_rules.choice("sharing", rows.sharing, SHARINGS),
        row_rules.at_least("group", rows.group, 0),
        row_rules.names("split", rows.split, blank=True),
        row_rules.profiles("victim", rows.victim),
        _aggressors_fault(rows.aggressors),
        row_rules.where(
            "share",
            rows.share,
            ~((rows.share > 0.0) & (rows.share <= 1.0)),
            "give the part of the GPU, above 0 and at most 1 (not percent)",
        ),
        _speed_fault(rows),
        row_rules.choice("relative_to", rows.relative_to, BASES),
    ]


def _aggressors_fault(aggressors: TextArray) -> Fault | None:
    """Tuples of names, sorted, not too many."""
    tuples = {each for each in aggressors if isinstance(each, tuple)}
    names = objects(sorted({name for each in tuples for name in each}, key=str))
    wrong = row_rules.bad_names(names) | row_rules.bad_profiles(names)
    bad_names = set(names[wrong])
    good = {
        each
        for each in tuples
        if len(each) <= MOST_AGGRESSORS
        and bad_names.isdisjoint(each)
        and all(a <= b for a, b in pairwise(each))
    }
    bad = np.array([not (isinstance(each, tuple) and each in good) for each in aggressors])
    bad = bad.astype(np.bool_)  # of no rows, too
    fix = f"give 0 to {MOST_AGGRESSORS} profile names, sorted, as a tuple (in files joined by +)"
    return row_rules.where("aggressors", aggressors, bad, fix)


def _speed_fault(rows: CoRows) -> Fault | None:
    speed = rows.norm_speed
    wrong = [
        (rows.feasible & np.isnan(speed), "give a speed, or feasible 0 if the group did not fit"),
        (~rows.feasible & ~np.isnan(speed), "leave it empty where feasible is 0"),
        (speed > HIGHEST_SPEED, "speeds above 2 are percent or steps a second; give 0..2"),
        (speed <= 0.0, "give a speed above 0, or feasible 0 if the group did not fit"),
    ]
    faults: Iterable[Fault | None] = (
        row_rules.where("norm_speed", speed, bad, fix) for bad, fix in wrong
    )
    return next((fault for fault in faults if fault is not None), None)


def _group_fault(rows: CoRows) -> Fault | None:
    """A row that cannot be of the measurement that its group names."""
    first: dict[int, tuple[object, ...]] = {}
    told = ("source", "gpu_type", "sharing", "split")
    columns = [getattr(rows, name) for name in told]
    for row, (group, jobs, *facts) in enumerate(
        zip(rows.group.tolist(), _jobs(rows), *columns, strict=True)
    ):
        here = (*facts, jobs)
        before = first.setdefault(group, here)
        if before != here:
            names = zip((*told, "jobs"), before, here, strict=True)
            what = next(f"{name} is {a!r}, then {b!r}" for name, a, b in names if a != b)
            return Fault(row, "group", group, f"a group is one measurement, but its {what}")
    return None


def _solo_faults(solos: SoloProfiles) -> list[Fault | None]:
    nodes_fit = row_rules.where(
        "nodes", solos.nodes, solos.nodes > solos.gpus, "give at most one node a GPU"
    )
    return [
        *(row_rules.names(name, getattr(solos, name)) for name in ("source", "gpu_type", "model")),
        row_rules.profiles("profile", solos.profile),
        row_rules.at_least("batch", solos.batch, 0),
        row_rules.positive("step_s", solos.step_s),
        row_rules.positive("samples_per_s", solos.samples_per_s),
        row_rules.fraction("gpu_util", solos.gpu_util),
        row_rules.fraction("gmem_util", solos.gmem_util),
        row_rules.at_least_zero("gmem_mib", solos.gmem_mib),
        row_rules.at_least_zero("bandwidth_gb_per_s", solos.bandwidth_gb_per_s),
        *(row_rules.at_least_zero(name, getattr(solos, name)) for name in STAGES),
        row_rules.at_least("gpus", solos.gpus, 1),
        row_rules.at_least("nodes", solos.nodes, 0) or nodes_fit,
    ]


def _twice_fault(solos: SoloProfiles) -> Fault | None:
    seen: dict[Key, int] = {}
    for row, key in enumerate(solos.keys()):
        if seen.setdefault(key, row) != row:
            fix = f"row {seen[key]} has it too, for {key[0]} on {key[1]}; keep one"
            return Fault(row, "profile", key[2], fix)
    return None
