"""The links of a filling in a heap, by the rate that fills them; in rows of PART_LINK.

`heap` of row k is the link at place k; `heap_at` of a link is its place.
"""

from sim.jit import kernel
from sim.physics.link_rows import RowArray

OUT = -1  # heap_at of a link that is not in the heap


@kernel
def _put(link: RowArray, at: int, on: int) -> None:
    link[at].heap = on
    link[on].heap_at = at


@kernel
def _rise(link: RowArray, at: int) -> None:
    """Move the link at place `at` up to where it belongs."""
    on = link[at].heap
    rate = link[on].fills_at
    while at > 0:
        above = link[(at - 1) // 2].heap
        if link[above].fills_at <= rate:
            break
        _put(link, at, above)
        at = (at - 1) // 2
    _put(link, at, on)


@kernel
def _sink(link: RowArray, at: int, size: int) -> None:
    """Move the link at place `at` down to where it belongs."""
    on = link[at].heap
    rate = link[on].fills_at
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size:
            right = link[child + 1].heap
            if link[right].fills_at < link[link[child].heap].fills_at:
                child += 1
        below = link[child].heap
        if link[below].fills_at >= rate:
            break
        _put(link, at, below)
        at = child
    _put(link, at, on)


@kernel
def order_heap(link: RowArray, size: int) -> None:
    """Make a heap of the links in the first `size` places."""
    for at in range(size):
        link[link[at].heap].heap_at = at
    for at in range(size // 2 - 1, -1, -1):
        _sink(link, at, size)


@kernel
def add_to_heap(link: RowArray, on: int, size: int) -> int:
    """Put link `on` in; the number of links."""
    _put(link, size, on)
    _rise(link, size)
    return size + 1


@kernel
def move_in_heap(link: RowArray, on: int, size: int) -> None:
    """Put link `on` where its changed rate belongs."""
    _rise(link, link[on].heap_at)
    _sink(link, link[on].heap_at, size)


@kernel
def drop_from_heap(link: RowArray, on: int, size: int) -> int:
    """Take link `on` out; the number of links left."""
    at, last = link[on].heap_at, link[size - 1].heap
    link[on].heap_at = OUT
    if last != on:
        _put(link, at, last)
        move_in_heap(link, last, size - 1)
    return size - 1
