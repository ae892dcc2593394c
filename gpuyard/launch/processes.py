"""Work shared out to processes of this machine."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from gpuyard.launch.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")


def processes_of(jobs: int, cores: int) -> int:
    """Number of processes for `jobs`, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
    """
    if type(jobs) is not int or jobs == 0:
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one process a core")
    return jobs if jobs > 0 else max(cores + 1 + jobs, 1)


def in_processes(
    call: Callable[[T], R],
    items: Iterable[T],
    processes: int,
    *,
    ordered: bool = False,
    elsewhere: Callable[[T], R] | None = None,
) -> Iterator[R]:
    """`call` of each item, as they come; one process is this one. Each has one thread.

    Args:
        call: a function of a module.
        items: what it gets, one at a time.
        processes: how many.
        ordered: in the order of the items, instead.
        elsewhere: stands in for `call` in a process of its own; None: `call`.
    """
    from joblib import Parallel, delayed, parallel_config

    if processes == 1:
        yield from map(call, items)
        return
    remote = delayed(elsewhere or call)
    kind = "generator" if ordered else "generator_unordered"
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=processes, return_as=kind, batch_size=1)(map(remote, items))
