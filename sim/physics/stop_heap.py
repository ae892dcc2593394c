"""Jobs in a heap by when they stopped rising in the last filling; in rows of PART_JOB."""

from sim.jit import kernel
from sim.physics.link_rows import RowArray


@kernel
def _earlier(heap: RowArray, one: int, other: int) -> bool:
    a, b = heap[one], heap[other]
    if a.due_rate != b.due_rate:
        return bool(a.due_rate < b.due_rate)
    return bool(a.due_batch < b.due_batch)


@kernel
def _swap(heap: RowArray, one: int, other: int) -> None:
    a, b = heap[one], heap[other]
    a.due_job, b.due_job = b.due_job, a.due_job
    a.due_rate, b.due_rate = b.due_rate, a.due_rate
    a.due_batch, b.due_batch = b.due_batch, a.due_batch


@kernel
def push_due(heap: RowArray, size: int, job: int, rate: float, batch: int) -> int:
    """Put a job in; the new size."""
    heap[size].due_job = job
    heap[size].due_rate = rate
    heap[size].due_batch = batch
    at = size
    while at > 0 and _earlier(heap, at, (at - 1) // 2):
        _swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2
    return size + 1


@kernel
def pop_due(heap: RowArray, size: int) -> int:
    """Take the first job out; the new size."""
    last, at = size - 1, 0
    _swap(heap, 0, last)
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and _earlier(heap, child + 1, child):
            child += 1
        if not _earlier(heap, child, at):
            break
        _swap(heap, child, at)
        at = child
    return last
