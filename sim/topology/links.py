"""The link graph: servers and switches, the full-duplex links between them, how paths are found.

Nodes are servers 0 .. S - 1, then switches. Link l joins a lower node to an upper one; it is two
directed links: 2 * l carries traffic up, 2 * l + 1 carries it down, each with the link's capacity.

Compiled routes: the directed links that traffic between two servers takes. The functions take plain
arrays so that the event kernel can call them; nothing is stored for pairs of servers, whose number
grows with the square of the cluster, but for STEPS. One pair always takes one path, as with static
equal-cost multi-path hashing of flows; the way back mirrors the way there.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TopologyError
from sim.jit import kernel

CLIMB, DIGITS, STEPS = range(3)  # values of LinkGraph.route_kind
NO_PATH = -1
MOST_NODES = 3_000  # of a graph with STEPS, whose table grows with their square

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
    rule: IntArray,
    a: int,
    b: int,
    out: IntArray,
) -> int:
    """Write the directed links from server `a` to server `b`, in order, into `out`.

    The first five arguments are the fields of `LinkGraph` of the same names; `out` needs
    `LinkGraph.longest_route` entries.

    Returns:
        Number of links written; 0 where a is b, NO_PATH where they are not connected.
    """
    if a == b:
        return 0
    if route_kind == DIGITS:
        return _fix_digits(first_up, up_link, rule, a, b, out)
    if route_kind == STEPS:
        return _come_nearer(first_up, up_link, link_ends, rule, a, b, out)
    return _climb(first_up, up_link, link_ends, a, b, out)


@kernel
def _climb(
    first_up: IntArray, up_link: IntArray, link_ends: IntArray, a: int, b: int, out: IntArray
) -> int:
    """Climb from both ends with equal choices until they meet; go down the other's climb."""
    chance = pair_hash(a, b)
    left, right = a, b
    climbed = 0
    while left != right:  # both climb at once: they turn back at the first node they share
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
    for step in range(climbed):  # ascending: it moves forward, over nothing unread
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
    for step in range(levels):  # each digit once; where both agree no hop is made
        turn = step if a < b else levels - 1 - step
        level = (start + turn) % levels
        place = 1
        for _ in range(level):  # levels wrap around, so the place is not carried along
            place *= base
        change = (b // place) % base - (here // place) % base
        if change == 0:
            continue
        out[count] = 2 * up_link[first_up[here] + level]
        here += change * place
        out[count + 1] = 2 * up_link[first_up[here] + level] + 1
        count += 2
    return count


@kernel
def _come_nearer(  # noqa: PLR0917
    first_up: IntArray,
    up_link: IntArray,
    link_ends: IntArray,
    steps: IntArray,
    a: int,
    b: int,
    out: IntArray,
) -> int:
    """From the lower server always on to a node nearer to the other, by hash where several are.

    Where `b` is the lower one, the path is written from its end.
    """
    nodes, here, goal = len(first_up) - 1, min(a, b), max(a, b)
    chance, total = pair_hash(a, b), steps[here * nodes + goal]
    for step in range(total):  # as the table of distances says: each step is one nearer
        nearer, chosen = 0, NO_PATH
        for k in range(first_up[here], first_up[here + 1]):  # counted: the hash picks by number
            nearer += steps[_across(link_ends, up_link[k], here) * nodes + goal] < total - step
        chance = mix(chance + step)
        left = chance % nearer
        for k in range(first_up[here], first_up[here + 1]):  # asked again: kernels store no list
            if steps[_across(link_ends, up_link[k], here) * nodes + goal] < total - step:
                chosen = up_link[k] if left == 0 else chosen
                left -= 1
        back = int(link_ends[chosen, 0] != here)
        if a < b:
            out[step] = 2 * chosen + back
        else:
            out[total - 1 - step] = 2 * chosen + 1 - back
        here = _across(link_ends, chosen, here)
    return int(total)


@kernel
def _across(link_ends: IntArray, link: int, node: int) -> int:
    """The other end of a link."""
    return int(link_ends[link, 0] + link_ends[link, 1] - node)


ENDS = 2  # of a link


@dataclass(frozen=True)
class LinkGraph:
    """N nodes, L links; a server's rack is not told here (see `Topology.server_rack`).

    With `route_kind` CLIMB every path climbs from both ends to a common switch, so that all nodes
    of one level have equally many uplinks, in an order in which equal choices meet. With DIGITS
    (BCube) servers relay, and uplink i of a server is its port of level i. With STEPS links join
    any two nodes, both ends count a link among their uplinks, and every path is a shortest one.
    """

    level_names: tuple[str, ...]  # what the nodes of each level are: ("server", "leaf", "spine")
    node_level: IntArray  # (N,) index into level_names; 0: servers
    link_ends: IntArray  # (L, 2) lower node, upper node; STEPS: either
    link_gbps: FloatArray  # (L,) capacity of each direction
    first_up: IntArray  # (N + 1,) uplinks of node n: up_link[first_up[n]:first_up[n + 1]]
    up_link: IntArray  # (L,) link ids, in order of the lower node; STEPS: (2 L,)
    route_kind: int  # CLIMB, DIGITS or STEPS
    # DIGITS: (2,) digit base n, number of digits. STEPS: (N * N,) links between two nodes, NO_PATH
    # where nothing joins them. CLIMB: zeros.
    rule: IntArray

    def __post_init__(self) -> None:
        """Check ends, capacities and what the route rule needs."""
        ends, nodes = self.link_ends, len(self.node_level)
        if ends.ndim != ENDS or ends.shape[1] != ENDS or len(self.link_gbps) != len(ends):
            raise TopologyError(f"links: {ends.shape} ends and {len(self.link_gbps)} capacities")
        if ends.size and (ends.min() < 0 or ends.max() >= nodes):
            raise TopologyError(f"links: an end is outside the nodes 0 to {nodes - 1}")
        level = self.node_level[ends]
        if self.route_kind != STEPS and np.any(level[:, 0] >= level[:, 1]):
            raise TopologyError(
                "links: a link does not lead from a lower level to a higher one; "
                "link_graph(shortest=True) takes links between any two nodes"
            )
        if not np.all(np.isfinite(self.link_gbps) & (self.link_gbps > 0)):
            raise TopologyError("links: a capacity is not a finite number above 0 Gbps")
        if self.route_kind == CLIMB:
            self._check_climbs()
        elif self.route_kind not in (DIGITS, STEPS):
            raise TopologyError(f"links: route_kind is {self.route_kind}; CLIMB, DIGITS or STEPS")

    def _check_climbs(self) -> None:
        """Nodes of a level need equally many uplinks, or two climbs could miss each other."""
        uplinks = np.diff(self.first_up)
        for level, name in enumerate(self.level_names):
            counts = np.unique(uplinks[self.node_level == level])
            if len(counts) > 1:
                raise TopologyError(
                    f"links: nodes of level {name} have {counts[0]} to {counts[-1]} uplinks; "
                    f"give each the same number"
                )

    @property
    def num_servers(self) -> int:
        """S."""
        return int(np.count_nonzero(self.node_level == 0))

    @property
    def longest_route(self) -> int:
        """Directed links that `route` writes at most; the size of its output."""
        if self.route_kind == DIGITS:
            return 2 * int(self.rule[1])
        if self.route_kind == STEPS:
            return int(self.rule.max())
        return 2 * (len(self.level_names) - 1)

    def servers_apart(self) -> tuple[int, int] | None:
        """Two servers between which no route leads, or None. BCube's routes always do."""
        servers = np.arange(self.num_servers)
        if self.route_kind == STEPS:
            lost = np.flatnonzero(self.rule[: len(servers)] == NO_PATH)  # on the way from server 0
            return (0, int(lost[0])) if len(lost) else None
        climbs = [(servers, servers)] if self.route_kind == CLIMB else []
        while climbs:  # nodes that the same choices lead to, a server below each
            nodes, below = climbs.pop()
            choices = np.diff(self.first_up)[nodes]
            if len(nodes) > 1 and (choices[0] == 0 or np.any(choices != choices[0])):
                least_first = below[np.argsort(choices, kind="stable")]
                return int(least_first[0]), int(least_first[-1])
            for choice in range(int(choices[0]) if len(nodes) > 1 else 0):
                up = self.link_ends[self.up_link[self.first_up[nodes] + choice], 1]
                found, first = np.unique(up, return_index=True)
                climbs.append((found, below[first]))
        return None

    def path(self, a: int, b: int) -> IntArray:
        """(h,) directed links from server a to server b; empty where a is b."""
        out = np.empty(max(1, self.longest_route), dtype=np.int64)
        count = route(
            self.first_up, self.up_link, self.link_ends, self.route_kind, self.rule, a, b, out
        )
        if count < 0:
            raise TopologyError(f"links: server {a} and server {b} are not connected")
        return out[:count]


def link_graph(
    *, level_names: tuple[str, ...], level_sizes: tuple[int, ...], lower: IntArray, upper: IntArray,
    gbps: FloatArray, digits: tuple[int, int] | None = None, shortest: bool = False,
) -> LinkGraph:  # fmt: skip
    """Build a link graph from its links.

    Args:
        level_names: names of the levels, servers first.
        level_sizes: nodes of each level; nodes are numbered level by level.
        lower: (L,) lower node of each link. Uplinks of a node keep the order in which they stand
            here, and route choices refer to that order.
        upper: (L,) upper node of each link.
        gbps: (L,) capacity of each direction.
        digits: base and number of digits for BCube's routes; None: routes climb.
        shortest: links may join any two nodes, servers too (a torus, a dragonfly), and routes are
            shortest paths; at most MOST_NODES nodes.

    Raises:
        TopologyError: as `LinkGraph`, or there are too many nodes.
    """
    nodes, links = sum(level_sizes), np.arange(len(lower))
    ends = np.stack([lower, upper], axis=1).astype(np.int64)
    near, link = (ends.T.ravel(), np.tile(links, ENDS)) if shortest else (ends[:, 0], links)
    first_up = np.concatenate([[0], np.cumsum(np.bincount(near, minlength=nodes))])
    rule = np.array((0, 0) if digits is None else digits, dtype=np.int64)
    return LinkGraph(
        level_names=level_names,
        node_level=np.repeat(np.arange(len(level_sizes)), level_sizes).astype(np.int64),
        link_ends=ends,
        link_gbps=np.asarray(gbps, dtype=np.float64),
        first_up=first_up.astype(np.int64),
        up_link=link[np.argsort(near, kind="stable")].astype(np.int64),
        route_kind=STEPS if shortest else CLIMB if digits is None else DIGITS,
        rule=_steps(ends, nodes) if shortest else rule,
    )


def tree_links(
    level_names: tuple[str, ...],
    level_sizes: tuple[int, ...],
    *tiers: tuple[IntArray, IntArray, float | FloatArray],
) -> LinkGraph:
    """A link graph whose links join each level to the next one, first to last.

    Of the links of a tier: lower and upper node, numbered within their levels, and Gbps.
    """
    first = np.cumsum([0, *level_sizes])
    return link_graph(
        level_names=level_names,
        level_sizes=level_sizes,
        lower=np.concatenate([first[at] + lower for at, (lower, _, _) in enumerate(tiers)]),
        upper=np.concatenate([first[at + 1] + upper for at, (_, upper, _) in enumerate(tiers)]),
        gbps=np.concatenate([np.broadcast_to(gbps, lower.shape) for lower, _, gbps in tiers]),
    )


def _steps(ends: IntArray, nodes: int) -> IntArray:
    """(N * N,) links on a shortest path between two nodes."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    if nodes > MOST_NODES:
        raise TopologyError(
            f"links: {nodes} nodes; shortest paths are tabled for at most {MOST_NODES}"
        )
    ones = np.ones(len(ends), dtype=np.bool_)
    joined = csr_array((ones, (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    steps = shortest_path(joined, directed=False, unweighted=True)
    return np.where(np.isinf(steps), NO_PATH, steps).astype(np.int64).ravel()
