"""Co-location measurements of any source as one schema: victims' rows and profiles run alone.

`docs/interference.md` tells every column with its unit. The rules that columns obey stand first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, FloatArray, IntArray, Rows, TextArray, objects
from sim.errors import PhysicsError, nearest

JOIN = "+"  # between the names of aggressors in a file


@dataclass(frozen=True)
class Fault:
    """One value that breaks a rule."""

    row: int
    column: str
    value: object
    fix: str
    also: int | None = None  # an earlier row that has the same

    def told(self, place: Callable[[int], str]) -> str:
        """Column, value and fix, with the places of its rows."""
        also = "" if self.also is None else f"; {place(self.also)} has it too"
        return f"{place(self.row)}: {self.column} is {self.value!r}{also}; {self.fix}"


class RowFault(PhysicsError):
    """A row of a table breaks a rule; readers tell it again with file and line."""

    def __init__(self, table: str, fault: Fault) -> None:
        """Keep the fault for the reader that knows the line."""
        super().__init__(fault.told(lambda row: f"{table} row {row}"))
        self.fault = fault


def raise_first(table: str, faults: Iterable[Fault | None]) -> None:
    """Raise a RowFault for the fault of the earliest row, if there is any."""
    found = [fault for fault in faults if fault is not None]
    if found:
        raise RowFault(table, min(found, key=lambda fault: fault.row))


def check_columns(table: str, columns: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Raise a PhysicsError unless all columns are (N,) arrays of their types."""
    rows = None
    for name, column in columns.items():
        wanted, is_array = types[name], isinstance(column, np.ndarray)
        if not is_array or column.ndim != 1 or column.dtype != wanted:
            what = f"{column.dtype} {column.shape}" if is_array else type(column).__name__
            raise PhysicsError(
                f"{table}: column {name} is {what}; give a numpy array (N,) of {wanted.__name__}"
            )
        rows = len(column) if rows is None else rows
        if len(column) != rows:
            raise PhysicsError(
                f"{table}: column {name} has {len(column)} rows; the first has {rows}"
            )


def where(
    column: str, values: Sequence[object] | npt.NDArray[np.generic], bad: BoolArray, fix: str
) -> Fault | None:
    """The first bad row as a fault."""
    if not bad.any():
        return None
    value = values[row := int(np.argmax(bad))]
    return Fault(row, column, value.item() if isinstance(value, np.generic) else value, fix)


def names(column: str, values: TextArray, *, blank: bool = False) -> Fault | None:
    """Texts that a file gives back: printable, no blanks around; empty only where allowed."""
    bad = bad_names(values, blank=blank)
    return where(column, values, bad, "give a printable text without blanks around it")


def profiles(column: str, values: TextArray) -> Fault | None:
    """Names of profiles, which can be joined by `JOIN`."""
    fix = f"a profile's name must not hold {JOIN!r}, which joins aggressors in files"
    return names(column, values) or where(column, values, bad_profiles(values), fix)


def bad_names(values: TextArray, *, blank: bool = False) -> BoolArray:
    """(N,) whether a value is no name."""
    wrong = {
        value for value in set(values)
        if not isinstance(value, str) or value != value.strip() or not value.isprintable()
        or (value == "" and not blank)
    }  # fmt: skip
    return np.array([value in wrong for value in values], dtype=np.bool_)


def bad_profiles(values: TextArray) -> BoolArray:
    """(N,) whether a value holds `JOIN`."""
    return np.array([JOIN in str(value) for value in values], dtype=np.bool_)


def choice(column: str, values: TextArray, known: Sequence[str]) -> Fault | None:
    """One of a few words."""
    bad = np.array([value not in known for value in values], dtype=np.bool_)
    hint = nearest(values[int(np.argmax(bad))], known) if bad.any() else ""
    return where(column, values, bad, f"known are {', '.join(known)}{hint}")


def fraction(column: str, values: FloatArray) -> Fault | None:
    """0..1, or NaN where unknown; a value above 1 was probably given in percent."""
    in_percent = where(column, values, values > 1.0, "utilisation is in percent; give 0..1")
    return in_percent or amount(column, values, "0..1")


def amount(
    column: str, values: FloatArray, words: str = "0 or more", *, above_zero: bool = False
) -> Fault | None:
    """Finite, 0 or more or only above, or NaN where unknown."""
    bad = (values < 0.0) | np.isinf(values) | (above_zero & (values == 0.0))
    return where(column, values, bad, f"give {words}, or nothing where unknown")


def at_least(column: str, values: IntArray, least: int) -> Fault | None:
    """Whole numbers from `least` on."""
    return where(column, values, values < least, f"give a whole number of {least} or more")


SHARINGS = ("gpu", "mig", "network")
BASES = ("solo", "best")
MOST_AGGRESSORS = 6
HIGHEST_SPEED = 2.0  # the largest published value is 1.5; more is another unit
STAGES = ("load_s", "preprocess_s", "compute_s", "sync_s")
Key = tuple[str, str, str]  # source, GPU type, profile


@dataclass(frozen=True, eq=False)
class CoRows(Rows):
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
        check_columns("co-location", vars(self), CO_TYPES)
        raise_first("co-location", _co_faults(self))
        raise_first("co-location", [_group_fault(self)])


@dataclass(frozen=True, eq=False)
class SoloProfiles(Rows):
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
        check_columns("solo profiles", vars(self), SOLO_TYPES)
        raise_first("solo profiles", _solo_faults(self))
        raise_first("solo profiles", [_twice_fault(self)])

    def keys(self) -> Iterator[Key]:
        """(source, gpu_type, profile) of each row, in order."""
        return zip(self.source, self.gpu_type, self.profile, strict=True)


def types_of(table: type[CoRows] | type[SoloProfiles]) -> dict[str, type]:
    """Column -> numpy type of its values, by the annotations."""
    return {name: _innermost(hint) for name, hint in get_type_hints(table).items()}


def _innermost(hint: Any) -> type:  # NDArray[hint] is an alias of its own since numpy 2.5
    return _innermost(get_args(hint)[-1]) if get_args(hint) else hint


CO_TYPES, SOLO_TYPES = types_of(CoRows), types_of(SoloProfiles)
# What most rows are: of a measured group of jobs that have a whole GPU between them.
PLAIN: dict[str, str | float | bool] = {
    "sharing": "gpu", "split": "", "share": 1.0, "relative_to": "solo", "feasible": True,
    "measured": True,
}  # fmt: skip


def co_rows(**columns: Any) -> CoRows:
    """Rows from columns that are (N,) values, or one value throughout; others are as in PLAIN.

    Raises:
        RowFault: naming row, column, value and fix.
    """
    return CoRows(**_filled(PLAIN | columns, CO_TYPES, len(columns["victim"])))


# A job on one GPU; numbers that a source does not tell are unknown.
ALONE = {"amp": False, "gpus": 1, "nodes": 1} | {
    name: np.nan for name, numpy_type in SOLO_TYPES.items() if numpy_type is np.float64
}


def solo_profiles(**columns: Any) -> SoloProfiles:
    """Profiles likewise; others are as in ALONE."""
    return SoloProfiles(**_filled(ALONE | columns, SOLO_TYPES, len(columns["profile"])))


def _filled(given: dict[str, Any], types: dict[str, type], rows: int) -> dict[str, Any]:
    return {name: _column(given[name], numpy_type, rows) for name, numpy_type in types.items()}


def _column(value: Any, numpy_type: type, rows: int) -> Any:
    if isinstance(value, str | bool | int | float):
        return np.full(rows, value, dtype=numpy_type)
    return value if isinstance(value, np.ndarray) else objects(value)


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
    columns = {name: np.concatenate([getattr(t, name) for t in tables]) for name in SOLO_TYPES}
    return SoloProfiles(**columns)


def mix_numbers(rows: CoRows) -> IntArray:
    """(N,) equal where the same jobs ran together, on whatever GPU type and however often.

    Hold out whole numbers of these, not only groups, to judge mixes never seen on any type.
    """
    number: dict[tuple[str, ...], int] = {}
    numbers = [number.setdefault(jobs, len(number)) for jobs in jobs_of(rows)]
    return np.array(numbers, dtype=np.int64)


def check_profiled(rows: CoRows, solos: SoloProfiles) -> None:
    """Raise a RowFault unless every job has a solo profile.

    Aggressors of groups that did not fit are let off: one of them may not fit alone either.
    """
    known = set(solos.keys())
    facts = (rows.source, rows.gpu_type, rows.victim, rows.aggressors, rows.feasible)
    for row, (source, gpu_type, victim, others, fits) in enumerate(zip(*facts, strict=True)):
        for column, name in (("victim", victim), *(("aggressors", one) for one in others if fits)):
            if (source, gpu_type, name) not in known:
                near = nearest(name, [key[2] for key in known if key[:2] == (source, gpu_type)])
                fix = f"it has no solo profile of {source} on {gpu_type}; add one{near}"
                raise RowFault("co-location", Fault(row, column, name, fix))


def jobs_of(rows: CoRows) -> Iterator[tuple[str, ...]]:
    """The profiles of each row, sorted."""
    for victim, aggressors in zip(rows.victim, rows.aggressors, strict=True):
        yield tuple(sorted((victim, *aggressors)))


def _co_faults(rows: CoRows) -> list[Fault | None]:
    return [
        names("source", rows.source),
        names("gpu_type", rows.gpu_type),
        choice("sharing", rows.sharing, SHARINGS),
        at_least("group", rows.group, 0),
        names("split", rows.split, blank=True),
        profiles("victim", rows.victim),
        _aggressors_fault(rows.aggressors),
        where("share", rows.share, ~((rows.share > 0.0) & (rows.share <= 1.0)),
              "give the part of the GPU, above 0 and at most 1 (not percent)"),
        _speed_fault(rows),
        choice("relative_to", rows.relative_to, BASES),
    ]  # fmt: skip


def _aggressors_fault(aggressors: TextArray) -> Fault | None:
    """Tuples of names, sorted, not too many."""
    tuples = {each for each in aggressors if isinstance(each, tuple)}
    names = objects(sorted({name for each in tuples for name in each}, key=str))
    wrong = bad_names(names) | bad_profiles(names)
    unfit = set(names[wrong])
    good = {
        each
        for each in tuples
        if len(each) <= MOST_AGGRESSORS
        and unfit.isdisjoint(each)
        and all(a <= b for a, b in pairwise(each))
    }
    bad = np.array([not (isinstance(each, tuple) and each in good) for each in aggressors], bool)
    fix = f"give 0 to {MOST_AGGRESSORS} profile names, sorted, as a tuple (in files joined by +)"
    return where("aggressors", aggressors, bad, fix)


def _speed_fault(rows: CoRows) -> Fault | None:
    speed = rows.norm_speed
    wrong = [
        (rows.feasible & np.isnan(speed), "give a speed, or feasible 0 if the group did not fit"),
        (~rows.feasible & ~np.isnan(speed), "leave it empty where feasible is 0"),
        (speed > HIGHEST_SPEED, "speeds above 2 are percent or steps a second; give 0..2"),
        (speed <= 0.0, "give a speed above 0, or feasible 0 if the group did not fit"),
    ]
    return next((where("norm_speed", speed, bad, fix) for bad, fix in wrong if bad.any()), None)


def _group_fault(rows: CoRows) -> Fault | None:
    """A row that cannot be of the measurement that its group names."""
    first: dict[int, tuple[object, ...]] = {}
    fact_names = ("source", "gpu_type", "sharing", "split", "feasible")
    columns = [getattr(rows, name).tolist() for name in fact_names]
    for row, (group, jobs, *facts) in enumerate(
        zip(rows.group.tolist(), jobs_of(rows), *columns, strict=True)
    ):
        here = (*facts, jobs)
        before = first.setdefault(group, here)
        if before != here:
            names = zip((*fact_names, "jobs"), before, here, strict=True)
            what = next(f"{name} is {a!r}, then {b!r}" for name, a, b in names if a != b)
            return Fault(row, "group", group, f"a group is one measurement, but its {what}")
    return None


def _solo_faults(solos: SoloProfiles) -> list[Fault | None]:
    nodes_fit = where("nodes", solos.nodes, solos.nodes > solos.gpus, "give at most one node a GPU")
    return [
        *(names(name, getattr(solos, name)) for name in ("source", "gpu_type", "model")),
        profiles("profile", solos.profile),
        at_least("batch", solos.batch, 0),
        amount("step_s", solos.step_s, "a number above 0", above_zero=True),
        amount("samples_per_s", solos.samples_per_s, "a number above 0", above_zero=True),
        fraction("gpu_util", solos.gpu_util),
        fraction("gmem_util", solos.gmem_util),
        *(amount(n, getattr(solos, n)) for n in ("gmem_mib", "bandwidth_gb_per_s", *STAGES)),
        at_least("gpus", solos.gpus, 1),
        at_least("nodes", solos.nodes, 0) or nodes_fit,
    ]


def _twice_fault(solos: SoloProfiles) -> Fault | None:
    seen: dict[Key, int] = {}
    for row, key in enumerate(solos.keys()):
        if seen.setdefault(key, row) != row:
            return Fault(row, "profile", key[2], f"keep one of {key[0]} on {key[1]}", seen[key])
    return None
