"""Min-heaps by (key, job), several in one array of entries: one starts at `first`."""

from sim.jit import kernel
from sim.kernel.layout import RowArray


@kernel
def heap_push(heap: RowArray, first: int, size: int, key: float, job: int) -> None:
    """Put (key, job) into a heap of `size` entries."""
    at = size
    while at > 0:
        above = heap[first + (at - 1) // 2]
        if above.key < key or (above.key == key and above.job < job):
            break
        heap[first + at].key = above.key
        heap[first + at].job = above.job
        at = (at - 1) // 2
    heap[first + at].key = key
    heap[first + at].job = job


@kernel
def heap_sift(heap: RowArray, first: int, size: int, at: int, key: float, job: int) -> None:
    """Write (key, job) at `at` or below."""
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size:
            left, right = heap[first + below], heap[first + below + 1]
            if right.key < left.key or (right.key == left.key and right.job < left.job):
                below += 1
        other = heap[first + below]
        if other.key > key or (other.key == key and other.job > job):
            break
        heap[first + at].key = other.key
        heap[first + at].job = other.job
        at = below
    heap[first + at].key = key
    heap[first + at].job = job


@kernel
def heap_drop_first(heap: RowArray, first: int, size: int) -> None:
    """Take the least entry out of a heap of `size` entries."""
    last = size - 1
    if last > 0:
        heap_sift(heap, first, last, 0, heap[first + last].key, heap[first + last].job)
