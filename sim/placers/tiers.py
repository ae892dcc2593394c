"""Offers of Dally: one machine, else one rack, else any; and how long its jobs hold out."""

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.arrays import IntArray
from sim.errors import GpuYardError, check_numbers
from sim.jit import array_kernel
from sim.placers.filling import emptiest_first, filled, rack_room
from sim.view import Slots

MACHINE, RACK, NETWORK = 0, 1, 2  # tiers: how far a gang may spread
NOWHERE = 3


@array_kernel
def narrowest(servers: IntArray, room: IntArray, rack: IntArray, racks: int, gang: int) -> int:
    """Narrowest tier on which `gang` GPUs fit where server s has room for `room[s]`; or NOWHERE."""
    total = 0
    for server in servers:  # the first that holds all ends it; the sum is for NETWORK
        if room[server] >= gang:
            return MACHINE
        total += room[server]
    for each in rack_room(servers, room, rack, racks):  # summed only where no server holds all
        if each >= gang:
            return RACK
    return NETWORK if total >= gang else NOWHERE


@array_kernel
def first_servers(
    servers: IntArray, room: IntArray, rack: IntArray, racks: int, gang: int, tier: int
) -> IntArray:
    """Servers, in order of filling, of the first place of `tier`, which must be there.

    The first machine with room; of the first rack with room, or of the cluster, the machines
    with most room first, so that a gang touches few.
    """
    if tier == MACHINE:
        for server in servers:  # by index: the first fit, as in Dally, not the tightest
            if room[server] >= gang:
                return np.array([server], dtype=np.int64)
    some = servers
    if tier == RACK:
        total = rack_room(servers, room, rack, racks)
        for each in range(racks):  # the same of racks, the first fit
            if total[each] >= gang:
                some = servers[rack[servers] == each]
                break
    return emptiest_first(some, room)


def needed_tier(slots: Slots, gang: int) -> int:
    """Narrowest tier that could hold the gang if every server that is up were empty."""
    topology = slots.topology
    room = slots.most_per_server
    return int(narrowest(slots.servers, room, topology.server_rack, topology.num_racks, gang))


def offer(slots: Slots, gang: int, widest: int) -> tuple[int, IntArray] | None:
    """The narrowest tier up to `widest` that has the GPUs now, and the GPUs (gang,); else None."""
    topology, room = slots.topology, slots.usable_per_server
    where = (slots.servers, room, topology.server_rack, topology.num_racks, gang)
    tier = int(narrowest(*where))
    if tier > widest or tier == NOWHERE:
        return None
    return tier, filled(slots, first_servers(*where, tier), gang)


NONE = -1


@array_kernel
def servers_to_fill(  # noqa: PLR0917 - arrays go by position into compiled code
    gang: int,
    servers: IntArray,  # (s,) owned, ascending
    usable: IntArray,  # (S,)
    most: IntArray,  # (S,) if every server that is up were empty
    rack: IntArray,  # (S,)
    racks: int,
    takes_rack: bool,
    takes_anything: bool,
) -> IntArray:
    """Servers that hold the gang, in the order to fill them; none where it should wait."""
    rack_usable, rack_most = np.zeros(racks, dtype=np.int64), np.zeros(racks, dtype=np.int64)
    total, largest, best = 0, 0, NONE
    for server in servers:  # one pass for all levels; of equally tight ones the first
        rack_usable[rack[server]] += usable[server]
        rack_most[rack[server]] += most[server]
        total += usable[server]
        largest = max(largest, most[server])
        if usable[server] >= gang and (best == NONE or usable[server] < usable[best]):
            best = server
    if best != NONE:
        return np.array([best])
    if total >= gang and (takes_rack or largest < gang):
        for each in range(racks):  # the tightest, of equal ones the first
            fits = rack_usable[each] >= gang
            if fits and (best == NONE or rack_usable[each] < rack_usable[best]):
                best = each
        if best != NONE:
            return emptiest_first(servers[rack[servers] == best], usable)
    if total >= gang and (takes_anything or rack_most.max() < gang):
        by_room = emptiest_first(servers, usable)
        by_rack = by_room[np.argsort(rack[by_room], kind="mergesort")]
        return by_rack[np.argsort(-rack_usable[rack[by_rack]], kind="mergesort")]
    return servers[:0].copy()


AUTO, MANUAL, NO_WAIT, CONSOLIDATED = "auto", "manual", "no_wait", "consolidated"
TIMERS = (AUTO, MANUAL, NO_WAIT, CONSOLIDATED)
RACK_LEAST, NETWORK_LEAST = 6, 12  # leases
RACK_MOST_FRAC = 0.8  # of the history's length
WAIT_DIGITS = 9  # of waits in leases: a wait of one lease is one, whatever the clock rounds
DEVIATIONS = 2.0


class Patience(NamedTuple):
    """Leases that a job waits before it accepts GPUs of one rack, and any GPUs."""

    rack_leases: float
    network_leases: float


def usual_leases(waits: Sequence[float]) -> int:
    """⌈mean + 2 standard deviations⌉ of the waits (of the population); 1 where there is none."""
    if not waits:
        return 1
    return math.ceil(float(np.mean(waits)) + DEVIATIONS * float(np.std(waits)))


class Accepted:
    """Waits of at least a lease after which jobs of each demand accepted an offer of one tier."""

    def __init__(self, *, history_s: float) -> None:
        """Entries older than `history_s` are forgotten."""
        self._history_s = history_s
        self._entries: dict[int, deque[tuple[float, float]]] = {}  # by gang: time, leases
        self._usual: dict[int, int] = {}  # of gangs whose entries have not changed since

    def record(self, gang: int, now_s: float, wait_leases: float) -> None:
        """Note an accepted offer; waits of less than a lease do not count."""
        leases = round(wait_leases, WAIT_DIGITS)
        if leases >= 1.0:
            self._entries.setdefault(gang, deque()).append((now_s, leases))
            self._usual.pop(gang, None)

    def waits(self, gang: int) -> list[float]:
        """Leases waited by jobs of this demand, those of the last look that were young enough."""
        return [wait for _, wait in self._entries.get(gang, ())]

    def usual_leases(self, gang: int, now_s: float) -> int:
        """`usual_leases` of the waits of this demand that are young enough."""
        entries = self._entries.setdefault(gang, deque())
        while entries and now_s - entries[0][0] > self._history_s:
            entries.popleft()
            self._usual.pop(gang, None)
        if gang not in self._usual:
            self._usual[gang] = usual_leases(self.waits(gang))
        return self._usual[gang]


def auto_patience(machine_leases: int, rack_leases: int, history_leases: float) -> Patience:
    """Timers from the usual waits for a machine and for a rack, within their bounds."""
    return Patience(
        rack_leases=min(
            math.ceil(RACK_MOST_FRAC * history_leases), max(RACK_LEAST, machine_leases)
        ),
        network_leases=min(history_leases, max(NETWORK_LEAST, rack_leases)),
    )


class DelayTimers:
    """The timers of a run: one rule for all jobs, or by demand from what was accepted so far."""

    def __init__(
        self, *, timers: str, lease_s: float, manual: Patience, history_leases: float
    ) -> None:
        """`manual` is what `timers: manual` uses, `history_leases` the memory of `auto`."""
        if timers not in TIMERS:
            raise GpuYardError(
                f"scheduler.timers is {timers!r}; it must be one of {', '.join(TIMERS)}"
            )
        check_numbers("scheduler", "0 or more", **manual._asdict())
        check_numbers("scheduler", "1 or more", history_leases=history_leases)
        if manual.network_leases < manual.rack_leases:
            raise GpuYardError(
                f"scheduler.network_leases is {manual.network_leases}; it must be at least "
                f"scheduler.rack_leases, {manual.rack_leases}"
            )
        fixed = {
            MANUAL: manual,
            NO_WAIT: Patience(0.0, 0.0),
            CONSOLIDATED: Patience(math.inf, math.inf),
        }
        self._fixed = fixed.get(timers)
        self._lease_s, self._history_leases = lease_s, history_leases
        self.forget()

    def forget(self) -> None:
        """Begin without a history."""
        history_s = self._history_leases * self._lease_s
        self.machine = Accepted(history_s=history_s)
        self.rack = Accepted(history_s=history_s)

    def patience(self, gang: int, now_s: float) -> Patience:
        """Timers of a job of `gang` GPUs at this instant."""
        if self._fixed is not None:
            return self._fixed
        return auto_patience(
            self.machine.usual_leases(gang, now_s),
            self.rack.usual_leases(gang, now_s),
            self._history_leases,
        )
