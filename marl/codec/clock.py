"""When agents act: at every event, or at multiples of an interval only."""

import math


class IntervalClock:
    """Puts what happens within an interval off to its end.

    Agents act at the first multiple of the interval at or after an event, so jobs that arrive
    meanwhile are placed together. An interval in which nothing happened is passed by.
    """

    def __init__(self, interval_s: float) -> None:
        """With an interval of 0 agents act at every event."""
        self._interval_s = interval_s
        self.restart()

    def restart(self) -> None:
        """Another run begins."""
        self._due_s: float | None = None
        self._acting_s = math.nan

    def pause_s(self, now_s: float) -> float | None:
        """When agents act next; None: now. Asked again at one instant it says the same."""
        if self._interval_s == 0.0 or now_s == self._acting_s:
            return None
        if self._due_s is None:
            self._due_s = math.ceil(now_s / self._interval_s) * self._interval_s
        if now_s < self._due_s:
            return self._due_s
        self._due_s, self._acting_s = None, now_s
        return None
