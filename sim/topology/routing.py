"""Compiled routes: the directed links that traffic between two servers takes.

The functions take plain arrays so that the event kernel can call them; nothing is stored for
pairs of servers, whose number grows with the square of the cluster. One pair always takes one
path, as with static equal-cost multi-path hashing of flows; the way back mirrors the way there.
"""

from sim.arrays import IntArray
from sim.jit import kernel

CLIMB, DIGITS = 0, 1  # values of LinkGraph.route_kind
NO_PATH = -1

_MASK = 0xFFFFFFFF  # the hash works on 32 bits held in 64, so that no product overflows
_ODD = 0x45D9F3B


@kernel
def mix(value: int) -> int:
    """32-bit integer hash: two rounds of xor-shift and multiplication by an odd constant."""
    x = value & _MASK
    x = ((x >> 16) ^ x) * _ODD & _MASK
    x = ((x >> 16) ^ x) * _ODD & _MASK
    return (x >> 16) ^ x


@kernel
def pair_hash(a: int, b: int) -> int:
    """Hash of the unordered pair of servers; both directions of a pair agree."""
    return mix(mix(min(a, b) + 1) ^ (max(a, b) + 1) * _ODD)


@kernel
def route(  # noqa: PLR0917 (compiled functions take their arrays by position)
    first_up: IntArray,
    up_link: IntArray,
    link_ends: IntArray,
    route_kind: int,
    digits: IntArray,
    a: int,
    b: int,
    out: IntArray,
) -> int:
    """Write the directed links from server `a` to server `b`, in order, into `out`.

    The first six arguments are the fields of `LinkGraph` of the same names; `out` needs
    `LinkGraph.longest_route` entries.

    Returns:
        Number of links written; 0 where a is b, NO_PATH where they are not connected.
    """
    if a == b:
        return 0
    if route_kind == DIGITS:
        return _fix_digits(first_up, up_link, digits, a, b, out)
    return _climb(first_up, up_link, link_ends, a, b, out)


@kernel
def _climb(
    first_up: IntArray, up_link: IntArray, link_ends: IntArray, a: int, b: int, out: IntArray
) -> int:
    """Climb from both ends with equal choices until they meet; go down the other's climb."""
    chance = pair_hash(a, b)
    left, right = a, b
    climbed = 0
    while left != right:
        choices = first_up[left + 1] - first_up[left]
        other_choices = first_up[right + 1] - first_up[right]
        if choices == 0 or other_choices == 0 or 2 * (climbed + 1) > len(out):
            return NO_PATH
        chance = mix(chance + climbed)
        up = up_link[first_up[left] + chance % choices]
        down = up_link[first_up[right] + chance % other_choices]
        out[climbed] = 2 * up
        out[len(out) - 1 - climbed] = 2 * down + 1  # the way down is met from its end
        left, right = link_ends[up, 1], link_ends[down, 1]
        climbed += 1
    for step in range(climbed):
        out[climbed + step] = out[len(out) - climbed + step]
    return 2 * climbed


@kernel
def _fix_digits(
    first_up: IntArray, up_link: IntArray, digits: IntArray, a: int, b: int, out: IntArray
) -> int:
    """Correct one digit of the address after another, from a hashed first digit on.

    BCubeRouting of Guo et al., SIGCOMM 2009, section 4.1. The digits of b -> a are corrected in
    the opposite order, so that the same servers relay.
    """
    base, levels = digits[0], digits[1]
    start = pair_hash(a, b) % levels
    here = a
    count = 0
    for step in range(levels):
        turn = step if a < b else levels - 1 - step
        level = (start + turn) % levels
        place = 1
        for _ in range(level):
            place *= base
        change = (b // place) % base - (here // place) % base
        if change == 0:
            continue
        out[count] = 2 * up_link[first_up[here] + level]
        here += change * place
        out[count + 1] = 2 * up_link[first_up[here] + level] + 1
        count += 2
    return count
