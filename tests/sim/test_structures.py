"""What compiled code is made of: the binary heap, sums, distinct rows, named arrays."""

import copy
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.arrays import FloatArray, distinct_rows
from sim.handle import Handle
from sim.heap import HEAP, OUT, add_to_heap, drop_from_heap, move_in_heap
from sim.jit import kernel
from sim.summing import mean, pairwise_sum

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


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 31, 127, 128, 129, 255, 1000, 1023, 4097, 99_991])
def test_sums_are_those_of_numpy_to_the_last_digit(count: int):
    rng = np.random.default_rng(count)
    for scale in (1.0, 1e6):
        values = rng.exponential(scale, count) ** 3
        assert pairwise_sum(values) == values.sum()
        assert mean(values) == (values.mean() if count > 0 else 0.0)


def test_what_does_not_commute_is_added_in_the_same_order():
    values = np.tile([1e16, 1.0, -1e16, 3.0, 0.1], 311)
    assert pairwise_sum(values) == values.sum()


NUMBERS = st.integers(-(2**62), 2**62) | st.integers(0, 2)


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40))
def test_distinct_rows_are_those_of_numpy(rows: list[tuple[int, int, int]]):
    table = np.array(rows)
    distinct, row_of = distinct_rows(list(table.T))
    expected, at = np.unique(table, axis=0, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(row_of, at.reshape(-1))


class Pair(NamedTuple):
    inner: FloatArray


@dataclass(frozen=True, eq=False)
class Box(Handle):
    outer: FloatArray
    pair: Pair


@kernel
def _write(box: Box, value: float) -> None:
    box.outer[0] = value
    box.pair.inner[0] = value


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda box: pickle.loads(pickle.dumps(box))])
def test_compiled_code_writes_to_a_copy_and_not_to_what_it_was_made_from(copied):
    box = Box(np.zeros(1), Pair(np.zeros(1)))
    other = copied(box)
    _write(other, 3.0)
    assert (other.outer[0], other.pair.inner[0]) == (3.0, 3.0)
    assert (box.outer[0], box.pair.inner[0]) == (0.0, 0.0)
    _write(box, 5.0)
    assert (other.outer[0], other.pair.inner[0]) == (3.0, 3.0)
