"""Servers by how many GPUs they could give: the next one with exactly n in a few steps.

There are two such rooms (FREE and OFFER of `sim.compiled.layout`). Row n of a room's `words` is a
bitmap of the servers with exactly n usable GPUs, row 0 of those with any; `summary` is a bitmap of
the words that are not 0.
"""

import numpy as np
import numpy.typing as npt

from sim.compiled.layout import NONE, Memory
from sim.jit import kernel

WordArray = npt.NDArray[np.uint64]

WORD = 64  # bits
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SHIFT = np.uint64(58)
_SEQUENCE = np.uint64(0x03F7_9D71_B4CB_0A89)  # every 6-bit window of it is another number


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
def _put(words: WordArray, summary: WordArray, room: int, row: int, server: int) -> None:
    word = server // WORD
    words[room, row, word] |= _ONE << np.uint64(server % WORD)
    summary[room, row, word // WORD] |= _ONE << np.uint64(word % WORD)


@kernel
def _drop(words: WordArray, summary: WordArray, room: int, row: int, server: int) -> None:
    word = server // WORD
    left = words[room, row, word] & ~(_ONE << np.uint64(server % WORD))
    words[room, row, word] = left
    if left == _ZERO:
        summary[room, row, word // WORD] &= ~(_ONE << np.uint64(word % WORD))


@kernel
def set_usable(memory: Memory, room: int, server: int, usable: int) -> None:
    """Server `server` could give `usable` GPUs from now on."""
    before = memory.usable[room, server]
    if usable == before:
        return
    count, words, summary = memory.tally, memory.words, memory.summary
    memory.usable[room, server] = usable
    count[room, before] -= 1
    count[room, usable] += 1
    count[room, count.shape[1] - 1] += usable - before
    _drop(words, summary, room, before, server)  # row 0: it had nothing, so it was not there
    _put(words, summary, room, usable, server)
    if before == 0:
        _put(words, summary, room, 0, server)
    if usable == 0:
        _drop(words, summary, room, 0, server)


@kernel
def next_server(words: WordArray, summary: WordArray, room: int, usable: int, start: int) -> int:
    """First server from `start` on with exactly `usable` GPUs (0: with any); NONE if none."""
    word = start // WORD
    if word >= words.shape[2]:
        return NONE
    bits = words[room, usable, word] & (_ALL << np.uint64(start % WORD))
    if bits != _ZERO:
        return word * WORD + _lowest_bit(bits)
    word += 1
    group = word // WORD
    if group >= summary.shape[2]:
        return NONE
    bits = summary[room, usable, group] & (_ALL << np.uint64(word % WORD))
    while bits == _ZERO:
        group += 1
        if group >= summary.shape[2]:
            return NONE
        bits = summary[room, usable, group]
    word = group * WORD + _lowest_bit(bits)
    return word * WORD + _lowest_bit(words[room, usable, word])
