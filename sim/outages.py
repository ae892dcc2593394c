"""When servers go away and come back: failures, maintenance, servers added and removed."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sim.arrays import FloatArray, IntArray


class Change(IntEnum):
    """What happens to a server. It is up while every FAIL and CLOSE has had its OPEN."""

    FAIL = 0  # at once: jobs on it fall back to their last checkpoint
    CLOSE = 1  # with notice: jobs on it write a checkpoint
    OPEN = 2


@dataclass(frozen=True)
class Outages:
    """K changes in order of time; at one instant in order of rows."""

    at_s: FloatArray  # (K,) ascending
    server: IntArray  # (K,)
    change: IntArray  # (K,) Change

    def __len__(self) -> int:
        """Number of changes K."""
        return len(self.at_s)


NO_OUTAGES = Outages(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
