"""What a scheduler may know: part of its type, granted by the view, printed with every result."""

from enum import Flag, auto


class Signal(Flag):
    """Information beyond what every real scheduler sees (queue, gang sizes, ages, occupancy)."""

    NONE = 0
    DURATION = auto()  # true work and remaining time (an oracle)
    PREDICTION = auto()  # the duration estimator's estimate
    PROFILE = auto()  # which model profile a job trains
    INTERFERENCE = auto()  # predicted co-location slow-downs (the belief, not the physics)
    SPEED = auto()  # how long an iteration of a running job takes now, as a monitor measures it


def information_of(needs: Signal) -> str:
    """The information class of a scheduler: what it knows of durations.

    What "predicted" is worth the estimator says: its own `information`, such as `limit`, stands in
    results instead.
    """
    if Signal.DURATION in needs:
        return "oracle"
    return "predicted" if Signal.PREDICTION in needs else "none"
