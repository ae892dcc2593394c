"""Which of the jobs of a run metrics count: warm-up and drain left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.errors import TraceError
from sim.traces.option_rules import check_number

PAIR = 2


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Shares of the jobs, by submission, between which metrics count a job."""

    start_frac: float | None  # None: 0 for a whole trace, window_frac[0] for a window
    end_frac: float | None  # None: 1 for a whole trace, window_frac[1] for a window
    window_frac: Sequence[float]  # (2,)

    def __post_init__(self) -> None:
        """Check the shares.

        Raises:
            TraceError: naming the key and the value.
        """
        check_number("measured_start_frac", self.start_frac)
        check_number("measured_end_frac", self.end_frac)
        if len(self.window_frac) != PAIR:
            raise TraceError(
                f"workload.window_measured_frac is {list(self.window_frac)}; "
                f"it needs two shares, start and end"
            )
        for start, end in (self.whole(), self.window()):
            if not 0 <= start < end <= 1:
                raise TraceError(
                    f"workload.measured_start_frac, measured_end_frac or window_measured_frac: "
                    f"jobs are measured from share {start} to {end}; "
                    f"needed: 0 <= start < end <= 1"
                )

    def whole(self) -> tuple[float, float]:
        """Shares for a whole trace."""
        return self._or(0.0, 1.0)

    def window(self) -> tuple[float, float]:
        """Shares for a window."""
        return self._or(self.window_frac[0], self.window_frac[1])

    def _or(self, start: float, end: float) -> tuple[float, float]:
        return (
            start if self.start_frac is None else self.start_frac,
            end if self.end_frac is None else self.end_frac,
        )
