"""Own orders whose keys are arithmetic on columns, written down as steps for compiled code."""

import dis
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from sim import codes
from sim.arrays import FloatArray, RowArray
from sim.engine.given import is_whole
from sim.engine.layout import STEP
from sim.view import JobColumns

MAKES: dict[Any, int] = {  # to the last bit as compiled code does
    np.add: codes.PLUS, np.subtract: codes.MINUS, np.multiply: codes.TIMES,
    np.divide: codes.OVER, np.minimum: codes.LEAST, np.maximum: codes.MOST, np.floor: codes.FLOOR,
    np.less: codes.BELOW, np.less_equal: codes.AT_MOST, np.sqrt: codes.ROOT,
    np.absolute: codes.SIZE,
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
        truth, now = code in (codes.BELOW, codes.AT_MOST), code == codes.NOW
        return _Number(self, len(self.rows) - 1, is_truth=truth, picked=None if now else False)

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
    """What step `at` gives, in place of a column, or once `picked` of the jobs asked for.

    `picked` is None of one number for all jobs, the time.
    """

    def __init__(self, steps: _Steps, at: int, *, is_truth: bool, picked: bool | None) -> None:
        self._steps, self.at, self._is_truth, self.picked = steps, at, is_truth, picked

    def __getitem__(self, jobs: object) -> "_Number":
        if self.picked is not False or type(jobs) is not object:  # the stand-in for `jobs`
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
        shapes = {each.picked for each in unknown} - {None}
        many = truths > 0 and (code != codes.TIMES or truths == len(unknown) == len(given))
        if len(shapes) > 1 or many:
            raise _NoArithmetic
        parts = [self._part(each).at for each in given]
        made = self._steps.made(code, *(parts[::-1] if ufunc in TURNED else parts))
        made.picked = next(iter(shapes), None)
        return made

    def _part(self, given: Any) -> "_Number":
        if isinstance(given, _Number):
            return given
        if isinstance(given, np.ndarray) and self.picked is False and not self._is_truth:
            return self._steps.column(given)
        whole = is_whole(given)
        if not (whole or isinstance(given, float)) or (whole and abs(given) > EXACT):
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
    `priority` may read columns of `view.jobs` at `jobs`, `view.now_s` and numbers of its object,
    and nothing else that may have changed when it matters; `keys` what never changes, too.
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

    def granted(value: Any) -> Any:
        if isinstance(value, MethodType) and value.__self__ is owner:
            return bound(value.__func__)
        if not isinstance(value, READS):
            raise _NoArithmetic
        return value

    def bound(function: Any) -> MethodType:
        """The method of the stand-in, in which `super()` is one, too."""
        _check_reads(function)
        cells, free = function.__closure__, function.__code__.co_freevars
        if "__class__" in free:
            above = super(cells[free.index("__class__")].cell_contents, owner)
            parent = _StandIn(lambda name: granted(getattr(above, name)))
            knows = function.__globals__ | {"super": lambda *_: parent}
            parts = function.__name__, function.__defaults__, cells
            function = FunctionType(function.__code__, knows, *parts)
        return MethodType(function, this)

    this = _StandIn(lambda name: granted(getattr(owner, name)))
    shown: dict[str, Callable[[], Any]] = {
        "jobs": lambda: _StandIn(steps.of_job), "now_s": lambda: steps.made(codes.NOW),
    }  # fmt: skip
    priority = bound(type(owner).priority)
    return priority(_StandIn(lambda name: shown[name]()), object())


def _check_reads(function: Any) -> None:
    """Refuse a function that writes anything, or reads what might change from call to call."""
    for each in dis.get_instructions(function):
        writes = each.opname.startswith("STORE") and each.opname != "STORE_FAST"
        names = function.__globals__ if each.opname == "LOAD_GLOBAL" else {}
        if writes or not isinstance(names.get(each.argval, 0), READS):
            raise _NoArithmetic
    if not all(isinstance(cell.cell_contents, READS) for cell in function.__closure__ or ()):
        raise _NoArithmetic
