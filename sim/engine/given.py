"""What schedulers, orders and their parts of one's own give: checked, and refused in words.

Keys of running jobs that are arithmetic on columns are written down as steps for compiled code.
"""

import dis
import math
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from sim import codes
from sim.arrays import FloatArray, IntArray, RowArray
from sim.decision import Decision, Forward, Start
from sim.engine.layout import STEP
from sim.errors import GpuYardError, InvalidDecision
from sim.view import JobColumns, Signal

FIXES = {  # what a class has to have -> how to write it
    "order_name": 'order_name = "mine"',
    "order_needs": "order_needs = Signal.NONE (from sim.view)",
    "name": 'name = "mine"',
    "needs": "needs = Signal.NONE (from sim.view)",
    "shares": "shares = False",
}
KINDS: dict[str, type] = {"name": str, "needs": Signal, "order_name": str, "order_needs": Signal}
MOST_SHOWN = 60  # characters of a value


def called(part: object) -> str:
    """The class of an object, with its module; or what it stands for, as it says."""
    return str(getattr(part, "called", f"{type(part).__module__}.{type(part).__qualname__}"))


OTHERWISE = {  # what an order may have instead of `keys`
    "order": "order(self, view), the jobs of view.queued, first to start first",
    "priority": "priority(self, view, jobs), one for each of these jobs as of now",
}


def no_order(owner: object, other: str) -> GpuYardError:
    """The error for an order that says in neither way who comes first; `other` of OTHERWISE."""
    return GpuYardError(
        f"{called(owner)} has neither `keys` nor `{other}`; give it keys(self, jobs), one number "
        f"for each job, the least to start first, or {OTHERWISE[other]}"
    )


def attribute(owner: object, name: str) -> Any:
    """An attribute that the class has to have.

    Raises:
        GpuYardError: it has none, or one of another kind; names class, attribute and fix.
    """
    missing = object()
    value = getattr(owner, name, missing)
    if value is missing:
        raise GpuYardError(f"{called(owner)} has no `{name}`; add {FIXES[name]} to the class")
    if name in KINDS and not isinstance(value, KINDS[name]):
        raise GpuYardError(f"{called(owner)}.{name} is {_shown(value)}; write {FIXES[name]}")
    return value


def check_part(part: object, role: str, *names: str) -> None:
    """Refuse what is no placer or sharing rule: it has no `place`, or lacks one of `names`.

    Raises:
        GpuYardError: naming what was given, and the fix.
    """
    if not callable(getattr(part, "place", None)):
        raise GpuYardError(
            f"{role} is {_shown(part)} ({called(part)}), which has no method `place`; name one of "
            f"conf/{role}, or see `{role.capitalize()}` in sim/protocols.py"
        )
    for name in names:
        attribute(part, name)


def numbers(owner: object, method: str, given: object, count: int) -> FloatArray:
    """(count,) the numbers that a method gives, one a job.

    Raises:
        GpuYardError: it gives something else; names class, method and what it has to give.
    """
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = None
    if found is not None and found.shape == (count,) and not np.isnan(found).any():
        return found
    if found is None or given is None or found.ndim == 0:
        words = _shown(given)
    else:
        words = f"{found.shape} numbers, {int(np.isnan(found).sum())} of them NaN"
    raise GpuYardError(
        f"{called(owner)}.{method} gives {words}; it must give one number for each of the {count} "
        "jobs it is given, as an array"
    )


MAKES: dict[Any, int] = {  # to the last bit as compiled code does
    np.add: codes.PLUS, np.subtract: codes.MINUS, np.multiply: codes.TIMES,
    np.divide: codes.OVER, np.minimum: codes.LEAST, np.maximum: codes.MOST, np.floor: codes.FLOOR,
    np.less: codes.BELOW, np.less_equal: codes.AT_MOST,
}  # fmt: skip
TURNED = {np.greater: np.less, np.greater_equal: np.less_equal}
CHANGE = {  # columns, as a job gets on
    "progress_s": codes.PROGRESS, "attained_gpu_s": codes.ATTAINED,
    "preemptions": codes.PREEMPTIONS, "restarts": codes.RESTARTS,
}  # fmt: skip
STAY = ("submit_s", "num_gpus", "duration_s", "estimate_s")
LEFT_OF = {"remaining_s": ("duration_s", -np.inf), "predicted_remaining_s": ("estimate_s", 0.0)}
READS = (ModuleType, type, BuiltinFunctionType, np.ufunc, int, float, str)  # beside its arguments
EXACT = 2**53  # whole numbers up to it are floats, too


class Arithmetic(NamedTuple):
    """How the key of a job follows from columns."""

    steps: RowArray  # STEP
    columns: FloatArray  # (columns, J)


class _NoArithmetic(BaseException):
    """What is done is more than that; no `Exception`, so that nobody catches it."""


class _Steps:
    """The arithmetic so far, on columns (J,) of `jobs`."""

    def __init__(self, jobs: JobColumns) -> None:
        self.rows: list[tuple[int, int, int, float]] = []
        self.columns, self._jobs = list[FloatArray](), jobs

    def made(self, code: int, a: int = 0, b: int = 0, value: float = 0.0) -> "_Number":
        """The number that one step more gives."""
        self.rows.append((code, a, b, value))
        return _Number(self, len(self.rows) - 1, is_truth=code in (codes.BELOW, codes.AT_MOST))

    def column(self, given: Any) -> "_Number":
        """The number that stands in a column."""
        plain = given.dtype.kind == "f" or (given.dtype.kind in "iub" and abs(given).max() <= EXACT)
        if not plain or given.shape != self._jobs.num_gpus.shape:
            raise _NoArithmetic
        self.columns.append(given.astype(np.float64))
        return self.made(codes.COLUMN, len(self.columns) - 1)

    def of_job(self, name: str) -> Any:
        """The stand-in for a column of jobs, if it is granted."""
        if name in LEFT_OF:
            whole, least_s = LEFT_OF[name]
            left_s: Any = self.column(getattr(self._jobs, whole)) - self.made(codes.PROGRESS)
            return np.maximum(left_s, least_s) if np.isfinite(least_s) else left_s
        if name in STAY:
            return self.column(getattr(self._jobs, name))
        return self.made(CHANGE[name])


class _Number(NDArrayOperatorsMixin):
    """What step `at` gives, in place of a column, or once `picked` of the jobs asked for."""

    def __init__(self, steps: _Steps, at: int, *, is_truth: bool, picked: bool = False) -> None:
        self._steps, self.at, self._is_truth, self.picked = steps, at, is_truth, picked

    def __getitem__(self, jobs: object) -> "_Number":
        if self.picked or type(jobs) is not object:  # the stand-in for `jobs`
            raise _NoArithmetic
        return _Number(self._steps, self.at, is_truth=self._is_truth, picked=True)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **others: Any) -> "_Number":
        unknown = [each for each in given if isinstance(each, _Number)]
        if ufunc is np.negative:
            ufunc, given = np.multiply, (*given, -1.0)
        code = MAKES.get(TURNED.get(ufunc, ufunc))
        if code is None or method != "__call__" or others:
            raise _NoArithmetic
        truths = sum(each._is_truth for each in unknown)  # true and true is no 2
        alike = all(each.picked == self.picked for each in unknown)
        if not alike or (truths and (code != codes.TIMES or truths == len(unknown) == len(given))):
            raise _NoArithmetic
        parts = [self._part(each).at for each in given]
        made = self._steps.made(code, *(parts[::-1] if ufunc in TURNED else parts))
        made.picked = self.picked
        return made

    def _part(self, given: Any) -> "_Number":
        if isinstance(given, _Number):
            return given
        if isinstance(given, np.ndarray) and not (self.picked or self._is_truth):
            return self._steps.column(given)
        is_whole = _is_whole(given)
        if not (is_whole or isinstance(given, float)) or (is_whole and abs(given) > EXACT):
            raise _NoArithmetic
        return self._steps.made(codes.NUMBER, value=float(given))

    def _unknown(self, *_: object, **__: object) -> Any:
        raise _NoArithmetic

    __bool__ = __array__ = __iter__ = __len__ = __float__ = __int__ = _unknown


class _StandIn:
    """For an object of which some attributes are known, and no other may be read or written."""

    def __init__(self, known: Callable[[str], Any]) -> None:
        vars(self)["_known"] = known

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["_known"](name)
        except Exception:
            raise _NoArithmetic from None

    def __setattr__(self, name: str, value: object) -> None:
        raise _NoArithmetic


def as_arithmetic(owner: Any, jobs: JobColumns, *, by_keys: bool) -> Arithmetic | None:
    """A preemptive order's `keys` or `priority`, if that is arithmetic on columns; else None.

    It is called with stand-ins, whose operators are written down: with those of `MAKES`. A
    `priority` may read columns of `view.jobs` at `jobs` and numbers of its object, and nothing else
    that may have changed when it matters, the time included; `keys` what never changes, too.
    """
    found, again = (_listed(owner, jobs, by_keys=by_keys) for _ in range(2))
    if found is None or again is None or found.rows != again.rows:
        return None  # more than arithmetic, or something drawn at random
    columns = np.array(found.columns).reshape(-1, len(jobs.num_gpus))
    if not np.array_equal(columns, np.array(again.columns).reshape(columns.shape)):
        return None
    return Arithmetic(np.array(found.rows, dtype=STEP), columns)


def _listed(owner: Any, jobs: JobColumns, *, by_keys: bool) -> _Steps | None:
    steps = _Steps(jobs)

    def known(name: str) -> Any:
        return steps.of_job(name) if name in (*CHANGE, *LEFT_OF) else getattr(jobs, name)

    try:
        given = owner.keys(_StandIn(known)) if by_keys else _priority(owner, steps)
        is_end = (given.picked, given.at) == (not by_keys, len(steps.rows) - 1)
    except (Exception, _NoArithmetic):
        return None
    return steps if is_end else None


def _priority(owner: Any, steps: _Steps) -> Any:
    """What `priority` gives for stand-ins of its object, a view and the jobs."""

    def known(name: str) -> Any:
        value = getattr(owner, name)
        if isinstance(value, MethodType) and value.__self__ is owner:
            _check_reads(value.__func__)
            return MethodType(value.__func__, this)
        if not isinstance(value, READS):
            raise _NoArithmetic
        return value

    this, function = _StandIn(known), type(owner).priority
    _check_reads(function)
    return function(this, _StandIn({"jobs": _StandIn(steps.of_job)}.__getitem__), object())


def _check_reads(function: Any) -> None:
    """Refuse a function that writes anything, or reads what might change from call to call."""
    for each in dis.get_instructions(function):
        writes = each.opname.startswith("STORE") and each.opname != "STORE_FAST"
        names = function.__globals__ if each.opname == "LOAD_GLOBAL" else {}
        if writes or not isinstance(names.get(each.argval, 0), READS):
            raise _NoArithmetic
    if not all(isinstance(cell.cell_contents, READS) for cell in function.__closure__ or ()):
        raise _NoArithmetic


def rows(owner: object, given: object) -> IntArray:
    """(N,) the job rows that `order` gives.

    Raises:
        GpuYardError: it gives something else; names class, method and what it has to give.
    """
    if not _are_whole(given):
        raise GpuYardError(
            f"{called(owner)}.order gives {_shown(given)}; it must give the jobs of view.queued, "
            "first to start first, as an array of whole numbers"
        )
    return np.ascontiguousarray(given, dtype=np.int64)


LISTED, WHOLE = (tuple, list), (int, np.integer)
ORDERS: tuple[tuple[str, tuple[type, ...], str], ...] = (  # of a decision, and what they must be
    ("starts", (Start,), "Start, like (Start(job, gpus),)"),
    ("preempts", WHOLE, "rows of jobs, whole numbers, like (job,)"),
    ("forwards", (Forward,), "Forward, like (Forward(job, partition),)"),
)


def check_decision(owner: object, given: object) -> None:
    """Refuse what is no decision, or holds what would be read as another.

    Args:
        owner: the scheduler that gives it; None: nobody knows.
        given: what it gives; whether jobs and GPUs are there, and free, is not looked at.

    Raises:
        InvalidDecision: names class, value and what it must be.
    """
    for fault in _faults(given):
        who = "a decision" if owner is None else f"{called(owner)}.decide"
        raise InvalidDecision(f"{who} gives {fault}")


def _faults(given: object) -> Iterator[str]:
    """What of a decision is none, and what it must be; not to be asked on after the first."""
    if not isinstance(given, Decision):
        yield f"{_shown(given)}; it must be a Decision, or WAIT to let time pass (sim.decision)"
        return
    for name, kind, what in ORDERS:
        orders = getattr(given, name)
        if not isinstance(orders, LISTED):
            yield f"{name}={_shown(orders)}; it must be a tuple of {what}"
        for each in orders:
            if not isinstance(each, kind) or type(each) is bool:
                yield f"{_shown(each)} in {name}; it must be a tuple of {what}"
    for start in given.starts:
        yield from _faults_of_start(start)
    for each in given.forwards:
        if not (_is_whole(each.job) and _is_whole(each.partition)):
            yield f"{_shown(each)}; its job, a row, and its partition must be whole numbers"
    if not _is_time(given.wake_s):
        yield f"wake_s={_shown(given.wake_s)}; it must be a time in seconds, or None"


def _faults_of_start(start: Start) -> Iterator[str]:
    if not _is_whole(start.job):
        yield f"a start of job {_shown(start.job)}; it must be a row of a job, a whole number"
    if not _are_whole(start.gpus):
        yield (
            f"a start of job row {start.job} on gpus {_shown(start.gpus)}; they must be an array "
            "of whole numbers, like np.array([0, 1])"
        )
    if not _is_time(start.lease_s):
        yield (
            f"a start of job row {start.job} with lease_s={_shown(start.lease_s)}; it must be a "
            "number of seconds, or None"
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, WHOLE) and type(value) is not bool


def _are_whole(given: object) -> bool:
    """Whether it is a list of whole numbers; an empty one may be of any kind."""
    try:
        found = np.asarray(given)
    except ValueError:  # lists in a list
        return False
    return found.ndim == 1 and (found.dtype.kind in "iu" or len(found) == 0)


def _is_time(value: object) -> bool:
    if value is None or _is_whole(value):
        return True
    return isinstance(value, (float, np.floating)) and not math.isnan(value)


def check_scheduler(given: object) -> None:
    """Refuse what is no scheduler: a method is missing, or name or needs.

    Raises:
        GpuYardError: naming the class and the fix.
    """
    for name, fix in (("decide", "decide(self, view)"), ("reset", "reset(self, seed)")):
        if not callable(getattr(given, name, None)):
            raise GpuYardError(
                f"{called(given)} has no method `{name}`; add {fix} to the class, see `Scheduler` "
                "in sim/protocols.py"
            )
    attribute(given, "name")
    attribute(given, "needs")


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
