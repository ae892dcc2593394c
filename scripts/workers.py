"""Runs of an evaluation side by side, in processes with one thread each."""

import logging
from collections.abc import Iterator, Sequence

from evaluate_task import Outcome, Task, run_task
from joblib import Parallel, delayed, parallel_config
from launch_errors import ConfigError

log = logging.getLogger(__name__)


def outcomes_of(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come, in no particular order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
        GpuYardError: of the first run that fails; the others are ended.
    """
    if type(jobs) is not int or jobs == 0:
        raise ConfigError(f"jobs is {jobs!r}; use 1 or more, or -1 for one process a core")
    if jobs == 1:
        yield from map(run_task, tasks)
        return
    with parallel_config("loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(
            delayed(run_task)(task) for task in tasks
        )
