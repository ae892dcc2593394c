"""Helpers of arrays against numpy's slower ways."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim.arrays import distinct_rows

NUMBERS = st.integers(-(2**62), 2**62) | st.integers(0, 2)


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40))
def test_distinct_rows_are_those_of_numpy(rows: list[tuple[int, int, int]]):
    table = np.array(rows)
    distinct, row_of = distinct_rows(list(table.T))
    expected, at = np.unique(table, axis=0, return_inverse=True)
    assert np.array_equal(distinct, expected)
    assert np.array_equal(row_of, at.reshape(-1))
