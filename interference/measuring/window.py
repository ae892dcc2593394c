"""Speeds over the stretch of time in which all loops ran."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from interference.measuring.messages import Ran
from sim.arrays import FloatArray


class Speeds(NamedTuple):
    """Of every loop of a group, over the same window."""

    window_s: float
    steps_per_s: tuple[float, ...]
    busy: tuple[float, ...]  # CPU time over wall time


def common_speeds(loops: Sequence[Ran], warmup_s: float) -> Speeds:
    """From `warmup_s` after the last loop began until the first loop ended.

    A step that is cut by the window's border counts by the part inside, so that slow loops are not
    rounded to whole steps.
    """
    begin_s = max(float(ran.stamps_s[0]) for ran in loops) + warmup_s
    end_s = min(float(ran.stamps_s[-1]) for ran in loops)

    def rate(ran: Ran, count: FloatArray) -> float:
        before, after = np.interp([begin_s, end_s], ran.stamps_s, count)
        return float(after - before) / (end_s - begin_s)

    steps_per_s = tuple(rate(ran, np.arange(len(ran.stamps_s), dtype=float)) for ran in loops)
    return Speeds(end_s - begin_s, steps_per_s, tuple(rate(ran, ran.cpu_s) for ran in loops))
