"""Servers by how many GPUs they could give, and what a GPU or a server has room for.

One part a partition, kept up to date, never counted. Row n of a part's `words` is a bitmap of the
servers with exactly n usable GPUs, row 0 of those with any; `summary` is a bitmap of the words that
are not 0. So the next server with n is found in a few steps, and whether a gang fits is a matter of
the tally alone.

Each rule of room stands here once, on numbers. `sim.kernel.allocation` asks for a state and copies
of it; the engine and the feature code, which remember some of the answers, look the numbers up and
ask, too.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.jit import kernel
from sim.physics.laws import NO_COST, WHOLE

WordArray = npt.NDArray[np.uint64]

NONE = -1
WORD = 64  # bits
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SHIFT = np.uint64(58)
_SEQUENCE = np.uint64(0x03F7_9D71_B4CB_0A89)  # every 6-bit window of it is another number


class FreeGpus(NamedTuple):
    """M parts over G GPUs in S servers of at most L GPUs; a server is in one part."""

    usable: IntArray  # (S,) GPUs that each server could give
    gpu: BoolArray  # (G,) which
    cost: FloatArray  # (G,) predicted slow-down there of self x worst victim; 1 where empty
    most: IntArray  # (S,) what it could give were it empty; 0 while it is away
    tally: IntArray  # (M, L + 2) servers with exactly so many usable; last: usable GPUs of all
    sizes: IntArray  # (M, L + 1) servers that could give exactly so many were they empty
    words: WordArray  # (M, L + 1, W)
    summary: WordArray  # (M, L + 1, V)


def make_free_gpus(parts: int, servers: int, gpus: int, largest: int) -> FreeGpus:
    """FreeGpus in which no server can give anything."""
    words = -(-servers // WORD)
    return FreeGpus(
        usable=np.zeros(servers, dtype=np.int64), gpu=np.zeros(gpus, dtype=np.bool_),
        cost=np.ones(gpus), most=np.zeros(servers, dtype=np.int64),
        tally=np.zeros((parts, largest + 2), dtype=np.int64),
        sizes=np.zeros((parts, largest + 1), dtype=np.int64),
        words=np.zeros((parts, largest + 1, words), dtype=np.uint64),
        summary=np.zeros((parts, largest + 1, -(-words // WORD)), dtype=np.uint64),
    )  # fmt: skip


def _places() -> list[int]:
    places = [0] * WORD
    for place in range(WORD):
        places[((int(_SEQUENCE) << place) & int(_ALL)) >> int(_SHIFT)] = place
    return places


_PLACES = np.array(_places(), dtype=np.int64)


@kernel
def _lowest_bit(word: np.uint64) -> int:
    """Place of the lowest set bit of a word that is not 0 (de Bruijn's sequence)."""
    alone = word & (~word + _ONE)
    return int(_PLACES[np.int64((alone * _SEQUENCE) >> _SHIFT)])


@kernel
def _put(words: WordArray, summary: WordArray, part: int, row: int, server: int) -> None:
    word = server // WORD
    words[part, row, word] |= _ONE << np.uint64(server % WORD)
    summary[part, row, word // WORD] |= _ONE << np.uint64(word % WORD)


@kernel
def _drop(words: WordArray, summary: WordArray, part: int, row: int, server: int) -> None:
    word = server // WORD
    left = words[part, row, word] & ~(_ONE << np.uint64(server % WORD))
    words[part, row, word] = left
    if left == _ZERO:
        summary[part, row, word // WORD] &= ~(_ONE << np.uint64(word % WORD))


@kernel
def set_usable(free_gpus: FreeGpus, part: int, server: int, usable: int) -> None:
    """Server `server` of `part` could give `usable` GPUs from now on."""
    before = free_gpus.usable[server]
    if usable == before:
        return
    tally, words, summary = free_gpus.tally, free_gpus.words, free_gpus.summary
    free_gpus.usable[server] = usable
    tally[part, before] -= 1
    tally[part, usable] += 1
    tally[part, tally.shape[1] - 1] += usable - before
    if before > 0:
        _drop(words, summary, part, before, server)
    else:
        _put(words, summary, part, 0, server)
    if usable > 0:
        _put(words, summary, part, usable, server)
    else:
        _drop(words, summary, part, 0, server)


@kernel
def set_most(free_gpus: FreeGpus, part: int, server: int, most: int) -> None:
    """Server `server` of `part` could give `most` GPUs were it empty, from now on."""
    if free_gpus.most[server] == most:
        return
    free_gpus.sizes[part, free_gpus.most[server]] -= 1
    free_gpus.sizes[part, most] += 1
    free_gpus.most[server] = most


@kernel
def next_server(free_gpus: FreeGpus, part: int, usable: int, start: int) -> int:
    """First server from `start` on with exactly `usable` GPUs (0: with any); NONE if none."""
    words, summary, word = free_gpus.words, free_gpus.summary, start // WORD
    if word >= words.shape[2]:
        return NONE
    bits = words[part, usable, word] & (_ALL << np.uint64(start % WORD))
    if bits != _ZERO:
        return word * WORD + _lowest_bit(bits)
    word += 1
    group = word // WORD
    if group >= summary.shape[2]:
        return NONE
    bits = summary[part, usable, group] & (_ALL << np.uint64(word % WORD))
    while bits == _ZERO:  # each step passes 64 words, that is 4,096 servers
        group += 1
        if group >= summary.shape[2]:
            return NONE
        bits = summary[part, usable, group]
    word = group * WORD + _lowest_bit(bits)
    return word * WORD + _lowest_bit(words[part, usable, word])


@kernel
def usable_in(free_gpus: FreeGpus, part: int) -> int:
    """Usable GPUs of a part."""
    return int(free_gpus.tally[part, free_gpus.tally.shape[1] - 1])


class Wants(Protocol):
    """What a worker wants of a server and its GPUs."""

    @property
    def gpu_milli(self) -> int: ...  # noqa: D102

    @property
    def type_mask(self) -> int: ...  # noqa: D102

    @property
    def cpu_milli(self) -> int: ...  # noqa: D102

    @property
    def memory_mib(self) -> int: ...  # noqa: D102


class Asks(Wants, Protocol):
    """All that a worker asks for: a row of jobs, or of a table of kinds."""

    @property
    def profile(self) -> int: ...  # noqa: D102


@kernel
def workers_for(ask: Wants, gpus: int, gpu_type: int, cpu_milli: int, memory_mib: int) -> int:
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
    while count > most:  # the dearest goes first; no sort, for a server has few GPUs
        worst = -1
        for gpu in range(first, last):  # on ties the highest id, so that the lowest ids stay
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
