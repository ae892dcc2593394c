"""What a GPU or a server has room for: each rule once, on numbers.

`sim.kernel.allocation` asks here for a state and copies of it; the engine and the feature code,
which remember some of the answers, look the numbers up and ask, too.
"""

from typing import Protocol

from sim.arrays import BoolArray, FloatArray
from sim.jit import kernel
from sim.physics.slowing import NO_COST, WHOLE


class Asks(Protocol):
    """What a worker asks of a GPU and its server: a row of jobs, or of a table of kinds."""

    @property
    def profile(self) -> int: ...  # noqa: D102

    @property
    def gpu_milli(self) -> int: ...  # noqa: D102

    @property
    def type_mask(self) -> int: ...  # noqa: D102

    @property
    def cpu_milli(self) -> int: ...  # noqa: D102

    @property
    def memory_mib(self) -> int: ...  # noqa: D102


@kernel
def workers_for(ask: Asks, gpus: int, gpu_type: int, cpu_milli: int, memory_mib: int) -> int:
    """Workers for which a server's GPUs and their type, these cores and memory are enough."""
    if (ask.type_mask >> gpu_type) & 1 == 0:
        return 0
    most = gpus
    # Multiplied first: divisions are slow, and few bind.
    if ask.cpu_milli > 0 and most * ask.cpu_milli > cpu_milli:
        most = cpu_milli // ask.cpu_milli
    if ask.memory_mib > 0 and most * ask.memory_mib > memory_mib:
        most = memory_mib // ask.memory_mib
    return max(int(most), 0)


@kernel
def may_join(
    tenants: int, most_tenants: int, milli: int, ask_milli: int, limit_milli: int
) -> bool:  # fmt: skip
    """Whether a GPU has room for one tenant more, however fast it would be there."""
    return tenants < most_tenants and milli + ask_milli <= limit_milli


@kernel
def left_over(tenants: int, most_tenants: int, milli: int, ask_milli: int, tight: bool) -> float:
    """Thousandths left of a GPU by a job that has it alone or beside parts; NO_COST: no room.

    A job that asks for part of a GPU may join jobs that do; with `tight` it has to.
    """
    left = WHOLE - milli - ask_milli
    welcome = not tight if tenants == 0 else ask_milli < WHOLE and tenants < most_tenants
    return float(left) if left >= 0 and welcome else NO_COST


@kernel
def leave_cheapest(
    usable: BoolArray, cost: FloatArray, first: int, last: int, count: int, most: int
) -> int:
    """Leave `most` of the `count` usable GPUs of a server; how many stay.

    The cheapest do, the lowest ids on ties.
    """
    while count > most:
        worst = -1
        for gpu in range(first, last):
            if usable[gpu] and (worst < 0 or cost[gpu] >= cost[worst]):
                worst = gpu
        usable[worst] = False
        count -= 1
    return count


@kernel
def least_cost(usable: BoolArray, cost: FloatArray, first: int, last: int) -> float:
    """Of a server's usable GPUs; NO_COST where it has none."""
    least = NO_COST
    for gpu in range(first, last):
        if usable[gpu]:
            least = min(least, cost[gpu])
    return least


@kernel
def leave_at(usable: BoolArray, cost: FloatArray, first: int, last: int, least: float) -> None:
    """Leave the usable GPUs of a server that cost `least`."""
    for gpu in range(first, last):
        usable[gpu] = usable[gpu] and cost[gpu] == least
