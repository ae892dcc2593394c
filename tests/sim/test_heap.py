"""The binary heap of compiled code against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.heap import HEAP, OUT, add_to_heap, drop_from_heap, move_in_heap, order_heap

ITEMS = 12
OWNER = np.dtype([("other", np.int64), ("heap_at", np.int64)], align=True)
steps = st.lists(
    st.tuples(st.integers(0, ITEMS - 1), st.sampled_from([0.0, 1.0, 2.5, np.inf]), st.booleans()),
    max_size=60,
)


def blank() -> tuple[np.ndarray, np.ndarray]:
    owner = np.zeros(ITEMS, dtype=OWNER)
    owner["heap_at"] = OUT
    return np.zeros(ITEMS, dtype=HEAP), owner


def check(heap: np.ndarray, owner: np.ndarray, held: dict[int, tuple[float, int]]) -> None:
    """Places are right, and the first is the least."""
    for item in range(ITEMS):
        at = owner[item]["heap_at"]
        assert (at != OUT) == (item in held)
        if item in held:
            assert (heap[at]["key"], heap[at]["rank"]) == held[item]
            assert heap[at]["item"] == item
    if held:
        assert (heap[0]["key"], heap[0]["rank"]) == min(held.values())


@given(steps=steps)
def test_the_first_is_the_least_whatever_is_added_moved_and_dropped(steps):
    heap, owner = blank()
    size, held = 0, {}
    for item, key, drops in steps:
        if item not in held:
            size = add_to_heap(heap, owner, size, key, item % 3, item)
            held[item] = (key, item % 3)
        elif drops:
            size = drop_from_heap(heap, owner, size, item)
            del held[item]
        else:
            move_in_heap(heap, owner, size, key, item % 2, item)
            held[item] = (key, item % 2)
        assert size == len(held)
        check(heap, owner, held)


@given(keys=st.lists(st.sampled_from([0.0, 1.0, 2.5, np.inf]), max_size=ITEMS))
def test_an_ordered_heap_gives_its_items_in_order(keys):
    heap, owner = blank()
    size = len(keys)
    heap["key"][:size], heap["item"][:size] = keys, np.arange(size)
    order_heap(heap, owner, size)
    found = []
    while size > 0:
        found.append(float(heap[0]["key"]))
        size = drop_from_heap(heap, owner, size, heap[0]["item"])
    assert found == sorted(keys)
