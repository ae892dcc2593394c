"""Runs of an evaluation side by side, in processes with one thread each."""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from evaluate_task import Outcome, Task
from evaluate_together import batches_of, processes_of, run_batch
from joblib import Parallel, cpu_count, delayed, parallel_config

log = logging.getLogger(__name__)


def outcomes_of(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come, in no particular order; `jobs` processes, -1 for one a core.

    Raises:
        ConfigError: `jobs` is no whole number, or 0.
        GpuYardError: of the first run that fails; the others are ended.
    """
    processes = processes_of(jobs, cpu_count())
    batches = batches_of(tasks, processes)
    if processes == 1:
        yield from chain.from_iterable(map(run_batch, batches))
        return
    with parallel_config("loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)(
            delayed(run_batch)(batch) for batch in batches
        )
        yield from chain.from_iterable(found)
