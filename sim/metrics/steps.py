"""Step functions of time: what utilisation and queue length are between events."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Steps:
    """`value[i]` holds on [time_s[i], time_s[i + 1]), the last one for ever; 0 before the first."""

    time_s: FloatArray  # (n,) strictly ascending
    value: FloatArray  # (n,)

    def at(self, time_s: FloatArray) -> FloatArray:
        """Values at the times (m,)."""
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        padded = np.append(self.value, 0.0)  # row -1, before the first step, reads the 0
        return padded[row]

    def integral(self, time_s: FloatArray) -> FloatArray:
        """Integral from the first step to each of the times (m,), none before the first step."""
        if not len(self.time_s):
            return np.zeros(len(time_s))
        areas = self.value[:-1] * np.diff(self.time_s)
        before = np.concatenate([[0.0], np.cumsum(areas)])
        row = np.searchsorted(self.time_s, time_s, side="right") - 1
        inside = before[row] + self.value[row] * (time_s - self.time_s[row])
        return np.where(row >= 0, inside, 0.0)

    def mean(self, start_s: float, end_s: float) -> float:
        """Time average over [start_s, end_s]; 0 where that has no length."""
        if end_s <= start_s:
            return 0.0
        low, high = self.integral(np.array([start_s, end_s]))
        return float((high - low) / (end_s - start_s))

    def scaled(self, factor: float) -> "Steps":
        """The same steps with every value multiplied by `factor`."""
        return Steps(self.time_s, self.value * factor)


def combined(one: Steps, two: Steps, rule: Callable[[FloatArray, FloatArray], FloatArray]) -> Steps:
    """Steps of `rule(values of one, values of two)`, on the times of both."""
    time_s = np.unique(np.concatenate([one.time_s, two.time_s]))
    return Steps(time_s, rule(one.at(time_s), two.at(time_s)))


def steps_of_changes(time_s: FloatArray, change: IntArray) -> Steps:
    """Steps that start at 0 and move by `change[i]` (n,) at `time_s[i]` (n,), ascending.

    Changes at one instant make one step: what holds for no time is not shown.
    """
    value = np.cumsum(change).astype(np.float64)
    last_at_instant = np.append(time_s[1:] != time_s[:-1], True)[: len(time_s)]
    return Steps(time_s[last_at_instant], value[last_at_instant])
