"""numba's own parts, loaded without those that no function of ours uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

BLAS = "scipy.linalg.cython_blas"


def load_numba_parts() -> None:
    """Load what numba loads at its first compiled function, but for scipy.linalg.

    numba imports that only to see whether it is there; it imports it again where a function calls
    BLAS.
    """
    with global_compiler_lock, _standing_in(BLAS):
        cpu_target.target_context.refresh()


@contextmanager
def _standing_in(name: str) -> Iterator[None]:
    """Inside, `import name` finds an empty module, unless it was imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]
