"""How functions are compiled, where compiled code is kept, and when it is out of date.

Those of the event loop make no arrays, so numba's reference counting is switched off for them:
handing arrays from function to function would otherwise touch the count of each, which took ten
times as long as the work itself (79,515 jobs of FIFO: 0.25 s with, 0.04 s without).

LLVM's first level of optimisation, and what it inlines by itself: against level 3 with forced
inlining, compiling the first loop takes 25 s instead of 53 and the loop's time over the bare floor
is 3.0 instead of 2.1 (FIFO), 8.3 instead of 7.5 (LAS). NUMBA_OPT says otherwise.

Indices count from the front: numba asks at every access whether one is below 0, and counts from the
end then. An agent's observation takes 34 us without that instead of 48 (512 GPUs). An index below 0
reads what is not its own; `NUMBA_BOUNDSCHECK=1` finds it.

numba asks only whether the file in which a function is defined has changed, yet a compiled function
holds the code of all that it calls. Here a function's stamp is a digest of all that it reaches:
compiled functions through any number of files, and the constants that they read. Editing a callee
recompiles its callers; editing anything else recompiles nothing. Named to numba by the documented
setting NUMBA_CACHE_LOCATOR_CLASSES.
"""

import hashlib
import inspect
import logging
import os
import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numba import config, njit
from numba.core import caching, types
from numba.core.dispatcher import Dispatcher
from numba.core.types import unliteral
from numba.np import arrayobj

from sim.putting_off import put_off

log = logging.getLogger(__name__)

SHIPPED = ("sim", "interference", "gnn", "marl", "gpuyard")
PACKAGES = (*SHIPPED, "benchmarks", "tests")
INDICES = "from the front"  # part of every stamp
MARK = "reach"  # in the names of our files, where numba has a line number
_KEPT = re.compile(r"\.py\d+\w*(?:\.\d+)?\.nb[ic]$")
_PLAIN = (int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype)


_load: Any = caching.IndexDataCacheFile.load
_save: Any = caching.Cache.save_overload
# Of files that name a type that is gone, or that a crash or a full disk cut off or left full of
# other bytes. numba reads the types of arguments before the stamp.
UNREADABLE = (ImportError, AttributeError, EOFError, LookupError, TypeError, ValueError,
              OverflowError, MemoryError, pickle.UnpicklingError)  # fmt: skip
_warned: list[str] = []  # once is enough


def _load_or_miss(file: Any, key: Any) -> Any:
    """Compiled code; None, as where nothing is kept, if it cannot be read."""
    try:
        return _load(file, key)
    except (OSError, *UNREADABLE):
        return None


def _save_or_tell(cache: Any, signature: Any, data: Any) -> None:
    """Keep compiled code; where it cannot be written, on a full disk for one, go on without."""
    try:
        try:
            _save(cache, signature, data)
        except UNREADABLE:  # its index, which is begun anew
            cache.flush()
            _save(cache, signature, data)
    except OSError as error:
        if not _warned:
            place = error.filename or cache.cache_path
            _warned.append(f"compiled code is not kept ({place}: {os.strerror(error.errno or 0)})")
            log.warning("%s; make room, or set NUMBA_CACHE_DIR=DIR", _warned[0])


caching.IndexDataCacheFile.load = _load_or_miss  # type: ignore[method-assign]
caching.Cache.save_overload = _save_or_tell  # type: ignore[method-assign]


class _Stamp:
    """A digest worked out when it is first compared or written: by then all names are bound."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._digest = ""

    def digest(self) -> str:
        if not self._digest:
            self._digest = reach_digest(self._function)
        return self._digest

    def __eq__(self, other: object) -> bool:
        return self.digest() == (other.digest() if isinstance(other, _Stamp) else other)

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.digest(),)  # what stands in the file is the digest alone


class ReachLocator:
    """Keeps compiled functions of this project beside their sources, or in NUMBA_CACHE_DIR."""

    def __init__(self, function: FunctionType, path: str) -> None:
        """For one function, defined in the file `path`."""
        given = getattr(config, "CACHE_DIR", "")
        place = caching.UserProvidedCacheLocator if given else caching.InTreeCacheLocator
        self._place: Any = place(function, path)
        self._function, self._path, self._swept = function, path, False
        self._py_file = path  # where numba says a warning comes from

    @classmethod
    def from_function(cls, function: FunctionType, path: str) -> "ReachLocator | None":
        """None for functions of others, and where nothing can be written."""
        if function.__module__.partition(".")[0] not in PACKAGES or not Path(path).exists():
            return None
        self = cls(function, path)
        try:
            self._place.ensure_cache_path()
        except OSError:
            return None
        return self

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._place.get_cache_path())

    def get_source_stamp(self) -> _Stamp:
        """What must be equal for compiled code to be used again."""
        return _Stamp(self._function)

    def get_disambiguator(self) -> str:
        """The same wherever the function stands in its file: a stale file is overwritten."""
        return MARK

    def ensure_cache_path(self) -> None:
        """Called before something is kept; removes what nobody will ask for again."""
        self._place.ensure_cache_path()
        if not self._swept:
            self._swept = True
            _sweep(Path(self.get_cache_path()), self._path, self._function.__globals__)


def _sweep(folder: Path, path: str, names: dict[str, Any]) -> None:
    """Remove kept code of another naming, of functions gone from this module, of modules gone."""
    source = Path(path)
    for file in folder.glob("*.nb?"):
        module, _, rest = _KEPT.sub("", file.name).partition(".")
        function, _, mark = rest.rpartition("-")
        if module == source.stem:
            gone = mark != MARK or function.partition(".")[0] not in names
        else:
            gone = not source.with_name(f"{module}.py").exists()
        if gone:
            file.unlink(missing_ok=True)


def reach_digest(function: FunctionType) -> str:
    """Digest of the code of all compiled functions that `function` reaches, itself included."""
    found: dict[str, str] = {}
    _collect(function, found)
    text = "\n".join([INDICES, *(f"{name} {found[name]}" for name in sorted(found))])
    return hashlib.sha256(text.encode()).hexdigest()


def _collect(function: FunctionType, found: dict[str, str]) -> None:
    key = f"{function.__module__}.{function.__qualname__}"
    if key in found:
        return
    found[key] = ""
    parts = [_code_text(function.__code__), repr(function.__defaults__)]
    for name, value in sorted(read_by(function), key=lambda pair: pair[0]):
        parts.append(f"{name}={_value_text(value, found)}")
    found[key] = hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Globals and closed-over values that a function reads."""
    for name in set(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _code_text(code: CodeType) -> str:
    consts = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts))


def _value_text(value: Any, found: dict[str, str]) -> str:
    """A constant's value; for what is compiled in turn its name, after it has been collected."""
    if isinstance(value, Dispatcher) or (isinstance(value, FunctionType) and is_ours(value)):
        function: FunctionType = getattr(value, "py_func", value)  # type: ignore[arg-type]
        _collect(function, found)
        options = getattr(value, "targetoptions", "")
        return f"{function.__module__}.{function.__qualname__} {options}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, tuple):
        return repr([_value_text(each, found) for each in value])
    if isinstance(value, _PLAIN) or hasattr(value, "_fields"):
        return repr(getattr(value, "_fields", value))
    source = value if isinstance(value, ModuleType | type) else type(value)
    return _file_text(source) if is_ours(source) else repr(getattr(source, "__name__", ""))


def is_ours(value: Any) -> bool:
    """Whether this project defines a module, class or function."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(name).partition(".")[0] in PACKAGES


def _file_text(source: ModuleType | type) -> str:
    """Digest of the file that something of another kind comes from."""
    path = os.fspath(inspect.getfile(source))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


if "NUMBA_OPT" not in os.environ:
    config.OPT = type(config.OPT)(1)  # type: ignore[attr-defined]
if not getattr(config, "CACHE_LOCATOR_CLASSES", ""):
    # Kept code is out of date when anything that it reaches is edited, in whatever file.
    config.CACHE_LOCATOR_CLASSES = (  # type: ignore[attr-defined]
        "sim.jit.ReachLocator,UserProvidedCacheLocator,InTreeCacheLocator,"
        "UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
    )

_given_index: Any = arrayobj.fix_integer_index
# Symbols of compiled functions; not those of `tests`, as others may call theirs, too.
_OURS = tuple(f"_ZN{len(each)}{each}" for each in SHIPPED)


def _index(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
    """An index as it is in functions of this project; numba's own go on as numba wrote them."""
    if builder.function.name.startswith(_OURS):
        return context.cast(builder, index, index_type, types.intp)
    return _given_index(context, builder, index_type, index, size)


arrayobj.fix_integer_index = _index
put_off()

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function that makes no arrays."""
    return _compiled(function, _nrt=False)


def array_kernel(function: F) -> F:
    """Compile a function that makes arrays."""
    return _compiled(function)


def _compiled(function: F, **options: Any) -> F:
    """Let compiled callers see one function where they hand it constants.

    numba compiles a callee anew for every constant that it is called with, and so all that it
    calls in turn.
    """
    compiler: Any = partial(njit, no_cfunc_wrapper=True, **options)
    try:
        dispatcher: F = compiler(cache=True)(function)
    except RuntimeError:  # nowhere can it be kept, neither beside the sources nor in the home
        dispatcher = compiler()(function)
    given = getattr(dispatcher, "get_call_template", None)
    if given is not None:  # else compilation is switched off

        def template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            plain = {name: unliteral(numba_type) for name, numba_type in kws.items()}
            return given(tuple(unliteral(numba_type) for numba_type in args), plain)

        dispatcher.get_call_template = template  # type: ignore[attr-defined]
    return dispatcher
