"""The binary heap of compiled code, least first; its slots stand in rows of HEAP.

Slots are ordered by (key, rank); those with equal ones stand in any order. Each item has a row in
`owner` whose `heap_at` says where its slot is, so that any item can be moved or taken out. Whoever
keeps a heap keeps its size.
"""

import numpy as np

from sim.arrays import RowArray
from sim.jit import kernel

OUT = -1  # heap_at of an item that is not in the heap

HEAP = np.dtype([("key", np.float64), ("rank", np.int64), ("item", np.int64)], align=True)


@kernel
def _put(heap: RowArray, owner: RowArray, at: int, key: float, rank: int, item: int) -> None:
    slot = heap[at]
    slot.key = key
    slot.rank = rank
    slot.item = item
    owner[item].heap_at = at


@kernel
def _up(heap: RowArray, owner: RowArray, at: int, key: float, rank: int, item: int) -> None:
    """Write the slot at `at` or above."""
    while at > 0:
        above = heap[(at - 1) >> 1]
        if above.key < key or (above.key == key and above.rank <= rank):
            break
        _put(heap, owner, at, above.key, above.rank, above.item)
        at = (at - 1) >> 1
    _put(heap, owner, at, key, rank, item)


@kernel
def _down(  # noqa: PLR0917 - a slot goes by its fields: nothing is to be made of them
    heap: RowArray, owner: RowArray, size: int, at: int, key: float, rank: int, item: int
) -> None:
    """Write the slot at `at` or below."""
    while 2 * at + 1 < size:  # at most to a leaf; of equal children the left goes up
        child = 2 * at + 1
        below = heap[child]
        if child + 1 < size:
            right = heap[child + 1]
            if right.key < below.key or (right.key == below.key and right.rank < below.rank):
                child += 1
                below = right
        if below.key > key or (below.key == key and below.rank >= rank):
            break
        _put(heap, owner, at, below.key, below.rank, below.item)
        at = child
    _put(heap, owner, at, key, rank, item)


@kernel
def _settle(  # noqa: PLR0917 - the same
    heap: RowArray, owner: RowArray, size: int, at: int, key: float, rank: int, item: int
) -> None:
    """Write the slot where it belongs, if `at` is free."""
    if at > 0:
        above = heap[(at - 1) >> 1]
        if key < above.key or (key == above.key and rank < above.rank):
            _up(heap, owner, at, key, rank, item)
            return
    _down(heap, owner, size, at, key, rank, item)


@kernel
def add_to_heap(
    heap: RowArray, owner: RowArray, size: int, key: float, rank: int, item: int
) -> int:  # fmt: skip
    """Put an item in; the new size."""
    _up(heap, owner, size, key, rank, item)
    return size + 1


@kernel
def move_in_heap(
    heap: RowArray, owner: RowArray, size: int, key: float, rank: int, item: int
) -> None:  # fmt: skip
    """Give an item of the heap another key."""
    _settle(heap, owner, size, owner[item].heap_at, key, rank, item)


@kernel
def drop_from_heap(heap: RowArray, owner: RowArray, size: int, item: int) -> int:
    """Take an item of the heap out; the new size."""
    at, last = owner[item].heap_at, heap[size - 1]
    owner[item].heap_at = OUT
    if last.item != item:
        _settle(heap, owner, size - 1, at, last.key, last.rank, last.item)
    return size - 1
