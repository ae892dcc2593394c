"""Batches of an evaluation: windows that one scheduler plays together, other runs one by one."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from evaluate_task import Outcome, Task, plays_together, run_task, run_together
from launch_errors import ConfigError

MOST_TOGETHER = 20  # a stop loses these; a pass for 20 takes a third longer than one for one


def batches_of(tasks: Sequence[Task], jobs: int) -> Iterator[Sequence[Task]]:
    """Batches of tasks: many windows of a scheduler that plays them together, others singly.

    Batches of many come first, the longest work at the beginning. A scheduler's windows are divided
    only where there would be fewer batches than processes: half a batch takes nearly as long.
    """
    together = [task for task in tasks if plays_together(task)]
    by_contender = sorted(together, key=lambda task: (task.setting, task.contender.place))
    groups = [
        list(group)
        for _, group in groupby(by_contender, key=lambda task: (task.setting, task.contender))
    ]
    pieces = -(-max(jobs, 1) // max(len(groups), 1))
    for windows in groups:
        size = min(-(-len(windows) // pieces), MOST_TOGETHER)
        yield from (windows[at : at + size] for at in range(0, len(windows), size))
    alone = set(tasks) - set(together)
    yield from ([task] for task in tasks if task in alone)


def run_batch(batch: Sequence[Task]) -> list[Outcome]:
    """The outcomes of one batch.

    Raises:
        GpuYardError: from a simulation; the message begins with scheduler and windows.
    """
    return [run_task(batch[0])] if len(batch) == 1 else run_together(batch)


def processes_of(jobs: int, cores: int) -> int:
    """Number of processes for `jobs`, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
    """
    if type(jobs) is not int or jobs == 0:
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one process a core")
    return jobs if jobs > 0 else max(cores + 1 + jobs, 1)
