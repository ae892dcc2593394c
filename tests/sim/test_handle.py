"""Named arrays for compiled code: a copy is one of its own."""

import copy
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from sim.arrays import FloatArray
from sim.handle import Handle
from sim.jit import kernel


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
