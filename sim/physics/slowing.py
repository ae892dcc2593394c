"""How much the tenants of one GPU slow each other down: the one place that says it.

Whoever wants to know seats a crowd, the GPU's tenants in order of their start, and asks. Beside
one other tenant the pair counts; beside several the sum of the pairs' excesses over 1, or a
`MixTable` where there is one (docs/reference/semantics.md, Mixes). An excess counts by the part of
the GPU that its cause has.
"""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.jit import kernel
from sim.physics.mix_excess import slow_in_mix
from sim.physics.slowing_tables import Slowing, milli_of, profile_of

WHOLE = 1000  # thousandths of a GPU
PAIR = 2
NO_COST = np.inf  # of a GPU that a job may not join


@kernel
def excess_by(slowdown: float, milli: int) -> float:
    """What a tenant with `milli` thousandths of the GPU adds to a slow-down of 1."""
    excess = slowdown - 1.0
    if milli != WHOLE:
        excess *= milli / 1000.0
    return excess


@kernel
def asks_table(slowing: Slowing, count: int) -> bool:
    """Whether the slow-downs of so many tenants stand in a table of mixes."""
    return bool(count > PAIR and slowing.most_aggressors > 1)


@kernel
def slow_in(slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int) -> float:
    """Slow-down of the i-th of the first `count` of a crowd on a GPU of type `kind`."""
    if asks_table(slowing, count):
        return slow_in_mix(slowing, kind, crowd, count, i)
    victim, slow = profile_of(crowd, i), 1.0
    for k in range(count):
        if k != i:
            pair = slowing.slowdown[kind, victim, profile_of(crowd, k)]
            slow += excess_by(pair, milli_of(crowd, k))
    return slow


@kernel
def hit_of(slowing: Slowing, kind: int, crowd: IntArray, count: int, i: int) -> float:
    """1 and what the last of a crowd adds to the slow-down of the i-th."""
    if asks_table(slowing, count):
        before = slow_in(slowing, kind, crowd, count - 1, i)
        return max(1.0, 1.0 + (slow_in_mix(slowing, kind, crowd, count, i) - before))
    pair = slowing.slowdown[kind, profile_of(crowd, i), profile_of(crowd, count - 1)]
    return 1.0 + excess_by(pair, milli_of(crowd, count - 1))


@kernel
def fits_beside(
    feasible: BoolArray, kind: int, profile: int, milli: int, other: int, other_milli: int
) -> bool:
    """Whether two jobs may share a GPU of type `kind`.

    Parts of a GPU that are together no more than one fit whatever profiles say. `feasible` is
    (T, P, P).
    """
    return milli + other_milli <= WHOLE or bool(feasible[kind, profile, other])


@kernel
def joining_cost(
    slowing: Slowing, feasible: BoolArray, kind: int, crowd: IntArray, last: int, least_speed: float
) -> float:  # fmt: skip
    """Self x worst victim slow-down of the last of a crowd on a GPU; NO_COST: it may not join.

    It may where it fits beside all, and all together are faster than `least_speed` jobs alone.
    An empty GPU costs 1.
    """
    profile, milli = profile_of(crowd, last), milli_of(crowd, last)
    for k in range(last):
        other, other_milli = profile_of(crowd, k), milli_of(crowd, k)
        if not fits_beside(feasible, kind, profile, milli, other, other_milli):
            return NO_COST
    own, victim, speed = slow_in(slowing, kind, crowd, last + 1, last), 1.0, 0.0
    for k in range(last):
        hit = hit_of(slowing, kind, crowd, last + 1, k)
        victim = max(victim, hit)
        speed += 1.0 / hit
    if last > 0 and speed + 1.0 / own <= least_speed:
        return NO_COST
    return float(own * victim)
