"""Where the windows of a workload come from: `workload.windows_from`."""

from sim.errors import TraceError
from sim.traces.option_rules import check_choice

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
