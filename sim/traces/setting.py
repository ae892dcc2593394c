"""What a workload must know around it: the experiment, kinds of windows, which jobs count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.errors import TraceError
from sim.physics.catalogue import Catalogue
from sim.traces.option_rules import check_choice, check_number

if TYPE_CHECKING:
    from sim.protocols import DurationEstimator


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Cluster, partitions, profiles and predictor that jobs are prepared for."""

    gpus: int  # capacity of the cluster
    partitions: int  # partitions at which jobs arrive
    skew: float  # partition p receives a share proportional to (p + 1) ** -skew
    catalogue: Catalogue
    estimator: DurationEstimator
    gpu_types: tuple[str, ...] = ()  # of the topology; () where no job asks for a type

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TraceError: naming the value.
        """
        if self.gpus < 1:
            raise TraceError(f"the cluster has {self.gpus} GPUs; it needs at least 1")
        if self.partitions < 1:
            raise TraceError(f"agents.count is {self.partitions}; it must be at least 1")
        if not (math.isfinite(self.skew) and self.skew >= 0):
            raise TraceError(f"agents.skew is {self.skew}; it must be a finite number, 0 or more")


RANDOM, DISJOINT, AUTO = KINDS = ("random", "disjoint", "auto")


def check_windows_from(value: str) -> None:
    """Raise a TraceError unless `value` is a kind of windows."""
    check_choice("windows_from", value, KINDS)


def check_drawn_windows(value: str) -> None:
    """Raise a TraceError unless `value` suits jobs that are drawn anew for every window."""
    check_windows_from(value)
    if value == DISJOINT:
        raise TraceError(
            "workload.windows_from is 'disjoint', which cuts a trace file; windows of this "
            "workload are drawn anew and share no job, use random or auto"
        )


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
