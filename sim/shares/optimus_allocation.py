"""Optimus' greedy division of GPUs: the least to each, then one by one where they help most."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel


@array_kernel
def _best_step(
    time_s: FloatArray, have: int, most: int, held: int, hysteresis: float
) -> tuple[float, int]:
    """Largest gain per GPU of going from `have` to more, at most `most`; with how many more."""
    best, more = 0.0, 0
    for gpus in range(have + 1, most + 1):
        gain = (time_s[have] - time_s[gpus]) / (gpus - have)
        if held > 0:
            gain = gain * (1.0 + hysteresis) if gpus <= held else gain / (1.0 + hysteresis)
        if gain > best:
            best, more = gain, gpus - have
    return best, more


@array_kernel
def divide(
    time_s: FloatArray,
    limits: IntArray,
    held: IntArray,
    size_milli: IntArray,
    room_milli: int,
    hysteresis: float,
) -> IntArray:
    """(n,) GPUs for each job, 0 for those that have to wait.

    First each job in the order given gets its least, as far as that goes. Then the job whose
    remaining time falls most per GPU gets one more, again and again, while that helps. Where one
    more does not help but several do (a measured scaling has steps), it gets these several.

    Args:
        time_s: (n, W + 1) remaining time with k GPUs; column 0 is never read.
        limits: (n, 2) least and most GPUs, most at most W.
        held: (n,) GPUs that a running job holds, 0 if it waits.
        size_milli: (n,) thousandths of a GPU that each of its workers takes.
        room_milli: thousandths that there are.
        hysteresis: of a running job, gains from what it holds count 1 + this much more, those
            from more than it holds as much less; and it keeps its number where more would
            shorten its remaining time by less than this fraction.
    """
    given = np.zeros(len(held), dtype=np.int64)
    for job in range(len(held)):
        need = limits[job, 0] * size_milli[job]
        if need <= room_milli:
            given[job] = limits[job, 0]
            room_milli -= need
    _grow(time_s, limits[:, 1], held, size_milli, room_milli, hysteresis, given)
    for job in range(len(held)):
        grows = 0 < held[job] < given[job]
        if grows and time_s[job, given[job]] > (1.0 - hysteresis) * time_s[job, held[job]]:
            given[job] = held[job]
    return given


@array_kernel
def _grow(  # noqa: PLR0917 - arrays go by position into compiled code
    time_s: FloatArray,
    most: IntArray,
    held: IntArray,
    size_milli: IntArray,
    room_milli: int,
    hysteresis: float,
    given: IntArray,
) -> None:
    """Add to `given` of those that have their least, where it helps most."""
    gain = np.zeros(len(held))
    more = np.zeros(len(held), dtype=np.int64)
    stale = given > 0
    while len(held) > 0:
        for job in range(len(held)):
            if stale[job] or more[job] * size_milli[job] > room_milli:
                reach = min(most[job], given[job] + room_milli // size_milli[job])
                best, more[job] = _best_step(time_s[job], given[job], reach, held[job], hysteresis)
                gain[job] = best / size_milli[job]
                stale[job] = False
        first = int(np.argmax(gain))
        if gain[first] <= 0.0:
            break
        given[first] += more[first]
        room_milli -= more[first] * size_milli[first]
        stale[first] = True
