"""How functions are compiled.

Those of the event loop make no arrays, so numba's reference counting is switched off for them:
handing arrays from function to function would otherwise touch the count of each, which took ten
times as long as the work itself (79,515 jobs of FIFO: 0.25 s with, 0.04 s without).

LLVM's first level of optimisation, and what it inlines by itself: against level 3 with forced
inlining, compiling the first loop takes 25 s instead of 53 and the loop's time over the bare floor
is 3.0 instead of 2.1 (FIFO), 8.3 instead of 7.5 (LAS). NUMBA_OPT says otherwise.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core.types import unliteral

if "NUMBA_OPT" not in os.environ:
    config.OPT = type(config.OPT)(1)  # type: ignore[attr-defined]
if not getattr(config, "CACHE_LOCATOR_CLASSES", ""):
    # Kept code is out of date when anything that it reaches is edited, in whatever file.
    config.CACHE_LOCATOR_CLASSES = (  # type: ignore[attr-defined]
        "sim.jit_cache.ReachLocator,UserProvidedCacheLocator,InTreeCacheLocator,"
        "UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
    )

F = TypeVar("F", bound=Callable[..., object])

OPTIONS: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
BARE: dict[str, Any] = {**OPTIONS, "_nrt": False}


def kernel(function: F) -> F:
    """Compile a function that makes no arrays."""
    return _once(cast(F, njit(**BARE)(function)))


def array_kernel(function: F) -> F:
    """Compile a function that makes arrays."""
    return _once(cast(F, njit(**OPTIONS)(function)))


def _once(dispatcher: F) -> F:
    """Let compiled callers see one function where they hand it constants.

    numba compiles a callee anew for every constant that it is called with, and so all that it
    calls in turn.
    """
    given = getattr(dispatcher, "get_call_template", None)
    if given is not None:  # else compilation is switched off

        def template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            plain = {name: unliteral(kind) for name, kind in kws.items()}
            return given(tuple(unliteral(kind) for kind in args), plain)

        dispatcher.get_call_template = template  # type: ignore[attr-defined]
    return dispatcher
