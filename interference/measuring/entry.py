"""Where a process that trains begins; torch is imported here and not in the process that asks."""

import importlib
import multiprocessing
import os
import threading
from typing import Any

from interference.measuring.errors import MeasureError
from interference.measuring.messages import Failed, Line, LoopTask, Signals

NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def enter(task: LoopTask, signals: Signals, line: Line) -> None:
    """Train until told to stop, and answer what came of it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _one_thread_if_pinned(task)
        from interference.measuring.loop import run_loop

        make = found(task.make)
        if task.cores:
            # Not before the imports, which would wait for each other on one core.
            os.sched_setaffinity(0, task.cores)
        line.pipe.send(run_loop(task, make, signals, line))
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        line.pipe.send(Failed(out_of_memory=is_out_of_memory(error), words=words))


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a class for a full GPU, but a bare RuntimeError for host memory and libraries."""
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY)
    )


def found(path: str) -> Any:
    """What a dotted path names.

    Raises:
        MeasureError: there is no such module or name.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise MeasureError(f"makers: {path!r} cannot be imported ({error})") from error


def _one_thread_if_pinned(task: LoopTask) -> None:
    """Libraries read the number of their threads when they are imported."""
    if task.form == "cpu":
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def _end_with_parent() -> None:
    """A loop whose parent was killed would train for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
