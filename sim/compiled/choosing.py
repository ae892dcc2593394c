"""The placers: which GPUs, once it is known that the gang fits.

Each writes the ids that the Python placer of its name returns to memory.gpus[at:at + gang], in the
same order.
"""

from sim.compiled.fitting import fits_compactly
from sim.compiled.layout import FREE, NONE, Memory
from sim.compiled.plan import CONSOLIDATED, FIRST_FIT, LEAST_LOADED, PACKED
from sim.compiled.room import next_server
from sim.jit import kernel


@kernel
def _usable(memory: Memory, room: int, gpu: int) -> bool:
    seat = memory.seat[gpu]
    return bool(seat.load == 0 or (room != FREE and seat.offered == 1))


@kernel
def _fill(memory: Memory, room: int, server: int, wanted: int, at: int) -> int:
    """Write `wanted` usable GPUs of a server, least shared first; where to write next."""
    level = 0
    while wanted > 0:
        for gpu in range(memory.plot[server].first_gpu, memory.plot[server].last_gpu):
            if memory.seat[gpu].load == level and _usable(memory, room, gpu):
                memory.gpus[at] = gpu
                at += 1
                wanted -= 1
                if wanted == 0:
                    break
        level += 1
    return at


@kernel
def _compact(memory: Memory, room: int, gang: int, at: int) -> None:
    largest = memory.game[0].largest
    whole = gang // largest if gang > largest else 0
    server = NONE
    for _ in range(whole):
        server = next_server(memory.words, memory.summary, room, largest, server + 1)
        at = _fill(memory, room, server, largest, at)
    rest = gang - whole * largest
    if rest == 0:
        return
    usable = rest
    while usable < largest and memory.tally[room, usable] == 0:
        usable += 1
    start = server + 1 if usable == largest else 0
    server = next_server(memory.words, memory.summary, room, usable, start)
    _fill(memory, room, server, rest, at)


@kernel
def _fullest_first(memory: Memory, room: int, gang: int, at: int) -> None:
    usable, server, left = memory.tally.shape[1] - 2, NONE, gang
    while left > 0:
        server = next_server(memory.words, memory.summary, room, usable, server + 1)
        if server == NONE:
            usable -= 1
            continue
        wanted = min(left, usable)
        at = _fill(memory, room, server, wanted, at)
        left -= wanted


@kernel
def _lowest_ids(memory: Memory, room: int, gang: int, at: int) -> None:
    last, server = at + gang, NONE
    while at < last:
        server = next_server(memory.words, memory.summary, room, 0, server + 1)
        for gpu in range(memory.plot[server].first_gpu, memory.plot[server].last_gpu):
            if _usable(memory, room, gpu):
                memory.gpus[at] = gpu
                at += 1
                if at == last:
                    break


@kernel
def _least_loaded_server(memory: Memory, room: int) -> int:
    best, least = NONE, 0.0
    server = next_server(memory.words, memory.summary, room, 0, 0)
    while server != NONE:
        plot = memory.plot[server]
        if plot.left > 0:
            share = plot.loaded / (plot.last_gpu - plot.first_gpu)
            if best == NONE or share < least:
                best, least = server, share
        server = next_server(memory.words, memory.summary, room, 0, server + 1)
    return best


@kernel
def _spread(memory: Memory, room: int, gang: int, at: int) -> None:
    seat, game = memory.seat, memory.game[0]
    game.stamp += 1
    for server in range(len(memory.plot)):
        memory.plot[server].left = memory.usable[room, server]
        memory.plot[server].loaded = memory.plot[server].workers
    for i in range(at, at + gang):
        plot, choice = memory.plot[_least_loaded_server(memory, room)], NONE
        for gpu in range(plot.first_gpu, plot.last_gpu):
            if seat[gpu].stamp == game.stamp or not _usable(memory, room, gpu):
                continue
            if choice == NONE or seat[gpu].load < seat[choice].load:
                choice = gpu
        seat[choice].stamp = game.stamp
        memory.gpus[i] = choice
        plot.left -= 1
        plot.loaded += 1


@kernel
def choose(memory: Memory, room: int, gang: int, at: int) -> None:
    """Write the placer's GPUs for a gang that fits."""
    placer, largest = memory.game[0].placer, memory.game[0].largest
    if placer == CONSOLIDATED or (
        placer == PACKED and fits_compactly(memory.tally, room, largest, gang)
    ):
        _compact(memory, room, gang, at)
    elif placer == FIRST_FIT:
        _lowest_ids(memory, room, gang, at)
    elif placer == LEAST_LOADED:
        _spread(memory, room, gang, at)
    else:
        _fullest_first(memory, room, gang, at)
